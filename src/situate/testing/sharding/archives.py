"""The archive of a history of decisions: records in memory, and the faults of a store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Coroutine
from enum import StrEnum
from typing import Any, Final, TypeVar

from situate.archive.protocol import ArchiveConflict, NotArchived
from situate.archive.records.record import ByUid, GroupKind, Record
from situate.archive.stores.memory import MemoryArchiver
from situate.sharding.assignment.archive_steps import (
    Corrupt,
    NotThere,
    Outcome,
    ReadBack,
    Stored,
    Superseded,
    Unavailable,
)
from situate.sharding.assignment.archive_steps import Refused as NotTaken
from situate.sharding.model.object_view import ObjectView

KIND: Final = GroupKind("batch.example.com", "Report")
_T = TypeVar("_T")


class Trouble(StrEnum):
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


class Archive:
    """An archive that answers at once. The caller adds the delay."""

    def __init__(self, happened: Counter[str]) -> None:
        self.memory = MemoryArchiver()
        self.trouble = Trouble.NONE
        self._happened = happened

    def put(self, record: Record) -> Outcome:
        """Store a record and return the outcome for `archiving`."""
        match self.trouble:
            case Trouble.ERROR | Trouble.DOWN:
                return self._troubled(Unavailable("no answer", archive=True))
            case Trouble.REFUSED:
                return self._troubled(NotTaken("the record is too large"))
        try:
            at_once(self.memory.put(record))
        except ArchiveConflict:
            return Superseded()
        if self.trouble is Trouble.UNKNOWN:
            return self._troubled(Unavailable("no answer in time", archive=True))
        return Stored(record.digest)

    def get(self, view: ObjectView) -> Outcome:
        """Read back the record of the object."""
        match self.trouble:
            case Trouble.DOWN:
                return self._troubled(Unavailable("no answer", archive=True))
            case Trouble.MISSING:
                return self._troubled(NotThere())
            case Trouble.CORRUPT:
                return self._troubled(Corrupt("the digest is not the record's"))
        record = self.record(view.uid)
        if record is None:
            return NotThere()
        if self.trouble is Trouble.OTHER:
            return self._troubled(ReadBack("sha256:0", record.subject.resource_version))
        return ReadBack(record.digest, record.subject.resource_version)

    def record(self, uid: str) -> Record | None:
        """Return the stored record or None, whatever the fault."""
        try:
            return at_once(self.memory.get(ByUid(KIND, uid)))
        except NotArchived:
            return None

    def _troubled(self, outcome: Outcome) -> Outcome:
        self._happened[f"archive: {self.trouble.value}"] += 1
        return outcome


def at_once(call: Coroutine[Any, Any, _T]) -> _T:
    """Return the result of a coroutine that never waits."""
    try:
        call.send(None)
    except StopIteration as done:
        result: _T = done.value
        return result
    raise AssertionError("the archive in memory has waited for something")
