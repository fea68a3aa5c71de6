"""The `vpod:` section of the configuration file: one entry a StatefulSet, and the environment that Knative reads.

Field names and defaults are those of the reference's configuration table. Reading the file is left to
`situate.runtime.configuration`; what the values mean to the `decide` functions, to `situate.vpod.model`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

import msgspec

from situate.objects.durations import format_duration
from situate.objects.settings import (
    ALLOWED,
    FORM,
    Duration,
    Mistake,
    NamespaceName,
    ObjectName,
    PositiveDuration,
    shown,
)
from situate.vpod.model import INT32_MAX
from situate.vpod.options import (
    DrainOptions,
    Fairness,
    Options,
    PackOrder,
    PolicyName,
    Profile,
    RebalanceOptions,
    Rescale,
    Shrink,
    Topology,
)

DEFAULT_RETRY_PERIOD = 1.0
"""Seconds; what a `retryPeriod` of 0 means."""

SHORTEST_PERIOD = 0.1
"""Seconds."""

Count = Annotated[int, msgspec.Meta(ge=0, le=INT32_MAX)]
PositiveCount = Annotated[int, msgspec.Meta(ge=1, le=INT32_MAX)]
Period = Annotated[float, msgspec.Meta(ge=SHORTEST_PERIOD, extra={FORM: "duration"})]
"""Seconds between two rounds of something that is done for ever: with less it would be done without a pause."""
Share = Annotated[float, msgspec.Meta(gt=0, le=1)]
Percentage = Annotated[
    str, msgspec.Meta(pattern=r"^(100|[0-9]{1,2})%$", extra={ALLOWED: 'a percentage from "0%" to "100%"'})
]
FieldPath = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$", extra={ALLOWED: "field names joined by dots: spec.replicas"}
    ),
]

KIND_LABEL = "kafka.eventing.knative.dev/metadata.kind"
"""Says on a ConsumerGroup which kind of source it serves; compared in lower case."""

KINDS_OF_STATEFULSETS: Mapping[str, str] = {
    "kafka-source-dispatcher": "kafkasource",
    "kafka-broker-dispatcher": "trigger",
    "kafka-channel-dispatcher": "kafkachannel",
}
"""Which of Knative's StatefulSets runs the consumers of which kind of source."""


class ScaleCacheSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    refresh_period: Duration = 300.0


class DrainSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Scale-down in two phases: move first, then cut."""

    enabled: bool = True
    settle: Duration = 10.0
    timeout: PositiveDuration = 600.0
    surge: Count = 0


class PackSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    order: Literal["own", "lowest"] = "own"


class RebalanceSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    enabled: bool = False
    interval: Period = 300.0
    max_moves_per_v_pod: Annotated[int, msgspec.Meta(ge=1, le=INT32_MAX)] = msgspec.field(
        default=1, name="maxMovesPerVPod"
    )
    max_moves: PositiveCount | Percentage = "5%"
    """Vreplicas a round, or a percentage of all that are placed."""


class QuotaSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    namespace_max_share: Share | None = None
    """The largest part of all capacity that the vpods of one namespace may take; null: no limit."""


class SourceSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Which custom resources are vpods, and where in them the numbers stand.

    For `ConsumerGroup` and `KafkaSource` of Knative the kind alone says it all. Any other kind names its API and paths.
    """

    kind: Annotated[str, msgspec.Meta(min_length=1)]
    group: str = ""
    version: str = ""
    resource: str = ""
    """The plural name in the URL."""
    vreplicas_path: FieldPath | None = None
    default_vreplicas: Count = 1
    """Wanted where the path is absent."""
    placements_path: FieldPath | None = None
    max_vreplicas_path: FieldPath | None = None
    """Caps what is wanted; null: nothing does."""
    namespace: NamespaceName | None = None
    """null: every namespace."""
    label_selector: str = ""
    source_kind: str | None = None
    """Only ConsumerGroups whose kind label has this value, in lower case; null: the one of Knative's StatefulSet."""
    condition_type: str | None = None
    """The condition that says whether all is placed; null: ConsumersScheduled on a ConsumerGroup, else Scheduled."""
    workers: bool = True
    """Whether a Consumer is kept for each placement of a ConsumerGroup; other kinds have no workers."""

    def mistakes(self) -> Iterable[Mistake]:
        known = KNOWN_SOURCES.get(self.kind)
        for name, value in _address(self).items():
            if not value and known is None:
                yield Mistake(name, "", f"a value where kind is {shown(self.kind)}", "only Knative's kinds imply one")

    @property
    def condition(self) -> str:
        return self.condition_type or ("ConsumersScheduled" if self.kind == "ConsumerGroup" else "Scheduled")

    def completed(self, statefulset_name: str) -> SourceSettings:
        """With everything filled in that the kind and the StatefulSet imply."""
        known = KNOWN_SOURCES.get(self.kind)
        if known is None:
            return self
        implied = {name: value for name, value in _address(known, python=True).items() if value}
        given = {name: value for name, value in _address(self, python=True).items() if value}
        source_kind = self.source_kind or KINDS_OF_STATEFULSETS.get(statefulset_name)
        return msgspec.structs.replace(
            self,
            **{**implied, **given},
            max_vreplicas_path=self.max_vreplicas_path or known.max_vreplicas_path,
            source_kind=source_kind if self.kind == "ConsumerGroup" else self.source_kind,
        )


def _address(source: SourceSettings, *, python: bool = False) -> dict[str, Any]:
    """What says where a kind is served and where its numbers stand, by the names of the file or of the code."""
    fields = ("group", "version", "resource", "vreplicas_path", "placements_path")
    written = {} if python else {each.name: each.encode_name for each in msgspec.structs.fields(SourceSettings)}
    return {written.get(name, name): getattr(source, name) for name in fields}


def served_kinds(entries: Iterable[StatefulSetSettings]) -> frozenset[str]:
    """The kinds of sources, in lower case, that one of Knative's StatefulSets runs or that these entries name."""
    named = {
        source.source_kind.lower() for entry in entries for source in entry.completed_sources() if source.source_kind
    }
    return frozenset({*KINDS_OF_STATEFULSETS.values(), *named})


KNOWN_SOURCES: Mapping[str, SourceSettings] = {
    "ConsumerGroup": SourceSettings(
        kind="ConsumerGroup",
        group="internal.kafka.eventing.knative.dev",
        version="v1alpha1",
        resource="consumergroups",
        vreplicas_path="spec.replicas",
        placements_path="status.placements",
    ),
    "KafkaSource": SourceSettings(
        kind="KafkaSource",
        group="sources.knative.dev",
        version="v1beta1",
        resource="kafkasources",
        vreplicas_path="spec.consumers",
        placements_path="status.placements",
        max_vreplicas_path="status.maxAllowedVReplicas",
    ),
}


class StatefulSetSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One entry: a StatefulSet and the vpods that live on its pods."""

    stateful_set_namespace: NamespaceName
    stateful_set_name: ObjectName
    pod_capacity: PositiveCount
    sources: tuple[SourceSettings, ...] = (SourceSettings(kind="ConsumerGroup"),)
    min_replicas: Count = 0
    refresh_period: Period = 100.0
    retry_period: Duration = 0.0
    """0 means 1 s."""
    scale_cache_config: ScaleCacheSettings = ScaleCacheSettings()
    policy: Literal["spread", "pack", "policy"] = "spread"
    profile: Literal["safe", "reference"] = "safe"
    scheduler_config: ObjectName | None = None
    """The ConfigMap with predicates and priorities for placing; only `policy: policy` reads it."""
    descheduler_config: ObjectName | None = None
    """The same for removing."""
    max_replicas: PositiveCount | None = 100
    """Most Pods that the autoscaler asks for; null: no limit. Pods that hold vreplicas are never removed for it."""
    max_scale_up_step: PositiveCount | None = 10
    """Most Pods that one step of a scale-up adds; 5 s pass between two steps. null: no limit."""
    scale_down_stabilization: Duration = 300.0
    pod_grace: Duration = 60.0
    require_ready: bool = False
    drain: DrainSettings = DrainSettings()
    shrink: Literal["auto", "ordinal", "spread"] = "auto"
    topology: Literal["none", "zone", "node"] = "none"
    topology_required: bool = False
    pack: PackSettings = PackSettings()
    rescale: Literal["keep", "replace"] = "keep"
    rebalance: RebalanceSettings = RebalanceSettings()
    quota: QuotaSettings = QuotaSettings()
    fairness: Literal["none", "maxmin"] = "none"

    def mistakes(self) -> Iterable[Mistake]:
        if self.max_replicas is not None and self.max_replicas < self.min_replicas:
            yield Mistake("maxReplicas", str(self.max_replicas), f"at least minReplicas, which is {self.min_replicas}")
        if self.topology_required and self.topology == "none":
            yield Mistake("topologyRequired", "true", "false where topology is none", "set topology to zone or node")
        if 0 < self.retry_period < SHORTEST_PERIOD:
            yield Mistake("retryPeriod", format_duration(self.retry_period), "0, which means 1s, or at least 0.1s")
        if self.rebalance.enabled and self.policy == "pack":
            yield Mistake(
                "rebalance.enabled",
                "true",
                "false where policy is pack",
                "packing fills the lowest pods and rebalancing evens them out; for even ones set policy to spread",
            )
        if not self.sources:
            yield Mistake("sources", "[]", "at least one kind", "leave the key out for Knative's ConsumerGroups")
        for index, source in enumerate(self.sources):
            if source.kind == "ConsumerGroup" and not (
                source.source_kind or source.label_selector or self.stateful_set_name in KINDS_OF_STATEFULSETS
            ):
                yield Mistake(
                    f"sources[{index}].sourceKind",
                    "",
                    f"the value of the label {KIND_LABEL} of its ConsumerGroups, in lower case",
                    f"only the StatefulSets {', '.join(KINDS_OF_STATEFULSETS)} imply one",
                )

    @property
    def lease_name(self) -> str:
        """The Lease whose holder writes for this StatefulSet; the dots keep namespace and name apart."""
        return f"vpod.{self.stateful_set_namespace}.{self.stateful_set_name}"

    def options(self) -> Options:
        """What the deciding functions read of this entry."""
        moves = self.rebalance.max_moves
        share = int(moves.rstrip("%")) / 100 if isinstance(moves, str) else RebalanceOptions().max_moves_share
        return Options(
            statefulset_namespace=self.stateful_set_namespace,
            statefulset_name=self.stateful_set_name,
            capacity=self.pod_capacity,
            min_replicas=self.min_replicas,
            policy=PolicyName(self.policy),
            profile=Profile(self.profile),
            refresh_period=self.refresh_period,
            retry_period=self.retry_period or DEFAULT_RETRY_PERIOD,
            max_replicas=self.max_replicas,
            max_scale_up_step=self.max_scale_up_step,
            scale_down_stabilization=self.scale_down_stabilization,
            pod_grace=self.pod_grace,
            require_ready=self.require_ready,
            drain=DrainOptions(self.drain.enabled, self.drain.settle, self.drain.timeout, self.drain.surge),
            shrink=Shrink(self.shrink),
            topology=Topology(self.topology),
            topology_required=self.topology_required,
            pack_order=PackOrder(self.pack.order),
            rescale=Rescale(self.rescale),
            rebalance=RebalanceOptions(
                enabled=self.rebalance.enabled,
                interval=self.rebalance.interval,
                max_moves_per_vpod=self.rebalance.max_moves_per_v_pod,
                max_moves_share=share,
                max_moves=moves if isinstance(moves, int) else None,
            ),
            namespace_max_share=self.quota.namespace_max_share,
            fairness=Fairness(self.fairness),
        )

    def completed_sources(self) -> tuple[SourceSettings, ...]:
        """The sources with everything filled in that their kinds and the StatefulSet's name imply."""
        return tuple(source.completed(self.stateful_set_name) for source in self.sources)


ENVIRONMENT: Mapping[str, str] = {
    "POD_CAPACITY": "vpod[*].podCapacity",
    "DISPATCHERS_MIN_REPLICAS": "vpod[*].minReplicas",
    "AUTOSCALER_REFRESH_PERIOD": "vpod[*].refreshPeriod",
    "SCHEDULER_CONFIG": "vpod[*].schedulerConfig",
    "DESCHEDULER_CONFIG": "vpod[*].deschedulerConfig",
}
"""The variables that Knative's controller reads, and what each overrides in every entry."""
