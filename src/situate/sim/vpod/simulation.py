"""One variant of a scenario, simulated from beginning to end."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from situate.sim.timeline import Timeline
from situate.sim.vpod.demand import Chances, Demand, demands
from situate.sim.vpod.fleet import Fleet
from situate.sim.vpod.ledger import Instant, Ledger, instant
from situate.sim.vpod.loop import Loop
from situate.sim.vpod.report import Report, report
from situate.sim.vpod.scenario import Scenario, Variant
from situate.sim.vpod.settings import EventSettings


class Simulation:
    """Simulates a variant. Call `advance` with each sample time, then `report`. Equal inputs give equal reports."""

    def __init__(self, scenario: Scenario, variant: Variant, chances: Chances) -> None:
        self._scenario = scenario
        self._variant = variant
        self._timeline = Timeline()
        self._ledger = Ledger()
        self._fleet = Fleet(self._timeline, scenario.settings.cluster, variant.options.statefulset_name)
        self._loop = Loop(self._timeline, variant.options, self._fleet)
        for demand in demands(scenario.settings, chances):
            for when, wanted in demand.changes:
                self._timeline.at(when, partial(self._want, demand, wanted))
        for event in scenario.settings.events:
            self._timeline.at(event.at, partial(self._begin, event))
            if event.lasts is not None:
                self._timeline.at(event.at + event.lasts, partial(self._end, event))

    def advance(self, until: float) -> None:
        """Simulate until this time and sample there."""
        timeline, ledger = self._timeline, self._ledger
        while (due := timeline.next_due()) is not None and due <= until:
            ledger.until(due)
            while timeline.next_due() == due:
                timeline.advance(due)
            ledger.note(self._now())
        timeline.advance(until)
        ledger.until(until)
        ledger.sample(until, self._now(), sum(self._loop.deeds.moves.values()))
        ledger.sample_evenness(self._loop.vpods.values(), self._fleet)

    def report(self) -> Report:
        """Return the report up to now."""
        self._ledger.close()
        return report(self._variant, self._scenario, self._ledger, self._loop.deeds)

    def _now(self) -> Instant:
        return instant(self._loop.vpods.values(), self._fleet, self._loop.state.options.capacity)

    def _want(self, demand: Demand, wanted: int | None) -> None:
        if wanted is None:
            self._loop.delete(demand.key)
        else:
            self._loop.want(demand.key, wanted, demand.weight, demand.priority)

    def _begin(self, event: EventSettings) -> None:
        match event.what():
            case "losePod", ordinal:
                self._fleet.lose_pod(ordinal)
            case "loseNode", node:
                self._fleet.lose_node(node)
            case "loseZone", zone:
                for name in self._in_zone(zone):
                    self._fleet.lose_node(name)
            case "cordon", node:
                self._fleet.cordon(node, True)
            case "markUnschedulable", ordinal:
                self._fleet.mark(ordinal, True)
            case "podCapacity", capacity:
                self._loop.reconfigure(replace(self._loop.state.options, capacity=capacity))
            case "clusterFull", _:
                self._fleet.fill(True)
            case "resetReplicas", replicas:
                self._loop.reset_replicas(replicas)
            case "failOver", _:
                self._loop.fail_over()
            case other:
                raise AssertionError(f"no such event: {other}")

    def _end(self, event: EventSettings) -> None:
        match event.what():
            case "loseNode", node:
                self._fleet.return_node(node)
            case "loseZone", zone:
                for name in self._in_zone(zone):
                    self._fleet.return_node(name)
            case "cordon", node:
                self._fleet.cordon(node, False)
            case "markUnschedulable", ordinal:
                self._fleet.mark(ordinal, False)
            case "podCapacity", _:
                self._loop.reconfigure(replace(self._loop.state.options, capacity=self._variant.options.capacity))
            case "clusterFull", _:
                self._fleet.fill(False)
            case other:
                raise AssertionError(f"this event does not last: {other}")

    def _in_zone(self, zone: str) -> list[str]:
        return [node.name for node in self._fleet.nodes.values() if node.zone == zone]
