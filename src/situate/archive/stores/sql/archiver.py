"""An archive in PostgreSQL or SQLite, through SQLAlchemy: a table of records, and a table of their labels.

Each call is one transaction. If the connection is lost during the commit, it is unknown whether the record was stored.
The call then raises `ArchiveUnavailable`, and it is safe to put the record again.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from threading import Thread
from typing import Any, Final

import aiosqlite
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from situate.archive.protocol import ArchiveRefused, ArchiveUnavailable, NotArchived
from situate.archive.records.query import Page, Query, page_token
from situate.archive.records.record import BadRecord, ByName, ByUid, Record
from situate.archive.stores.sql.errors import translate_error
from situate.archive.stores.sql.query import select_page, select_record
from situate.archive.stores.sql.rows import label_rows_of, position_of_row, record_of_row, row_of
from situate.archive.stores.sql.tables import LABELS, METADATA, RECORDS, SCHEMA, SCHEMA_VERSION
from situate.archive.stores.stored_bytes import conflict_error, corrupt

_CONNECT_S: Final = 10
_RETRY_S: Final = 0.01
_DRIVERS: Final = {
    "sqlite": "sqlite+aiosqlite",
    "sqlite+aiosqlite": "sqlite+aiosqlite",
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
}
_SCHEMA_LOCK: Final = 0x7369747561746500
"""PostgreSQL's advisory lock for creating the tables: two concurrent attempts would fail."""
_IDENTITY: Final = ("grp", "kind", "uid")


class SqlArchiver:
    """A database at a URL of SQLAlchemy, `postgresql+psycopg://…` or `sqlite+aiosqlite:///…`.

    The constructor does not touch the database. The first call creates the tables. A layout of another version is
    refused.
    """

    def __init__(self, url: sa.URL, *, timeout_s: float = 30.0) -> None:
        """`timeout_s`: limit of a call; writers of SQLite wait for each other for up to half of it."""
        self._threads: set[Thread] = set()
        self._engine = _engine(url, timeout_s / 2, self._threads)
        self._timeout_s = timeout_s
        self._dialect = self._engine.dialect.name
        self._name = f"the archive in {url_without_secrets(url)}"
        self._laid_out = False

    @classmethod
    def from_url(cls, url: str, *, timeout_s: float = 30.0) -> SqlArchiver:
        """Accept `sqlite:///FILE` (an absolute path has a fourth slash) or `postgresql://USER:PASSWORD@HOST/DATABASE`.

        `ValueError` names the allowed URLs, and quotes no possible secret.
        """
        try:
            found = sa.make_url(url)
        except (sa.exc.SQLAlchemyError, ValueError):
            raise ValueError(
                "archive URL: found no URL of a database, allowed: sqlite:///FILE, postgresql://…"
            ) from None
        driver = _DRIVERS.get(found.drivername)
        if driver is None:
            raise ValueError("archive URL: found another database, allowed: sqlite:///FILE, postgresql://…")
        if found.database in (None, "", ":memory:"):
            raise ValueError("archive URL: found no database, allowed: sqlite:///FILE, postgresql://HOST/DATABASE")
        return cls(found.set(drivername=driver), timeout_s=timeout_s)

    def __repr__(self) -> str:
        return f"SqlArchiver({self._name!r})"

    async def put(self, record: Record) -> None:
        row, labels = row_of(record), label_rows_of(record)
        async with self._transaction() as connection:
            result = await connection.execute(_UPSERTS[self._dialect], row)
            if result.rowcount == 0:
                raise conflict_error(record)
            await connection.execute(_DELETE_LABELS, {f"of_{name}": row[name] for name in _IDENTITY})
            if labels:
                await connection.execute(sa.insert(LABELS), labels)

    async def get(self, key: ByUid | ByName) -> Record:
        async with self._transaction() as connection:
            row = (await connection.execute(select_record(key))).first()
        if row is None:
            raise NotArchived(key)
        try:
            return record_of_row(row)
        except BadRecord as error:
            raise corrupt(error) from error

    async def search(self, query: Query) -> Page:
        async with self._transaction() as connection:
            rows = (await connection.execute(select_page(query, self._dialect))).all()
        page = rows if query.limit is None else rows[: query.limit]
        records, bad = [], []
        for row in page:
            try:
                records.append(record_of_row(row))
            except BadRecord as error:
                bad.append(error)
        continue_ = page_token(query, position_of_row(page[-1])) if len(rows) > len(page) else ""
        return Page(tuple(records), continue_, tuple(bad))

    async def delete(self, key: ByUid) -> None:
        """Delete the record. The foreign key deletes its labels."""
        async with self._transaction() as connection:
            await connection.execute(
                sa.delete(RECORDS).where(
                    RECORDS.c.grp == key.kind.group, RECORDS.c.kind == key.kind.kind, RECORDS.c.uid == key.uid
                )
            )

    async def check(self) -> None:
        """Overwrite the layout's version with itself: this needs the rights of a put, and changes nothing."""
        async with self._transaction() as connection:
            await connection.execute(sa.update(SCHEMA).values(version=SCHEMA_VERSION))

    async def close(self) -> None:
        """Close the connections. Waits for SQLite's threads, which call the event loop once more when they end."""
        await self._engine.dispose()
        ends = [asyncio.to_thread(thread.join, self._timeout_s) for thread in self._threads]
        await asyncio.gather(*ends)

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[AsyncConnection]:
        if not self._laid_out:
            async with self._connection() as connection:
                await self._create_schema(connection)
            self._laid_out = True
        async with self._connection() as connection:
            yield connection

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[AsyncConnection]:
        try:
            async with asyncio.timeout(self._timeout_s), self._engine.begin() as connection:
                yield connection
        except TimeoutError as error:
            what = f"{self._name}: no answer within {self._timeout_s:g} s; a retry may succeed"
            raise ArchiveUnavailable(what) from error
        except sa.exc.SQLAlchemyError as error:
            raise translate_error(error, self._name) from error

    async def _create_schema(self, connection: AsyncConnection) -> None:
        if not await _has_schema(connection):
            if self._dialect == "sqlite":
                await connection.exec_driver_sql("BEGIN IMMEDIATE")
            else:
                await connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_SCHEMA_LOCK)))
            if not await _has_schema(connection):
                await connection.run_sync(METADATA.create_all)
                await connection.execute(sa.insert(SCHEMA).values(version=SCHEMA_VERSION))
        found = (await connection.execute(sa.select(SCHEMA.c.version))).scalars().all()
        if list(found) != [SCHEMA_VERSION]:
            raise ArchiveRefused(
                f"{self._name}: its tables have version {', '.join(map(str, found)) or 'none'}, allowed: "
                f"{SCHEMA_VERSION}; use the program that created them, or another database"
            )


def _upsert(insert: sqlite.Insert | postgresql.Insert) -> sa.Executable:
    """Return the upsert. It changes no row if the present one holds a newer version."""
    mine, theirs = insert.excluded.version_number, RECORDS.c.version_number
    return insert.on_conflict_do_update(
        index_elements=_IDENTITY,
        set_={column.name: insert.excluded[column.name] for column in RECORDS.c if not column.primary_key},
        where=sa.or_(mine.is_(None), theirs.is_(None), mine >= theirs),
    ).execution_options(preserve_rowcount=True)


_UPSERTS: Final = {
    "sqlite": _upsert(sqlite.insert(RECORDS)),
    "postgresql": _upsert(postgresql.insert(RECORDS)),
}
"""By dialect. Built once, because building a statement costs more than the database needs to execute it."""
_DELETE_LABELS: Final = sa.delete(LABELS).where(*(LABELS.c[name] == sa.bindparam(f"of_{name}") for name in _IDENTITY))


async def _has_schema(connection: AsyncConnection) -> bool:
    return await connection.run_sync(lambda sync: sa.inspect(sync).has_table(SCHEMA.name))


def url_without_secrets(url: sa.URL) -> str:
    """Return the location of the database without user and options: options may contain passwords."""
    port = f":{url.port}" if url.port else ""
    return f"{url.get_backend_name()}://{url.host or ''}{port}/{url.database or ''}"


def _engine(url: sa.URL, busy_s: float, threads: set[Thread]) -> AsyncEngine:
    """Create the engine. Objects pass as unchanged text, so that the digest of a read equals that of the write.

    `threads` receives the threads of SQLite's connections, one each.
    """
    sqlite_file = url.get_backend_name() == "sqlite"

    def connect(*args: Any, **options: Any) -> Any:
        connection = aiosqlite.connect(*args, **options)
        thread = connection._thread  # noqa: SLF001  # as SQLAlchemy does it: there is no public attribute
        thread.daemon = True
        threads.difference_update([each for each in threads if each.ident is not None and not each.is_alive()])
        threads.add(thread)
        return connection

    engine = create_async_engine(
        url,
        connect_args={"timeout": busy_s, "async_creator_fn": connect}
        if sqlite_file
        else {"connect_timeout": _CONNECT_S, "prepare_threshold": None},
        hide_parameters=True,
        json_serializer=_same_text,
        json_deserializer=_decode_text,
        pool_pre_ping=not sqlite_file,  # a file does not close its connections
    )
    set_up = (lambda raw, _: _set_up_sqlite(raw, busy_s)) if sqlite_file else _set_up_postgresql
    sa.event.listen(engine.sync_engine, "connect", set_up)
    return engine


def _same_text(text: str) -> str:
    return text


def _decode_text(stored: str | bytes) -> str:
    """Decode bytes of PostgreSQL's client. In SQLite, invalid text stays as it is; reading the record reports it."""
    return stored.decode(errors="surrogateescape") if isinstance(stored, bytes) else stored


def _set_up_sqlite(connection: Any, busy_s: float) -> None:
    """Configure a connection: a commit is on disk when it returns, and readers and the writer do not block each other.

    The first connection to a new file changes its journal mode. SQLite does not wait for another connection that does
    the same at that moment, as it does for locks. Therefore this is retried.
    """
    for pragma in ("synchronous=FULL", "foreign_keys=ON"):
        _execute(connection, f"PRAGMA {pragma}")
    deadline = time.monotonic() + busy_s
    while True:
        try:
            return _execute(connection, "PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise
            if time.monotonic() > deadline:
                raise
        sa.util.await_only(asyncio.sleep(_RETRY_S))


def _execute(connection: Any, statement: str) -> None:
    cursor = connection.cursor()
    cursor.execute(statement)
    cursor.close()


def _set_up_postgresql(connection: Any, _: object) -> None:
    """Set the time zone to UTC: the first and last possible years fit in no other time zone."""
    _execute(connection, "SET TIME ZONE 'UTC'")
    connection.commit()
