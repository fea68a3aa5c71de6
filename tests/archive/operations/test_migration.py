"""Copies from one archive into another: read back, repeated at will, and one bad record stops no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from situate.archive.operations.migration import MigrationProgress, migrate
from situate.archive.operations.verification import verify
from situate.archive.protocol import Archiver, ArchiveTooLarge, ArchiveUnavailable
from situate.archive.records.query import Query
from situate.archive.records.record import ByName, ByUid, Record
from situate.archive.stores.folder.archiver import FilesystemArchiver
from situate.archive.stores.memory import MemoryArchiver
from tests.archive.reports import KIND, archived, report
from tests.archive.store_fixtures import Store

pytestmark = pytest.mark.rule("sharding:K11")

RECORDS = [archived(report(f"n{n}", text="written"), at_s=n) for n in range(9)]


async def filled(archiver: Archiver, records: list[Record] = RECORDS) -> Archiver:
    for record in records:
        await archiver.put(record)
    return archiver


class Moody(MemoryArchiver):
    """Takes so many puts, then is down; takes no record of `n3`; forgets `n5`."""

    def __init__(self, puts: int) -> None:
        super().__init__()
        self.left = puts

    async def put(self, record: Record) -> None:
        if self.left == 0:
            raise ArchiveUnavailable("down")
        self.left -= 1
        if record.subject.name == "n3":
            raise ArchiveTooLarge("no room for n3")
        if record.subject.name != "n5":
            await super().put(record)


async def test_every_record_is_copied_to_every_store_and_back(archiver: Archiver) -> None:
    source, back = await filled(MemoryArchiver()), MemoryArchiver()
    heard: list[MigrationProgress] = []
    assert await migrate(source, archiver, told=heard.append, size=4) == MigrationProgress(copied=9)
    assert [each.copied for each in heard] == [4, 8, 9]
    assert await migrate(archiver, back) == MigrationProgress(copied=9)
    assert await back.search(Query()) == await source.search(Query())
    assert await migrate(source, archiver) == MigrationProgress(present=9)
    assert (await verify(archiver)).whole == 9


async def test_what_was_broken_off_goes_on(tmp_path: Path) -> None:
    source, target = await filled(MemoryArchiver()), Moody(puts=4)
    with pytest.raises(ArchiveUnavailable):
        await migrate(source, target, parallel=1)
    target.left = -1
    done = await migrate(source, target)
    assert (done.copied, done.present) == (4, 3)


async def test_a_record_that_does_not_go_is_named_and_the_others_go() -> None:
    done = await migrate(await filled(MemoryArchiver()), Moody(puts=-1))
    assert (done.copied, done.complete) == (7, False)
    assert [(each.subject.name, each.problem) for each in done.failed] == [
        ("n5", "Report.batch.example.com ns1/n5 with UID uid-ns1-n5 is not in the archive"),
        ("n3", "no room for n3"),
    ]


async def test_the_newer_record_wins_wherever_it_is() -> None:
    older, newer = archived(report(version=9), at_s=5), archived(report(version=10), at_s=0)
    later = archived(report("b", version=9), at_s=9)
    source = await filled(MemoryArchiver(), [older, archived(report("b", version=9), at_s=1)])
    target = await filled(MemoryArchiver(), [newer, later])
    assert await migrate(source, target) == MigrationProgress(newer=2)
    assert await migrate(target, source) == MigrationProgress(copied=2)
    assert await source.get(ByName(KIND, "ns1", "nightly")) == newer
    assert await source.get(ByUid(KIND, later.subject.uid)) == later


@pytest.mark.rule("sharding:S7")
async def test_bad_records_are_named_and_are_replaced_in_the_target(store: Store, tmp_path: Path) -> None:
    archiver = await filled(store.archiver())
    await store.edit(RECORDS[4])
    done = await verify(archiver, size=3)
    assert done.whole == 8
    assert [(error.path, RECORDS[4].subject.uid in error.record) for error in done.bad] == [("digest", True)]

    (tmp_path / "copy").mkdir()
    copy = FilesystemArchiver(tmp_path / "copy")
    copied = await migrate(archiver, copy)
    assert (copied.copied, len(copied.corrupt), copied.complete) == (8, 1, False)
    assert await migrate(await filled(MemoryArchiver()), archiver) == MigrationProgress(copied=1, present=8)
    assert (await verify(archiver)).bad == ()
    await archiver.close()
    await copy.close()
