"""A few short histories without faults, or with one, in which the promises are timed: in both profiles, by policy."""

from __future__ import annotations

from random import Random

import pytest

from situate.testing.histories.play import HistoryResult
from situate.testing.histories.steps import KillLeader, Pass
from situate.testing.vpod.history import AnyStep, SetSource, VpodHistory, VpodHistorySettings, rest_steps
from situate.testing.vpod.run import play

SOURCES = 12


def played(seed: int, settings: VpodHistorySettings, *first: AnyStep) -> HistoryResult:
    """Twelve sources, whatever is done first, and a rest."""
    rng = Random(seed)
    begun = [SetSource(0.01, source, rng.randint(1, 8)) for source in range(SOURCES)]
    return play(VpodHistory(seed, settings, (*begun, Pass(10.0), *first, *rest_steps(rng))))


@pytest.mark.rule("vpod:L1-L4", "vpod:B5")
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(VpodHistorySettings(), id="spread"),
        pytest.param(VpodHistorySettings(policy="pack", surge=2), id="pack, surge"),
        pytest.param(VpodHistorySettings(policy="policy", predicates=True), id="policy, predicates"),
        pytest.param(VpodHistorySettings(weights=True, max_scale_up_step=4), id="weights, step by step"),
        pytest.param(VpodHistorySettings(topology="zone", topology_required=True), id="a zone that lags behind"),
        pytest.param(VpodHistorySettings(drain=False), id="no drain"),
        # the policies of v0.43.0 fill pods above their capacity, and leave unused pods where they are
        pytest.param(VpodHistorySettings(profile="reference"), id="reference"),
    ],
)
def test_what_is_promised_comes_in_time(settings: VpodHistorySettings) -> None:
    went = played(1, settings)
    assert went.breach is None
    assert all(went.happened[f"{rule} kept"] for rule in ("L1", "L3", "L4"))


@pytest.mark.rule("vpod:L4")
def test_pods_that_are_empty_do_not_wait_for_one_that_cannot_be_emptied() -> None:
    went = played(3, VpodHistorySettings(policy="policy", predicates=True, surge=2, rescale="replace"))
    assert went.breach is None
    assert went.happened["L4 kept"] > 0


@pytest.mark.rule("vpod:L5", "vpod:L2")
@pytest.mark.parametrize("seed", [1, 3])
@pytest.mark.parametrize("priorities", [False, True])
def test_room_goes_to_who_has_waited_longest(seed: int, priorities: bool) -> None:
    went = played(seed, VpodHistorySettings(max_replicas=6, priorities=priorities))
    assert went.breach is None
    assert went.happened["L2 kept"] > 0
    assert went.happened["L5 kept"] > 0


@pytest.mark.finding("V1")
@pytest.mark.rule("vpod:D6", "vpod:L5")
@pytest.mark.parametrize("weights", [False, True])
def test_what_min_replicas_adds_makes_room_for_what_is_wanted(weights: bool) -> None:
    went = played(2, VpodHistorySettings(min_replicas=4, max_replicas=5, weights=weights))
    assert went.breach is None


@pytest.mark.rule("vpod:B2", "vpod:S6")
def test_a_new_leader_goes_on_with_what_runs() -> None:
    assert played(1, VpodHistorySettings(), KillLeader(30.0)).breach is None
