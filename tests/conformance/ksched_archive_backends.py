"""Archives that a case of archive.json is played against, each with the ways in which it can fail halfway."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Protocol

from situate.archive.protocol import Archiver, ArchiveUnavailable
from situate.archive.records.query import Query
from situate.archive.records.record import Record, encode_record
from situate.archive.stores.folder.archiver import _translate_errors
from situate.archive.stores.folder.files import RecordFolder
from situate.archive.stores.sql.rows import row_of
from tests.archive.calls import counted
from tests.archive.store_fixtures import Filesystem, Memory, Sqlite


class Backend(Protocol):
    """One archive, empty at first."""

    archiver: Archiver

    async def reopen(self) -> None:
        """As a new process does."""

    async def edit(self, record: Record) -> None:
        """The stored object changes; what is said of it does not."""

    async def torn(self, record: Record) -> None:
        """A process is killed in the middle of putting it."""

    async def full(self, record: Record) -> None:
        """A put that finds no room: raises what the archiver raises."""

    async def visible_partials(self) -> int:
        """What anybody can see of puts that did not end."""


class InMemory:
    def __init__(self, _: Path) -> None:
        self._store = Memory()
        self.archiver = self._store.archiver()

    async def reopen(self) -> None:
        """It is as old as the process that the case runs in."""

    async def edit(self, record: Record) -> None:
        await self._store.edit(record)

    async def torn(self, record: Record) -> None:
        """Nothing is ever there in part."""

    async def full(self, record: Record) -> None:
        raise ArchiveUnavailable("no memory is left")

    async def visible_partials(self) -> int:
        return await _unreadable(self.archiver)


class InFiles:
    def __init__(self, folder: Path) -> None:
        self._store = Filesystem(folder)
        self.archiver = self._store.archiver()

    async def reopen(self) -> None:
        await self.archiver.close()
        self.archiver = self._store.archiver()

    async def edit(self, record: Record) -> None:
        await self._store.edit(record)

    async def torn(self, record: Record) -> None:
        """What is left of a file that was being written."""
        await self.archiver.check()
        text = encode_record(record)
        (self._store.root / ".partial" / "0123456789abcdef").write_bytes(text[: len(text) // 2])

    async def full(self, record: Record) -> None:
        def fail(_: int, name: str) -> None:
            if name == "write":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with _translate_errors(self._store.root), counted(fail):
            RecordFolder(self._store.root, 5.0).put(record)

    async def visible_partials(self) -> int:
        """Files that a glance into the folder shows, and that are no records."""
        shown = {file for file in self._store.root.rglob("[!.]*") if file.is_file() and ".partial" not in file.parts}
        records = (await self.archiver.search(Query())).records
        return len(shown - {self._store.file_of(record) for record in records})


class InSqlite:
    def __init__(self, folder: Path) -> None:
        self._store = Sqlite(folder)
        self.archiver = self._store.archiver()

    async def reopen(self) -> None:
        await self.archiver.close()
        self.archiver = self._store.archiver()

    async def edit(self, record: Record) -> None:
        await self._store.edit(record)

    async def torn(self, record: Record) -> None:
        """A transaction whose process ends before the commit."""
        await self.archiver.check()
        row = row_of(record) | {"archived_at": "2026-01-01T00:00:00.000000Z", "completed_at": None}
        connection = sqlite3.connect(self._store.file, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        places = ", ".join(f":{name}" for name in row)
        connection.execute(f"INSERT OR REPLACE INTO situate_archive ({', '.join(row)}) VALUES ({places})", row)
        connection.close()

    async def full(self, record: Record) -> None:
        raise ArchiveUnavailable("database or disk is full")

    async def visible_partials(self) -> int:
        return await _unreadable(self.archiver)


async def _unreadable(archiver: Archiver) -> int:
    return len((await archiver.search(Query())).corrupt)


BACKENDS: Final[Mapping[str, Callable[[Path], Backend]]] = {
    "memory": InMemory,
    "filesystem": InFiles,
    "sqlite": InSqlite,
}
