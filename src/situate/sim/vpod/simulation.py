"""One variant of a scenario, simulated from beginning to end."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from situate.sim.timeline import Timeline
from situate.sim.vpod.demand import Demand, UniformSources, demands
from situate.sim.vpod.fleet import Fleet
from situate.sim.vpod.ledger import Ledger, MomentCounts, current_counts
from situate.sim.vpod.loop import SchedulerLoop
from situate.sim.vpod.report import VariantReport, build_report
from situate.sim.vpod.scenario import Variant, VPodScenario
from situate.sim.vpod.settings import VPodEventSettings


class VPodSimulation:
    """Simulates a variant.

    Call `advance` with each sample time, then `build_report`. Equal inputs give equal reports.
    """

    def __init__(self, scenario: VPodScenario, variant: Variant, chances: UniformSources) -> None:
        self._scenario = scenario
        self._variant = variant
        self._timeline = Timeline()
        self._ledger = Ledger()
        self._fleet = Fleet(self._timeline, scenario.settings.cluster, variant.options.statefulset_name)
        self._loop = SchedulerLoop(self._timeline, variant.options, self._fleet)
        for demand in demands(scenario.settings, chances):
            for when, wanted in demand.changes:
                self._timeline.call_at(when, partial(self._set_wanted, demand, wanted))
        for event in scenario.settings.events:
            self._timeline.call_at(event.at, partial(self._begin_event, event))
            if event.lasts is not None:
                self._timeline.call_at(event.at + event.lasts, partial(self._end_event, event))

    def advance(self, until: float) -> None:
        """Simulate until this time and sample there."""
        timeline, ledger = self._timeline, self._ledger
        while (due := timeline.next_due()) is not None and due <= until:
            ledger.advance(due)
            while timeline.next_due() == due:
                timeline.advance(due)
            ledger.set_counts(self._current_counts())
        timeline.advance(until)
        ledger.advance(until)
        ledger.sample(until, self._current_counts(), sum(self._loop.action_counts.moves.values()))
        ledger.sample_evenness(self._loop.vpods.values(), self._fleet)

    def report(self) -> VariantReport:
        """Return the report up to now."""
        self._ledger.close()
        return build_report(self._variant, self._scenario, self._ledger, self._loop.action_counts)

    def _current_counts(self) -> MomentCounts:
        return current_counts(self._loop.vpods.values(), self._fleet, self._loop.state.options.capacity)

    def _set_wanted(self, demand: Demand, wanted: int | None) -> None:
        if wanted is None:
            self._loop.delete(demand.key)
        else:
            self._loop.set_wanted(demand.key, wanted, demand.weight, demand.priority)

    def _begin_event(self, event: VPodEventSettings) -> None:
        match event.key_and_value():
            case "losePod", ordinal:
                self._fleet.lose_pod(ordinal)
            case "loseNode", node:
                self._fleet.lose_node(node)
            case "loseZone", zone:
                for name in self._nodes_in_zone(zone):
                    self._fleet.lose_node(name)
            case "cordon", node:
                self._fleet.cordon(node, True)
            case "markUnschedulable", ordinal:
                self._fleet.set_unschedulable(ordinal, True)
            case "podCapacity", capacity:
                self._loop.reconfigure(replace(self._loop.state.options, capacity=capacity))
            case "clusterFull", _:
                self._fleet.set_full(True)
            case "resetReplicas", replicas:
                self._loop.reset_replicas(replicas)
            case "failOver", _:
                self._loop.fail_over()
            case other:
                raise AssertionError(f"no such event: {other}")

    def _end_event(self, event: VPodEventSettings) -> None:
        match event.key_and_value():
            case "loseNode", node:
                self._fleet.return_node(node)
            case "loseZone", zone:
                for name in self._nodes_in_zone(zone):
                    self._fleet.return_node(name)
            case "cordon", node:
                self._fleet.cordon(node, False)
            case "markUnschedulable", ordinal:
                self._fleet.set_unschedulable(ordinal, False)
            case "podCapacity", _:
                self._loop.reconfigure(replace(self._loop.state.options, capacity=self._variant.options.capacity))
            case "clusterFull", _:
                self._fleet.set_full(False)
            case other:
                raise AssertionError(f"this event does not last: {other}")

    def _nodes_in_zone(self, zone: str) -> list[str]:
        return [node.name for node in self._fleet.nodes.values() if node.zone == zone]
