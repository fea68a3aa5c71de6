"""Completed objects leave the cluster for an archive that may fail, and nothing else waits for that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from situate.archive.protocol import ArchiveConflict, Archiver
from situate.archive.records.query import Query
from situate.archive.records.record import ByName, ByUid, Record
from situate.sharding.executor.controller.work import Work
from situate.sharding.executor.next_step import Outcome
from situate.sharding.model.field_paths import Content
from situate.sharding.model.names import ARCHIVE_HOLD
from situate.sharding.model.supervisor_config import ArchiveTtl, OnUnavailable
from situate.testing.builders.archive import Call, Fault, FaultyArchiver, ForwardingArchiver
from situate.testing.sharding.world.executor_world import NAMESPACE, ExecutorProcess
from situate.testing.sharding.world.reports import GROUP, REPORTS, report
from situate.testing.sharding.world.supervisor_world import LoggedArchiver, SupervisorWorld
from tests.sharding.archive_outage import EVERY_S, OBJECTS_BEFORE, play_outage

TTL_S = 10.0
Towns = Callable[..., SupervisorWorld]


async def quick(_: ExecutorProcess, obj: Content, ___: Work) -> Outcome:
    """A child fails, for which there is no time after which it is archived."""
    await asyncio.sleep(1)
    return Outcome.failed("Wrong") if obj["metadata"]["name"] == "child" else Outcome.succeeded("Done")


class Archived:
    """A town in which work is done quickly, and an archive that fails as it is told to."""

    def __init__(self, town: SupervisorWorld, fault: Callable[[Call, int], Fault | None] = lambda _, __: None) -> None:
        self.town = town
        self.faulty = FaultyArchiver(self.town.memory_archiver, fault)
        self.member = self.town.create_executor("a", quick)
        self.town.start_supervisor(archiver=LoggedArchiver(self.town, self.faulty))
        self.town.run(5)

    def records(self) -> list[Record]:
        async def read() -> list[Record]:
            return list((await self.town.memory_archiver.search(Query())).records)

        return asyncio.run(read())

    def placed(self, name: str) -> Callable[[], bool]:
        return lambda: name in self.town.first_assigned_at

    def completed(self, name: str) -> Callable[[], bool]:
        return lambda: self.town.view(name).completed

    def gone(self, name: str) -> Callable[[], bool]:
        return lambda: not self.town.exists(name)


@pytest.mark.rule("sharding:K11", "sharding:B9", "sharding:L4")
def test_what_is_completed_is_archived_when_its_time_has_come(town_of: Towns) -> None:
    story = Archived(town_of(archive=True, archive_ttl=TTL_S))
    story.town.create("r")
    assert story.town.run(5, lambda: story.town.view("r").completed)
    done = story.town.world.now
    assert story.town.run(TTL_S + 5, story.gone("r"))
    assert TTL_S - 1 < story.town.world.now - done < TTL_S + 5
    (record,) = story.records()
    assert (record.subject.name, record.successful, record.reason) == ("r", True, "Done")


def test_what_is_held_stays_until_it_is_let_go(town_of: Towns) -> None:
    story = Archived(town_of(archive=True, archive_ttl=TTL_S))
    story.town.create("r")
    story.town.annotate("r", ARCHIVE_HOLD, "true")
    story.town.run(60)
    assert story.town.exists("r")
    story.town.annotate("r", ARCHIVE_HOLD, "false")
    assert story.town.run(5, story.gone("r"))


@pytest.mark.rule("sharding:K11", "sharding:S7")
@pytest.mark.parametrize("held", [False, True])
def test_dependents_go_before_their_owner(town_of: Towns, held: bool) -> None:
    """Else they would be deleted with it."""
    story = Archived(town_of(archive=True, archive_ttl=ArchiveTtl(successful=20.0)))
    town = story.town
    owner = town.create("owner")["metadata"]
    reference = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Report",
        "name": "owner",
        "uid": owner["uid"],
        "controller": True,
    }
    child = report("child")
    town.call(
        "POST", REPORTS.path(NAMESPACE), child | {"metadata": child["metadata"] | {"ownerReferences": [reference]}}
    )
    assert town.run(5, lambda: town.view("owner").completed and town.view("child").completed)
    if held:
        town.annotate("child", ARCHIVE_HOLD, "true")
        town.run(60)
        assert town.exists("owner"), "with it the one that is held would go"
        town.annotate("child", ARCHIVE_HOLD, "false")
    assert town.run(30, story.gone("owner"))
    assert not town.exists("child")
    child_, owner_ = sorted(story.records(), key=lambda record: record.archived_at)
    assert (child_.subject.name, owner_.subject.name) == ("child", "owner")


@pytest.mark.rule("sharding:K16")
def test_the_latest_of_an_owner_stay(town_of: Towns) -> None:
    story = Archived(town_of(archive=True, archive_ttl=TTL_S, keep_last_per_owner=1))
    town = story.town
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "o", "controller": True}
    for name in ("first", "second", "third"):
        made = report(name)
        town.call(
            "POST", REPORTS.path(NAMESPACE), made | {"metadata": made["metadata"] | {"ownerReferences": [reference]}}
        )
        assert town.run(5, story.completed(name))
    town.run(3 * TTL_S)
    assert [town.exists(name) for name in ("first", "second", "third")] == [False, False, True]
    made = report("fourth")
    town.call("POST", REPORTS.path(NAMESPACE), made | {"metadata": made["metadata"] | {"ownerReferences": [reference]}})
    assert town.run(30, story.gone("third")), "it is the latest no longer"


@pytest.mark.rule("sharding:X10")
def test_a_user_who_deletes_does_not_wait_for_the_time(town_of: Towns) -> None:
    story = Archived(town_of(archive=True))
    story.town.create("r")
    story.town.run(10)
    story.town.call("DELETE", REPORTS.path(NAMESPACE, "r"))
    assert story.town.run(5, story.gone("r"))
    assert len(story.records()) == 1


@pytest.mark.rule("sharding:B9", "sharding:X13")
def test_an_archive_that_does_not_answer_delays_no_assignment(town_of: Towns) -> None:
    away = [True]
    story = Archived(town_of(archive=True, archive_ttl=TTL_S), lambda _, __: Fault.HANG if away[0] else None)
    for number in range(30):
        story.town.create(f"r-{number}")
    story.town.run(60)
    assert all(story.town.exists(f"r-{number}") for number in range(30))
    for number in range(30, 40):
        story.town.create(f"r-{number}")
        assert story.town.run(1, story.placed(f"r-{number}"))
    away[0] = False
    assert story.town.run(900, lambda: not any(story.town.exists(f"r-{number}") for number in range(40)))
    assert len(story.records()) == 40


@pytest.mark.slow
@pytest.mark.rule("sharding:B9", "sharding:L4", "sharding:X13")
def test_an_archive_that_is_away_for_an_hour_delays_no_assignment_and_lacks_nothing_afterwards() -> None:
    found = play_outage(3600.0)
    assert found.archived_s <= TTL_S + 5
    assert found.assigned_s <= 1
    assert (found.missing, found.doubled) == (0, 0)
    assert found.objects >= OBJECTS_BEFORE + 3600 / EVERY_S, "so much came meanwhile"


@pytest.mark.rule("sharding:S7", "sharding:S8", "sharding:S9")
@pytest.mark.parametrize("fault", [each for each in Fault if each is not Fault.HANG], ids=lambda each: each.name)
@pytest.mark.parametrize("at", [1, 2])
def test_a_call_that_fails_is_made_up_for(town_of: Towns, fault: Fault, at: int) -> None:
    story = Archived(town_of(archive=True, archive_ttl=TTL_S), lambda _, number: fault if number == at else None)
    story.town.create("r")
    story.town.run(30)
    gone = story.town.run(200, story.gone("r"))
    assert gone
    assert len(story.records()) == 1


def test_what_is_refused_is_said_on_the_object(town_of: Towns) -> None:
    story = Archived(
        town_of(archive=True, archive_ttl=TTL_S), lambda call, _: Fault.TOO_LARGE if call.method == "put" else None
    )
    story.town.create("r")
    story.town.run(60)
    conditions = {each["type"]: each for each in story.town.get("r")["status"]["conditions"]}
    assert conditions["ArchiveFailed"]["status"] == "True"
    assert "too large" in conditions["ArchiveFailed"]["message"]
    reasons = [each["reason"] for each in story.town.call("GET", f"/api/v1/namespaces/{NAMESPACE}/events")["items"]]
    assert "ArchiveFailed" in reasons
    puts = sum(call.method == "put" for call in story.faulty.calls)
    assert puts < 12, "refusals are not tried again at once"


def test_a_delete_goes_through_after_a_while_where_that_is_configured(town_of: Towns) -> None:
    story = Archived(
        town_of(archive=True, archive_on_unavailable=OnUnavailable.RELEASE, release_after=60.0),
        lambda _, __: Fault.ERROR,
    )
    story.town.tolerated_invariants.add("S7")  # that is what the option is
    story.town.create("r")
    story.town.run(10)
    story.town.call("DELETE", REPORTS.path(NAMESPACE, "r"))
    story.town.run(55)
    assert story.town.exists("r")
    assert story.town.run(120, story.gone("r"))
    story.town.run(5)
    reasons = [each["reason"] for each in story.town.call("GET", f"/api/v1/namespaces/{NAMESPACE}/events")["items"]]
    assert "ReleasedWithoutArchive" in reasons


class Ahead(ForwardingArchiver):
    """An archive that has a newer version of everything, for ever."""

    def __init__(self, archiver: Archiver) -> None:
        super().__init__(archiver)
        self.puts = 0

    async def put(self, record: Record) -> None:
        self.puts += 1
        raise ArchiveConflict(f"{record.subject.key}: there is a newer version")


def test_an_archive_that_has_a_newer_version_is_not_asked_all_the_time(town_of: Towns) -> None:
    town = town_of(archive_ttl=TTL_S)
    ahead = Ahead(town.memory_archiver)
    town.create_executor("a", quick)
    town.start_supervisor(archiver=ahead)
    town.create("r")
    town.run(120)
    assert town.exists("r")
    assert 6 < ahead.puts < 30


class Odd(Ahead):
    """An archiver of a user's that does what none should, as long as it is told to."""

    def __init__(self, archiver: Archiver, put: object = None, got: object = None) -> None:
        super().__init__(archiver)
        self.put_fails = put
        self.got: object = got

    async def put(self, record: Record) -> None:
        self.puts += 1
        if isinstance(self.put_fails, Exception):
            raise self.put_fails
        await self._archiver.put(record)

    async def get(self, key: ByUid | ByName) -> Record:
        if isinstance(self.got, Exception):
            raise self.got
        return await super().get(key) if self.got is None else self.got  # type: ignore[return-value]  # what it is about


@pytest.mark.rule("sharding:K16", "sharding:S7")
@pytest.mark.parametrize(
    ("odd", "said"),
    [
        ({"put": ValueError("no database at postgresql://me:s3cret@db")}, "raised ValueError"),
        ({"got": KeyError("s3cret")}, "raised KeyError"),
        ({"got": {"apiVersion": "archive.situate.dev/v1"}}, "a dict instead of a record"),
        ({"got": b"s3cret"}, "a bytes instead of a record"),
    ],
    ids=["put raises", "get raises", "get gives a map", "get gives bytes"],
)
def test_an_archiver_that_answers_garbage_is_named_on_the_object(
    town_of: Towns, odd: dict[str, object], said: str
) -> None:
    town = town_of(archive_ttl=TTL_S)
    archiver = Odd(town.memory_archiver, **odd)
    town.create_executor("a", quick)
    town.start_supervisor(archiver=archiver)
    town.tolerated_invariants.update({"S7", "S9"})  # the log is not told of what this archiver is given
    town.run(5)
    town.create("r")
    town.run(30)
    conditions = {each["type"]: each for each in town.get("r")["status"]["conditions"]}
    assert said in conditions["ArchiveFailed"]["message"]
    assert "s3cret" not in str(town.get("r")) + str(town.call("GET", f"/api/v1/namespaces/{NAMESPACE}/events"))
    assert archiver.puts < 12, "it is not tried again at once"
    town.create("other")
    assert town.run(2, lambda: "other" in town.first_assigned_at), "the others go on"
    archiver.put_fails = archiver.got = None
    assert town.run(120, lambda: not town.exists("r")), "the archiver was mended"
