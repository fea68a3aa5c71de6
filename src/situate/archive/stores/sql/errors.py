"""Translate errors of databases to errors of the archive: retriable or not, and without secrets."""

from __future__ import annotations

import sqlite3
from typing import Final

import sqlalchemy.exc

from situate.archive.protocol import ArchiveError, ArchiveRefused, ArchiveTooLarge, ArchiveUnavailable

_TEMPORARY_CODES: Final = ("08", "25006", "40", "53", "55", "57", "58", "XX")
"""Prefixes of PostgreSQL's codes for temporary errors (PostgreSQL's appendix of error codes). They are:
connections, a server that became a replica, conflicts, lack of space or memory, locks, shutdown, I/O, and
internal defects."""
_TOO_LARGE: Final = "54"

_SQLITE_REFUSED: Final = {
    sqlite3.SQLITE_READONLY: "grant this process write access to the file and its folder",
    sqlite3.SQLITE_PERM: "grant this process read and write access to the file",
    sqlite3.SQLITE_AUTH: "grant this process read and write access to the file",
    sqlite3.SQLITE_NOTADB: "the file is not an SQLite database; name another one",
    sqlite3.SQLITE_CORRUPT: "the database is damaged; restore it from a copy",
    sqlite3.SQLITE_ERROR: "the database has another schema; name another one",
}
_SQLITE_RETRY_HINT: Final = "a retry may succeed"
_SQLITE_HINTS: Final = {
    sqlite3.SQLITE_FULL: "free some space",
    sqlite3.SQLITE_CANTOPEN: "create the folder, or mount its volume",
    sqlite3.SQLITE_BUSY: "another process is writing; a retry may succeed",
}


def translate_error(error: sqlalchemy.exc.SQLAlchemyError, archive: str) -> ArchiveError:
    """Translate an error. `archive` is the archive's name for messages, without user and password."""
    cause = error.orig if isinstance(error, sqlalchemy.exc.DBAPIError) else error
    if isinstance(cause, sqlite3.Error):
        return _translate_sqlite_error(cause, archive)
    what = f"{archive}: {_first_line(cause)}"
    code: str | None = getattr(cause, "sqlstate", None)
    if code is None or code.startswith(_TEMPORARY_CODES):  # an error without a code comes from no server
        return ArchiveUnavailable(f"{what}; a retry may succeed")
    if code.startswith(_TOO_LARGE):
        return ArchiveTooLarge(f"{what}; archive smaller objects")
    return ArchiveRefused(f"{what} (PostgreSQL's error {code}); correct the database or the permissions of this user")


def _translate_sqlite_error(cause: sqlite3.Error, archive: str) -> ArchiveError:
    what = f"{archive}: {_first_line(cause)}"
    code = getattr(cause, "sqlite_errorcode", sqlite3.SQLITE_IOERR) & 0xFF  # the upper bits only add detail
    if code == sqlite3.SQLITE_TOOBIG:
        return ArchiveTooLarge(f"{what}; archive smaller objects")
    if code in _SQLITE_REFUSED:
        return ArchiveRefused(f"{what}; {_SQLITE_REFUSED[code]}")
    return ArchiveUnavailable(f"{what}; {_SQLITE_HINTS.get(code, _SQLITE_RETRY_HINT)}")


def _first_line(cause: BaseException | None) -> str:
    """Return the first line of the error. The next lines quote statements."""
    return (str(cause).strip().splitlines() or [type(cause).__name__])[0]
