"""State of an agent about one VM and its requests. `situate.vm.agent.decide.core` makes the decisions.

Every ongoing request has a number, and its outcome counts only while that number is ongoing. So an answer has no effect
after its connection or its run has ended. Times are milliseconds since the epoch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from situate.vm.agent.decide.goal import CacheMetrics, SystemMetrics
from situate.vm.agent.decide.scaling import DEFAULT_SCALING, Scaling
from situate.vm.agent.model.revisions import NO_REVISION, Revision, RevisionAt, Revisions
from situate.vm.model.resource_amounts import Amounts


@dataclass(frozen=True, slots=True)
class Config:
    """Waiting times and units of an agent."""

    unit: Amounts
    """Compute unit: neither of its resources is zero."""
    scaling: Scaling = DEFAULT_SCALING
    """For VMs without settings of their own."""
    plugin_tick_ms: int = 15_000
    """Longest time between two requests to the scheduler."""
    plugin_retry_ms: int = 3_000
    plugin_denied_retry_ms: int = 2_000
    vm_retry_ms: int = 5_000
    monitor_retry_ms: int = 3_000
    denied_downscale_ms: int = 5_000
    requested_upscale_ms: int = 10_000
    compat: bool = False
    """As upstream: the VM has the size of the last patch (D23), and a decrease counts at its answer (D24). A VM in
    PreMigrating is still scaled (D13)."""


@dataclass(frozen=True, slots=True)
class Guest:
    """The sizes of a VirtualMachine."""

    minimum: Amounts
    use: Amounts
    """The use in its spec."""
    maximum: Amounts
    slot: int
    """Bytes of a memory slot."""
    scaling: Scaling | None = None
    """Settings of the VM; None: those of the agent."""
    current_revision: RevisionAt | None = None
    """The revision in its status, only if it is new."""
    grown: Amounts | None = None
    """The size in its status; None: not there yet."""
    frozen: bool = False
    """The VM is about to be migrated, so it must not change (D13)."""
    generation: int = 0
    """Generation of its spec; 0: unknown."""
    approved: Amounts | None = None
    """The approved amount that the scheduler has written; None: absent or unreadable."""

    @property
    def slots(self) -> int:
        return self.use.memory // self.slot


@dataclass(frozen=True, slots=True)
class OngoingRequest:
    """An ongoing request."""

    number: int
    resources: Amounts


@dataclass(frozen=True, slots=True)
class PluginRequest:
    """The last request to the scheduler."""

    at_ms: int
    resources: Amounts


@dataclass(frozen=True, slots=True)
class PluginState:
    """State of the exchange with the scheduler."""

    ongoing: OngoingRequest | None = None
    last: PluginRequest | None = None
    """The last request started, possibly still ongoing."""
    failed_at_ms: int | None = None
    permit: Amounts | None = None
    """None: no scheduler has answered yet."""
    knew_approved: Amounts | None = None
    """The approved amount in writing at the last request. A different one is a reason to ask at once (D16)."""
    again_at_ms: int | None = None
    """Time after a denial at which the scheduler wants the next request; None: it gave none (B28)."""
    still_until_ms: int | None = None
    """Time before which nothing changes, because the scheduler announced a migration (D13)."""
    revision: Revision = NO_REVISION
    """The newest revision that it answered."""


class MonitorRequest(Enum):
    UPSCALE = "upscale"
    DOWNSCALE = "downscale"


@dataclass(frozen=True, slots=True)
class OngoingMonitorRequest:
    number: int
    kind: MonitorRequest
    resources: Amounts


@dataclass(frozen=True, slots=True)
class UpscaleWanted:
    """The guest needs more than `base` of the named resources."""

    at_ms: int
    base: Amounts
    cpu: bool
    memory: bool


@dataclass(frozen=True, slots=True)
class DownscaleDenied:
    at_ms: int
    current: Amounts
    """The approved amount at that time."""
    resources: Amounts
    """The refused amount."""


@dataclass(frozen=True, slots=True)
class MonitorState:
    """State of the exchange with the guest's monitor. Each connection starts a new one."""

    approved: Amounts | None = None
    """The amount that the monitor last agreed to or was notified of; None: no connection."""
    ongoing: OngoingMonitorRequest | None = None
    wanted: UpscaleWanted | None = None
    denied: DownscaleDenied | None = None
    upscale_failed_at_ms: int | None = None
    downscale_failed_at_ms: int | None = None
    revision: Revision = NO_REVISION


@dataclass(frozen=True, slots=True)
class VmState:
    """State of the writes to the VirtualMachine."""

    ongoing: OngoingRequest | None = None
    failed_at_ms: int | None = None
    unclear: Amounts | None = None
    """A write of unknown outcome. It counts as used until the object has been read."""
    generation: int = 0
    """The newest generation that was seen, or that the agent's own write made."""
    target: RevisionAt = field(default_factory=RevisionAt)
    """Sent with the last write."""
    revision: Revision = NO_REVISION


@dataclass(frozen=True, slots=True)
class AgentState:
    """State about one VM."""

    config: Config
    guest: Guest
    plugin: PluginState = PluginState()
    monitor: MonitorState = MonitorState()
    vm: VmState = VmState()
    system: SystemMetrics | None = None
    cache: CacheMetrics | None = None
    target_revision: Revision = NO_REVISION
    """Revision of the current desired size."""
    last_desired: Amounts | None = None
    """Desired size at the last check; None: compare with the use."""
    revisions: Revisions = field(default_factory=Revisions)
    number: int = 0
    """Number of the last request of any kind."""

    @property
    def scaling(self) -> Scaling:
        return self.guest.scaling or self.config.scaling

    @property
    def possible_use(self) -> Amounts:
        """The largest amount that the VM may use: spec, status (D23), and a write of unknown outcome."""
        held = self.guest.use
        if self.config.compat:
            return held
        if self.guest.grown is not None:
            held = held.maximum(self.guest.grown)
        return held if self.vm.unclear is None else held.maximum(self.vm.unclear)

    @property
    def certain_use(self) -> Amounts:
        """The amount that the guest has for certain: the smaller of spec and status (D23)."""
        if self.config.compat or self.guest.grown is None:
            return self.guest.use
        return self.guest.use.minimum(self.guest.grown)
