from __future__ import annotations

import asyncio

import pytest

from situate.archive import (
    ArchiveCorrupt,
    ArchiveError,
    ArchiveRefused,
    ArchiveTooLarge,
    ArchiveUnavailable,
    MemoryArchiver,
    NotArchived,
    Query,
)
from situate.testing.builders.archive import Call, Fault, FaultyArchiver, ForwardingArchiver
from tests.archive.reports import archived

RECORD = archived()
KEY = RECORD.subject.key


@pytest.mark.rule("sharding:B9")
@pytest.mark.parametrize(
    ("fault", "error", "stored"),
    [
        (Fault.ERROR, ArchiveUnavailable, False),
        (Fault.LOST, ArchiveUnavailable, True),
        (Fault.REFUSED, ArchiveRefused, False),
        (Fault.TOO_LARGE, ArchiveTooLarge, False),
    ],
)
async def test_a_put_goes_wrong_as_it_is_told(fault: Fault, error: type[ArchiveError], stored: bool) -> None:
    inner = MemoryArchiver()
    faulty = FaultyArchiver(inner, lambda _, number: fault if number == 1 else None)
    with pytest.raises(error):
        await faulty.put(RECORD)
    assert (await inner.search(Query())).records == ((RECORD,) if stored else ())
    await faulty.put(RECORD)
    assert faulty.calls == [Call("put", KEY.uid, "10", fault), Call("put", KEY.uid, "10")]


@pytest.mark.rule("sharding:B9")
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault.ERROR, ArchiveUnavailable),
        (Fault.LOST, ArchiveUnavailable),
        (Fault.MISSING, NotArchived),
        (Fault.CORRUPT, ArchiveCorrupt),
    ],
)
async def test_a_get_goes_wrong_as_it_is_told(fault: Fault, error: type[ArchiveError]) -> None:
    faulty = FaultyArchiver(MemoryArchiver(), lambda call, _: fault if call.method == "get" else None)
    await faulty.put(RECORD)
    with pytest.raises(error):
        await faulty.get(KEY)
    await faulty.check()


async def test_what_is_read_back_may_be_another_record() -> None:
    faulty = FaultyArchiver(MemoryArchiver(), lambda call, _: Fault.OTHER if call.method == "get" else None)
    await faulty.put(RECORD)
    assert (await faulty.get(KEY)).digest != RECORD.digest
    await faulty.delete(KEY)
    assert (await faulty.search(Query())).records == ()
    await faulty.close()


async def test_an_archive_that_hangs_answers_never() -> None:
    faulty = FaultyArchiver(MemoryArchiver(), lambda *_: Fault.HANG)
    for call in (faulty.put(RECORD), faulty.get(KEY), faulty.search(Query()), faulty.delete(KEY), faulty.check()):
        task = asyncio.ensure_future(call)
        await asyncio.sleep(0)
        assert not task.done()
        task.cancel()
        await asyncio.wait([task])
    assert [call.method for call in faulty.calls] == ["put", "get", "search", "delete", "check"]


async def test_what_is_handed_on_arrives() -> None:
    inner = MemoryArchiver()
    forwarding = ForwardingArchiver(inner)
    await forwarding.put(RECORD)
    await forwarding.check()
    assert await forwarding.get(KEY) == RECORD
    assert (await forwarding.search(Query())).records == (RECORD,)
    await forwarding.delete(KEY)
    await forwarding.close()
    assert (await inner.search(Query())).records == ()
