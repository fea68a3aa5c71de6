"""The archive of completed objects: the protocol `Archiver`, and the stores that implement it.

The package exports the public names. Records, queries and errors are plain values. Each store is a module of its own,
and `open_archiver` imports it on demand. Therefore only users of a store need its libraries.
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
