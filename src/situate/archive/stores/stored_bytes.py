"""Rules for bytes that a store holds under a key: the records that may replace them, and the errors of a read."""

from __future__ import annotations

from situate.archive.protocol import ArchiveConflict, ArchiveCorrupt
from situate.archive.records.record import BadRecord, Record, parse_record


def read_back(stored: bytes, where: str) -> Record:
    """Return the record, or raise `ArchiveCorrupt`. `where` is the store's name for it."""
    try:
        return parse_record(stored, where)
    except BadRecord as error:
        raise corrupt(error) from error


def corrupt(error: BadRecord) -> ArchiveCorrupt:
    """Return the error for a single requested record. A search reports the record and continues."""
    return ArchiveCorrupt(error.record, error.path, error.problem)


def check_replaces(record: Record, stored: bytes, where: str) -> None:
    """Raise `ArchiveConflict` if the stored record is newer. An unreadable record may always be replaced."""
    try:
        present = parse_record(stored, where)
    except BadRecord:
        return
    if not record.replaces(present):
        raise conflict_error(record)


def conflict_error(record: Record) -> ArchiveConflict:
    """Return the error for a put of an older version than the stored one."""
    return ArchiveConflict(
        f"{record.subject.key}: the archive holds a newer version than {record.subject.resource_version}; read the "
        "object from the API again and put that version"
    )
