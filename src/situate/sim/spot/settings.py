"""The keys of a scenario file with a `spot` section. The built-in `scenarios` have the same form.

Times are seconds since the start. The command reads the file. `policies` defines the policies.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

import msgspec

from situate.objects.settings.section import (
    Duration,
    Mistake,
    ObjectName,
    PositiveDuration,
    format_value,
    spelling_hint,
)
from situate.sim.spot.cluster.delays import BASELINE, Delays, LogNormalTime, NormalTime
from situate.sim.spot.policies import BY_NAME, POLICIES, Policy
from situate.spot.nodes.savings import DEFAULT_DISCOUNT
from situate.spot.workloads.on_demand_policy import BadPolicy, parse_policy

MOST_PODS = 500
RUNS = 20
"""Default number of runs."""
NOTICE_S = 120.0
"""Seconds of notice, by S5."""
Share = Annotated[float, msgspec.Meta(gt=0, le=1)]
Places = Annotated[float, msgspec.Meta(ge=1, le=10)]
Discount = Annotated[float, msgspec.Meta(ge=0, lt=1)]
Factor = Annotated[float, msgspec.Meta(ge=0, le=100)]
Pods = Annotated[int, msgspec.Meta(ge=1, le=100)]
Replicas = Annotated[int, msgspec.Meta(ge=0, le=MOST_PODS)]
Runs = Annotated[int, msgspec.Meta(ge=1, le=10_000)]


class SpotClusterSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Nodes and their delays."""

    pods_per_node: Pods = 4
    spot_places: Places = 1.5
    """Places on spot nodes per pod at the beginning."""
    on_demand_room: bool = True
    """Whether on-demand nodes have free places for all pods. If not, only for those that must be there."""
    autoscaling: bool = True
    """Whether on-demand nodes are added when pods wait for them."""
    pods_per_new_node: Pods = 1
    """Pods per added node."""
    start_median: PositiveDuration = 25.0
    """Median time from the binding to a node until a pod serves."""
    start_p95: PositiveDuration = 60.0
    """95th percentile of that time."""
    node_start: PositiveDuration = 75.0
    """Mean time from the request for a node until it accepts pods."""
    node_start_deviation: Duration = 15.0
    detection: Duration = 55.0
    """From the end of a node that is deleted with its Node object until its pods are removed."""
    silent: Duration = 45.0
    """From the end of a node whose Node object stays until it is seen as unreachable."""
    pod_stop: Duration = 5.0
    """From its deletion until a pod is gone. The pod serves for the first seconds of that, at most 2 s."""
    grace: Duration = 30.0
    """terminationGracePeriodSeconds of the pods. Released pods are deleted this time, plus 5 s, before a node ends."""

    def mistakes(self) -> Iterable[Mistake]:
        if self.start_p95 < self.start_median:
            allowed = f"at least startMedian, which is {self.start_median:g} s"
            yield Mistake("startP95", f"{self.start_p95:g}", allowed)

    def delays(self) -> Delays:
        return Delays(
            start=LogNormalTime(self.start_median, self.start_p95),
            node_start=NormalTime(self.node_start, self.node_start_deviation),
            detection_s=self.detection,
            silent_s=self.silent,
            stop_s=min(BASELINE.stop_s, self.pod_stop),
            end_s=self.pod_stop,
        )


class SpotSection(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The compared policies and their settings."""

    policies: tuple[str, ...] = ()
    """Names of the policies, in this order. Empty: all of them."""
    discount: Discount = DEFAULT_DISCOUNT
    """Discount of spot against on demand."""
    start: PositiveDuration | None = None
    """The start time of pods in the configuration. null: `startMedian`."""

    def mistakes(self) -> Iterable[Mistake]:
        for number, name in enumerate(self.policies):
            if name not in BY_NAME:
                yield Mistake(
                    f"policies[{number}]",
                    format_value(name),
                    "one of " + ", ".join(BY_NAME),
                    spelling_hint(name, BY_NAME),
                )

    def chosen_policies(self) -> Sequence[Policy]:
        """Return the named policies, or all of them."""
        return [BY_NAME[name] for name in self.policies] or list(POLICIES)


class WorkloadSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A workload."""

    name: ObjectName
    kind: Literal["Deployment", "StatefulSet"] = "Deployment"
    replicas: Replicas = 10
    floor: str | None = None
    """Annotation under the policies with a floor. null: no annotation, so the default of its kind applies."""

    def mistakes(self) -> Iterable[Mistake]:
        if self.floor is not None:
            try:
                parse_policy(self.floor)
            except BadPolicy as problem:
                yield Mistake("floor", format_value(self.floor), "a valid policy", str(problem))


class WaveSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Spot nodes that end together."""

    share: Share = 1.0
    """Share of the present spot nodes that end, oldest first."""
    notice: PositiveDuration | None = NOTICE_S
    """Notice before they end. null: no notice."""
    silent: bool = False
    """Whether Node objects stay after their machines are gone."""
    back_after: Duration | None = None
    """Time after their end until the same number of new spot nodes comes. null: none come."""


class SpotEventSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One event at a time."""

    at: Duration
    wave: WaveSettings | None = None
    scale: Factor | None = None
    """Factor by which every Deployment is scaled."""
    roll_out: Literal[True] | None = None
    """Whether every workload gets a new template."""

    def mistakes(self) -> Iterable[Mistake]:
        given = [name for name, value in self._given_events() if value is not None]
        if len(given) != 1:
            known = ", ".join(name for name, _ in self._given_events())
            yield Mistake(
                given[1] if given else "at",
                format_value(given) if given else "",
                f"one of {known}",
                "exactly one for each event",
            )

    def _given_events(self) -> Sequence[tuple[str, object]]:
        return ("wave", self.wave), ("scale", self.scale), ("rollOut", self.roll_out)

    @property
    def nodes_end_at(self) -> float:
        """Return when the nodes of a wave end: after its notice, if there is one."""
        notice = self.wave.notice if self.wave is not None else None
        return self.at + (notice or 0.0)


class SpotScenarioSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The scenario file."""

    api_version: Literal["situate.dev/v1alpha1"] = "situate.dev/v1alpha1"
    kind: Literal["Scenario"] = "Scenario"
    title: str = ""
    duration: PositiveDuration
    seed: int = 0
    runs: Runs = RUNS
    """Runs of each policy, each with other random choices. They are the same for all policies."""
    cluster: SpotClusterSettings = SpotClusterSettings()
    spot: SpotSection
    workloads: Annotated[tuple[WorkloadSettings, ...], msgspec.Meta(min_length=1)]
    events: tuple[SpotEventSettings, ...] = ()

    @property
    def name(self) -> str:
        return self.title or "spot"

    def mistakes(self) -> Iterable[Mistake]:
        names = [each.name for each in self.workloads]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            yield Mistake("workloads", format_value(twice), "each name once")
        pods = sum(each.replicas for each in self.workloads)
        if pods > MOST_PODS or not pods:
            yield Mistake("workloads", f"{pods} replicas", f"1 to {MOST_PODS:,} in all")
        for number, event in enumerate(self.events):
            if event.at > self.duration:
                allowed = f"at most the duration, which is {self.duration:g} s"
                yield Mistake(f"events[{number}].at", f"{event.at:g}", allowed)
