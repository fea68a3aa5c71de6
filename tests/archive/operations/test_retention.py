"""What goes when, and that nothing else does."""

from __future__ import annotations

from datetime import timedelta

import pytest

from situate.archive.operations.retention import Deletion, Retention, prune
from situate.archive.protocol import ArchiveUnavailable
from situate.archive.records.query import Query
from situate.archive.records.record import Record
from situate.archive.stores.memory import MemoryArchiver
from tests.archive.reports import NOON, archived, report

pytestmark = pytest.mark.rule("sharding:K11")

DAY_S = 86400.0
POLICY = Retention(successful=timedelta(days=1), failed=timedelta(days=7))


def aged(name: str, days: float, successful: bool | None = True) -> Record:
    """Archived so many days before noon."""
    return archived(report(name), at_s=-days * DAY_S, completed_s=None, successful=successful)


@pytest.mark.parametrize(
    ("record", "over"),
    [
        pytest.param(aged("a", 1.0), True, id="equality deletes"),
        pytest.param(aged("a", 1.0 - 1e-9), False, id="a moment before"),
        pytest.param(aged("a", 6.9, successful=False), False, id="failed ones stay longer"),
        pytest.param(aged("a", 7.0, successful=False), True, id="and go as well"),
        pytest.param(aged("a", 9999.0, successful=None), False, id="no age for what never completed"),
        pytest.param(aged("a", -5.0), False, id="archived by a clock ahead"),
    ],
)
def test_the_policy(record: Record, over: bool) -> None:
    assert POLICY.is_over(record, NOON) is over


@pytest.mark.parametrize("age", [timedelta(0), timedelta(seconds=-1)])
def test_no_age_is_no_policy(age: timedelta) -> None:
    with pytest.raises(ValueError, match=r"retention\.failed: found .*, allowed: a positive duration"):
        Retention(failed=age)


class Watched(MemoryArchiver):
    """Tells in which order things happen, and fails where it is told to."""

    def __init__(self, *records: Record) -> None:
        super().__init__()
        self.told: list[str] = []
        self.down = False
        self._first = records

    async def filled(self) -> Watched:
        for record in self._first:
            await self.put(record)
        return self

    async def check(self) -> None:
        if self.down:
            raise ArchiveUnavailable("the disk is full")

    async def delete(self, key: object) -> None:
        self.told.append(f"delete {key.place[1]}")  # type: ignore[attr-defined]  # a ByUid with its place
        await super().delete(key)  # type: ignore[arg-type]  # as above

    async def audit(self, deletion: Deletion) -> None:
        self.told.append(f"audit {deletion.subject.name} {deletion.retention.days}d")

    async def spoil(self, record: Record) -> None:
        self._records[record.subject.key] = b"\0"

    async def names(self) -> list[str]:
        return [record.subject.name for record in (await self.search(Query())).records]


CONTENT = (aged("new", 0.5), aged("old", 2), aged("older", 3), aged("failed", 3, successful=False))


async def test_what_is_over_is_told_and_then_deleted() -> None:
    archiver = await Watched(*CONTENT, aged("gone", 8, successful=False)).filled()
    done = await prune(archiver, POLICY, NOON, archiver.audit, size=1)
    assert (done.deleted, done.looked_at) == (3, 4)
    assert archiver.told == [
        *("audit old 1d", "delete old", "audit older 1d", "delete older"),
        *("audit gone 7d", "delete gone"),
    ]
    assert await archiver.names() == ["new", "failed"]
    assert (await prune(archiver, POLICY, NOON, archiver.audit)).deleted == 0


async def test_a_dry_run_tells_the_same_and_deletes_nothing() -> None:
    archiver = await Watched(*CONTENT).filled()
    assert (await prune(archiver, POLICY, NOON, archiver.audit, dry_run=True)).deleted == 2
    assert archiver.told == ["audit old 1d", "audit older 1d"]
    assert len(await archiver.names()) == len(CONTENT)


async def test_a_query_narrows_it_and_no_policy_deletes_nothing() -> None:
    archiver = await Watched(*CONTENT).filled()
    assert (await prune(archiver, Retention(), NOON, archiver.audit)).deleted == 0
    assert (await prune(archiver, Retention(successful=timedelta.max), NOON, archiver.audit)).deleted == 0
    assert (await prune(archiver, POLICY, NOON, archiver.audit, query=Query(names=("older",)))).deleted == 1
    assert await archiver.names() == ["new", "old", "failed"]


async def test_an_archive_that_cannot_be_written_to_loses_nothing() -> None:
    archiver = await Watched(*CONTENT).filled()
    archiver.down = True
    with pytest.raises(ArchiveUnavailable):
        await prune(archiver, POLICY, NOON, archiver.audit)
    assert archiver.told == []


async def test_what_is_not_in_the_audit_is_not_deleted() -> None:
    archiver = await Watched(*CONTENT).filled()

    async def fails(_: Deletion) -> None:
        raise OSError("no room for the audit")

    with pytest.raises(OSError, match="no room"):
        await prune(archiver, POLICY, NOON, fails)
    assert len(await archiver.names()) == len(CONTENT)


async def test_a_record_that_is_put_anew_or_spoilt_meanwhile_stays() -> None:
    spoilt = aged("spoilt", 4)
    archiver = await Watched(*CONTENT, spoilt).filled()

    async def changes_what_is_next(deletion: Deletion) -> None:
        if deletion.subject.name == "old":
            await archiver.put(aged("older", 0))
            await archiver.spoil(spoilt)

    assert (await prune(archiver, POLICY, NOON, changes_what_is_next)).deleted == 1
    assert await archiver.names() == ["older", "new", "failed"]
    assert len((await archiver.search(Query())).corrupt) == 1
