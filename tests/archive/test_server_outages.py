"""Servers of S3 and of MongoDB's protocol that die in the middle of writes, and come back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from situate.archive.protocol import Archiver, ArchiveUnavailable, NotArchived
from situate.archive.records.query import Query
from situate.archive.records.record import Record
from tests.archive.reports import archived, report
from tests.archive.servers import mongodb
from tests.archive.servers.mongodb import MongoServer
from tests.archive.servers.s3 import S3Server
from tests.archive.store_fixtures_mongodb import MongoDB, collect_forgotten_sockets, forgets_sockets
from tests.archive.store_fixtures_s3 import S3

pytestmark = [pytest.mark.rule("sharding:B9"), pytest.mark.slow]
RECORDS = 32
IMPATIENT_S = 3.0
"""For calls that are to fail; where the machine is slow, others may fail as well, and nothing is asserted of those."""

SERVERS = (
    pytest.param("s3", marks=[pytest.mark.xdist_group("s3"), pytest.mark.realcluster]),
    pytest.param("mongodb", marks=[pytest.mark.xdist_group("mongodb"), forgets_sockets]),
)


@pytest.fixture(params=SERVERS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[S3 | MongoDB]:
    """On a server of its own, which is killed."""
    if request.param == "s3":
        with S3Server(request.getfixturevalue("s3_program"), tmp_path / "server") as bucket:
            if not bucket.may_be_killed:
                pytest.skip("this file system has no extended attributes, so a killed versitygw leaves halves")
            yield S3(bucket, tmp_path)
        return
    if reason := mongodb.why_not():
        pytest.skip(reason)
    with MongoServer(tmp_path, durable=True) as server:
        yield MongoDB(server)
    collect_forgotten_sockets()


@pytest.mark.rule("sharding:S8")
async def test_what_was_acknowledged_is_there_and_the_rest_can_be_put_again(store: S3 | MongoDB) -> None:
    records = [archived(report(f"n{n}", data="x" * 20_000), at_s=n) for n in range(RECORDS)]
    acknowledged: list[Record] = []

    async def put(record: Record) -> None:
        await archiver.put(record)
        acknowledged.append(record)
        if len(acknowledged) == RECORDS // 4:
            store.server.process.kill()  # the others are under way, or begin now

    patient, archiver = store.archiver(), store.archiver(timeout_s=IMPATIENT_S)
    await patient.check()
    results = await asyncio.gather(*(put(record) for record in records), return_exceptions=True)
    store.server.process.kill()  # where it was too slow to acknowledge so many in time
    assert {type(result) for result in results} <= {type(None), ArchiveUnavailable}
    await archiver.close()

    store.server.start()
    there = await whole(patient, records)
    assert {record.subject.uid for record in acknowledged} <= {record.subject.uid for record in there}
    for record in records:
        await patient.put(record)
    page = await patient.search(Query())
    assert page.records == tuple(reversed(records)), "one record for each UID, none missing"
    assert not page.corrupt
    await patient.close()


async def test_a_server_that_is_down_is_unavailable_to_every_call_and_used_again_when_it_is_back(
    store: S3 | MongoDB,
) -> None:
    first, second = archived(report("a")), archived(report("b"))
    patient, archiver = store.archiver(), store.archiver(timeout_s=IMPATIENT_S)
    await patient.put(first)
    store.server.process.kill()
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
    await archiver.close()
    store.server.start()
    assert await patient.get(first.subject.key) == first
    with pytest.raises(NotArchived):
        await patient.get(second.subject.key)
    await patient.close()


async def whole(archiver: Archiver, records: list[Record]) -> list[Record]:
    """Those that are there; each of them in one piece."""
    found = []
    for record in records:
        try:
            stored = await archiver.get(record.subject.key)
        except NotArchived:
            continue
        assert stored == record
        found.append(stored)
    return found
