"""Runs of one policy in one scenario: a settled cluster, and any number of futures from there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from situate.sim.spot.cluster.controllers import Controllers, Template
from situate.sim.spot.cluster.delays import Delays, GaussianSource, LogNormalTime, NormalTime
from situate.sim.spot.cluster.scheduler import Scheduler
from situate.sim.spot.cluster.shapes import NodeKind, Shapes
from situate.sim.spot.cluster.spot_processes import SimulatedSpot, settings_of
from situate.sim.spot.cluster.world import SpotWorld
from situate.sim.spot.policies import FLOOR, Placement, Policy
from situate.sim.spot.results.account import EndCause, RunResult, SpotAccount
from situate.sim.spot.settings import SpotEventSettings, SpotScenarioSettings, WaveSettings, WorkloadSettings
from situate.sim.timeline import Timeline
from situate.spot.capacity.headroom import displaced_pods, wave_capacity
from situate.spot.model.pods_nodes_workloads import CAPACITY_LABEL, Capacity
from situate.spot.workloads.cluster_objects import workload_of
from situate.spot.workloads.on_demand_policy import Default, on_demand_target, parse_policy

_EPOCH: Final = 1_750_000_000.0
_SETTLING_S: Final = 900.0
"""Longer than a start and a cool-down."""
_ZONES: Final = ("a", "b")
_OLD_S: Final = 30 * 86_400.0


class _MedianSource:
    """A source without chance: every time is its median."""

    def gauss(self, mu: float, sigma: float) -> float:  # noqa: ARG002  # the protocol's
        return mu


class SpotSimulation:
    """Settles a cluster once. `play` gives one run. Equal scenarios, policies and chances give equal runs."""

    def __init__(
        self,
        scenario: SpotScenarioSettings,
        policy: Policy,
        samples: Sequence[float] = (),
        *,
        delays: Delays | None = None,
        until_whole: bool = False,
    ) -> None:
        """`samples` are the seconds at which the number of serving pods is recorded.

        `delays` replace those of the scenario. With `until_whole`, a run ends once every pod serves on a node that
        stays. The cost is then meaningless.
        """
        self.scenario, self.policy = scenario, policy
        self._samples, self._until_whole = samples, until_whole
        delays = delays or scenario.cluster.delays()
        timeline = Timeline(_EPOCH)
        quick = replace(delays, start=LogNormalTime(1.0, 1.0), node_start=NormalTime(1.0))
        self._kinds: dict[tuple[Capacity, str, int], NodeKind] = {}
        world = SpotWorld(
            timeline, SpotAccount(_EPOCH, scenario.spot.discount), _MedianSource(), quick, Scheduler(), Shapes()
        )
        self._controllers = Controllers(world)
        self._spot: SimulatedSpot | None = None
        if policy.placement is Placement.WEBHOOK:
            start_s = delays.start.median_s if scenario.spot.start is None else scenario.spot.start
            settings = settings_of(policy, autoscaling=scenario.cluster.autoscaling, start_s=start_s)
            self._spot = SimulatedSpot.install(world, settings, policy.reacts)
        self._world = world
        self._add_nodes()
        for app in scenario.workloads:
            self._add_app(app)
        while timeline.advance(_EPOCH + _SETTLING_S):
            pass
        self._add_headroom()
        world.delays = delays

    def _node_kind(self, capacity: Capacity, zone: str, slots: int) -> NodeKind:
        key = capacity, zone, slots
        return self._kinds.setdefault(key, NodeKind(len(self._kinds), capacity, zone, slots))

    def _add_nodes(self) -> None:
        """Add the nodes: spot for all pods and more, on demand for the floor, or for all pods with `onDemandRoom`."""
        cluster, workloads, world = self.scenario.cluster, self.scenario.workloads, self._world
        pods = sum(app.replicas for app in workloads)
        for number in range(math.ceil(cluster.spot_places * pods / cluster.pods_per_node)):
            world.add_node(self._node_kind(Capacity.SPOT, _ZONES[number % 2], cluster.pods_per_node), _OLD_S)
        places = pods if cluster.on_demand_room else sum(self._required_on_demand(app) for app in workloads)
        self._add_on_demand(places)
        if cluster.autoscaling:
            world.grown = self._node_kind(Capacity.ON_DEMAND, _ZONES[0], cluster.pods_per_new_node)

    def _add_on_demand(self, places: int) -> None:
        """Add exactly this many on-demand places. The last node may be smaller."""
        number = 0
        while places > 0:
            slots = min(places, self.scenario.cluster.pods_per_node)
            self._world.add_node(self._node_kind(Capacity.ON_DEMAND, _ZONES[number % 2], slots), _OLD_S)
            places -= slots
            number += 1

    def _required_on_demand(self, app: WorkloadSettings) -> int:
        """Return the number of pods of a workload that must be on demand."""
        said = self._on_demand_annotation(app)
        policy = parse_policy(said) if said is not None else Default()
        return on_demand_target(policy, app.replicas, stateful=app.kind == "StatefulSet")

    def _on_demand_annotation(self, app: WorkloadSettings) -> str | None:
        """Return the workload's annotation under this policy."""
        return app.floor if self.policy.on_demand == FLOOR else self.policy.on_demand

    def _add_app(self, app: WorkloadSettings) -> None:
        match self.policy.placement:
            case Placement.WEBHOOK:
                self._create_workload(app, app.name, app.replicas, {}, self._on_demand_annotation(app))
            case Placement.TWO_DEPLOYMENTS if app.kind == "Deployment":
                must = self._required_on_demand(app)
                for name, replicas, spec in (
                    (f"{app.name}-on-demand", must, _required_affinity(Capacity.ON_DEMAND)),
                    (f"{app.name}-spot", app.replicas - must, _preferred_affinity({Capacity.SPOT: 100})),
                ):
                    if replicas:
                        self._create_workload(app, name, replicas, spec)
            case Placement.TWO_DEPLOYMENTS:
                self._create_workload(app, app.name, app.replicas, _required_affinity(Capacity.ON_DEMAND))
            case Placement.SPREAD:
                spec = _preferred_affinity({Capacity.SPOT: 100, Capacity.ON_DEMAND: 1}) | _spread_constraint(
                    app, self._required_on_demand(app)
                )
                self._create_workload(app, app.name, app.replicas, spec)

    def _create_workload(
        self, app: WorkloadSettings, name: str, replicas: int, spec: dict[str, Any], on_demand: str | None = None
    ) -> None:
        quarter = math.ceil(replicas / 4)
        template = Template(app.name, spec, self.scenario.cluster.grace, quarter, replicas // 4)
        self._controllers.add(app.kind, name, replicas, on_demand, template)

    def _add_headroom(self) -> None:
        """Add on-demand nodes for the pods that the largest wave displaces and that no node can take (B24)."""
        if not self.policy.headroom:
            return
        assert self._spot is not None, "headroom needs a policy of situate"
        world = self._world
        cluster, rules = world.cluster(), self._spot.settings.rules()
        workloads = [workload_of(cluster, owner, rules) for owner in cluster.owners.values()]
        found = wave_capacity(displaced_pods(workloads, cluster.nodes), world.capacity_for_plan())
        self._add_on_demand(found.missing)
        world.account.set_paid_places(world.now, world.account.on_demand + found.missing)

    @property
    def on_demand(self) -> int:
        """Return the number of pods on demand after settling."""
        return self._world.account.on_demand

    def play(self, chance: GaussianSource) -> RunResult:
        """Play one run."""
        scenario = self.scenario
        timeline = Timeline(self._world.now)
        began = timeline.now
        world = self._world.fork(timeline, self._world.account.fork(began), chance)
        controllers = self._controllers.fork(world)
        if self._spot is not None:
            self._spot.fork(world).wake()
        future = _RunEvents(self, world, controllers)
        for event in scenario.events:
            timeline.call_at(began + event.at, partial(future.handle, event))
        end = began + scenario.duration
        last = max((event.at for event in scenario.events), default=0.0)
        while timeline.advance(end):
            if self._until_whole and timeline.now > began + last and world.is_complete:
                break
        return world.account.close(end, self._samples)


class _RunEvents:
    """The events of one run."""

    def __init__(self, simulation: SpotSimulation, world: SpotWorld, controllers: Controllers) -> None:
        self._simulation, self._world, self._controllers = simulation, world, controllers

    def handle(self, event: SpotEventSettings) -> None:
        if event.wave is not None:
            self._start_wave(event.wave)
        elif event.scale is not None:
            for owner in list(self._world.owners.values()):
                if owner.kind == "Deployment":
                    self._controllers.scale(owner.uid, round(owner.replicas * event.scale))
        else:
            for uid in list(self._world.owners):
                self._controllers.roll_out(uid)

    def _start_wave(self, wave: WaveSettings) -> None:
        world = self._world
        spot = [
            name for name, node in world.nodes.items() if node.kind.capacity is Capacity.SPOT and not node.facts.ending
        ]
        struck = spot[: math.ceil(wave.share * len(spot))]
        if wave.notice is None:
            self._end_nodes(wave, struck)
            return
        for name in struck:
            world.announce_end(name, wave.notice)
        if not self._simulation.policy.reacts:
            world.timeline.call_after(world.delays.react_s, partial(self._drain_nodes, struck))
        world.timeline.call_after(wave.notice, partial(self._end_nodes, wave, struck))

    def _drain_nodes(self, struck: Sequence[str]) -> None:
        for name in struck:
            for uid in list(self._world.nodes[name].pods):
                self._world.delete(uid, EndCause.DRAINED)

    def _end_nodes(self, wave: WaveSettings, struck: Sequence[str]) -> None:
        kinds = [self._world.nodes[name].kind for name in struck]
        for name in struck:
            self._world.end_node(name, silent=wave.silent)
        if wave.back_after is not None:
            self._world.timeline.call_after(wave.back_after, partial(self._return_nodes, kinds, struck))

    def _return_nodes(self, kinds: Sequence[NodeKind], struck: Sequence[str]) -> None:
        """Add new machines, and remove the Nodes of silent ones."""
        for name in struck:
            if name in self._world.nodes:
                self._world.forget_node(name)
        for kind in kinds:
            self._world.add_node(kind)


def _required_affinity(capacity: Capacity) -> dict[str, Any]:
    terms = [{"matchExpressions": [_expression(capacity)]}]
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    }


def _preferred_affinity(weights: dict[Capacity, int]) -> dict[str, Any]:
    wishes = [
        {"weight": weight, "preference": {"matchExpressions": [_expression(capacity)]}}
        for capacity, weight in weights.items()
    ]
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": wishes}}}


def _expression(capacity: Capacity) -> dict[str, Any]:
    return {"key": CAPACITY_LABEL, "operator": "In", "values": [str(capacity)]}


def _spread_constraint(app: WorkloadSettings, must: int) -> dict[str, Any]:
    """Build a spread constraint with at least `must` pods on demand, by the largest possible skew.

    In the design goal's example, 10 replicas with 2 on demand have a skew of 6 (S18).
    """
    skew = app.replicas - 2 * must
    if skew < 1 or must < 1:
        return {}
    constraint = {
        "maxSkew": skew,
        "minDomains": 2,
        "topologyKey": CAPACITY_LABEL,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app.name}},
    }
    return {"topologySpreadConstraints": [constraint]}
