"""Bytes that a store holds under a key: what may take their place, and what they are when somebody asks for them."""

from __future__ import annotations

from situate.archive.protocol import ArchiveConflict, ArchiveCorrupt
from situate.archive.records.record import BadRecord, Record, parse_record


def read_back(stored: bytes, where: str) -> Record:
    """The record; `ArchiveCorrupt` instead of it. `where` is what the store calls it."""
    try:
        return parse_record(stored, where)
    except BadRecord as error:
        raise corrupt(error) from error


def corrupt(error: BadRecord) -> ArchiveCorrupt:
    """For a record that was asked for alone; a search reports it and goes on."""
    return ArchiveCorrupt(error.record, error.path, error.problem)


def check_replaces(record: Record, stored: bytes, where: str) -> None:
    """`ArchiveConflict` if what is stored is a newer version; what cannot be read is worth less than any record."""
    try:
        present = parse_record(stored, where)
    except BadRecord:
        return
    if not record.replaces(present):
        raise conflict(record)


def conflict(record: Record) -> ArchiveConflict:
    """For a put of an older version than the one that is stored."""
    return ArchiveConflict(
        f"{record.subject.key}: the archive holds a newer version than {record.subject.resource_version}; read the "
        "object from the API anew and put that"
    )
