"""What only MongoDB's protocol has: commands whose answer is lost, indexes, documents that are too large, secrets."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from pymongo import errors

from situate.archive.protocol import ArchiveError, ArchiveRefused, ArchiveTooLarge, ArchiveUnavailable
from situate.archive.records.query import Page, Query
from situate.archive.records.record import ByUid
from situate.archive.stores.mongodb.archiver import MongoArchiver, _failure
from situate.archive.stores.mongodb.documents import UNIQUE
from tests.archive.reports import KIND, archived, report
from tests.archive.servers.mongodb import MongoServer
from tests.archive.store_fixtures_mongodb import MongoDB, collect_forgotten_sockets, forgets_sockets
from tests.archive.wire import Wire, never, wire_to

pytestmark = [pytest.mark.rule("sharding:K16"), pytest.mark.xdist_group("mongodb"), forgets_sockets]

BEFORE = archived(report(version=10, labels={"state": "before"}), at_s=0)
AFTER = archived(report(version=11, labels={"state": "after"}), at_s=1)


@pytest.fixture(autouse=True)
def _nothing_left_behind() -> Iterator[None]:
    yield
    collect_forgotten_sockets()


@pytest.fixture
def database(mongodb: MongoServer) -> MongoDB:
    return MongoDB(mongodb)


@pytest.fixture
def collection(database: MongoDB) -> Iterator[Any]:
    with database.collection() as records:
        yield records


def through(wire: Wire, database: MongoDB, timeout_s: float) -> MongoArchiver:
    """Straight to the wire: a member of a replica set would be asked where the others are."""
    url = f"mongodb://127.0.0.1:{wire.port}/{database.database}?directConnection=true"
    return MongoArchiver(url, timeout_s=timeout_s)


@pytest.mark.rule("sharding:B9", "sharding:S8")
@pytest.mark.parametrize("heard", [True, False], ids=["stored, answer lost", "lost before it was stored"])
async def test_a_put_whose_answer_is_lost_is_one_record_after_the_next(database: MongoDB, heard: bool) -> None:
    straight = database.archiver()
    await straight.put(BEFORE)
    async with wire_to(database.server.port) as wire:
        archiver = through(wire, database, timeout_s=60.0)
        await archiver.check()
        puts = count(1)

        def first_put(piece: bytes) -> bool:
            return AFTER.digest.encode() in piece and next(puts) == 1

        if heard:
            wire.deaf = first_put
        else:
            wire.cut = first_put
        await archiver.put(AFTER)  # the driver tries once more by itself
        assert next(puts) > 2
        assert await straight.search(Query()) == Page((AFTER,))
        await archiver.close()
    await straight.close()


@pytest.mark.rule("sharding:B9")
async def test_a_server_that_never_answers_a_put_is_unavailable_and_what_it_holds_is_whole(database: MongoDB) -> None:
    straight = database.archiver()
    await straight.put(BEFORE)
    async with wire_to(database.server.port) as wire:
        archiver = through(wire, database, timeout_s=2.0)
        wire.cut = lambda piece: AFTER.digest.encode() in piece
        with pytest.raises(ArchiveUnavailable, match="no answer in time"):
            await archiver.put(AFTER)
        wire.cut = never
        assert await straight.search(Query()) == Page((BEFORE,))
        await archiver.close()
    await straight.put(AFTER)
    assert await straight.search(Query()) == Page((AFTER,))
    await straight.close()


@pytest.mark.rule("sharding:S8")
async def test_the_indexes_are_made_once_and_one_is_unique(database: MongoDB, collection: Any) -> None:
    for _ in range(2):
        archiver = database.archiver()
        await archiver.check()
        await archiver.close()
    indexes = collection.index_information()
    unique = [index["key"] for index in indexes.values() if index.get("unique")]
    assert unique == [[(name, 1) for name in UNIQUE]]
    assert len(indexes) == 7, "with MongoDB's own"
    assert collection.count_documents({}) == 0, "a check leaves nothing"


@pytest.mark.rule("sharding:S8")
async def test_a_collection_that_would_keep_two_records_of_a_uid_is_refused(database: MongoDB, collection: Any) -> None:
    collection.create_index([(name, 1) for name in UNIQUE])
    archiver = database.archiver()
    for call in (archiver.check(), archiver.put(AFTER)):
        with pytest.raises(ArchiveRefused, match="its index on group, kind, uid is not unique; drop it"):
            await call
    await archiver.close()


async def test_a_record_beside_which_a_field_was_changed_is_named_and_replaced(
    database: MongoDB, collection: Any
) -> None:
    archiver = database.archiver()
    await archiver.put(AFTER)
    collection.update_one({}, {"$set": {"version": 99, "name": "other"}})
    page = await archiver.search(Query())
    assert [(error.path, error.problem.partition(",")[0]) for error in page.corrupt] == [("version", "found 99")]
    await archiver.put(BEFORE)  # older than what the field claims; what cannot be read is worth less than any record
    assert await archiver.search(Query()) == Page((BEFORE,))
    await archiver.close()


@pytest.mark.parametrize("excess", [-300, 0, 3 << 20], ids=["as a document", "as an object", "as a message"])
async def test_a_record_that_is_too_large_is_refused_for_good(database: MongoDB, excess: int) -> None:
    archiver = database.archiver()
    await archiver.put(archived(report("small")))
    with pytest.raises(ArchiveTooLarge, match="MongoDB accepts no document above 16 MiB"):
        await archiver.put(archived(report(data="x" * ((16 << 20) + excess))))
    assert len((await archiver.search(Query())).records) == 1
    await archiver.close()


@pytest.mark.parametrize(
    "url",
    [
        "mongodb://me:hunter2@",
        "mongodb://me:hunter2@[::1/x",
        "mongodb://me:hun/ter2@host",
        "mongodb://me:hunter2@host:port/x",
        "mongodb://me:hunter2@host/x?timeoutMS=hunter2",
        "mongodb://me:hunter2@host/a$b",
    ],
)
def test_a_url_that_is_none_is_not_quoted(url: str) -> None:
    with pytest.raises(ValueError, match="archive URL: found no URL that the MongoDB driver accepts") as caught:
        MongoArchiver(url)
    assert "hunter2" not in f"{caught.value}{caught.value.__cause__}"


async def test_nobody_there_is_unavailable_and_no_secret_is_told() -> None:
    archiver = MongoArchiver("mongodb://me:hunter2@127.0.0.1:1/records", timeout_s=0.5)
    with pytest.raises(ArchiveUnavailable, match=r"MongoDB's collection records\.archive: get .*: no answer") as caught:
        await archiver.get(ByUid(KIND, "u"))
    assert "hunter2" not in f"{caught.value!r}{archiver!r}{caught.value.__cause__}"
    await archiver.close()


def failed(code: int, **details: Any) -> errors.OperationFailure:
    return errors.OperationFailure("said", code, {"codeName": "Name", "errmsg": "short", **details})


@pytest.mark.parametrize(
    ("error", "want"),
    [
        (failed(13), ArchiveRefused),
        (failed(18), ArchiveRefused),
        (failed(10334), ArchiveTooLarge),
        (failed(17420), ArchiveTooLarge),
        (failed(1), ArchiveUnavailable),
        (failed(14031), ArchiveUnavailable),
        (failed(91, errorLabels=["RetryableWriteError"]), ArchiveUnavailable),
        (failed(64, writeConcernErrors=[{}]), ArchiveUnavailable),
        (errors.NotPrimaryError("x"), ArchiveUnavailable),
        (errors.ExecutionTimeout("x", 50, {}), ArchiveUnavailable),
        (errors.WTimeoutError("x", 64, {}), ArchiveUnavailable),
        (errors.ServerSelectionTimeoutError("x"), ArchiveUnavailable),
        (errors.NetworkTimeout("x"), ArchiveUnavailable),
        (errors.WaitQueueTimeoutError("x"), ArchiveUnavailable),
        (errors.DocumentTooLarge("x"), ArchiveTooLarge),
        (OverflowError("x"), ArchiveRefused),
        (errors.InvalidOperation("x"), ArchiveRefused),
    ],
)
def test_failures_say_whether_trying_again_helps(error: Exception, want: type[ArchiveError]) -> None:
    assert type(_failure("there", error)) is want
