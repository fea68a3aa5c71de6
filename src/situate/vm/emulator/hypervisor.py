"""What a hypervisor would do: a model of copying a running machine's memory, and of all that can go wrong with it.

The model is a function of the time since the start, so it has no state to lose: memory is copied at the bandwidth, the
guest writes to what was copied at its dirty rate, and what remains shrinks by the difference. With `autoConverge` the
guest is slowed down until at most 0.9 of the bandwidth is dirtied again (the reference's B17 counts alike); without it
a guest that is faster than the link is never done, unless `allowPostCopy` lets it run at the target after one pass.

How one machine behaves stands in its annotation `vm.situate.dev/hypervisor`, a JSON mapping, every member optional:

    {"usedMemory": "2Gi", "dirtyRate": "50Mi", "bandwidth": "500Mi", "setupMs": 100, "downtimeMs": 39,
     "stallAtPercent": 40, "failAtPercent": 99, "refuseStart": "no route to host", "scaleMs": 500}

`stallAtPercent`: no more than this part is ever copied, until the member is taken away; `failAtPercent`: it breaks
there. It is read at every look: a test may let a move stand still, see what it wants to see, and let it go on.

No network is modelled: a node that falls silent breaks a move only once its pod is seen to end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from situate.objects.values.quantity import BadQuantity, Quantity, decode_quantity
from situate.vm.api.parse_errors import Misread, Part, Place, Unreadable
from situate.vm.api.well_known import PREFIX

HYPERVISOR: Final = f"{PREFIX}/hypervisor"
"""On a machine: how its hypervisor behaves."""
COPYING_SINCE: Final = f"{PREFIX}/copying-since"
"""On a migration: when its hypervisor began to copy, RFC 3339."""
COPIED_CPUS: Final = f"{PREFIX}/copied-cpus"
"""On a migration: the CPUs that were plugged into its target before the start (QmpScaling)."""
MOST_DIRTY: Final = 0.9
"""Of the bandwidth, where the guest is slowed down."""
DOWNTIME_MS: Final = 39
"""Of an idle machine of 2 GiB, as the reference measured it (section 6)."""
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
_MOST_MS: Final = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class Behaviour:
    """Of one machine's hypervisor. Bytes, and bytes a second."""

    used: int | None = None
    """Memory that holds something; None: all that the machine has."""
    dirty_rate: int = 0
    bandwidth: int | None = None
    """Of the link; None: as much as the migration allows."""
    setup_s: float = 0.0
    downtime_s: float = DOWNTIME_MS / 1000
    stall_at: float | None = None
    fail_at: float | None = None
    """Shares of what is to be copied."""
    refuse: str = ""
    """Why the start is refused; empty: it is not."""
    scale_s: float | None = None
    """How long a change of size takes; None: as the stand-in is set."""


def read_behaviour(text: str | None, about: str) -> Behaviour | Unreadable:
    """`about`: the machine, for the sentence about what cannot be read."""
    if text is None:
        return Behaviour()
    try:
        part = Part.of_text(text, Place.annotation(about, HYPERVISOR))
        part.only(*_MEMBERS)
        return Behaviour(
            used=_units(part["usedMemory"]),
            dirty_rate=_units(part["dirtyRate"]) or 0,
            bandwidth=_units(part["bandwidth"], least=1),
            setup_s=_seconds(part["setupMs"], 0.0),
            downtime_s=_seconds(part["downtimeMs"], DOWNTIME_MS / 1000),
            stall_at=_share(part["stallAtPercent"]),
            fail_at=_share(part["failAtPercent"]),
            refuse=part["refuseStart"].text(default=""),
            scale_s=_seconds(part["scaleMs"], 0.0) if part["scaleMs"].there else None,
        )
    except Misread as problem:
        return problem.unreadable


@dataclass(frozen=True, slots=True)
class Terms:
    """On which a move copies, as its spec has them."""

    memory: int
    """Bytes that the machine has."""
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
    """Of a quantity, in whole units; `otherwise` for what is none."""
    try:
        return otherwise if value is None else decode_quantity(Quantity, value).value
    except BadQuantity:
        return otherwise


@dataclass(frozen=True, slots=True)
class Progress:
    """What the hypervisor says when it is asked (QEMU's query-migrate)."""

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
    """It will say something else than active then, if nothing changes; None: never by itself, or it has ended."""

    def info(self) -> dict[str, Any]:
        """As `status.info` of a migration has it."""
        return {
            "status": self.status,
            "totalTimeMs": self.total_ms,
            "setupTimeMs": self.setup_ms,
            "downtimeMs": self.downtime_ms,
            "ram": {"transferred": self.transferred, "remaining": self.remaining, "total": self.total},
            "compression": {"compressedSize": 0, "compressionRate": 0},
        }


def progress(behaviour: Behaviour, terms: Terms, elapsed_s: float) -> Progress:
    """`elapsed_s` after the start. Remaining never grows while behaviour and terms stay."""
    setup_ms = round(behaviour.setup_s * 1000)
    course = _course(behaviour, terms)
    copying_s = elapsed_s - behaviour.setup_s
    if copying_s < 0:
        shown_ms = round(max(0.0, elapsed_s) * 1000)
        return Progress("setup", shown_ms, setup_ms, 0, 0, course.total, course.total, -copying_s)
    moving_s = copying_s if course.rate == 0 else min(copying_s, course.reached_s)
    copied = max(0.0, moving_s - course.begins_s) * course.rate
    transferred, left = int(moving_s * course.bandwidth), max(0, course.total - int(copied))
    if course.ends_s is None or copying_s < course.ends_s:
        status = "postcopy-active" if 0 < course.begins_s <= copying_s else "active"
        ends_in_s = None if course.ends_s is None else course.ends_s - copying_s
        total_ms = round(elapsed_s * 1000)
        return Progress(status, total_ms, setup_ms, 0, transferred, left, course.total, ends_in_s)
    total_ms = round((behaviour.setup_s + course.ends_s) * 1000)
    if course.fails:
        return Progress("failed", total_ms, setup_ms, 0, transferred, left, course.total)
    downtime_ms = round(behaviour.downtime_s * 1000)
    return Progress("completed", total_ms, setup_ms, downtime_ms, transferred, 0, course.total)


@dataclass(frozen=True, slots=True)
class _Course:
    """How a copying goes on from its setup."""

    total: int
    """Bytes to be copied."""
    bandwidth: int
    begins_s: float
    """What remains begins to shrink: at once, or after the pass before post-copy."""
    rate: float
    """By so many bytes a second; 0: it never shrinks."""
    reached_s: float
    """It stands still, or ends, from here on."""
    ends_s: float | None
    """None: never by itself."""
    fails: bool


def _course(behaviour: Behaviour, terms: Terms) -> _Course:
    total = terms.memory if behaviour.used is None else min(behaviour.used, terms.memory)
    bandwidth = min(terms.max_bandwidth, behaviour.bandwidth or terms.max_bandwidth)
    dirty = min(behaviour.dirty_rate, MOST_DIRTY * bandwidth) if terms.auto_converge else float(behaviour.dirty_rate)
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
    return part.units(least) if part.there else None


def _seconds(part: Part, otherwise: float) -> float:
    return part.integer(most=_MOST_MS) / 1000 if part.there else otherwise


def _share(part: Part) -> float | None:
    return part.integer(most=100) / 100 if part.there else None
