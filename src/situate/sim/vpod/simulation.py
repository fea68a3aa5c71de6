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
            self._timeline.call_at(event.at, partial(self._apply_event, event, True))
            if event.lasts is not None:
                self._timeline.call_at(event.at + event.lasts, partial(self._apply_event, event, False))

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

    def _apply_event(self, event: VPodEventSettings, begins: bool) -> None:
        """Begin an event, or end one that lasts."""
        fleet, own = self._fleet, self._variant.options.capacity
        change_node = fleet.lose_node if begins else fleet.return_node
        match event.key_and_value():
            case "loseNode", node:
                change_node(node)
            case "loseZone", zone:
                for name in [node.name for node in fleet.nodes.values() if node.zone == zone]:
                    change_node(name)
            case "cordon", node:
                fleet.cordon(node, begins)
            case "markUnschedulable", ordinal:
                fleet.set_unschedulable(ordinal, begins)
            case "podCapacity", capacity:
                self._loop.reconfigure(replace(self._loop.state.options, capacity=capacity if begins else own))
            case "clusterFull", _:
                fleet.set_full(begins)
            case "losePod", ordinal if begins:
                fleet.lose_pod(ordinal)
            case "resetReplicas", replicas if begins:
                self._loop.reset_replicas(replicas)
            case "failOver", _ if begins:
                self._loop.fail_over()
            case other:
                raise AssertionError(f"no such event, or one that does not last: {other}")
