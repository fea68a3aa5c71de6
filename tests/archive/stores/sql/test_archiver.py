"""What only databases have: commits whose answer is lost, locks, layouts, rights, and servers that crash."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
import pytest_asyncio
import sqlalchemy as sa

from situate.archive.protocol import (
    ArchiveCorrupt,
    ArchiveError,
    ArchiveRefused,
    ArchiveTooLarge,
    ArchiveUnavailable,
    NotArchived,
)
from situate.archive.records.query import Page, Query
from situate.archive.stores.sql.archiver import SqlArchiver
from situate.archive.stores.sql.errors import translate_error
from situate.archive.stores.sql.tables import METADATA
from tests.archive.killed_writer import AFTER, BEFORE
from tests.archive.reports import archived, report
from tests.archive.servers.postgresql import PostgresqlServer
from tests.archive.store_fixtures import Postgresql
from tests.archive.wire import Wire, never, wire_to

pytestmark = pytest.mark.rule("sharding:K16")

OnPostgresql = pytest.mark.xdist_group("postgresql")
Open = Callable[..., SqlArchiver]


@pytest_asyncio.fixture
async def open_sql() -> AsyncIterator[Open]:
    """Opens archivers, which are closed at the end."""
    async with AsyncExitStack() as stack:

        def open_one(url: str, **options: float) -> SqlArchiver:
            archiver = SqlArchiver.from_url(url, **options)
            stack.push_async_callback(archiver.close)
            return archiver

        yield open_one


@pytest.fixture
def database(postgresql: PostgresqlServer) -> Postgresql:
    return Postgresql(postgresql)


def through(wire: Wire, database: Postgresql) -> str:
    """Each piece is a message of the protocol: without TLS, which is asked for first otherwise."""
    return database.url.replace(f":{database.server.port}", f":{wire.port}") + "?sslmode=disable&gssencmode=disable"


@OnPostgresql
@pytest.mark.rule("sharding:S8")
@pytest.mark.parametrize("stored", [True, False], ids=["stored, answer lost", "lost before it was stored"])
async def test_a_connection_lost_during_commit_leaves_it_open_and_a_second_put_settles_it(
    database: Postgresql, open_sql: Open, stored: bool
) -> None:
    straight = open_sql(database.url)
    async with wire_to(database.server.port) as wire:
        archiver = open_sql(through(wire, database))
        await archiver.check()
        commits: list[bytes] = []

        def first_commit(piece: bytes) -> bool:
            if b"COMMIT" not in piece:
                return False
            commits.append(piece)
            return len(commits) == 1

        if stored:
            wire.deaf = first_commit
        else:
            wire.cut = first_commit
        with pytest.raises(ArchiveUnavailable, match="a retry may succeed"):
            await archiver.put(AFTER)
        assert (await straight.search(Query())).records == ((AFTER,) if stored else ())
        await archiver.put(AFTER)
        assert await straight.search(Query(match_labels={"state": "after"})) == Page((AFTER,))
        await archiver.close()


@OnPostgresql
@pytest.mark.rule("sharding:B9", "sharding:S8")
async def test_a_client_cut_off_before_any_of_its_messages_leaves_the_old_record_or_the_new(
    database: Postgresql, open_sql: Open
) -> None:
    straight = open_sql(database.url)
    failures = 0
    async with wire_to(database.server.port) as wire:
        for last in count(1):
            await straight.delete(AFTER.subject.key)
            await straight.put(BEFORE)
            archiver = open_sql(through(wire, database))
            await archiver.check()
            messages = count(1)
            wire.cut = lambda _, messages=messages, last=last: next(messages) == last  # type: ignore[misc]  # its own of each round
            try:
                await archiver.put(AFTER)
                expected = [AFTER]
            except ArchiveUnavailable:
                failures += 1
                expected = [BEFORE]
            wire.cut = never
            await archiver.close()
            (found,) = (await straight.search(Query())).records
            assert found in expected, f"cut before message {last}"
            state = found.subject.labels["state"]
            assert (await straight.search(Query(match_labels={"state": state}))).records == (found,)
            if next(messages) <= last:
                break
    assert failures >= 3, "cut between the statements of a put"


@OnPostgresql
@pytest.mark.rule("sharding:B9")
async def test_a_server_that_crashes_is_unavailable_and_used_again_when_it_is_back(
    database: Postgresql, open_sql: Open
) -> None:
    first, second = archived(report("a")), archived(report("b"))
    archiver = open_sql(database.url)
    await archiver.put(first)
    database.server.crash()
    try:
        calls = (
            archiver.put(second),
            archiver.get(first.subject.key),
            archiver.search(Query()),
            archiver.delete(first.subject.key),
            archiver.check(),
        )
        for result in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(result, ArchiveUnavailable), result
            assert result.retriable
    finally:
        database.server.start()
    assert await archiver.get(first.subject.key) == first
    with pytest.raises(NotArchived):
        await archiver.get(second.subject.key)
    await archiver.put(second)


@OnPostgresql
async def test_a_server_that_does_not_answer_is_unavailable(database: Postgresql, open_sql: Open) -> None:
    patient = open_sql(database.url)
    await patient.put(BEFORE)
    with psycopg.connect(database.url) as connection:
        connection.execute("LOCK TABLE situate_archive")
        with pytest.raises(ArchiveUnavailable, match=r"a retry may succeed"):
            await open_sql(database.url, timeout_s=0.3).put(AFTER)
        connection.rollback()
    assert await patient.get(BEFORE.subject.key) == BEFORE
    await patient.put(AFTER)
    assert await patient.get(AFTER.subject.key) == AFTER


@OnPostgresql
async def test_rights_that_are_missing_are_refused_for_good(database: Postgresql, open_sql: Open) -> None:
    await open_sql(database.url).put(BEFORE)
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS visitor")
        connection.execute("CREATE ROLE visitor LOGIN")
    archiver = open_sql(database.url.replace("//archivist", "//visitor"))
    for call in (archiver.check(), archiver.put(AFTER)):
        with pytest.raises(
            ArchiveRefused, match=r"permission denied .*; correct the database or the permissions of this user"
        ):
            await call
    with psycopg.connect(database.url, autocommit=True) as connection:
        tables = ", ".join(table.name for table in METADATA.sorted_tables)
        connection.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {tables} TO visitor".encode())
    await archiver.check()
    await archiver.put(AFTER)
    assert (await archiver.search(Query())).records == (AFTER,)
    await archiver.delete(AFTER.subject.key)


EDITS = {
    "name = 'other'": "subject.name",
    "namespace = 'other'": "subject.namespace",
    "resource_version = '11'": "subject.resourceVersion",
    "owner_uid = 'me'": "subject.ownerUid",
    "version = 'v2'": "subject.version",
    "digest = 'sha256:0'": "digest",
    "term = -1": "term",
    "object = '[]'": "object",
    "object = '1'": "object",
    "object = 'null'": "object",
}


@OnPostgresql
async def test_rows_edited_by_hand_are_named(database: Postgresql, open_sql: Open) -> None:
    archiver = open_sql(database.url)
    with psycopg.connect(database.url, autocommit=True) as connection:
        for change, path in EDITS.items():
            await archiver.put(BEFORE)  # in place of the one that was spoilt
            connection.execute(f"UPDATE situate_archive SET {change}".encode())
            page = await archiver.search(Query())
            assert [error.path for error in page.corrupt] == [path], change
            assert "uid-ns1-nightly" in page.corrupt[0].record


async def test_columns_of_sqlite_may_hold_anything(tmp_path: Path, open_sql: Open) -> None:
    archiver = open_sql(f"sqlite:///{tmp_path / 'a.db'}")
    await archiver.put(BEFORE)
    whole = archived(report("whole"), at_s=-1)
    await archiver.put(whole)
    for change in (
        "object = x'ff'",
        "object = 5",
        "object = '{'",
        "reason = x'ff'",
        "term = 'many'",
        "version = 2",
        "digest = 1.5",
        "archived_at = '2026-13-31T12:00:00.000000Z'",
    ):
        connection = sqlite3.connect(tmp_path / "a.db")
        with connection:
            connection.execute(f"UPDATE situate_archive SET {change} WHERE name = 'nightly'")
        connection.close()
        page = await archiver.search(Query())
        assert page.records == (whole,), change
        assert len(page.corrupt) == 1, change
        with pytest.raises(ArchiveCorrupt):
            await archiver.get(BEFORE.subject.key)
        await archiver.delete(BEFORE.subject.key)
        await archiver.put(BEFORE)


async def test_what_is_no_time_is_kept_out_of_the_columns_of_sqlite(tmp_path: Path, open_sql: Open) -> None:
    await open_sql(f"sqlite:///{tmp_path / 'a.db'}").put(BEFORE)
    connection = sqlite3.connect(tmp_path / "a.db")
    for column in ("archived_at", "completed_at"):
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute(f"UPDATE situate_archive SET {column} = 'yesterday'")
    connection.close()


@pytest.mark.rule("sharding:B9", "sharding:S8")
async def test_a_writer_killed_at_any_instruction_leaves_the_old_record_or_the_new_one(
    tmp_path: Path, open_sql: Open
) -> None:
    command = (sys.executable, "-m", "tests.archive.killed_writer", "sqlite", str(tmp_path))
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    last = int(done.stdout)
    assert last > 5, "many moments of a put were tried"
    states = []
    for number in range(1, last + 1):
        archiver = open_sql(f"sqlite:///{tmp_path / str(number) / 'archive.db'}")
        (found,) = (await archiver.search(Query())).records
        assert found in (BEFORE, AFTER)
        states.append(found == AFTER)
        state = found.subject.labels["state"]
        assert (await archiver.search(Query(match_labels={"state": state}))).records == (found,)
        await archiver.put(AFTER)
        assert (await archiver.search(Query())).records == (AFTER,)
        await archiver.close()
    assert states == sorted(states), "once it is committed it stays"
    assert not states[0]
    assert states[-1]


async def test_a_file_that_another_process_is_writing_is_unavailable_after_a_while(
    tmp_path: Path, open_sql: Open
) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    patient = open_sql(url)
    await patient.put(BEFORE)
    other = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    hasty = open_sql(url, timeout_s=0.2)
    with pytest.raises(ArchiveUnavailable):
        await hasty.put(AFTER)
    assert await patient.get(BEFORE.subject.key) == BEFORE, "readers wait for no writer"
    waiting = asyncio.ensure_future(patient.put(AFTER))
    other.execute("ROLLBACK")
    other.close()
    await waiting
    assert await patient.get(AFTER.subject.key) == AFTER


@pytest.mark.parametrize("where", ["sqlite", pytest.param("postgresql", marks=OnPostgresql)])
async def test_tables_are_created_once_whoever_comes_first(
    where: str, request: pytest.FixtureRequest, tmp_path: Path, open_sql: Open
) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}" if where == "sqlite" else request.getfixturevalue("database").url
    await asyncio.gather(*(open_sql(url).check() for _ in range(5)))
    await open_sql(url).put(BEFORE)
    assert (await open_sql(url).search(Query())).records == (BEFORE,)


async def test_tables_of_another_version_are_refused(tmp_path: Path, open_sql: Open) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    await open_sql(url).put(BEFORE)
    for change, found in (("UPDATE situate_archive_schema SET version = 2", "2"), ("DELETE FROM {}", "none")):
        connection = sqlite3.connect(tmp_path / "a.db")
        with connection:
            connection.execute(change.format("situate_archive_schema"))
        connection.close()
        with pytest.raises(ArchiveRefused, match=f"its tables have version {found}, allowed: 1; use the program"):
            await open_sql(url).put(AFTER)


async def test_files_that_are_no_databases_or_nowhere(tmp_path: Path, open_sql: Open) -> None:
    (tmp_path / "text").write_text("no database, " * 1000)
    with pytest.raises(ArchiveRefused, match="the file is not an SQLite database; name another one"):
        await open_sql(f"sqlite:///{tmp_path / 'text'}").check()
    with pytest.raises(ArchiveUnavailable, match="create the folder, or mount its volume"):
        await open_sql(f"sqlite:///{tmp_path / 'nowhere' / 'a.db'}").check()
    (tmp_path / "torn.db").write_bytes(b"")
    await open_sql(f"sqlite:///{tmp_path / 'torn.db'}").put(BEFORE)


async def test_nothing_of_a_closed_archive_comes_back_to_the_event_loop(tmp_path: Path, open_sql: Open) -> None:
    nowhere = open_sql(f"sqlite:///{tmp_path / 'nowhere' / 'a.db'}")
    with pytest.raises(ArchiveUnavailable):
        await nowhere.check()
    cancelled = open_sql(f"sqlite:///{tmp_path / 'a.db'}")
    task = asyncio.ensure_future(cancelled.check())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    for archiver in (nowhere, cancelled):
        threads = set(archiver._threads)
        await archiver.close()
        assert threads
        assert not any(thread.is_alive() for thread in threads)


@pytest.mark.rule("sharding:B9")
async def test_a_disk_without_room_is_unavailable_and_leaves_what_was_there(tmp_path: Path, open_sql: Open) -> None:
    archiver = open_sql(f"sqlite:///{tmp_path / 'a.db'}")
    await archiver.put(BEFORE)
    await archiver.close()

    def small(connection: Any, _: object) -> None:
        connection.cursor().execute("PRAGMA max_page_count = 1")  # no fewer than there are

    archiver = open_sql(f"sqlite:///{tmp_path / 'a.db'}")
    sa.event.listen(archiver._engine.sync_engine, "connect", small)
    with pytest.raises(ArchiveUnavailable, match="full; free some space"):
        await archiver.put(archived(report(version=11, data="x" * 100_000)))
    assert (await archiver.search(Query())).records == (BEFORE,)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (sqlite3.SQLITE_BUSY, ArchiveUnavailable),
        (sqlite3.SQLITE_LOCKED, ArchiveUnavailable),
        (sqlite3.SQLITE_IOERR_FSYNC, ArchiveUnavailable),
        (sqlite3.SQLITE_CANTOPEN, ArchiveUnavailable),
        (sqlite3.SQLITE_READONLY_DBMOVED, ArchiveRefused),
        (sqlite3.SQLITE_CORRUPT, ArchiveRefused),
        (sqlite3.SQLITE_TOOBIG, ArchiveTooLarge),
    ],
)
def test_errors_of_sqlite_say_whether_trying_again_helps(code: int, expected: type[ArchiveError]) -> None:
    cause = sqlite3.OperationalError("x")
    cause.sqlite_errorcode = code
    assert type(translate_error(sa.exc.DBAPIError("INSERT", {}, cause), "the archive")) is expected


async def test_nobody_there_is_unavailable_and_no_secret_is_told(open_sql: Open) -> None:
    archiver = open_sql("postgresql://me:hunter2@127.0.0.1:1/records?sslpassword=hunter3")
    with pytest.raises(ArchiveUnavailable) as caught:
        await archiver.put(BEFORE)
    shown = f"{caught.value} {caught.value!r} {archiver!r} {caught.value.__cause__}"
    assert "postgresql://127.0.0.1:1/records" in shown
    for secret in ("hunter2", "hunter3"):
        assert secret not in shown


@pytest.mark.parametrize(
    ("cause", "expected"),
    [
        (psycopg.errors.DiskFull("x"), ArchiveUnavailable),
        (psycopg.errors.OutOfMemory("x"), ArchiveUnavailable),
        (psycopg.errors.AdminShutdown("x"), ArchiveUnavailable),
        (psycopg.errors.DeadlockDetected("x"), ArchiveUnavailable),
        (psycopg.errors.LockNotAvailable("x"), ArchiveUnavailable),
        (psycopg.errors.ReadOnlySqlTransaction("x"), ArchiveUnavailable),
        (psycopg.errors.TooManyConnections("x"), ArchiveUnavailable),
        (psycopg.OperationalError("x"), ArchiveUnavailable),
        (psycopg.errors.ProgramLimitExceeded("x"), ArchiveTooLarge),
        (psycopg.errors.InsufficientPrivilege("x"), ArchiveRefused),
        (psycopg.errors.UndefinedTable("x"), ArchiveRefused),
        (psycopg.errors.InvalidCatalogName("x"), ArchiveRefused),
    ],
)
def test_errors_of_postgresql_say_whether_trying_again_helps(
    cause: psycopg.Error, expected: type[ArchiveError]
) -> None:
    error = translate_error(
        sa.exc.DBAPIError("INSERT secret", {"object": "secret"}, cause, hide_parameters=True), "the archive"
    )
    assert type(error) is expected
    assert "secret" not in str(error)
