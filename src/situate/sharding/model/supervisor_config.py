"""What a supervisor is told about when to place, move, fail and archive; every number checked, all mistakes at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from situate.objects.selection.label_selectors import valid_label_key
from situate.objects.settings.section import shown
from situate.sharding.model.names import FINALIZER
from situate.sharding.model.object_view import ObjectView


class BadConfiguration(ValueError):
    """The message names every mistake: field, value, what is allowed."""


class OrphanPolicy(StrEnum):
    """What becomes of the open objects of an executor that is gone."""

    REASSIGN = "reassign"
    FAIL = "fail"


class OnUnavailable(StrEnum):
    """What becomes of a user's delete while the archive cannot be reached."""

    WAIT = "wait"
    RELEASE = "release"


@dataclass(frozen=True, slots=True)
class ArchiveTtl:
    """Seconds from completion to the archive, by outcome; None: never by age."""

    successful: float | None = None
    failed: float | None = None

    def of(self, successful: bool | None) -> float | None:
        """An object that does not say how it ended counts as failed, as in KSched."""
        return self.successful if successful is True else self.failed


def always(_: ObjectView) -> bool:
    """Every object."""
    return True


@dataclass(frozen=True, slots=True)
class SupervisorConfig:
    """Seconds, unless said otherwise."""

    requeue_delay: float = 30.0
    """The safety net of whatever waits for an event."""
    scheduler_jitter: float = 0.5
    """Nobody is placed before the set of executors has been the same for so long."""
    max_jitter_wait: float = 2.0
    """The most that one object waits for that, in sum."""
    archive_ttl: float | ArchiveTtl | None = None
    finalizer: str = FINALIZER
    keep_last_per_owner: int | None = None
    """So many of one controlling owner, the latest completed, are not archived by age."""
    delete_without_archive: bool = False
    """Whether completed objects are deleted by age where no archive is configured."""
    archive_on_unavailable: OnUnavailable = OnUnavailable.WAIT
    release_after: float = 300.0
    """With `release`: how long a user's delete waits for the archive."""
    orphan_policy: OrphanPolicy = OrphanPolicy.REASSIGN
    max_reassigns: int = 3
    reassign_window: float = 3600.0
    max_forced_moves_per_s: float = 200.0
    """Moves each second."""
    drain_timeout: float = 30.0
    max_parallel_drains: int = 100
    drain_unhealthy: bool = False
    """Whether executors that are unhealthy for longer than `grace_unhealthy` are drained."""
    grace_unhealthy: float = 5.0
    wait_for_successor: float = 0.0
    """How long a drained object waits for an executor that takes its holder's place."""
    is_ready: Callable[[ObjectView], bool] = field(default=always, repr=False)
    """An object for which it says no is left alone until it changes."""
    archive_when: Callable[[ObjectView], bool] = field(default=always, repr=False)
    """An object for which it says no is not archived by age."""

    def __post_init__(self) -> None:
        """Raises `BadConfiguration`."""
        mistakes = list(self._mistakes())
        if mistakes:
            raise BadConfiguration("; ".join(mistakes))

    @property
    def ttl(self) -> ArchiveTtl:
        ttl = self.archive_ttl
        return ttl if isinstance(ttl, ArchiveTtl) else ArchiveTtl(ttl, ttl)

    def _mistakes(self) -> Iterator[str]:
        for name in _DURATIONS:
            yield from _checked(name, getattr(self, name), "a number of seconds from 0")
        for name in _POSITIVE:
            yield from _checked(name, getattr(self, name), "a number above 0", positive=True)
        for name, value in (("successful", self.ttl.successful), ("failed", self.ttl.failed)):
            if value is not None:
                yield from _checked(f"archive_ttl.{name}", value, "a number of seconds from 0, or None")
        for name, least in _COUNTS.items():
            value = getattr(self, name)
            if value is None and name == "keep_last_per_owner":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                yield f"{name} is {shown(value)}, allowed: whole numbers from {least}"
        if not valid_label_key(self.finalizer) or "/" not in self.finalizer:
            yield f"finalizer is {shown(self.finalizer)}, allowed: a DNS name, '/', and a name, as {FINALIZER}"


_DURATIONS: Final = (
    "scheduler_jitter",
    "max_jitter_wait",
    "release_after",
    "reassign_window",
    "drain_timeout",
    "grace_unhealthy",
    "wait_for_successor",
)
_POSITIVE: Final = ("requeue_delay", "max_forced_moves_per_s")
_COUNTS: Final = {"max_reassigns": 0, "max_parallel_drains": 1, "keep_last_per_owner": 0}


def _checked(name: str, value: object, allowed: str, *, positive: bool = False) -> Iterator[str]:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        yield f"{name} is {shown(value)}, allowed: {allowed}"
    elif positive and value == 0:
        yield f"{name} is 0, allowed: {allowed}"
