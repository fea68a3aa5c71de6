"""Model of a hypervisor: it copies the memory of a running VM, with all failures that may occur.

The model is a function of the time since the start, so it has no state to lose. It copies memory at the bandwidth, and
the guest writes to copied memory at its dirty rate. The remaining memory shrinks by the difference. With `autoConverge`
the guest is slowed down to a dirty rate of at most 0.9 of the bandwidth (the same limit as in B17). Without it, a guest
that is faster than the link never finishes, unless `allowPostCopy` lets it run at the target after one pass.

The VM's annotation `vm.situate.dev/hypervisor` sets the behaviour. It is a JSON mapping, and every field is optional:

    {"usedMemory": "2Gi", "dirtyRate": "50Mi", "bandwidth": "500Mi", "setupMs": 100, "downtimeMs": 39,
     "stallAtPercent": 40, "failAtPercent": 99, "refuseStart": "no route to host", "scaleMs": 500}

`stallAtPercent`: copying stops at this share until the field is removed. `failAtPercent`: the migration fails at this
share. The annotation is read at every reconciliation, so a test can stop a migration, check the state, and let it
continue.

The model has no network: an unreachable node breaks a migration only once its Pod is seen to end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from situate.objects.values.quantity import BadQuantity, Quantity, decode_quantity
from situate.vm.api.parse_errors import ParseError, ParseFailure, Part, Place
from situate.vm.api.well_known import PREFIX

HYPERVISOR: Final = f"{PREFIX}/hypervisor"
"""On a VM: the behaviour of its hypervisor."""
COPYING_SINCE: Final = f"{PREFIX}/copying-since"
"""On a migration: the time at which its hypervisor began to copy, RFC 3339."""
COPIED_CPUS: Final = f"{PREFIX}/copied-cpus"
"""On a migration: the CPUs that were plugged into its target before the start (QmpScaling)."""
MAX_DIRTY_SHARE: Final = 0.9
"""Share of the bandwidth to which a guest is slowed down."""
DOWNTIME_MS: Final = 39
"""Of an idle VM of 2 GiB, as measured upstream (2025-09)."""
_MEMBERS: Final = (
    "usedMemory",
    "dirtyRate",
    "bandwidth",
    "setupMs",
    "downtimeMs",
    "stallAtPercent",
    "failAtPercent",
    "refuseStart",
    "scaleMs",
)
_GIB: Final = 2**30
_MAX_MS: Final = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class Behaviour:
    """Behaviour of one VM's hypervisor. Units are bytes and bytes per second."""

    used: int | None = None
    """Memory in use; None: all memory of the VM."""
    dirty_rate: int = 0
    bandwidth: int | None = None
    """Bandwidth of the link; None: the limit of the migration."""
    setup_s: float = 0.0
    downtime_s: float = DOWNTIME_MS / 1000
    stall_at: float | None = None
    fail_at: float | None = None
    """Shares of the memory to copy."""
    refuse: str = ""
    """Reason to refuse the start; empty: do not refuse."""
    scale_s: float | None = None
    """Time for a change of size; None: the emulator's setting."""


def read_behaviour(text: str | None, about: str) -> Behaviour | ParseError:
    """Parse the annotation. `about` is the VM, for the error."""
    if text is None:
        return Behaviour()
    try:
        part = Part.parse_json(text, Place.annotation(about, HYPERVISOR))
        part.check_known_keys(*_MEMBERS)
        return Behaviour(
            used=_units(part["usedMemory"]),
            dirty_rate=_units(part["dirtyRate"]) or 0,
            bandwidth=_units(part["bandwidth"], least=1),
            setup_s=_seconds(part["setupMs"], 0.0),
            downtime_s=_seconds(part["downtimeMs"], DOWNTIME_MS / 1000),
            stall_at=_share(part["stallAtPercent"]),
            fail_at=_share(part["failAtPercent"]),
            refuse=part["refuseStart"].text(default=""),
            scale_s=_seconds(part["scaleMs"], 0.0) if part["scaleMs"].is_present else None,
        )
    except ParseFailure as problem:
        return problem.error


@dataclass(frozen=True, slots=True)
class Terms:
    """Conditions of a migration, from its spec."""

    memory: int
    """Memory of the VM, in bytes."""
    max_bandwidth: int = _GIB
    auto_converge: bool = True
    post_copy: bool = False


def terms(migration_spec: Mapping[str, Any], memory: int) -> Terms:
    return Terms(
        memory=memory,
        max_bandwidth=max(1, amount(migration_spec.get("maxBandwidth"), _GIB)),
        auto_converge=migration_spec.get("autoConverge", True) is not False,
        post_copy=migration_spec.get("allowPostCopy", False) is True,
    )


def amount(value: object, otherwise: int) -> int:
    """Return a quantity in whole units, or `otherwise` if it is invalid."""
    try:
        return otherwise if value is None else decode_quantity(Quantity, value).value
    except BadQuantity:
        return otherwise


@dataclass(frozen=True, slots=True)
class MigrationInfo:
    """State of a migration, as a hypervisor reports it (QEMU's query-migrate)."""

    status: str
    """setup, active, postcopy-active, completed or failed."""
    total_ms: int
    setup_ms: int
    downtime_ms: int
    transferred: int
    remaining: int
    total: int
    """Bytes."""
    ends_in_s: float | None = None
    """Time until the status changes, if the inputs stay the same; None: never, or it has ended."""

    def info(self) -> dict[str, Any]:
        """Return the value for `status.info` of a migration."""
        return {
            "status": self.status,
            "totalTimeMs": self.total_ms,
            "setupTimeMs": self.setup_ms,
            "downtimeMs": self.downtime_ms,
            "ram": {"transferred": self.transferred, "remaining": self.remaining, "total": self.total},
            "compression": {"compressedSize": 0, "compressionRate": 0},
        }


def progress(behaviour: Behaviour, terms: Terms, elapsed_s: float) -> MigrationInfo:
    """Return the progress `elapsed_s` after the start. `remaining` never grows while the inputs stay the same."""
    setup_ms = round(behaviour.setup_s * 1000)
    course = _course(behaviour, terms)
    copying_s = elapsed_s - behaviour.setup_s
    if copying_s < 0:
        shown_ms = round(max(0.0, elapsed_s) * 1000)
        return MigrationInfo("setup", shown_ms, setup_ms, 0, 0, course.total, course.total, -copying_s)
    moving_s = copying_s if course.rate == 0 else min(copying_s, course.reached_s)
    copied = max(0.0, moving_s - course.begins_s) * course.rate
    transferred, left = int(moving_s * course.bandwidth), max(0, course.total - int(copied))
    if course.ends_s is None or copying_s < course.ends_s:
        status = "postcopy-active" if 0 < course.begins_s <= copying_s else "active"
        ends_in_s = None if course.ends_s is None else course.ends_s - copying_s
        total_ms = round(elapsed_s * 1000)
        return MigrationInfo(status, total_ms, setup_ms, 0, transferred, left, course.total, ends_in_s)
    total_ms = round((behaviour.setup_s + course.ends_s) * 1000)
    if course.fails:
        return MigrationInfo("failed", total_ms, setup_ms, 0, transferred, left, course.total)
    downtime_ms = round(behaviour.downtime_s * 1000)
    return MigrationInfo("completed", total_ms, setup_ms, downtime_ms, transferred, 0, course.total)


@dataclass(frozen=True, slots=True)
class _Course:
    """Course of copying after the setup."""

    total: int
    """Bytes to copy."""
    bandwidth: int
    begins_s: float
    """Time at which the remaining memory begins to shrink: at once, or after the pass before post-copy."""
    rate: float
    """Bytes per second by which it shrinks; 0: never."""
    reached_s: float
    """Time from which copying stalls or has ended."""
    ends_s: float | None
    """None: it never ends by itself."""
    fails: bool


def _course(behaviour: Behaviour, terms: Terms) -> _Course:
    total = terms.memory if behaviour.used is None else min(behaviour.used, terms.memory)
    bandwidth = min(terms.max_bandwidth, behaviour.bandwidth or terms.max_bandwidth)
    dirty = (
        min(behaviour.dirty_rate, MAX_DIRTY_SHARE * bandwidth) if terms.auto_converge else float(behaviour.dirty_rate)
    )
    begins_s, rate = 0.0, max(0.0, bandwidth - dirty)
    if rate == 0 and terms.post_copy:
        begins_s, rate = total / bandwidth, float(bandwidth)
    stall, fail = (1.1 if share is None else share for share in (behaviour.stall_at, behaviour.fail_at))
    share, fails = min(1.0, stall, fail), fail <= min(1.0, stall)
    reached_s = begins_s + total * share / rate if rate else 0.0
    stands = rate == 0 or stall < min(fail, 1.0)
    ends_s = None if stands else reached_s + (0.0 if fails else behaviour.downtime_s)
    return _Course(total, bandwidth, begins_s, rate, reached_s, ends_s, fails)


def _units(part: Part, least: int = 0) -> int | None:
    return part.units(least) if part.is_present else None


def _seconds(part: Part, otherwise: float) -> float:
    return part.integer(most=_MAX_MS) / 1000 if part.is_present else otherwise


def _share(part: Part) -> float | None:
    return part.integer(most=100) / 100 if part.is_present else None
