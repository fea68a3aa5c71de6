"""A supervisor's own steps against every store, with every fault at every call of the archive, and crashes between."""

from __future__ import annotations

from itertools import count

import pytest

from situate.archive.protocol import Archiver
from situate.archive.records.query import Query
from situate.archive.records.record import Record
from situate.sharding.assignment.archive_steps import ArchiveStep, Retry
from situate.testing.builders.archive import GET_FAULTS, PUT_FAULTS, Call, Fault, FaultyArchiver
from tests.conformance.ksched_archive_play import Play
from tests.conformance.ksched_archive_steps import Result

pytestmark = pytest.mark.rule("sharding:B9", "sharding:S7", "sharding:S8", "sharding:S9")

FAULTS = [("put", fault) for fault in PUT_FAULTS] + [("get", fault) for fault in GET_FAULTS]


class Behind:
    """The archive of a play: a store, and faults in front of it."""

    def __init__(self, archiver: Archiver) -> None:
        self.archiver = archiver

    async def reopen(self) -> None:
        """Faults and calls are counted on."""

    async def edit(self, record: Record) -> None:
        raise NotImplementedError("no play of these tests edits")

    async def torn(self, record: Record) -> None:
        """A process that dies in the middle of a put is a matter of each store's own tests."""

    async def full(self, record: Record) -> None:
        raise NotImplementedError("no play of these tests fills the disk")

    async def visible_partials(self) -> int:
        return len((await self.archiver.search(Query())).corrupt)


def released_without_a_copy(calls: list[Call], versions: list[str]) -> bool:
    """Whether a finalizer went although its version had not been read back before."""
    put = ""
    verified = set()
    for call in calls:
        if call.method == "put":
            put = call.resource_version
        elif call.method == "get" and call.fault is None:
            verified.add(put)
    return not set(versions) <= verified


async def settled(archiver: FaultyArchiver, uid: str, crash_before: int = 0) -> Play:
    """One object, from its completion to its end; before that call the supervisor dies, and another one leads."""
    play = Play(Behind(archiver), stored_when_unknown=True)
    play.create(uid)
    for number in count(1):
        if number == crash_before:
            play.new_leader("s2")
        if play.begun(play.leading) is None:
            return play
        assert number < 60, "it never ends"
        await play.step(Result.OK, play.leading)
    raise AssertionError("the loop ends by itself")


@pytest.mark.parametrize(("method", "fault"), FAULTS, ids=lambda each: each if isinstance(each, str) else each.name)
async def test_a_fault_at_any_call_of_the_archive_loses_nothing(archiver: Archiver, method: str, fault: Fault) -> None:
    for times in (1, 3):
        uid = f"U{times}"
        made = count(1)

        def strikes(call: Call, _: int, times: int = times, made: count[int] = made) -> Fault | None:
            return fault if call.method == method and next(made) <= times else None

        faulty = FaultyArchiver(archiver, strikes)
        play = await settled(faulty, uid)
        assert play.objects == {}
        assert sum(call.fault is fault for call in faulty.calls) == times
        (record,) = (await archiver.search(Query(uid=uid))).records
        assert not released_without_a_copy(faulty.calls, play.released)
        assert [record.subject.resource_version] == play.released
        assert play.alerts == (times if fault is Fault.CORRUPT else 0)


async def test_a_supervisor_that_dies_before_any_call_leaves_one_record_and_no_object(archiver: Archiver) -> None:
    for before in count(1):
        uid = f"U{before}"
        faulty = FaultyArchiver(archiver, lambda *_: None)
        play = await settled(faulty, uid, crash_before=before)
        assert play.objects == {}
        assert len((await archiver.search(Query(uid=uid))).records) == 1
        assert not released_without_a_copy(faulty.calls, play.released)
        if play.leading == "s1":
            assert before > len(ArchiveStep), "it died before every step"
            return


@pytest.mark.rule("sharding:L4")
async def test_an_hour_without_the_archive_loses_nothing(archiver: Archiver) -> None:
    """Every call fails, each third of them although it was carried out; objects complete and are edited meanwhile."""
    for number in range(3):
        uid = f"U{number}"
        play = Play(Behind(FaultyArchiver(archiver, lambda *_: None)), stored_when_unknown=True)
        ends = play.now + 3600

        def strikes(_: Call, made: int, play: Play = play, ends: float = ends) -> Fault | None:
            return (Fault.LOST if made % 3 == 0 else Fault.ERROR) if play.now < ends else None

        faulty = FaultyArchiver(archiver, strikes)
        play.backend = Behind(faulty)
        play.create(uid)
        tries = 0
        while play.begun(play.leading) is not None:
            await play.step(Result.OK, play.leading)
            if isinstance(play.last, Retry):
                tries += 1
                play.now += min(play.last.cap_s, 2.0**tries)
                if tries == 5:
                    play._changed(uid, labels={"edited": "meanwhile"})
        assert play.now >= ends
        assert play.objects == {}
        (record,) = (await archiver.search(Query(uid=uid))).records
        assert record.subject.labels["edited"] == "meanwhile"
        assert [record.subject.resource_version] == play.released
        assert not released_without_a_copy(faulty.calls, play.released)
        assert tries < 60, "an archive that is away is not asked all the time"
