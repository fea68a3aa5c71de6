"""The `vm:` section of the configuration file: every number that decisions use, with the defaults of `rules`.

`situate.runtime.configuration.file` reads the file. `situate.vm.config.neon_settings` reads the file of upstream's
scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType
from typing import Annotated, Final, Literal

import msgspec

from situate.objects.settings.section import (
    ALLOWED,
    FORM,
    Duration,
    Mistake,
    ObjectName,
    PositiveDuration,
    format_value,
)
from situate.objects.values.durations import format_duration
from situate.objects.values.quantity import parse_quantity
from situate.vm.model.policy import CostWeights, Deadlines, MigrationLimits, Rules, Scoring
from situate.vm.model.resource_amounts import RESOURCES

PORT: Final = 10299
"""Port for the requests of agents."""
EVICTIONS_PORT: Final = 10298
"""Port for the eviction reviews of API servers (B48)."""
CERTIFICATE_LIFE_S: Final = 90 * 24 * 3600.0
"""Lifetime of a generation of certificates. The next one is in use long before its end."""

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
PositiveShare = Annotated[float, msgspec.Meta(gt=0, le=1)]
Weight = Annotated[float, msgspec.Meta(ge=0)]
Count = Annotated[int, msgspec.Meta(ge=1, le=10_000)]
ByteSize = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[0-9]*[1-9][0-9]*([KMGT]i|[kMGT])?$", extra={ALLOWED: 'a number of bytes above 0, such as "1Gi"'}
    ),
]
Address = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]*):([0-9]{1,5})$",
        extra={ALLOWED: f'host:port, such as ":{PORT}" for all addresses'},
    ),
]
AccountName = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-.a-z0-9]*[a-z0-9])?$",
        max_length=317,
        extra={ALLOWED: 'NAMESPACE/NAME of a service account, such as "situate/situate-vm-agent"'},
    ),
]
FileName = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[A-Za-z0-9][-._A-Za-z0-9]*$", extra={ALLOWED: "the name of a file in the folder of this one"}
    ),
]
FILE_SETTINGS: Final = (
    "scheduler_name",
    "watermark",
    "workers",
    "startup",
    "patch_retry",
    "call_timeout",
    "scoring",
    "node_metric_labels",
    "ignored_namespaces",
)
"""Settings that the file named by `configuration` gives instead of the section."""
_SCORING, _WEIGHTS, _CALM, _DEADLINES, _RULES = Scoring(), CostWeights(), MigrationLimits(), Deadlines(), Rules()


class ScoringSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Scores of nodes (C20): highest at the peak, lower above and below."""

    min_usage_score: Share = _SCORING.min_usage_score
    max_usage_score: Share = _SCORING.max_usage_score
    score_peak: Share = _SCORING.score_peak
    randomize: bool = _SCORING.randomize

    def rules(self) -> Scoring:
        return Scoring(self.min_usage_score, self.max_usage_score, self.score_peak, self.randomize)


class CostSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Cost of a migration, in seconds (B17)."""

    load: Weight = _WEIGHTS.load
    downtime: Weight = _WEIGHTS.downtime
    recent_move: Weight = _WEIGHTS.recent_move
    surplus: Weight = _WEIGHTS.surplus
    priority: Annotated[float, msgspec.Meta(gt=0)] = _WEIGHTS.priority
    highest_slo: Annotated[float, msgspec.Meta(ge=1)] = _WEIGHTS.highest_slo
    expected_downtime: Duration = _WEIGHTS.downtime_s
    """Downtime of a VM without an observed migration."""
    dirty_rate: ByteSize = "50Mi"
    """Bytes per second, if unknown."""
    most_dirty: PositiveShare = _WEIGHTS.most_dirty
    post_copy: bool = _WEIGHTS.post_copy

    def rules(self) -> CostWeights:
        return CostWeights(
            load=self.load,
            downtime=self.downtime,
            recent_move=self.recent_move,
            surplus=self.surplus,
            priority=self.priority,
            highest_slo=self.highest_slo,
            downtime_s=self.expected_downtime,
            dirty_rate=float(_size(self.dirty_rate)),
            most_dirty=self.most_dirty,
            post_copy=self.post_copy,
        )


class MigrationLimitSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Limits on the frequency of migrations (B24 to B26)."""

    hysteresis: Annotated[float, msgspec.Meta(ge=0, lt=1)] = _CALM.hysteresis
    cool_down: Duration = _CALM.cool_down_s
    longest_cool_down: Duration = _CALM.most_cool_down_s
    after_failure: Duration = _CALM.after_failure_s
    longest_after_failure: Duration = _CALM.most_after_failure_s
    moves_in_cluster: Count = _CALM.moves_in_cluster
    moves_out_of_node: Count = _CALM.moves_out_of_node
    moves_into_node: Count = _CALM.moves_into_node
    link: ByteSize = "2Gi"
    """Bandwidth of a node's link, in bytes per second."""
    link_share: PositiveShare = _CALM.link_share

    def mistakes(self) -> Iterable[Mistake]:
        for longest, first in (("longest_cool_down", "cool_down"), ("longest_after_failure", "after_failure")):
            if getattr(self, longest) < getattr(self, first):
                words = {"cool_down": "coolDown", "after_failure": "afterFailure"}
                path = {"cool_down": "longestCoolDown", "after_failure": "longestAfterFailure"}[first]
                yield Mistake(path, format_value(getattr(self, longest)), f"at least {words[first]}")

    def rules(self) -> MigrationLimits:
        return MigrationLimits(
            hysteresis=self.hysteresis,
            cool_down_s=self.cool_down,
            most_cool_down_s=self.longest_cool_down,
            after_failure_s=self.after_failure,
            most_after_failure_s=self.longest_after_failure,
            moves_in_cluster=self.moves_in_cluster,
            moves_out_of_node=self.moves_out_of_node,
            moves_into_node=self.moves_into_node,
            link=_size(self.link),
            link_share=self.link_share,
        )


class DeadlineSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Time limits after which a migration is cancelled (B15) and its claim ends (B7)."""

    unbound: PositiveDuration = _DEADLINES.unbound_s
    not_running: PositiveDuration = _DEADLINES.not_running_s
    no_progress: PositiveDuration = _DEADLINES.no_progress_s
    least_total: PositiveDuration = _DEADLINES.total_least_s
    total_per_gib: PositiveDuration = _DEADLINES.total_s_per_gib
    completion: PositiveDuration = _DEADLINES.completion_s
    claim: Duration = _DEADLINES.claim_s
    """Time beyond `completion`."""

    def rules(self) -> Deadlines:
        return Deadlines(
            unbound_s=self.unbound,
            not_running_s=self.not_running,
            no_progress_s=self.no_progress,
            total_least_s=self.least_total,
            total_s_per_gib=self.total_per_gib,
            completion_s=self.completion,
            claim_s=self.claim,
        )


class PermitSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Port where agents and Pods ask for capacity (B44)."""

    address: Address = f":{PORT}"
    certificate: str | None = None
    """File with the certificate chain, in PEM. null: plain HTTP with `compat`, else the installation's own
    certificate."""
    key: str | None = None
    """File with its private key."""
    callers: Literal["token", "node", "any"] | None = None
    """Accepted callers. token: with the token of a service account. With `compat` also node: requests from the Pod's
    own node need no token. any: all callers, as upstream does. null: token, and with `compat` node."""
    agent_accounts: tuple[AccountName, ...] | None = None
    """Service accounts of agents: only their tokens give permits. null: `situate-vm-agent` in the namespace of this
    process, as `situate manifests vm-agent` prints it."""
    agent_node: Literal["same", "any"] = "same"
    """Allowed node of the Pod that a token is bound to. same: the VM's node. any: any node, and the token may be bound
    to no Pod, for a single agent of all nodes."""
    wait: PositiveDuration = 1.0
    """How long a request may wait until the Pod shows the result (C16)."""
    lifetime: PositiveDuration = _RULES.permit_s
    """Time after which an unused increase lapses (B28)."""

    def mistakes(self) -> Iterable[Mistake]:
        if int(self.address.rpartition(":")[2]) > 65535:
            yield Mistake("address", format_value(self.address), "a port of at most 65535")
        if (self.certificate is None) != (self.key is None):
            missing, other = ("certificate", "key") if self.certificate is None else ("key", "certificate")
            yield Mistake(missing, "", "the name of a file", f"set it together with {other}")


class EvictionSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Webhook for evictions (B48), with certificates of the installation."""

    address: Address = f":{EVICTIONS_PORT}"
    """Address of the leader, read at the start."""
    certificate_life: Annotated[float, msgspec.Meta(ge=60, extra={FORM: "duration"})] = CERTIFICATE_LIFE_S
    """Lifetime of each generation of certificates. The next one is created at two thirds of it."""
    timeout: Annotated[float, msgspec.Meta(ge=1, le=30, extra={FORM: "duration"})] = 2.0
    """Whole seconds that API servers wait before an eviction continues without an answer. The manifest contains it."""

    def mistakes(self) -> Iterable[Mistake]:
        if int(self.address.rpartition(":")[2]) > 65535:
            yield Mistake("address", format_value(self.address), "a port of at most 65535")
        if self.timeout != int(self.timeout):
            yield Mistake("timeout", format_duration(self.timeout), "whole seconds")


class KubeVirtSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Migration by KubeVirt (B49), with `system: kubevirt`."""

    pin_target: bool = True
    """Whether a migration names its node in `addedNodeSelector` too, by the label kubernetes.io/hostname.

    It needs a KubeVirt with that field. The scheduler offers the target Pod no other node in any case.
    """


class VmSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The whole `vm:` section."""

    configuration: FileName | None = None
    """The configuration file of neondatabase/autoscaling's scheduler plugin, in the same folder. null: none; its
    settings are in this section."""
    system: Literal["neonvm", "kubevirt"] = "neonvm"
    """System that runs and migrates the VMs: VirtualMachines of NeonVM, or VirtualMachineInstances of KubeVirt."""
    kubevirt: KubeVirtSettings = KubeVirtSettings()
    scheduler_name: ObjectName = _RULES.scheduler_name
    compat: bool = _RULES.compat
    """Exact behaviour of neondatabase/autoscaling's scheduler."""
    grow_pod: Literal["auto", "never"] = "auto"
    """Whether runner Pods request the amounts that are granted to their VMs (B47). Never with `compat`."""
    resize_with_restart: bool = _RULES.resize_with_restart
    """Whether to resize containers of plain Pods that restart for it by their resizePolicy (B36)."""
    watermark: PositiveShare = _RULES.watermark
    """Share of a node's allocatable. Above it, VMs leave the node."""
    watermarks: dict[str, PositiveShare] = {}
    """Watermarks of single nodes, by name."""
    class_watermarks: dict[str, PositiveShare] = {}
    """Watermarks by the value of `classLabel`."""
    class_label: str = _RULES.class_label
    resources: tuple[Annotated[str, msgspec.Meta(min_length=1)], ...] = ()
    """Further accounted resources besides CPU and memory (B45)."""
    ignored_namespaces: tuple[str, ...] = ()
    """Namespaces whose Pods cause no pressure (C28)."""
    targets_first: bool = _RULES.targets_first
    """Whether target Pods of migrations are scheduled before other Pods of their priority (N16)."""
    node_metric_labels: dict[str, str] = {}
    """Labels on metrics of nodes, by name, and the labels of the nodes that give the values."""
    scoring: ScoringSettings = ScoringSettings()
    costs: CostSettings = CostSettings()
    calm: MigrationLimitSettings = MigrationLimitSettings()
    deadlines: DeadlineSettings = DeadlineSettings()
    permits: PermitSettings = PermitSettings()
    evictions: EvictionSettings | None = EvictionSettings()
    """Evictions of VMs' Pods become migrations, if the webhook of the manifests is installed. null: evict Pods of VMs
    like others. `compat` and KubeVirt imply null; KubeVirt handles its own evictions."""
    demand_after: Duration = _RULES.demand_after_s
    """How long a VM is short before other VMs are migrated for it (B16)."""
    overtakes: Annotated[int, msgspec.Meta(ge=1, le=1000)] = _RULES.overtakes
    retry: PositiveDuration = _RULES.retry_s
    patch_retry: PositiveDuration = _RULES.patch_retry_s
    startup: PositiveDuration = 15.0
    """Time limit for processing the initial lists (C30)."""
    workers: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 16
    """Number of concurrent writes."""
    call_timeout: PositiveDuration = 1.0
    """Time limit of one write."""
    max_bandwidth: ByteSize = "1Gi"
    """Bandwidth of one migration, in bytes per second."""
    cancel_copying: bool = _RULES.cancel_copying
    cancel_remaining: Share = _RULES.cancel_remaining
    evict: bool = _RULES.evict
    """Whether Pods of lower priority may be evicted if no migration helps (B19)."""
    chain_depth: Annotated[int, msgspec.Meta(ge=1, le=2)] = _RULES.chain_depth
    """Longest chain of migrations, in which one frees capacity for the next."""
    consolidate: bool = _RULES.consolidate
    consolidate_below: Share = _RULES.consolidate_below
    lease_name: ObjectName = "vm"
    """The Lease whose holder decides."""

    def mistakes(self) -> Iterable[Mistake]:
        if self.configuration is not None:
            yield from self._duplicate_settings()
        seen: set[str] = set(RESOURCES)
        for number, name in enumerate(self.resources):
            if name in seen:
                yield Mistake(
                    f"resources[{number}]", format_value(name), "each resource once; cpu and memory are always included"
                )
            seen.add(name)
        if self.compat and self.system != "neonvm":
            yield Mistake("system", format_value(self.system), "neonvm", "compat: true supports only NeonVM")
        if self.permits.callers not in (None, "token") and not self.compat:
            yield Mistake(
                "permits.callers", format_value(self.permits.callers), "token", "the other values need compat: true"
            )

    def _duplicate_settings(self) -> Iterable[Mistake]:
        for field in msgspec.structs.fields(self):
            given = getattr(self, field.name)
            if field.name in FILE_SETTINGS and given != getattr(_DEFAULTS, field.name):
                allowed = "no value, because the file in configuration contains it"
                yield Mistake(field.encode_name, format_value(msgspec.to_builtins(given)), allowed)

    @property
    def eviction_settings(self) -> EvictionSettings | None:
        """Settings of the webhook; None: vm does not handle evictions."""
        return None if self.compat or self.system != "neonvm" else self.evictions

    @property
    def issues_certificate(self) -> bool:
        """Whether the permit port uses the installation's own certificate."""
        return not self.compat and self.permits.certificate is None

    @property
    def keeps_certificates(self) -> bool:
        """Whether the installation has certificates of its own."""
        return self.issues_certificate or self.eviction_settings is not None

    def rules(self) -> Rules:
        """Return the rules of all decisions."""
        return Rules(
            scheduler_name=self.scheduler_name,
            compat=self.compat,
            grow_pod=self.grow_pod == "auto" and not self.compat,
            resize_with_restart=self.resize_with_restart,
            watermark=self.watermark,
            watermarks=MappingProxyType(self.watermarks),
            class_watermarks=MappingProxyType(self.class_watermarks),
            class_label=self.class_label,
            resources=(*RESOURCES, *self.resources),
            ignored_namespaces=frozenset(self.ignored_namespaces),
            targets_first=self.targets_first,
            scoring=self.scoring.rules(),
            weights=self.costs.rules(),
            calm=self.calm.rules(),
            deadlines=self.deadlines.rules(),
            demand_after_s=self.demand_after,
            permit_s=self.permits.lifetime,
            overtakes=self.overtakes,
            retry_s=self.retry,
            patch_retry_s=self.patch_retry,
            max_bandwidth=_size(self.max_bandwidth),
            cancel_copying=self.cancel_copying,
            cancel_remaining=self.cancel_remaining,
            evict=self.evict,
            chain_depth=self.chain_depth,
            consolidate=self.consolidate,
            consolidate_below=self.consolidate_below,
        )


_DEFAULTS: Final = VmSettings()


def _size(text: str) -> int:
    return parse_quantity(text).value
