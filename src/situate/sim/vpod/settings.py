"""The keys of a scenario file: the cluster, the sources and their demand, and the faults.

Times are seconds since the start. `scenario` reads the variants, and `demand` computes the demand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal

import msgspec

from situate.objects.settings.section import (
    ALLOWED,
    Duration,
    Mistake,
    NamespaceName,
    ObjectName,
    PositiveDuration,
    format_value,
    spelling_hint,
)

MOST_CHANGES = 2_000_000
"""Maximum changes of demand in one scenario. More of them come from a mistaken period."""

MOST_SAMPLES = 100_000
"""Maximum points of one time series. Each variant has several."""

Count = Annotated[int, msgspec.Meta(ge=0, le=100_000)]
PositiveCount = Annotated[int, msgspec.Meta(ge=1, le=100_000)]
NodeCount = Annotated[int, msgspec.Meta(ge=1, le=5_000)]
Price = Annotated[float, msgspec.Meta(ge=0)]
Probability = Annotated[float, msgspec.Meta(ge=0, le=1)]
Name = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
        max_length=63,
        extra={ALLOWED: "a name of at most 63 of A-Z a-z 0-9 - _ . that begins and ends with a letter or digit"},
    ),
]


class FleetSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Nodes and their delays."""

    zones: Annotated[dict[Name, NodeCount], msgspec.Meta(min_length=1)]
    """Number of nodes by zone. Their names are `<zone>-0`, `<zone>-1` and so on."""
    pods_per_node: PositiveCount | None = None
    """Pods of the StatefulSet that fit on a node. null: any number."""
    pod_start_delay: Duration = 15.0
    """From the binding to a node until a pod is ready."""
    pod_stop_delay: Duration = 5.0
    """From its deletion until a pod is gone."""
    node_lost_after: Duration = 40.0
    """From its silence until a node is seen as unreachable (kube-controller-manager's grace period)."""
    pods_leave_after: Duration = 300.0
    """From its silence until the pods of a node are gone and are created elsewhere."""
    pod_price_per_hour: Price = 0.0
    node_price_per_hour: Price = 0.0
    """Price of a node while at least one pod of the StatefulSet is on it."""

    def node_names(self) -> Iterator[tuple[str, str]]:
        """Yield nodes with their zones, in order."""
        for zone, nodes in self.zones.items():
            for number in range(nodes):
                yield f"{zone}-{number}", zone

    def mistakes(self) -> Iterable[Mistake]:
        if self.pods_leave_after < self.node_lost_after:
            allowed = f"at least nodeLostAfter, which is {self.node_lost_after:g} s"
            yield Mistake("podsLeaveAfter", f"{self.pods_leave_after:g}", allowed)


class SineSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A sine curve: `high` at `peakAt` and every period after it."""

    low: Count
    high: Count
    period: PositiveDuration = 86_400.0
    peak_at: Duration = 50_400.0
    every: PositiveDuration = 300.0
    """Time between two changes of the number."""

    def mistakes(self) -> Iterable[Mistake]:
        if self.high < self.low:
            yield Mistake("high", str(self.high), f"at least low, which is {self.low}")


class BurstSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Repeated bursts of extra demand."""

    height: PositiveCount
    every: PositiveDuration
    lasting: PositiveDuration
    jitter: Duration = 0.0
    """Maximum random delay of each burst."""
    chance: Probability = 1.0
    """Probability of each burst."""


class WalkSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A random walk between two bounds."""

    start: Count
    low: Count = 0
    high: Count
    step: PositiveCount = 1
    """The largest change in one step."""
    every: PositiveDuration = 300.0

    def mistakes(self) -> Iterable[Mistake]:
        if not self.low <= self.start <= self.high:
            yield Mistake("start", str(self.start), f"from low, which is {self.low}, to high, which is {self.high}")


class DemandSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Wanted vreplicas over time: the sum of the given shapes."""

    steady: Count | None = None
    steps: Annotated[dict[Duration, Count], msgspec.Meta(min_length=1)] | None = None
    """Vreplicas from each time on. None before the first."""
    sine: SineSettings | None = None
    bursts: BurstSettings | None = None
    walk: WalkSettings | None = None

    def mistakes(self) -> Iterable[Mistake]:
        if not any(each is not None for each in msgspec.structs.astuple(self)):
            yield Mistake("steady", "", "at least one of steady, steps, sine, bursts, walk")


class SourceSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One source, or several equal ones."""

    name: ObjectName
    demand: Count | DemandSettings
    namespace: NamespaceName = "default"
    count: PositiveCount = 1
    """Number of equal sources, named `<name>-0`, `<name>-1` and so on. Each has its own random choices."""
    arrives: Duration = 0.0
    stagger: Duration = 0.0
    """Delay of each further source's arrival."""
    leaves: Duration | None = None
    weight: PositiveCount = 1
    priority: int = 0

    def names(self) -> Iterator[str]:
        return iter([self.name]) if self.count == 1 else (f"{self.name}-{number}" for number in range(self.count))

    def shapes(self) -> DemandSettings:
        return self.demand if isinstance(self.demand, DemandSettings) else DemandSettings(steady=self.demand)

    def mistakes(self) -> Iterable[Mistake]:
        if self.leaves is not None and self.leaves <= self.arrives:
            yield Mistake("leaves", f"{self.leaves:g}", f"after arrives, which is {self.arrives:g} s")


class VPodEventSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One event at a time. With `for`, it ends after that time."""

    at: Duration
    lasts: PositiveDuration | None = msgspec.field(default=None, name="for")
    lose_pod: Count | None = None
    """Ordinal whose pod is removed, and created again at once."""
    lose_node: str | None = None
    lose_zone: str | None = None
    cordon: str | None = None
    """Node that accepts no new pods."""
    mark_unschedulable: Count | None = None
    """Ordinal whose pod an operator annotates as unschedulable."""
    pod_capacity: PositiveCount | None = None
    """New capacity of a pod, changed at run time."""
    cluster_full: Literal[True] | None = None
    """Whether no node accepts a new pod."""
    reset_replicas: Count | None = None
    """spec.replicas that another writer sets."""
    fail_over: Literal[True] | None = None
    """Whether another process takes the lead. It knows only the objects."""

    def key_and_value(self) -> tuple[str, Any]:
        """Return the key of the event and its value. An event without mistakes has one."""
        written = {each.name: each.encode_name for each in msgspec.structs.fields(type(self))}
        named = [(written[name], getattr(self, name)) for name in written if name not in ("at", "lasts")]
        return next(each for each in named if each[1] is not None)

    def mistakes(self) -> Iterable[Mistake]:
        kinds = [each for each in msgspec.structs.fields(type(self)) if each.name not in ("at", "lasts")]
        given = [each.encode_name for each in kinds if getattr(self, each.name) is not None]
        if len(given) != 1:
            found = ", ".join(given)
            known = ", ".join(each.encode_name for each in kinds)
            yield Mistake(
                given[1] if given else "at",
                found and format_value(given),
                f"one of {known}",
                "exactly one for each event",
            )
        elif self.lasts is not None and given[0] in ("losePod", "resetReplicas", "failOver"):
            yield Mistake("for", f"{self.lasts:g}", f"no value with {given[0]}, which ends at once")


class ScenarioSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The scenario file."""

    api_version: Literal["situate.dev/v1alpha1"] = "situate.dev/v1alpha1"
    kind: Literal["Scenario"] = "Scenario"
    title: str = ""
    duration: PositiveDuration
    seed: int = 0
    sample_every: PositiveDuration | None = None
    """Time between points of a time series. null: the 720th part of the duration, at least 1 s."""
    cluster: FleetSettings
    vpod: dict[str, Any]
    """Settings that all variants share, by the keys of the configuration."""
    variants: dict[Name, dict[str, Any] | None] = msgspec.field(default_factory=dict)
    """Changed settings by variant. Empty: one variant named `vpod`."""
    config_maps: dict[ObjectName, dict[str, str]] = msgspec.field(default_factory=dict)
    """Data of the ConfigMaps that `schedulerConfig` and `deschedulerConfig` name."""
    sources: Annotated[tuple[SourceSettings, ...], msgspec.Meta(min_length=1)]
    events: tuple[VPodEventSettings, ...] = ()

    def mistakes(self) -> Iterable[Mistake]:
        nodes = dict(self.cluster.node_names())
        for index, event in enumerate(self.events):
            for name, value, known in (
                ("loseNode", event.lose_node, list(nodes)),
                ("cordon", event.cordon, list(nodes)),
                ("loseZone", event.lose_zone, list(self.cluster.zones)),
            ):
                if value is not None and value not in known:
                    allowed = "one of " + ", ".join(known[:8]) + (", …" if len(known) > 8 else "")
                    yield Mistake(f"events[{index}].{name}", format_value(value), allowed, spelling_hint(value, known))
        if self.sample_every is not None and self.duration / self.sample_every > MOST_SAMPLES:
            allowed = f"at least {self.duration / MOST_SAMPLES:g} s, for {MOST_SAMPLES:,} samples"
            yield Mistake("sampleEvery", f"{self.sample_every:g} s", allowed)
        if sum(source.count for source in self.sources) > MOST_CHANGES:
            yield Mistake("sources", "more sources", f"at most {MOST_CHANGES:,} in all")
            return
        seen: set[tuple[str, str]] = set()
        changes = 0.0
        for index, source in enumerate(self.sources):
            twice = [name for name in source.names() if (source.namespace, name) in seen]
            seen.update((source.namespace, name) for name in source.names())
            if twice:
                yield Mistake(f"sources[{index}].name", format_value(twice[0]), "each source of a namespace once")
            shapes = source.shapes()
            periodic = (shapes.sine, shapes.bursts, shapes.walk)
            changes += source.count * (1 + sum(self.duration / each.every for each in periodic if each is not None))
        if changes > MOST_CHANGES:
            allowed = f"at most {MOST_CHANGES:,} changes of demand in all"
            yield Mistake("sources", f"about {changes:,.0f} changes", allowed, "raise `every`, or shorten the duration")
