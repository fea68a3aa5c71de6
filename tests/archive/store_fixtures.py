"""Every kind of store as the one suite of tests sees it: opened like a new process would, and spoilt by hand."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Protocol

import psycopg

from situate.archive.open_archive import open_archiver
from situate.archive.protocol import Archiver
from situate.archive.records.record import Record, encode_record
from situate.archive.stores.folder.names import record_file
from situate.archive.stores.folder.tree import way_of
from situate.archive.stores.memory import MemoryArchiver
from situate.archive.stores.sql.tables import METADATA
from tests.archive.servers.postgresql import PostgresqlServer


class Store(Protocol):
    """One archive, empty at first."""

    def archiver(self) -> Archiver:
        """A new one, as another process has it; whoever asked closes it."""

    async def edit(self, record: Record) -> None:
        """What a hand might do: the stored object says `edited` where it said `written`, and nothing else changes."""

    async def spoil(self, record: Record) -> None:
        """What a disk or a hand might leave in the record's place: something that is no record at all."""


def edited(record: Record) -> bytes:
    text = encode_record(record)
    assert b'"written"' in text
    return text.replace(b'"written"', b'"edited"')


class Memory:
    def __init__(self) -> None:
        self._archiver = MemoryArchiver()

    def archiver(self) -> Archiver:
        return self._archiver

    async def edit(self, record: Record) -> None:
        self._archiver._records[record.subject.key] = edited(record)

    async def spoil(self, record: Record) -> None:
        self._archiver._records[record.subject.key] = b"\0\0\0"


class Filesystem:
    def __init__(self, folder: Path) -> None:
        self.root = folder / "archive"
        self.root.mkdir()

    def archiver(self) -> Archiver:
        return open_archiver(f"file://{self.root}", {})

    def file_of(self, record: Record) -> Path:
        return self.root.joinpath(*way_of(record.subject), record_file(record.subject.uid))

    async def edit(self, record: Record) -> None:
        self.file_of(record).write_bytes(edited(record))

    async def spoil(self, record: Record) -> None:
        self.file_of(record).write_bytes(b"\0\0\0")


_EDIT = "UPDATE situate_archive SET object = replace({}, '\"written\"', '\"edited\"'){} WHERE uid = "
_SPOIL = "UPDATE situate_archive SET object = {}, term = -1 WHERE uid = "


class Sqlite:
    def __init__(self, folder: Path) -> None:
        self.file = folder / "archive.db"

    def archiver(self) -> Archiver:
        return open_archiver(f"sqlite:///{self.file}", {})

    async def edit(self, record: Record) -> None:
        self._execute(_EDIT.format("object", "") + "?", record)

    async def spoil(self, record: Record) -> None:
        self._execute(_SPOIL.format("x'fffe'") + "?", record)

    def _execute(self, statement: str, record: Record) -> None:
        connection = sqlite3.connect(self.file)
        with connection:
            assert connection.execute(statement, (record.subject.uid,)).rowcount == 1
        connection.close()


class Postgresql:
    def __init__(self, server: PostgresqlServer) -> None:
        """Tables are dropped: a database of its own for each test takes half a second."""
        self.server = server
        self.url = server.url("postgres")
        with psycopg.connect(self.url) as connection:
            connection.execute(
                f"DROP TABLE IF EXISTS {', '.join(table.name for table in METADATA.sorted_tables)}".encode()
            )

    def archiver(self) -> Archiver:
        return open_archiver(self.url, {})

    async def edit(self, record: Record) -> None:
        self._execute(_EDIT.format("object::text", "::json") + "%s", record)

    async def spoil(self, record: Record) -> None:
        self._execute(_SPOIL.format("'[]'") + "%s", record)

    def _execute(self, statement: str, record: Record) -> None:
        with psycopg.connect(self.url) as connection:
            assert connection.execute(statement.encode(), (record.subject.uid,)).rowcount == 1
