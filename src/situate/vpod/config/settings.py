"""The `vpod:` section of the configuration file: one entry for each StatefulSet, and Knative's environment variables.

Field names and defaults are those of the table "Settings" in `docs/spec/vpod.md`. `situate.runtime.configuration.file`
reads the file. `situate.vpod.model.options` holds the values in the form that the `decide` functions read, and the
blocks that are the same in both forms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from situate.objects.settings.section import (
    ALLOWED,
    Duration,
    Mistake,
    NamespaceName,
    ObjectName,
    format_value,
    matching_fields,
)
from situate.objects.values.durations import format_duration
from situate.vpod.model.options import (
    SHORTEST_PERIOD,
    Count,
    DrainOptions,
    Fairness,
    Options,
    PackOrder,
    Period,
    PolicyName,
    PositiveCount,
    Profile,
    RebalanceOptions,
    Rescale,
    Shrink,
    Topology,
)

DEFAULT_RETRY_PERIOD = 1.0
"""Seconds; used if `retryPeriod` is 0."""

Share = Annotated[float, msgspec.Meta(gt=0, le=1)]
FieldPath = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$", extra={ALLOWED: "field names joined by dots: spec.replicas"}
    ),
]

KIND_LABEL = "kafka.eventing.knative.dev/metadata.kind"
"""Label of a ConsumerGroup with the kind of its source; compared in lower case."""

KINDS_OF_STATEFULSETS: Mapping[str, str] = {
    "kafka-source-dispatcher": "kafkasource",
    "kafka-broker-dispatcher": "trigger",
    "kafka-channel-dispatcher": "kafkachannel",
}
"""The kind of source, by the Knative StatefulSet that runs the consumers of that kind."""


class ScaleCacheSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The counterpart of Knative's `ScaleCacheConfig`."""

    refresh_period: Annotated[
        Duration,
        Meta(
            description="How long a cached scale is valid. `situate run` ignores this key, because vpod watches the "
            "StatefulSet. In the Python API, it is an argument of `ScaleCache`."
        ),
    ] = 300.0


class PackSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The order in which `policy: pack` fills Pods."""

    order: Annotated[
        PackOrder,
        Meta(description="`own`: fill the Pods of the source first. `lowest`: always start at ordinal 0."),
    ] = PackOrder.OWN


class QuotaSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Limits for namespaces."""

    namespace_max_share: Annotated[
        Share | None,
        Meta(
            description="Largest share of `maxReplicas` x `podCapacity` that the sources of one namespace may use, "
            "such as `0.25`. With `maxReplicas: null`, the share is of the Pods' capacity or of the total demand, "
            "whichever is larger. `null`: no limit."
        ),
    ] = None


class SourceSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The custom resources that vpod places, and the fields that hold their numbers.

    For Knative's `ConsumerGroup` and `KafkaSource`, set only `kind`. For any other kind, set `group`, `version`,
    `resource`, `vreplicasPath` and `placementsPath` too.
    """

    kind: Annotated[str, Meta(min_length=1, description="Kind of the resource, such as `Report`.")]
    group: Annotated[str, Meta(description="API group of the resource, such as `batch.example.com`.")] = ""
    version: Annotated[str, Meta(description="API version, such as `v1`.")] = ""
    resource: Annotated[str, Meta(description="Plural name in the URL, such as `reports`.")] = ""
    vreplicas_path: Annotated[
        FieldPath | None, Meta(description="Field with the wanted number of vreplicas, such as `spec.parallelism`.")
    ] = None
    default_vreplicas: Annotated[
        Count, Meta(description="Vreplicas of an object in which the field of `vreplicasPath` is absent.")
    ] = 1
    placements_path: Annotated[
        FieldPath | None, Meta(description="Field into which vpod writes the placements, such as `status.placements`.")
    ] = None
    max_vreplicas_path: Annotated[
        FieldPath | None,
        Meta(description="Field with the largest number of vreplicas of the object. `null`: no limit."),
    ] = None
    namespace: Annotated[
        NamespaceName | None, Meta(description="Only objects in this namespace. `null`: all namespaces.")
    ] = None
    label_selector: Annotated[
        str, Meta(description="Only objects that match this selector, such as `team=a,tier!=test`. Empty: all objects.")
    ] = ""
    source_kind: Annotated[
        str | None,
        Meta(
            description="Only ConsumerGroups with this value, in lower case, of the label "
            "`kafka.eventing.knative.dev/metadata.kind`. `null`: the kind that Knative assigns to this StatefulSet."
        ),
    ] = None
    condition_type: Annotated[
        str | None,
        Meta(
            description="Type of the condition that reports whether all vreplicas are placed. `null`: "
            "`ConsumersScheduled` for a ConsumerGroup, else `Scheduled`."
        ),
    ] = None
    workers: Annotated[
        bool,
        Meta(description="Maintain one Consumer for each placement of a ConsumerGroup. No effect for other kinds."),
    ] = True

    def mistakes(self) -> Iterable[Mistake]:
        known = KNOWN_SOURCES.get(self.kind)
        for name, value in _api_address(self).items():
            if not value and known is None:
                yield Mistake(
                    name, "", f"a value if kind is {format_value(self.kind)}", "only Knative's kinds have a default"
                )

    @property
    def condition(self) -> str:
        return self.condition_type or ("ConsumersScheduled" if self.kind == "ConsumerGroup" else "Scheduled")

    def with_defaults(self, statefulset_name: str) -> SourceSettings:
        """Return a copy with all fields filled in that the kind and the StatefulSet imply."""
        known = KNOWN_SOURCES.get(self.kind)
        if known is None:
            return self
        implied = {name: value for name, value in _api_address(known, python=True).items() if value}
        given = {name: value for name, value in _api_address(self, python=True).items() if value}
        source_kind = self.source_kind or KINDS_OF_STATEFULSETS.get(statefulset_name)
        return msgspec.structs.replace(
            self,
            **{**implied, **given},
            max_vreplicas_path=self.max_vreplicas_path or known.max_vreplicas_path,
            source_kind=source_kind if self.kind == "ConsumerGroup" else self.source_kind,
        )


def _api_address(source: SourceSettings, *, python: bool = False) -> dict[str, Any]:
    """Return the API address and the field paths of a source, keyed by the file's names or by Python's names."""
    fields = ("group", "version", "resource", "vreplicas_path", "placements_path")
    written = {} if python else {each.name: each.encode_name for each in msgspec.structs.fields(SourceSettings)}
    return {written.get(name, name): getattr(source, name) for name in fields}


def served_kinds(entries: Iterable[StatefulSetSettings]) -> frozenset[str]:
    """Return the kinds of sources, in lower case, that Knative's StatefulSets run or that these entries name."""
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
    """One StatefulSet, and the sources that vpod places on its Pods."""

    stateful_set_namespace: Annotated[NamespaceName, Meta(description="Namespace of the StatefulSet.")]
    stateful_set_name: Annotated[ObjectName, Meta(description="Name of the StatefulSet.")]
    pod_capacity: Annotated[PositiveCount, Meta(description="Capacity of one Pod, in vreplicas of weight 1.")]
    sources: Annotated[
        tuple[SourceSettings, ...],
        Meta(description="Resources to place. Default: the ConsumerGroups of this StatefulSet."),
    ] = (SourceSettings(kind="ConsumerGroup"),)
    min_replicas: Annotated[
        Count,
        Meta(
            description="Fewest Pods. With `policy: spread`, a source that wants fewer vreplicas gets spare copies up "
            "to this number, one on each Pod. vpod removes them if another source lacks a vreplica that it wants."
        ),
    ] = 0
    max_replicas: Annotated[
        PositiveCount | None,
        Meta(
            description="Most Pods that the autoscaler requests. Existing Pods above this number stay while they hold "
            "vreplicas. `null`: no limit."
        ),
    ] = 100
    max_scale_up_step: Annotated[
        PositiveCount | None,
        Meta(
            description="Most Pods that one step of a scale-up adds. The pause between two steps is 5 s. `null`: no "
            "limit."
        ),
    ] = 10
    policy: Annotated[
        PolicyName,
        Meta(
            description="How vpod chooses Pods. `spread`: one vreplica for each Pod in turn. `pack`: fill the lowest "
            "ordinals. `policy`: use the predicates and priorities in two ConfigMaps."
        ),
    ] = PolicyName.SPREAD
    profile: Annotated[
        Profile,
        Meta(
            description="`safe`: without the known defects of Knative. `reference`: the same answers as Knative, for "
            "comparison."
        ),
    ] = Profile.SAFE
    scheduler_config: Annotated[
        ObjectName | None,
        Meta(
            description="ConfigMap with the predicates and priorities for placing. Read only with `policy: policy`. "
            "`null`: the defaults that Knative shipped."
        ),
    ] = None
    descheduler_config: Annotated[
        ObjectName | None,
        Meta(
            description="ConfigMap with the predicates and priorities for removing. Read only with `policy: policy`. "
            "`null`: the defaults that Knative shipped."
        ),
    ] = None
    refresh_period: Annotated[
        Period, Meta(description="Time between two rounds of the autoscaler if no event starts a round earlier.")
    ] = 100.0
    retry_period: Annotated[
        Duration, Meta(description="Pause after a failed round of the autoscaler. `0` means `1s`.")
    ] = 0.0
    scale_down_stabilization: Annotated[
        Duration, Meta(description="How long fewer Pods must be sufficient before the StatefulSet shrinks.")
    ] = 300.0
    pod_grace: Annotated[
        Duration,
        Meta(
            description="How long vreplicas stay on a Pod that is missing, Pending, terminating, failed or on a lost "
            "node. With `requireReady`, also on a Pod that is not Ready."
        ),
    ] = 60.0
    require_ready: Annotated[
        bool,
        Meta(
            description="Only Ready Pods receive vreplicas. Set `podGrace` to more than the time that your Pods need "
            "to become Ready."
        ),
    ] = False
    drain: Annotated[DrainOptions, Meta(description="How vpod drains Pods before a scale-down.")] = DrainOptions()
    shrink: Annotated[
        Shrink,
        Meta(
            description="Vreplicas that vpod removes first if a source wants fewer. `ordinal`: from the highest "
            "ordinals. `spread`: from the fullest Pods. `auto`: `spread` if `minReplicas` is above 0 and `policy` is "
            "not `pack`, else `ordinal`."
        ),
    ] = Shrink.AUTO
    topology: Annotated[
        Topology,
        Meta(description="Spread each source over zones or nodes first, then over Pods."),
    ] = Topology.NONE
    topology_required: Annotated[
        bool, Meta(description="Report a shortage if a zone or node has no free capacity. `false`: spread unevenly.")
    ] = False
    pack: Annotated[PackSettings, Meta(description="Order in which `policy: pack` fills Pods.")] = PackSettings()
    rescale: Annotated[
        Rescale,
        Meta(
            description="Placements of a source that wants more, with `policy: policy`. `keep`: they stay. `replace`: "
            "vpod places all vreplicas again."
        ),
    ] = Rescale.KEEP
    rebalance: Annotated[RebalanceOptions, Meta(description="Moves that only make sources more even.")] = (
        RebalanceOptions()
    )
    quota: Annotated[QuotaSettings, Meta(description="Limits for namespaces.")] = QuotaSettings()
    fairness: Annotated[
        Fairness,
        Meta(
            description="Order under a shortage. `none`: first come, first served. `maxmin`: equal shares for all "
            "namespaces, each at most its demand."
        ),
    ] = Fairness.NONE
    scale_cache_config: Annotated[
        ScaleCacheSettings, Meta(description="The counterpart of Knative's `ScaleCacheConfig`.")
    ] = ScaleCacheSettings()

    def mistakes(self) -> Iterable[Mistake]:
        if self.max_replicas is not None and self.max_replicas < self.min_replicas:
            yield Mistake("maxReplicas", str(self.max_replicas), f"at least minReplicas, which is {self.min_replicas}")
        if self.topology_required and self.topology is Topology.NONE:
            yield Mistake("topologyRequired", "true", "false if topology is none", "set topology to zone or node")
        if 0 < self.retry_period < SHORTEST_PERIOD:
            yield Mistake("retryPeriod", format_duration(self.retry_period), "0, which means 1s, or at least 0.1s")
        if self.rebalance.enabled and self.policy is PolicyName.PACK:
            yield Mistake(
                "rebalance.enabled",
                "true",
                "false if policy is pack",
                "rebalancing would undo the packing, so set policy to spread for even pods",
            )
        if not self.sources:
            yield Mistake("sources", "[]", "at least one kind", "omit the key for Knative's ConsumerGroups")
        for index, source in enumerate(self.sources):
            if source.kind == "ConsumerGroup" and not (
                source.source_kind or source.label_selector or self.stateful_set_name in KINDS_OF_STATEFULSETS
            ):
                yield Mistake(
                    f"sources[{index}].sourceKind",
                    "",
                    f"the value of the label {KIND_LABEL} of its ConsumerGroups, in lower case",
                    f"only the StatefulSets {', '.join(KINDS_OF_STATEFULSETS)} have a default",
                )

    @property
    def lease_name(self) -> str:
        """Name of the Lease whose holder writes for this StatefulSet; the dots separate namespace and name."""
        return f"vpod.{self.stateful_set_namespace}.{self.stateful_set_name}"

    def options(self) -> Options:
        """Convert this entry to the options that the deciding functions read."""
        return Options(
            **{
                **matching_fields(self, Options),
                "statefulset_namespace": self.stateful_set_namespace,
                "statefulset_name": self.stateful_set_name,
                "capacity": self.pod_capacity,
                "retry_period": self.retry_period or DEFAULT_RETRY_PERIOD,
                "pack_order": self.pack.order,
                "namespace_max_share": self.quota.namespace_max_share,
            }
        )

    def completed_sources(self) -> tuple[SourceSettings, ...]:
        """Return the sources with all fields filled in that their kinds and the StatefulSet's name imply."""
        return tuple(source.with_defaults(self.stateful_set_name) for source in self.sources)


ENVIRONMENT: Mapping[str, str] = {
    "POD_CAPACITY": "vpod[*].podCapacity",
    "DISPATCHERS_MIN_REPLICAS": "vpod[*].minReplicas",
    "AUTOSCALER_REFRESH_PERIOD": "vpod[*].refreshPeriod",
    "SCHEDULER_CONFIG": "vpod[*].schedulerConfig",
    "DESCHEDULER_CONFIG": "vpod[*].deschedulerConfig",
}
"""The environment variables of Knative's controller, and the setting that each one overrides in every entry."""
