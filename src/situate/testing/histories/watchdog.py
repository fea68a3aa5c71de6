"""The part that the watchdogs of all products share: the first breach, a digest of all writes, and the processes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from situate.kube.watch.reflector import Reflector
from situate.testing.virtual_time.processes import Process, ProcessState


class HistoryBreach(AssertionError):
    """An invariant does not hold: the product has a defect. The message names the rule and the object."""


@dataclass
class Watchdog:
    """Watches a world from its first moment on. Each product adds its rules to `check`."""

    writes: int = field(default=0, init=False)
    """Number of writes by processes of ours, without Leases and Events."""
    _digest: Any = field(default_factory=hashlib.sha256, init=False)
    _first_breach: str | None = field(default=None, init=False)

    def check(self) -> None:
        """Check all rules after a step. Raises `HistoryBreach`."""
        self.raise_first_breach()

    def raise_first_breach(self) -> None:
        """Raise `HistoryBreach` for the first recorded breach, if there is one."""
        if self._first_breach is not None:
            raise HistoryBreach(self._first_breach)

    def record_breach(self, said: str) -> None:
        """Record a breach at a place where a check must not raise. The first one counts, and `check` raises it."""
        if self._first_breach is None:
            self._first_breach = said

    def digest(self) -> str:
        """Return a digest of every write so far. Equal histories have equal digests."""
        digest: str = self._digest.hexdigest()
        return digest

    def last_records(self) -> Sequence[str]:
        """Return the last records before a breach, one per line. A product without records returns none."""
        return ()


def check_processes(processes: Iterable[Process]) -> None:
    """Raise `HistoryBreach` if a process ended with an exception, or if asyncio complained."""
    for process in processes:
        failure = process.failure() if process.state is ProcessState.ENDED else None
        if failure is not None:
            raise HistoryBreach(f"{process.name} ended with {failure!r}") from failure
        if process.complaints:
            raise HistoryBreach(f"{process.name}: asyncio complains: {process.complaints[0]}")


def check_reflectors(identity: str, reflectors: Iterable[Reflector[Any]]) -> None:
    """Raise `HistoryBreach` if a handler of a process's watches failed."""
    for reflector in reflectors:
        if reflector.store.handler_failures:
            raise HistoryBreach(f"a handler of {reflector.name} failed in {identity}")
