"""The `vm:` section of the configuration file: every number that decisions use, with its default and its limits.

`situate.runtime.configuration.file` reads the file. `situate.vm.config.neon_settings` reads the file of upstream's
scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
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
    key_of,
)
from situate.objects.values.durations import format_duration
from situate.objects.values.quantity import parse_quantity

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
    "startup_s",
    "patch_retry_s",
    "call_timeout_s",
    "scoring",
    "node_metric_labels",
    "ignored_namespaces",
)
"""Settings that the file named by `configuration` gives instead of the section."""


@cache
def _parse_size(size: str) -> int:
    return parse_quantity(size).value


class Scoring(msgspec.Struct, frozen=True, kw_only=True, rename=key_of):
    """Scores of nodes (C20): highest at the peak, lower above and below."""

    min_usage_score: Share = 0.5
    max_usage_score: Share = 0.0
    score_peak: Share = 0.8
    randomize: bool = True


class CostWeights(msgspec.Struct, frozen=True, kw_only=True, rename=key_of):
    """Cost of a migration, in seconds (B17)."""

    load: Weight = 2.0
    """For each unit of load1 / vCPUs, as a share of the copying time."""
    downtime: Weight = 50.0
    """For each second of downtime."""
    recent_move: Weight = 60.0
    """For each migration in the last 24 hours."""
    surplus: Weight = 10.0
    """For the amount freed beyond the need, as a share of the node."""
    priority: Annotated[float, msgspec.Meta(gt=0)] = 1e6
    """`slo` = 1 + max(0, priority) / this, at most `highest_slo`."""
    highest_slo: Annotated[float, msgspec.Meta(ge=1)] = 10.0
    expected_downtime_s: Duration = 0.1
    """Downtime of a VM without an observed migration."""
    dirty_rate: ByteSize = "50Mi"
    """Bytes per second, if unknown."""
    most_dirty: PositiveShare = 0.9
    """Share of the bandwidth. At or above it, copying does not converge."""
    post_copy: bool = False
    """Whether post-copy is allowed, so that a VM that does not converge may migrate."""

    @property
    def dirty_bytes_per_s(self) -> int:
        return _parse_size(self.dirty_rate)


class MigrationLimits(msgspec.Struct, frozen=True, kw_only=True, rename=key_of):
    """Limits on the frequency of migrations (B24 to B26)."""

    hysteresis: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.05
    """Relief stops this share of Total below the watermark."""
    cool_down_s: Duration = 600.0
    """Doubled for each migration in 24 hours."""
    longest_cool_down_s: Duration = 6 * 3600.0
    after_failure_s: Duration = 60.0
    """Times 2^k after k earlier failures, for each VM and target."""
    longest_after_failure_s: Duration = 3600.0
    moves_in_cluster: Count = 5
    moves_out_of_node: Count = 2
    moves_into_node: Count = 2
    link: ByteSize = "2Gi"
    """Bandwidth of a node's link, in bytes per second."""
    link_share: PositiveShare = 0.5
    """Share of the link that all migrations of a node may use together."""

    @property
    def bytes_per_s(self) -> int:
        """Bandwidth that all migrations of a node may use together."""
        return int(_parse_size(self.link) * self.link_share)

    def mistakes(self) -> Iterable[Mistake]:
        for longest, first in (("longest_cool_down_s", "cool_down_s"), ("longest_after_failure_s", "after_failure_s")):
            if getattr(self, longest) < getattr(self, first):
                yield Mistake(key_of(longest), format_value(getattr(self, longest)), f"at least {key_of(first)}")


class Deadlines(msgspec.Struct, frozen=True, kw_only=True, rename=key_of):
    """Time limits after which a migration is cancelled (B15) and its claim ends (B7)."""

    unbound_s: PositiveDuration = 30.0
    not_running_s: PositiveDuration = 120.0
    no_progress_s: PositiveDuration = 150.0
    least_total_s: PositiveDuration = 60.0
    total_s_per_gib: PositiveDuration = msgspec.field(default=150.0, name="totalPerGib")
    completion_s: PositiveDuration = 3600.0
    """`completionTimeout` of the migration objects that vm creates."""
    claim_s: Duration = 60.0
    """Time beyond `completion` at which a claim ends in any case."""


class PermitSettings(msgspec.Struct, frozen=True, kw_only=True, rename=key_of):
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
    wait_s: PositiveDuration = 1.0
    """How long a request may wait until the Pod shows the result (C16)."""
    lifetime_s: PositiveDuration = 60.0
    """Time after which an unused increase lapses (B28)."""

    def mistakes(self) -> Iterable[Mistake]:
        if int(self.address.rpartition(":")[2]) > 65535:
            yield Mistake("address", format_value(self.address), "a port of at most 65535")
        if (self.certificate is None) != (self.key is None):
            missing, other = ("certificate", "key") if self.certificate is None else ("key", "certificate")
            yield Mistake(missing, "", "the name of a file", f"set it together with {other}")


class EvictionSettings(msgspec.Struct, frozen=True, kw_only=True, rename=key_of):
    """Webhook for evictions (B48), with certificates of the installation."""

    address: Address = f":{EVICTIONS_PORT}"
    """Address of the leader, read at the start."""
    certificate_life_s: Annotated[float, msgspec.Meta(ge=60, extra={FORM: "duration"})] = CERTIFICATE_LIFE_S
    """Lifetime of each generation of certificates. The next one is created at two thirds of it."""
    timeout_s: Annotated[float, msgspec.Meta(ge=1, le=30, extra={FORM: "duration"})] = 2.0
    """Whole seconds that API servers wait before an eviction continues without an answer. The manifest contains it."""

    def mistakes(self) -> Iterable[Mistake]:
        if int(self.address.rpartition(":")[2]) > 65535:
            yield Mistake("address", format_value(self.address), "a port of at most 65535")
        if self.timeout_s != int(self.timeout_s):
            yield Mistake("timeout", format_duration(self.timeout_s), "whole seconds")


class KubeVirtSettings(msgspec.Struct, frozen=True, kw_only=True, rename=key_of):
    """Migration by KubeVirt (B49), with `system: kubevirt`."""

    pin_target: bool = True
    """Whether a migration names its node in `addedNodeSelector` too, by the label kubernetes.io/hostname.

    It needs a KubeVirt with that field. The scheduler offers the target Pod no other node in any case.
    """


class VmSettings(msgspec.Struct, frozen=True, kw_only=True, rename=key_of):
    """The whole `vm:` section."""

    configuration: FileName | None = None
    """The configuration file of neondatabase/autoscaling's scheduler plugin, in the same folder. null: none; its
    settings are in this section."""
    system: Literal["neonvm", "kubevirt"] = "neonvm"
    """System that runs and migrates the VMs: VirtualMachines of NeonVM, or VirtualMachineInstances of KubeVirt."""
    kubevirt: KubeVirtSettings = KubeVirtSettings()
    scheduler_name: ObjectName = "situate-vm"
    compat: bool = False
    """Exact behaviour of neondatabase/autoscaling's scheduler: no claims, no joint grants, oldest VM first."""
    grow_pod: Literal["auto", "never"] = "auto"
    """Whether runner Pods request the amounts that are granted to their VMs (B47). Never with `compat`."""
    resize_with_restart: bool = False
    """Whether to resize containers of plain Pods that restart for it by their resizePolicy (B36)."""
    watermark: PositiveShare = 0.9
    """Share of a node's allocatable. Above it, VMs leave the node."""
    watermarks: dict[str, PositiveShare] = {}
    """Watermarks of single nodes, by name."""
    class_watermarks: dict[str, PositiveShare] = {}
    """Watermarks by the value of `classLabel`."""
    class_label: str = "node.kubernetes.io/instance-type"
    further_resources: tuple[Annotated[str, msgspec.Meta(min_length=1)], ...] = msgspec.field(
        default=(), name="resources"
    )
    """Further accounted resources besides CPU and memory (B45)."""
    ignored_namespaces: tuple[str, ...] = ()
    """Namespaces whose Pods cause no pressure (C28)."""
    targets_first: bool = False
    """Whether target Pods of migrations are scheduled before other Pods of their priority (N16)."""
    node_metric_labels: dict[str, str] = {}
    """Labels on metrics of nodes, by name, and the labels of the nodes that give the values."""
    scoring: Scoring = Scoring()
    costs: CostWeights = CostWeights()
    calm: MigrationLimits = MigrationLimits()
    deadlines: Deadlines = Deadlines()
    permits: PermitSettings = PermitSettings()
    evictions: EvictionSettings | None = EvictionSettings()
    """Evictions of VMs' Pods become migrations, if the webhook of the manifests is installed. null: evict Pods of VMs
    like others. `compat` and KubeVirt imply null; KubeVirt handles its own evictions."""
    demand_after_s: Duration = 5.0
    """How long a VM is short before other VMs are migrated for it (B16)."""
    overtakes: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 3
    """How often a waiter may be overtaken before capacity is reserved for it (B31)."""
    retry_s: PositiveDuration = 5.0
    """Pause before an unmet request is evaluated again (C26)."""
    patch_retry_s: PositiveDuration = 1.0
    startup_s: PositiveDuration = 15.0
    """Time limit for processing the initial lists (C30)."""
    workers: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 16
    """Number of concurrent writes."""
    call_timeout_s: PositiveDuration = 1.0
    """Time limit of one write."""
    max_bandwidth: ByteSize = "1Gi"
    """Bandwidth of one migration, in bytes per second."""
    cancel_copying: bool = True
    """Whether a migration without a beneficiary is cancelled while copying (B22)."""
    cancel_remaining: Share = 0.5
    """Least remaining share of memory for a cancellation while copying (B22)."""
    evict: bool = False
    """Whether Pods of lower priority may be evicted if no migration helps (B19)."""
    chain_depth: Annotated[int, msgspec.Meta(ge=1, le=2)] = 2
    """Longest chain of migrations, in which one frees capacity for the next."""
    consolidate: bool = False
    """Whether thinly used nodes are emptied (B46)."""
    consolidate_below: Share = 0.3
    """Share of Total below which a node counts as thinly used."""
    lease_name: ObjectName = "vm"
    """The Lease whose holder decides."""

    def mistakes(self) -> Iterable[Mistake]:
        if self.configuration is not None:
            yield from self._duplicate_settings()
        seen = {"cpu", "memory"}
        for number, name in enumerate(self.further_resources):
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

    @property
    def max_bytes_per_s(self) -> int:
        return _parse_size(self.max_bandwidth)

    @property
    def grows_pods(self) -> bool:
        """Whether a grant also resizes the runner Pod, if the server can and the QoS class stays."""
        return self.grow_pod == "auto" and not self.compat


_DEFAULTS: Final = VmSettings()
