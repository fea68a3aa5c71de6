"""What a scrape shows (B34)."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from situate.spot.controller.act.attempt import Attempt, AttemptOutcome
from situate.spot.controller.metrics import MOST_WORKLOADS, MoveMetrics
from situate.spot.model.actions import Evict, Reason, SetCost
from situate.spot.model.pods_nodes_workloads import PodKey
from situate.spot.rebalance.decide import ClusterView, State, decide
from tests.spot.builders import NOW, OD, SPOT, cluster, owner, pod, pods
from tests.spot.report.test_plan import Always

KEY = "spot.situate.dev/on-demand"


def observed(made: MoveMetrics, target: int, spec: str, at: float = NOW) -> ClusterView:
    known = cluster(owner(5, annotations={KEY: str(target)}), pods(spec))
    situation = ClusterView(known, Always())
    deque(made.observe_decision(decide(State(), situation, at), situation, at), maxlen=0)
    return situation


def shown(registry: CollectorRegistry) -> dict[str, float]:
    """Series by name and labels, without help."""
    lines = generate_latest(registry).decode().splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}


@pytest.mark.rule("spot:B34")
def test_what_is_shown_of_workloads_is_that_of_the_last_decision() -> None:
    registry = CollectorRegistry()
    made = MoveMetrics(registry)
    assert not any("target" in name for name in shown(registry)), "a standby shows nothing"
    observed(made, 3, "od:1 spot:2 bare:2")
    labels = 'kind="Deployment",name="web",namespace="shop"'
    found = shown(registry)
    assert found[f"situate_spot_target{{{labels}}}"] == 3
    assert found[f"situate_spot_od_effective{{{labels}}}"] == 1
    by_class = {name: found[f'situate_spot_pods{{class="{name}",{labels}}}'] for name in ("on-demand", "spot")}
    assert by_class == {"on-demand": 1, "spot": 2}
    assert found[f'situate_spot_pods{{class="unclassified",{labels}}}'] == 2
    assert found["situate_spot_wave_active"] == 0
    assert found["situate_spot_saving_ratio"] == pytest.approx(0.7 * 2 / 5)
    assert found["situate_spot_saving_achievable_ratio"] == pytest.approx(0.7 * 2 / 5)
    made.clear()
    assert not any("od_effective" in name for name in shown(registry))


@pytest.mark.rule("spot:B6", "spot:B34")
def test_only_what_a_decision_has_looked_at_anew_is_counted_anew() -> None:
    """A scrape and a decision over 20,000 pods must not keep those waiting that are being admitted."""
    made = MoveMetrics(CollectorRegistry())
    owners = {f"uid-{n}": owner(2, name=f"w{n}", uid=f"uid-{n}", annotations={KEY: "1"}) for n in range(20)}
    given = {uid: (pod(f"{uid}-a", "od", OD, cost=200), pod(f"{uid}-b", "spot", SPOT, cost=100)) for uid in owners}
    known = replace(cluster(owner(), []), owners=owners, pods=given)
    first = ClusterView(known, Always())
    decision = decide(State(), first, NOW)
    assert len(list(made.observe_decision(decision, first, NOW))) == 20
    changed = {**given, "uid-7": (given["uid-7"][0], pod("uid-7-c", "spot", SPOT, cost=100))}
    second = ClusterView(replace(known, pods=changed), Always())
    again = decide(decision.state, second, NOW + 1)
    assert len(list(made.observe_decision(again, second, NOW + 1))) == 1
    assert made.last is not None
    assert len(made.last.workloads) == 20


@pytest.mark.rule("spot:B34")
def test_what_lacks_adds_up_over_time_and_each_pod_without_a_class_counts_once() -> None:
    registry = CollectorRegistry()
    made = MoveMetrics(registry)
    observed(made, 3, "od:1 spot:2 bare:2")
    observed(made, 3, "od:1 spot:2 bare:2", NOW + 10)
    observed(made, 1, "od:1 spot:4", NOW + 15)
    observed(made, 1, "od:1 spot:4", NOW + 40)
    assert shown(registry)["situate_spot_deficit_seconds_total"] == 2 * 15
    assert shown(registry)["situate_spot_unclassified_total"] == 2
    made.clear()
    observed(made, 3, "spot:5", NOW + 900)
    assert shown(registry)["situate_spot_deficit_seconds_total"] == 30, "time without leading does not count"
    observed(made, 3, "spot:5", NOW + 9000)
    assert shown(registry)["situate_spot_deficit_seconds_total"] == 30 + 3 * 60


@pytest.mark.rule("spot:B34")
def test_moves_count_by_reason_and_what_was_not_carried_out_by_its_outcome() -> None:
    registry = CollectorRegistry()
    made = MoveMetrics(registry)
    assert shown(registry)['situate_spot_evictions_total{reason="repair"}'] == 0
    move = Evict(PodKey("shop", "a"), "uid-a", "uid-web", Reason.REPAIR)
    made.count_attempt(Attempt(move, AttemptOutcome.DONE))
    made.count_attempt(Attempt(replace(move, reason=Reason.TO_SPOT), AttemptOutcome.DONE))
    made.count_attempt(Attempt(move, AttemptOutcome.REFUSED))
    made.count_attempt(Attempt(SetCost(move.pod, move.uid, move.owner, 90), AttemptOutcome.DONE))
    found = shown(registry)
    assert found['situate_spot_evictions_total{reason="repair"}'] == 1
    assert found['situate_spot_evictions_total{reason="to-spot"}'] == 1
    assert found["situate_spot_repairs_total"] == 1
    assert found['situate_spot_moves_refused_total{outcome="refused"}'] == 1


@pytest.mark.rule("spot:B34")
def test_the_number_of_series_is_bounded() -> None:
    registry = CollectorRegistry()
    made = MoveMetrics(registry)
    count = MOST_WORKLOADS + 3
    owners = {f"uid-{n}": owner(2, name=f"w{n:05}", uid=f"uid-{n}", annotations={KEY: "1"}) for n in range(count)}
    given = {uid: (pod(f"{uid}-a", "od", OD), pod(f"{uid}-b", "spot", SPOT)) for uid in owners}
    situation = ClusterView(replace(cluster(owner(), []), owners=owners, pods=given), Always())
    deque(made.observe_decision(decide(State(), situation, NOW), situation, NOW), maxlen=0)
    found = shown(registry)
    targets = {name: value for name, value in found.items() if name.startswith("situate_spot_target")}
    assert len(targets) == MOST_WORKLOADS + 1
    assert targets['situate_spot_target{kind="",name="others",namespace=""}'] == 3
