"""Configure when a supervisor assigns, moves, fails and archives objects; one error names all invalid values."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from situate.objects.selection.label_selectors import valid_label_key
from situate.objects.settings.section import format_value
from situate.sharding.model.names import FINALIZER
from situate.sharding.model.object_view import ObjectView


class BadConfiguration(ValueError):
    """An invalid configuration; the message names every mistake with field, value and allowed values."""


class OrphanPolicy(StrEnum):
    """The treatment of open objects whose executor is removed."""

    FAIL = "fail"
    REASSIGN = "reassign"


class OnUnavailable(StrEnum):
    """The treatment of a user's delete while the archive is unavailable."""

    WAIT = "wait"
    RELEASE = "release"


@dataclass(frozen=True, slots=True)
class ArchiveTtl:
    """Seconds from completion to archiving, by outcome; None: never by age."""

    successful: float | None = None
    failed: float | None = None

    def ttl_of(self, successful: bool | None) -> float | None:
        """Return the TTL for an outcome. None counts as failed, as in KSched."""
        return self.successful if successful is True else self.failed


def accept_every_object(_: ObjectView) -> bool:
    """Accept every object."""
    return True


@dataclass(frozen=True, slots=True)
class SupervisorConfig:
    """Settings of a supervisor, in seconds unless stated otherwise."""

    requeue_delay: float = 30.0
    """Safety net: the interval of re-evaluation for objects that wait for an event."""
    scheduler_jitter: float = 0.5
    """How long the set of executors must be unchanged before objects are assigned."""
    max_jitter_wait: float = 2.0
    """How long one object waits at most, in sum, for the set of executors to be unchanged."""
    archive_ttl: float | ArchiveTtl | None = None
    finalizer: str = FINALIZER
    keep_last_per_owner: int | None = None
    """The number of latest completed objects per controlling owner that are not archived by age."""
    delete_without_archive: bool = False
    """Whether completed objects are deleted by age if no archive is configured."""
    archive_on_unavailable: OnUnavailable = OnUnavailable.WAIT
    release_after: float = 300.0
    """With `OnUnavailable.RELEASE`: how long a user's delete waits for the archive."""
    orphan_policy: OrphanPolicy = OrphanPolicy.REASSIGN
    max_reassigns: int = 3
    reassign_window: float = 3600.0
    max_forced_moves_per_s: float = 200.0
    """Maximum moves of orphans per second."""
    drain_timeout: float = 30.0
    max_parallel_drains: int = 100
    drain_unhealthy: bool = False
    """Whether to drain executors that are unhealthy for longer than `grace_unhealthy`."""
    grace_unhealthy: float = 5.0
    wait_for_successor: float = 0.0
    """How long a drained object waits for the successor of its holder."""
    is_ready: Callable[[ObjectView], bool] = field(default=accept_every_object, repr=False)
    """An object for which this function returns False is not assigned until it changes."""
    archive_when: Callable[[ObjectView], bool] = field(default=accept_every_object, repr=False)
    """An object for which this function returns False is not archived by age."""

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
            yield from _number_mistakes(name, getattr(self, name), "a number of seconds from 0")
        for name in _POSITIVE:
            yield from _number_mistakes(name, getattr(self, name), "a number above 0", positive=True)
        for name, value in (("successful", self.ttl.successful), ("failed", self.ttl.failed)):
            if value is not None:
                yield from _number_mistakes(f"archive_ttl.{name}", value, "a number of seconds from 0, or None")
        for name, least in _COUNTS.items():
            value = getattr(self, name)
            if value is not None or name != "keep_last_per_owner":
                yield from count_mistakes(name, value, least)
        if not valid_label_key(self.finalizer) or "/" not in self.finalizer:
            yield (
                f"finalizer is {format_value(self.finalizer)}, allowed: a DNS name, '/', and a name, such as "
                f"{FINALIZER}"
            )


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


def count_mistakes(name: str, value: object, least: int) -> Iterator[str]:
    """Check a whole number that a program gave, of any type."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        yield f"{name} is {format_value(value)}, allowed: whole numbers from {least}"


def pool_mistakes(pool: object) -> Iterator[str]:
    """Check the name of a pool, which is a label and a part of Leases' names."""
    if not isinstance(pool, str) or not _POOL.fullmatch(pool):
        yield f"pool is {format_value(pool)}, allowed: at most 63 of a to z, 0 to 9 and '-', with no '-' first or last"


_POOL: Final = re.compile("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def _number_mistakes(name: str, value: object, allowed: str, *, positive: bool = False) -> Iterator[str]:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        yield f"{name} is {format_value(value)}, allowed: {allowed}"
    elif positive and value == 0:
        yield f"{name} is 0, allowed: {allowed}"
