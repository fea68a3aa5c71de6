"""The archive of a history of decisions: records in memory, and the ways in which a store can fail its callers."""

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


class Archive:
    """Answers at once; how long that takes is the caller's."""

    def __init__(self, happened: Counter[str]) -> None:
        self.memory = MemoryArchiver()
        self.trouble = Trouble.NONE
        self._happened = happened

    def put(self, record: Record) -> Outcome:
        """What the attempt came to, as `archiving` judges it."""
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
        """The record of the object, read back."""
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
        """What is in it, whatever the trouble."""
        try:
            return at_once(self.memory.get(ByUid(KIND, uid)))
        except NotArchived:
            return None

    def _troubled(self, outcome: Outcome) -> Outcome:
        self._happened[f"archive: {self.trouble.value}"] += 1
        return outcome


def at_once(call: Coroutine[Any, Any, _T]) -> _T:
    """The result of what waits for nothing."""
    try:
        call.send(None)
    except StopIteration as done:
        result: _T = done.value
        return result
    raise AssertionError("the archive in memory has waited for something")
