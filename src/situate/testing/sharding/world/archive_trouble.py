"""Ways in which the archive of a history can fail its callers."""

from __future__ import annotations

from collections.abc import Coroutine
from enum import StrEnum
from typing import Any, Final, TypeVar

from situate.archive.records.record import GroupKind

KIND: Final = GroupKind("batch.example.com", "Report")
_T = TypeVar("_T")


class Trouble(StrEnum):
    """Rows of the archive's line in the fault table."""

    NONE = ""
    ERROR = "error"
    """Nothing is stored, and it says so: no room, a torn file that nobody sees, an upload that was abandoned."""
    UNKNOWN = "stored but timed out"
    """Also a commit of which nobody knows what became of it."""
    MISSING = "read missing"
    CORRUPT = "read corrupt"
    OTHER = "read back another digest"
    REFUSED = "too large"
    DOWN = "outage"


def at_once(call: Coroutine[Any, Any, _T]) -> _T:
    """The result of what waits for nothing."""
    try:
        call.send(None)
    except StopIteration as done:
        result: _T = done.value
        return result
    raise AssertionError("the archive in memory has waited for something")
