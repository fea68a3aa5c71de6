"""Whole runs: what the policies do in the scenarios, and that equal chances give equal runs."""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from situate.sim.spot.policies import BY_NAME, POLICIES, Policy
from situate.sim.spot.results.account import EndCause, RunResult
from situate.sim.spot.scenarios import BY_NAME as SCENARIO
from situate.sim.spot.scenarios import SCENARIOS
from situate.sim.spot.settings import SpotEventSettings, SpotScenarioSettings, WaveSettings
from situate.sim.spot.simulation import SpotSimulation

PODS = 13
"""Of the scenarios with names: a Deployment of ten and a StatefulSet of three."""
FLOORS = {
    "all-on-demand": 13,
    "all-spot": 0,
    "note-default": 2,
    "two-deployments": 5,
    "spread-constraints": 2,
    "20-80": 3,
    "floor-evict": 4,
    "floor-release": 4,
    "floor-return": 4,
    "floor-headroom": 4,
}
SURE_P95_S = 45.0
"""95th percentile of starts that a notice of two minutes always leaves time for."""
MINUTES = [60.0 * number for number in range(121)]


def played(scenario: str | SpotScenarioSettings, policy: str, runs: int = 2) -> list[RunResult]:
    found = SCENARIO[scenario] if isinstance(scenario, str) else scenario
    simulation = SpotSimulation(found, BY_NAME[policy], [each for each in MINUTES if each <= found.duration])
    return [simulation.play(Random(f"test/{number}")) for number in range(runs)]


@pytest.mark.rule("spot:B33", "spot:I13", "spot:B28")
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_a_steady_cluster_holds_the_floor_and_nothing_moves(policy: Policy) -> None:
    simulation = SpotSimulation(SCENARIO["steady"], policy, MINUTES[:61])
    assert simulation.on_demand == FLOORS[policy.name]
    run = simulation.play(Random(1))
    assert run.endings == {}
    assert set(run.ready) == {PODS}
    assert set(run.on_demand) == {FLOORS[policy.name]}
    assert run.cost == pytest.approx((FLOORS[policy.name] + (PODS - FLOORS[policy.name]) * 0.3) / PODS)


@pytest.mark.rule("spot:B33", "spot:I12")
@pytest.mark.parametrize("name", ["full-wave", "wave-in-rollout", "flapping"])
def test_equal_chances_give_equal_runs_whatever_was_played_before(name: str) -> None:
    policy = BY_NAME["floor-return"]
    scenario = replace(SCENARIO[name], duration=1800.0)
    once, again = SpotSimulation(scenario, policy, MINUTES[:31]), SpotSimulation(scenario, policy, MINUTES[:31])
    first = once.play(Random("a"))
    other = once.play(Random("b"))
    assert once.play(Random("a")) == again.play(Random("a")) == first
    assert other != first


@pytest.mark.rule("spot:B33", "spot:B16")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
@pytest.mark.parametrize("policy", ["note-default", "floor-return"])
def test_every_pod_serves_in_the_end(scenario: SpotScenarioSettings, policy: str) -> None:
    (run,) = played(scenario, policy, runs=1)
    wanted = sum(each.replicas for each in run.outcomes.values())
    assert run.ready[-1] == wanted


@pytest.mark.rule("spot:B20", "spot:S8")
def test_make_before_break_loses_no_pod_where_there_is_time_and_room() -> None:
    scenario = replace(SCENARIO["full-wave"], duration=900.0)
    scenario = replace(scenario, cluster=replace(scenario.cluster, start_p95=SURE_P95_S))
    for run in played(scenario, "floor-release", runs=8):
        assert (run.outcomes["web"].pod_s_short, run.outcomes["web"].least_ready) == (0.0, 10)
        assert run.outcomes["db"].half_s == 0.0
        assert run.outcomes["db"].least_ready == 2


@pytest.mark.rule("spot:I2", "spot:I3")
@pytest.mark.parametrize("silent", [False, True])
def test_without_a_notice_the_floor_stays(silent: bool) -> None:
    wave = WaveSettings(notice=None, silent=silent, back_after=600.0)
    scenario = replace(SCENARIO["no-notice"], duration=1500.0, events=(SpotEventSettings(at=60.0, wave=wave),))
    for run in played(scenario, "floor-release", runs=4):
        assert run.outcomes["web"].least_ready == 2
        assert (run.outcomes["db"].least_ready, run.outcomes["db"].half_s) == (2, 0.0)
        assert run.outcomes["web"].outage_s == 0.0


@pytest.mark.rule("spot:B25", "spot:K7")
def test_a_silent_wave_lasts_minutes_less_where_the_controller_sees_to_it() -> None:
    wave = WaveSettings(notice=None, silent=True)
    scenario = replace(SCENARIO["no-notice"], duration=900.0, events=(SpotEventSettings(at=60.0, wave=wave),))
    (theirs,), (ours,) = played(scenario, "note-default", runs=1), played(scenario, "floor-release", runs=1)
    assert theirs.outcomes["web"].half_s > 345
    assert ours.outcomes["web"].half_s < 110


@pytest.mark.rule("spot:B26")
def test_only_a_policy_that_returns_gets_cheap_again() -> None:
    stays, returns = played("full-wave", "floor-release", 1)[0], played("full-wave", "floor-return", 1)[0]
    assert stays.on_demand[-1] == PODS
    assert returns.on_demand[-1] == FLOORS["floor-return"]
    assert returns.endings[EndCause.MOVED] == PODS - FLOORS["floor-return"]
    assert EndCause.MOVED not in stays.endings
    assert returns.cost < stays.cost - 0.15


@pytest.mark.rule("spot:B27")
def test_spot_that_comes_and_goes_moves_a_pod_once_at_most() -> None:
    for run in played("flapping", "floor-return"):
        assert run.endings.get(EndCause.MOVED, 0) + run.endings.get(EndCause.LOST, 0) <= 2 * PODS
        assert run.endings.get(EndCause.MOVED, 0) <= PODS


@pytest.mark.rule("spot:S18")
def test_spread_constraints_leave_pods_pending_while_there_is_no_spot_node() -> None:
    (run,) = played("full-wave", "spread-constraints", runs=1)
    assert run.outcomes["web"].pod_s_short > 4 * 1100
    assert run.ready[15] == 6 + 3  # of ten replicas only as many as the skew allows; three leave no skew to ask for


@pytest.mark.rule("spot:S16")
def test_two_deployments_keep_the_floor_too() -> None:
    for run in played("no-notice", "two-deployments"):
        assert run.outcomes["web"].least_ready == 2


@pytest.mark.rule("spot:B24")
def test_headroom_helps_where_on_demand_is_full_and_is_paid_for() -> None:
    without, kept = played("on-demand-full", "floor-return", 1)[0], played("on-demand-full", "floor-headroom", 1)[0]
    assert without.outcomes["web"].half_s > 1000
    assert kept.outcomes["web"].half_s == 0.0
    assert kept.cost > without.cost + 0.4
