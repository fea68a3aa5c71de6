"""What an agent holds about one machine and those whom it asks about it. Deciding is `situate.vm.agent.decide.core`.

Every request that is under way has a number; its outcome counts only while that number is still under way, so an answer
that comes after its connection, or its run, has ended changes nothing. Times are milliseconds of the epoch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from situate.vm.agent.decide.goal import CacheMetrics, SystemMetrics
from situate.vm.agent.decide.scaling import SHIPPED, Scaling
from situate.vm.agent.model.revisions import NO_REVISION, Revision, RevisionAt, Revisions
from situate.vm.model.resource_amounts import Amounts


@dataclass(frozen=True, slots=True)
class Config:
    """How patient an agent is, and what it counts in."""

    unit: Amounts
    """Compute unit: neither of its resources is zero."""
    scaling: Scaling = SHIPPED
    """For machines that say nothing of their own."""
    plugin_tick_ms: int = 15_000
    """The scheduler hears of us at least so often."""
    plugin_retry_ms: int = 3_000
    plugin_denied_retry_ms: int = 2_000
    vm_retry_ms: int = 5_000
    monitor_retry_ms: int = 3_000
    denied_downscale_ms: int = 5_000
    requested_upscale_ms: int = 10_000
    compat: bool = False
    """As the reference: the machine's size is what was patched last (D23), a decrease counts when it is answered
    (D24), and a machine in PreMigrating is still scaled (D13)."""


@dataclass(frozen=True, slots=True)
class Guest:
    """A VirtualMachine, as far as its size goes."""

    minimum: Amounts
    use: Amounts
    """What its spec says."""
    maximum: Amounts
    slot: int
    """Bytes of a memory slot."""
    scaling: Scaling | None = None
    """Its own settings; None: the agent's."""
    current_revision: RevisionAt | None = None
    """What its status has reached, only if that is news."""
    grown: Amounts | None = None
    """What its status says that it has; None: nothing yet."""
    frozen: bool = False
    """It is about to be moved: nothing about it may change (D13)."""
    generation: int = 0
    """Of its spec; 0: not known."""
    approved: Amounts | None = None
    """What the scheduler has written that it may have; None: nothing, or nothing that can be read."""

    @property
    def slots(self) -> int:
        return self.use.memory // self.slot


@dataclass(frozen=True, slots=True)
class Ongoing:
    """A request under way."""

    number: int
    resources: Amounts


@dataclass(frozen=True, slots=True)
class Asked:
    """The scheduler, last."""

    at_ms: int
    resources: Amounts


@dataclass(frozen=True, slots=True)
class PluginState:
    """Of the talk with the scheduler."""

    ongoing: Ongoing | None = None
    last: Asked | None = None
    """Started last, maybe still under way."""
    failed_at_ms: int | None = None
    permit: Amounts | None = None
    """None: no scheduler has answered yet."""
    knew_approved: Amounts | None = None
    """What was written as approved when it was asked last: something else is a reason to ask at once (D16)."""
    again_at_ms: int | None = None
    """After a denial: when the scheduler wants to be asked again; None: it did not say (B28)."""
    still_until_ms: int | None = None
    """It said that the machine is about to be moved: nothing changes before that (D13)."""
    revision: Revision = NO_REVISION
    """The newest one that it answered."""


class MonitorRequest(Enum):
    UPSCALE = "upscale"
    DOWNSCALE = "downscale"


@dataclass(frozen=True, slots=True)
class MonitorOngoing:
    number: int
    kind: MonitorRequest
    resources: Amounts


@dataclass(frozen=True, slots=True)
class UpscaleWanted:
    """The guest needs more than `base` of the resources named."""

    at_ms: int
    base: Amounts
    cpu: bool
    memory: bool


@dataclass(frozen=True, slots=True)
class DownscaleDenied:
    at_ms: int
    current: Amounts
    """Approved at that time."""
    resources: Amounts
    """What was refused."""


@dataclass(frozen=True, slots=True)
class MonitorState:
    """Of the talk with the guest's monitor; a new one for each connection."""

    approved: Amounts | None = None
    """What the monitor last agreed to, or was told; None: no connection."""
    ongoing: MonitorOngoing | None = None
    wanted: UpscaleWanted | None = None
    denied: DownscaleDenied | None = None
    upscale_failed_at_ms: int | None = None
    downscale_failed_at_ms: int | None = None
    revision: Revision = NO_REVISION


@dataclass(frozen=True, slots=True)
class VmState:
    """Of the writes to the VirtualMachine."""

    ongoing: Ongoing | None = None
    failed_at_ms: int | None = None
    unclear: Amounts | None = None
    """Nobody knows whether this was written: it counts as used until the object has been read."""
    generation: int = 0
    """The newest that was seen, or that a write of ours made."""
    target: RevisionAt = field(default_factory=RevisionAt)
    """Sent with the last write."""
    revision: Revision = NO_REVISION


@dataclass(frozen=True, slots=True)
class State:
    """Of one machine."""

    config: Config
    guest: Guest
    plugin: PluginState = PluginState()
    monitor: MonitorState = MonitorState()
    vm: VmState = VmState()
    system: SystemMetrics | None = None
    cache: CacheMetrics | None = None
    target_revision: Revision = NO_REVISION
    """Of what is wanted now."""
    last_desired: Amounts | None = None
    """What was wanted when it was last looked at; None: compare with what is used."""
    revisions: Revisions = field(default_factory=Revisions)
    number: int = 0
    """Of the request that was started last, of any kind."""

    @property
    def scaling(self) -> Scaling:
        return self.guest.scaling or self.config.scaling

    @property
    def held(self) -> Amounts:
        """What the machine may be using: the larger of spec and status (D23), and a write of unknown outcome."""
        held = self.guest.use
        if self.config.compat:
            return held
        if self.guest.grown is not None:
            held = held.most(self.guest.grown)
        return held if self.vm.unclear is None else held.most(self.vm.unclear)

    @property
    def effective(self) -> Amounts:
        """What the guest has for certain: the smaller of spec and status (D23)."""
        if self.config.compat or self.guest.grown is None:
            return self.guest.use
        return self.guest.use.least(self.guest.grown)
