"""Servers whose disk is really full: a put is refused for now, what was stored is read, and new room is used.

The disk is one in memory of some megabytes, which only root may mount; elsewhere error codes stand for it
(`test_sql`, `test_s3`, `test_mongodb`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from situate.archive.protocol import Archiver, ArchiveUnavailable
from situate.archive.records.query import Query
from situate.archive.records.record import Record
from tests.archive.reports import archived, report
from tests.archive.servers import mongodb, postgresql
from tests.archive.servers.mongodb import MongoServer
from tests.archive.servers.postgresql import PostgresqlServer
from tests.archive.servers.s3 import S3Server
from tests.archive.small_disk import SmallDisk, small_disk
from tests.archive.store_fixtures import Postgresql
from tests.archive.store_fixtures_mongodb import MongoDB, collect_forgotten_sockets, forgets_sockets
from tests.archive.store_fixtures_s3 import S3

SERVERS = (
    pytest.param("postgresql", marks=pytest.mark.xdist_group("postgresql")),
    pytest.param("s3", marks=[pytest.mark.xdist_group("s3"), pytest.mark.realcluster]),
    pytest.param("mongodb", marks=[pytest.mark.xdist_group("mongodb"), forgets_sockets]),
)
MOST = 100
"""Records, of more than a disk holds."""
Full = tuple[Postgresql | S3 | MongoDB, SmallDisk]


@pytest.fixture(params=SERVERS)
def full(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Full]:
    """A store on a server of its own, and the disk of that."""
    data = tmp_path / "data"
    data.mkdir()
    with ExitStack() as stack:
        match request.param:
            case "postgresql":
                if reason := postgresql.why_not():
                    pytest.skip(reason)
                server = stack.enter_context(PostgresqlServer(lambda folder: small_disk(folder, 96)))
                yield Postgresql(server), SmallDisk(server.folder / "data")
            case "s3":
                program = request.getfixturevalue("s3_program")
                disk = stack.enter_context(small_disk(data, 8))
                yield S3(stack.enter_context(S3Server(program, tmp_path)), tmp_path), disk
            case _:
                if reason := mongodb.why_not():
                    pytest.skip(reason)
                disk = stack.enter_context(small_disk(data, 64))
                yield MongoDB(stack.enter_context(MongoServer(tmp_path, durable=True))), disk
    collect_forgotten_sockets()


def large(number: int) -> Record:
    return archived(report(f"n{number}", data="x" * (1 << 20)), at_s=number)


async def put_more(archiver: Archiver, stored: list[Record]) -> None:
    while len(stored) < MOST:
        await archiver.put(large(len(stored)))
        stored.append(large(len(stored)))


@pytest.mark.rule("sharding:B9", "sharding:S8")
@pytest.mark.slow
async def test_a_put_is_refused_for_now_and_nothing_is_lost(full: Full) -> None:
    """Servers have room of their own, such as a journal made beforehand, so some puts may still find a place."""
    store, disk = full
    archiver, stored = store.archiver(), [large(0)]
    await archiver.put(stored[0])
    disk.fill()
    with pytest.raises(ArchiveUnavailable) as refused:
        await put_more(archiver, stored)
    assert refused.value.retriable
    if isinstance(store, MongoDB):  # WiredTiger serves nothing more until it is started anew with room
        disk.empty()
        store.server.process.kill()
        store.server.start()
    for record in stored:
        assert await archiver.get(record.subject.key) == record
    disk.empty()
    stored.append(large(len(stored)))
    await archiver.put(stored[-1])
    page = await archiver.search(Query())
    assert (page.records, page.corrupt) == (tuple(reversed(stored)), ())
    await archiver.close()
