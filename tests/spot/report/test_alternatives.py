"""What other means would give (B43, S18)."""

from __future__ import annotations

import pytest

from situate.spot.report.alternatives import compare_methods, spread_on_demand
from situate.spot.workloads.on_demand_policy import Count, Default, Percent, Policy


def figures(policy: Policy, replicas: int, *, stateful: bool = False) -> dict[str, tuple[int, int, int]]:
    return {
        each.name: (each.on_demand, each.on_demand_doubled, each.placed_without_spot)
        for each in compare_methods(policy, replicas, stateful=stateful)
    }


@pytest.mark.rule("spot:B43", "spot:S18")
@pytest.mark.parametrize(
    ("policy", "replicas", "ours", "spread", "subsets"),
    [
        # the note's own example: of ten, two on demand; maxSkew 6; six of ten run without spot nodes
        pytest.param(Count(2), 10, (2, 2, 10), (2, 7, 6), (2, 2, 2), id="the note's"),
        pytest.param(Percent(30), 10, (3, 6, 10), (3, 8, 4), (3, 6, 3), id="a percentage"),
        pytest.param(Count(6), 10, (6, 6, 10), (6, 11, 2), (6, 6, 6), id="more than half"),
        pytest.param(Count(0), 4, (0, 0, 4), (0, 2, 4), (0, 0, 0), id="none"),
        pytest.param(Count(9), 4, (4, 8, 4), (4, 6, 4), (4, 8, 4), id="all"),
        pytest.param(Default(), 0, (0, 0, 0), (0, 0, 0), (0, 0, 0), id="no replicas"),
    ],
)
def test_what_each_means_gives(
    policy: Policy, replicas: int, ours: tuple[int, ...], spread: tuple[int, ...], subsets: tuple[int, ...]
) -> None:
    assert figures(policy, replicas) == {"situate": ours, "spread constraints": spread, "WorkloadSpread": subsets}


@pytest.mark.rule("spot:S18")
def test_a_skew_that_was_right_once_gives_47_of_99() -> None:
    (_, spread, _) = compare_methods(Count(2), 10, stateful=False)
    assert "maxSkew 6" in spread.remark
    assert spread_on_demand(10, 6) == 2
    assert spread_on_demand(99, 6) == 47


@pytest.mark.rule("spot:B43")
def test_a_majority_is_a_number_of_today_for_others() -> None:
    found = figures(Default(), 3, stateful=True)
    assert (found["situate"][:2], found["WorkloadSpread"][:2]) == ((2, 4), (2, 2))
