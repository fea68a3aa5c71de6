"""What a scrape shows while things happen: every metric, with labels from closed sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from situate.objects.kinds.events import ObjectReference
from situate.testing.vpod.history import (
    CAPACITY,
    AnnotatePod,
    AnyStep,
    ChangeCapacity,
    HoldPods,
    SetSource,
    VpodHistorySettings,
)
from situate.testing.vpod.invariants.rules import VpodWatchdog
from situate.testing.vpod.run import perform
from situate.testing.vpod.world.world import NAMESPACE, STATEFULSET, VPodWorld
from situate.vpod.controller.notify import KNATIVE_LATENCY_MS, Notifier, VPodMetrics
from situate.vpod.model.options import Options

BOUNDED = {
    "statefulset": {f"{NAMESPACE}/{STATEFULSET}"},
    "class": {"accept", "hold", "reject"},
    "cause": {"loss", "drain", "rebalance", "overcommit"},
    "direction": {"up", "down"},
}

Samples = dict[str, float]
"""By name and labels but the StatefulSet: `situate_vpod_pods class=accept`."""


class Story:
    """One cluster, what happens to it, and what a scrape of the leader shows."""

    def __init__(self, settings: VpodHistorySettings) -> None:
        self.world = VPodWorld(1, settings)
        self.watchdog = VpodWatchdog(self.world)
        self.world.let_pass(20.0)  # somebody leads by then

    def happens(self, *what: AnyStep) -> None:
        for step in what:
            perform(self.world, self.watchdog, step)
            self.world.let_pass(step.wait)

    def scrape(self) -> Samples:
        leader = self.world.leader()
        assert leader is not None
        registry = CollectorRegistry()
        for collector in vars(leader.controller._notifier._metrics).values():
            if hasattr(collector, "collect"):
                registry.register(collector)
        return samples(registry)

    def until(self, holds: Callable[[Samples], bool]) -> Samples:
        """The first scrape, one a second, of which this is true; beats come every ten seconds."""
        for _ in range(180):
            found = self.scrape()
            if holds(found):
                return found
            self.world.let_pass(1.0)
        raise AssertionError(found)


def samples(registry: CollectorRegistry) -> Samples:
    found = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            if sample.name.endswith("_created"):
                continue
            assert all(sample.labels[name] in allowed for name, allowed in BOUNDED.items() if name in sample.labels)
            assert sample.labels.keys() <= {*BOUNDED, "le"}
            labels = [f"{name}={value}" for name, value in sample.labels.items() if name != "statefulset"]
            found[" ".join([sample.name, *labels])] = sample.value
    return found


def vpod(name: str) -> str:
    return f"situate_vpod_{name}"


def moves(found: Samples, cause: str) -> float:
    return found.get(vpod(f"moves_total cause={cause}"), 0.0)


@pytest.fixture
def story() -> Iterator[Story]:
    made = Story(VpodHistorySettings())
    yield made
    made.world.close()


@pytest.fixture
def balancing() -> Iterator[Story]:
    made = Story(VpodHistorySettings(rebalance=True))
    yield made
    made.world.close()


def placed(story: Story, wanted: int = 2 * CAPACITY, source: int = 0) -> Samples:
    story.happens(SetSource(1.0, source, wanted))
    story.world.let_pass(20.0)
    return story.until(lambda found: found[vpod("pending_vreplicas")] == 0 and found[vpod("used_units")] >= wanted)


@pytest.mark.rule("vpod:B14")
def test_pods_load_and_scale(story: Story) -> None:
    found = placed(story)
    assert found[vpod("pods class=accept")] == 2
    assert (found[vpod("pods class=hold")], found[vpod("pods class=reject")]) == (0, 0)
    assert (found[vpod("capacity_units")], found[vpod("used_units")]) == (2 * CAPACITY, 2 * CAPACITY)
    assert (found[vpod("replicas")], found[vpod("replicas_desired")]) == (2, 2)
    assert found[vpod("scale_writes_total direction=up")] >= 1
    assert found[vpod("overcommitted_pods")] == found[vpod("draining")] == 0
    assert found[vpod("schedule_seconds_count")] >= 1


@pytest.mark.rule("vpod:B14")
def test_what_knative_shows_has_its_names_and_bounds(story: Story) -> None:
    placed(story)
    found = story.until(lambda found: found["kn_eventing_replicas_ready"] == 2 * CAPACITY)
    assert found["kn_eventing_replicas_expected"] == 2 * CAPACITY
    latency = "kn_eventing_schedule_latency_milliseconds"
    assert found[f"{latency}_count"] >= 1
    bounds = [name.split("le=")[1] for name in found if name.startswith(f"{latency}_bucket")]
    assert [float(bound) for bound in bounds] == [*KNATIVE_LATENCY_MS, float("inf")]


@pytest.mark.rule("vpod:B14")
def test_what_has_changed_is_shown_without_waiting_for_a_beat(story: Story) -> None:
    placed(story, 2)
    story.happens(SetSource(0.0, 0, 3))
    story.world.let_pass(1.0)  # a beat comes every ten
    found = story.scrape()
    assert (found["kn_eventing_replicas_expected"], found["kn_eventing_replicas_ready"]) == (3, 3)
    assert (found[vpod("used_units")], found[vpod("pending_vreplicas")]) == (3, 0)


@pytest.mark.rule("vpod:B14")
def test_a_standby_shows_no_state(story: Story) -> None:
    placed(story, 2)
    standby = next(each for each in story.world.members if each is not story.world.leader())
    assert not any(family.samples for family in standby.controller._notifier._metrics.gauges.collect())


@pytest.mark.rule("vpod:B14")
def test_the_time_of_a_decision_is_measured(story: Story) -> None:
    assert placed(story)[vpod("schedule_seconds_sum")] > 0  # on a loop whose clock stands still meanwhile


@pytest.mark.rule("vpod:B14", "vpod:V22")
def test_pending_pods_are_held_and_what_waits_is_pending(story: Story) -> None:
    placed(story)
    story.happens(HoldPods(0.1, held=True), SetSource(1.0, 1, CAPACITY))
    found = story.until(lambda found: found[vpod("pods class=hold")] == 1)
    assert found[vpod("pending_vreplicas")] == CAPACITY
    assert (found[vpod("replicas")], found[vpod("replicas_desired")]) == (3, 3)
    story.happens(HoldPods(0.1, held=False))
    story.until(lambda found: found[vpod("pods class=accept")] == 3 and found[vpod("pending_vreplicas")] == 0)


@pytest.mark.rule("vpod:B14")
def test_a_drain_is_seen_with_its_moves_and_the_smaller_scale(story: Story) -> None:
    placed(story, CAPACITY + 2)
    placed(story, 2, source=1)
    story.happens(SetSource(1.0, 0, 2))
    story.until(lambda found: found[vpod("draining")] == 1)
    found = story.until(lambda found: found[vpod("draining")] == 0 and found[vpod("replicas")] == 1)
    assert moves(found, "drain") > 0
    assert found[vpod("scale_writes_total direction=down")] == 1
    assert moves(found, "loss") == moves(found, "rebalance") == moves(found, "overcommit") == 0


@pytest.mark.rule("vpod:B14")
def test_a_pod_that_gives_up_costs_moves_by_loss(story: Story) -> None:
    placed(story)
    story.happens(AnnotatePod(1.0, 0, on=True))
    found = story.until(lambda found: moves(found, "loss") > 0 and found[vpod("pods class=reject")] == 1)
    assert moves(found, "loss") == CAPACITY


@pytest.mark.rule("vpod:B14", "vpod:B15")
def test_a_smaller_capacity_moves_the_overcommit_only(story: Story) -> None:
    placed(story, CAPACITY)
    before = story.scrape()
    assert before[vpod("capacity_units")] == CAPACITY
    story.happens(ChangeCapacity(0.0, CAPACITY - 2))
    story.until(lambda found: found[vpod("overcommitted_pods")] == 1 or moves(found, "overcommit") > 0)
    found = story.until(lambda found: found[vpod("pending_vreplicas")] == 0 and found[vpod("replicas")] == 2)
    assert moves(found, "overcommit") == 2
    assert moves(found, "loss") == moves(found, "drain") == 0
    assert story.until(lambda found: found[vpod("overcommitted_pods")] == 0)


@pytest.mark.rule("vpod:B14")
def test_rebalancing_is_a_cause_of_its_own(balancing: Story) -> None:
    placed(balancing, 4)
    balancing.happens(SetSource(1.0, 1, 5))
    found = balancing.until(lambda found: moves(found, "rebalance") > 0)
    assert moves(found, "rebalance") <= 2
    assert moves(found, "loss") == moves(found, "overcommit") == 0


@pytest.mark.rule("vpod:B14")
def test_beats_that_fail_are_counted(story: Story) -> None:
    placed(story)
    assert story.scrape()[vpod("failed_beats_total")] == 0
    story.world.network.failing_path = f"/statefulsets/{STATEFULSET}/scale"
    story.happens(SetSource(1.0, 1, CAPACITY))  # a write of the scale that does not succeed
    story.until(lambda found: found[vpod("failed_beats_total")] > 0)
    story.world.network.failing_path = ""
    story.until(lambda found: found[vpod("replicas")] == 3 and found[vpod("pending_vreplicas")] == 0)


@pytest.mark.rule("vpod:B14", "vpod:S10", "vpod:V10")
def test_a_state_that_was_wrong_is_repaired_and_counted(story: Story) -> None:
    assert placed(story)[vpod("state_repairs_total")] == 0
    leader = story.world.leader()
    assert leader is not None
    state = leader.controller.reconciler.state
    assert state is not None
    state.remove_pod(f"{STATEFULSET}-0", story.world.now)  # an event that never was
    story.until(lambda found: found[vpod("state_repairs_total")] == 1)
    story.until(lambda found: found[vpod("pods class=accept")] == 2)


@pytest.mark.rule("vpod:B14")
def test_more_sources_are_no_more_series(story: Story) -> None:
    few = set(placed(story, 2))
    story.happens(*(SetSource(0.0, source, 1) for source in range(1, 12)))
    many = set(story.until(lambda found: found["kn_eventing_replicas_ready"] == 13))
    assert many == few


@pytest.mark.rule("vpod:B14")
def test_every_series_of_a_statefulset_is_there_from_the_start_and_counts() -> None:
    registry = CollectorRegistry()
    options = Options(NAMESPACE, STATEFULSET, CAPACITY)

    def record(_: ObjectReference, __: str, ___: str, ____: str) -> None:
        raise AssertionError("nothing is told on an object here")

    reporter = Notifier(options, VPodMetrics(registry), record)
    before = samples(registry)
    assert [value for name, value in before.items() if "_bucket" not in name and value] == []
    assert {name for name in before if "moves_total" in name} == {
        vpod(f"moves_total cause={cause}") for cause in BOUNDED["cause"]
    }
    reporter.count_eviction()
    assert samples(registry)[vpod("evictions_total")] == 1
