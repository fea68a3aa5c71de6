"""The archive: completed objects stored outside the cluster, behind the protocol `Archiver`.

Users of the package import from here. `records` holds plain values: record, query, digest. `stores` has one package per
kind of storage, which `open_archive` imports when a URL names it. `operations` copies, verifies and prunes an archive.
"""

from __future__ import annotations

from situate.archive.open_archive import BadArchiveUrl, open_archiver
from situate.archive.options import ArchiveOptions, add_archive_options, with_archive_options
from situate.archive.protocol import (
    ArchiveConflict,
    ArchiveCorrupt,
    ArchiveError,
    Archiver,
    ArchiveRefused,
    ArchiveTooLarge,
    ArchiveUnavailable,
    NotArchived,
)
from situate.archive.records.query import BadQuery, Page, Query, matches, page_of
from situate.archive.records.record import (
    BadRecord,
    ByName,
    ByUid,
    GroupKind,
    Record,
    Subject,
    encode_record,
    parse_record,
    record_of,
)
from situate.archive.stores.memory import MemoryArchiver
from situate.objects.settings.options import BadOptions

__all__ = [
    "ArchiveConflict",
    "ArchiveCorrupt",
    "ArchiveError",
    "ArchiveOptions",
    "ArchiveRefused",
    "ArchiveTooLarge",
    "ArchiveUnavailable",
    "Archiver",
    "BadArchiveUrl",
    "BadOptions",
    "BadQuery",
    "BadRecord",
    "ByName",
    "ByUid",
    "GroupKind",
    "MemoryArchiver",
    "NotArchived",
    "Page",
    "Query",
    "Record",
    "Subject",
    "add_archive_options",
    "encode_record",
    "matches",
    "open_archiver",
    "page_of",
    "parse_record",
    "record_of",
    "with_archive_options",
]
