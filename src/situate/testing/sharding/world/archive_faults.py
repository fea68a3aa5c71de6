"""The archive of a history of decisions: records in memory, and the faults of a store."""

from __future__ import annotations

from collections.abc import Coroutine
from enum import StrEnum
from typing import Any, Final, TypeVar

from situate.archive.records.record import GroupKind

KIND: Final = GroupKind("batch.example.com", "Report")
_T = TypeVar("_T")


class ArchiveFault(StrEnum):
    """Faults from the archive's row of the fault table."""

    NONE = ""
    ERROR = "error"
    """Nothing is stored, and the store reports it: a full disk, a torn hidden file, an abandoned upload."""
    UNKNOWN = "stored but timed out"
    """The record is stored and the caller times out. A commit with an unknown result is the same."""
    MISSING = "read missing"
    CORRUPT = "read corrupt"
    OTHER = "read back another digest"
    REFUSED = "too large"
    DOWN = "outage"


def run_to_completion(call: Coroutine[Any, Any, _T]) -> _T:
    """Return the result of a coroutine that never waits."""
    try:
        call.send(None)
    except StopIteration as done:
        result: _T = done.value
        return result
    raise AssertionError("the in-memory archive has waited")
