"""What only files have: places, links, disks that are full, and writers that die between two calls."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from situate.archive.protocol import (
    ArchiveCorrupt,
    ArchiveError,
    ArchiveRefused,
    ArchiveTooLarge,
    ArchiveUnavailable,
    NotArchived,
)
from situate.archive.records.query import Query
from situate.archive.records.record import ByName, ByUid, encode_record
from situate.archive.stores.folder.archiver import FilesystemArchiver, _translate_errors
from situate.archive.stores.folder.files import RecordFolder
from tests.archive.calls import counted
from tests.archive.killed_writer import AFTER, BEFORE
from tests.archive.reports import KIND, archived, report

pytestmark = pytest.mark.rule("sharding:K16")

FOLDER_OF_REPORTS = "batch.example.com_Report"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "archive"
    folder.mkdir()
    return folder


@pytest.fixture
def folder(root: Path) -> RecordFolder:
    return RecordFolder(root, 0.0)


@pytest_asyncio.fixture
async def archiver(root: Path) -> AsyncIterator[FilesystemArchiver]:
    archiver = FilesystemArchiver(root, lock_s=30.0)
    yield archiver
    await archiver.close()


def files(root: Path) -> list[str]:
    return sorted(str(file.relative_to(root)) for file in root.rglob("*") if not file.is_dir())


@pytest.mark.parametrize(
    ("content", "place"),
    [
        pytest.param(
            report("nightly", "ns1", "0b0e-42"), "batch.example.com_Report/ns1/nightly/0b0e-42.json", id="usual"
        ),
        pytest.param(report("n1", "", "u"), "batch.example.com_Report/_/n1/u.json", id="of the cluster"),
        pytest.param({**report("p", "d", "u"), "apiVersion": "v1", "kind": "Pod"}, "_Pod/d/p/u.json", id="core group"),
        pytest.param(
            report("../../up", "_", ".u/x"),
            "batch.example.com_Report/%5F/%2E.%2F..%2Fup/%2Eu%2Fx.json",
            id="leading elsewhere",
        ),
        pytest.param(
            report("Caf\u00e9", "NS", "U"),
            "batch.example.com_Report/%4E%53/%43af%C3%A9/%55.json",
            id="case and accents",
        ),
    ],
)
def test_records_lie_where_the_reference_says(
    folder: RecordFolder, root: Path, content: dict[str, Any], place: str
) -> None:
    record = archived(content)
    folder.put(record)
    assert files(root) == [place]
    assert (root / place).read_bytes() == encode_record(record)


def test_names_that_no_file_may_have_end_in_a_digest(folder: RecordFolder, root: Path) -> None:
    names = ["\u00fc" * 126, "\u00fc" * 125 + "a", "A" * 253]
    for name in names:
        folder.put(archived(report(name, uid=name)))
    assert all(len(part.encode()) <= 255 for file in files(root) for part in file.split("/"))
    for name in names:
        assert folder.get(ByName(KIND, "ns1", name)).subject.uid == name
        assert [r.subject.name for r in folder.search(Query(prefix=name)).records] == [name]


@pytest.mark.rule("sharding:B9")
def test_files_are_synced_before_they_are_seen_and_folders_after(folder: RecordFolder) -> None:
    with counted(lambda *_: None) as names:
        folder.put(archived())
    seen = names.index("rename")
    assert [name for name in names[:seen] if name in ("write", "fsync")] == ["write", "fsync"]
    assert names[seen:].count("fsync") == 4, "name, namespace, kind, root"


def reopened(root: Path) -> RecordFolder:
    """As a new process; what a dead one was writing is gone."""
    fresh = RecordFolder(root, 0.0)
    fresh.check()
    assert os.listdir(root / ".partial") == []
    return fresh


@pytest.mark.rule("sharding:B9", "sharding:S8")
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_fails_at_any_call_leaves_the_old_record_or_the_new_one(tmp_path: Path, code: int) -> None:
    number = 0
    failed = True
    while failed:
        number += 1
        root = tmp_path / str(number)
        root.mkdir()
        folder = RecordFolder(root, 0.0)
        folder.put(BEFORE)

        def fail(at: int, name: str, number: int = number) -> None:
            if at == number:
                raise OSError(code, os.strerror(code), name)

        with counted(fail) as calls, suppress(OSError):
            folder.put(AFTER)
        failed = len(calls) >= number
        folder = reopened(root)
        found = folder.search(Query())
        assert not found.corrupt
        assert found.records in ([(AFTER,)] if not failed else [(BEFORE,), (AFTER,)])
        folder.put(AFTER)
        assert folder.search(Query()).records == (AFTER,)
        assert files(root) == [f"{FOLDER_OF_REPORTS}/ns1/nightly/uid-ns1-nightly.json"]
    assert number > 15, "every call of a put was tried"


@pytest.mark.rule("sharding:B9", "sharding:S8")
def test_a_writer_killed_at_any_call_leaves_the_old_record_or_the_new_one(tmp_path: Path) -> None:
    command = (sys.executable, "-m", "tests.archive.killed_writer", "filesystem", str(tmp_path))
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    last = int(done.stdout)
    assert last > 15, "every call of a put was tried"
    states = []
    for number in range(1, last + 1):
        folder = RecordFolder(tmp_path / str(number), 0.0)
        seen = folder.search(Query())
        assert not seen.corrupt
        assert seen.records in [(BEFORE,), (AFTER,)]
        states.append(seen.records == (AFTER,))
        folder = reopened(tmp_path / str(number))
        assert folder.search(Query()) == seen
        folder.put(AFTER)
        assert folder.get(AFTER.subject.key) == AFTER
    assert states == sorted(states), "once it is seen it stays"
    assert not states[0]
    assert states[-1]


def test_a_file_that_somebody_writes_is_not_swept(folder: RecordFolder, root: Path) -> None:
    folder.check()
    with (root / ".partial" / "of-another").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        folder.check()
        assert os.listdir(root / ".partial") == ["of-another"]
    folder.check()
    assert os.listdir(root / ".partial") == []


@pytest.mark.rule("sharding:B9")
async def test_partial_files_are_removed_at_the_first_put(archiver: FilesystemArchiver, root: Path) -> None:
    (root / ".partial").mkdir()
    (root / ".partial" / "torn").write_bytes(b'{"api')
    assert (await archiver.search(Query())).records == ()
    await archiver.put(archived())
    assert os.listdir(root / ".partial") == []


class TestLinks:
    """Nothing outside of the root is read or written, whatever links lie in it."""

    @pytest.fixture
    def outside(self, tmp_path: Path) -> Path:
        """Another archive, which holds the record."""
        outside = tmp_path / "outside"
        outside.mkdir()
        RecordFolder(outside, 0.0).put(archived())
        return outside

    @pytest.mark.parametrize("depth", [1, 2, 3])
    def test_a_link_in_a_folders_place(self, folder: RecordFolder, root: Path, outside: Path, depth: int) -> None:
        parts = (FOLDER_OF_REPORTS, "ns1", "nightly")[:depth]
        link = root.joinpath(*parts)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(outside.joinpath(*parts))
        with pytest.raises(ArchiveRefused, match="is a link or a file, allowed: a folder; remove it"):
            folder.put(archived(report(version=99)))
        with pytest.raises(ArchiveCorrupt, match="found a link or a file, allowed: a folder"):
            folder.get(archived().subject.key)
        with pytest.raises(ArchiveCorrupt, match="found a link or a file, allowed: a folder"):
            folder.delete(archived().subject.key)
        page = folder.search(Query())
        assert (page.records, [bad.record for bad in page.corrupt]) == ((), ["/".join(parts)])
        assert RecordFolder(outside, 0.0).search(Query()).records == (archived(),)

    def test_a_link_in_a_records_place(self, folder: RecordFolder, root: Path, outside: Path) -> None:
        place = Path(FOLDER_OF_REPORTS, "ns1", "nightly", "uid-ns1-nightly.json")
        (root / place).parent.mkdir(parents=True)
        (root / place).symlink_to(outside / place)
        with pytest.raises(ArchiveCorrupt, match="found a link or a socket, allowed: a file"):
            folder.get(ByUid(KIND, "uid-ns1-nightly"))
        assert folder.search(Query()).records == ()
        newer = archived(report(version=99))
        folder.put(newer)
        assert folder.get(newer.subject.key) == newer, "the link itself was replaced"
        assert not (root / place).is_symlink()
        assert RecordFolder(outside, 0.0).search(Query()).records == (archived(),)

    def test_a_link_elsewhere_keeps_nobody_from_a_record(self, folder: RecordFolder, root: Path, outside: Path) -> None:
        record = archived(report(uid="u1"))
        folder.put(record)
        (root / FOLDER_OF_REPORTS / "ns0").symlink_to(outside)
        for key in (ByUid(KIND, "u1"), record.subject.key, ByName(KIND, "ns1", "nightly")):
            assert folder.get(key) == record
        with pytest.raises(ArchiveCorrupt):
            folder.get(ByUid(KIND, "may-be-behind-the-link"))
        folder.delete(ByUid(KIND, "u1"))
        assert folder.search(Query()).records == ()

    def test_a_link_in_the_place_of_partial_files(self, folder: RecordFolder, root: Path, outside: Path) -> None:
        (root / ".partial").symlink_to(outside)
        with pytest.raises(ArchiveRefused, match="is a link or a file, allowed: a folder"):
            folder.put(archived())
        assert len(files(outside)) == 1

    def test_the_root_itself_may_be_one(self, root: Path, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(root)
        RecordFolder(tmp_path / "link", 0.0).put(archived())
        assert len(files(root)) == 1


TORN = encode_record(archived())


@pytest.mark.parametrize(
    ("left", "said"),
    [
        *(pytest.param(TORN[:length], "not JSON", id=f"{length} bytes") for length in (0, 1, 100, len(TORN) - 1)),
        pytest.param(b"\0" * len(TORN), "not JSON", id="zeros, as a disk leaves them"),
        pytest.param(TORN.replace(b"nightly", b"mightly"), "digest: found", id="one bit"),
        pytest.param(encode_record(archived(report("other"))), "which has another place", id="moved from elsewhere"),
    ],
)
def test_torn_and_moved_files_are_named(folder: RecordFolder, root: Path, left: bytes, said: str) -> None:
    folder.put(archived())
    (file,) = files(root)
    (root / file).write_bytes(left)
    with pytest.raises(ArchiveCorrupt, match=said) as caught:
        folder.get(archived().subject.key)
    assert caught.value.record == file
    folder.put(archived())
    assert folder.search(Query()).records == (archived(),)


def test_what_is_no_file_in_a_records_place_hangs_nobody(folder: RecordFolder, root: Path) -> None:
    folder.put(archived(report("a")))
    place = root / FOLDER_OF_REPORTS / "ns1" / "a"
    os.mkfifo(place / "pipe.json")
    (place / "folder.json").mkdir()
    with (place / "huge.json").open("wb") as file:
        file.truncate(17 << 20)
    page = folder.search(Query())
    assert [record.subject.name for record in page.records] == ["a"]
    assert [(bad.record.rpartition("/")[2], bad.problem.partition(",")[0]) for bad in page.corrupt] == [
        ("folder.json", "found no regular file"),
        ("huge.json", "found 17825792 bytes"),
        ("pipe.json", "found no regular file"),
    ]


def test_what_others_keep_there_is_left_alone(folder: RecordFolder, root: Path) -> None:
    folder.put(archived())
    for foreign in ("lost+found", ".snapshot", "README"):
        (root / foreign).mkdir()
        (root / foreign / "x.json").write_text("{}")
    (root / FOLDER_OF_REPORTS / "ns1" / "nightly" / ".nfs0001").write_text("{}")
    (root / FOLDER_OF_REPORTS / "ns1" / "nightly" / "notes.txt").write_text("{}")
    assert folder.search(Query()).corrupt == ()
    assert folder.search(Query()).records == (archived(),)


def test_a_search_opens_only_what_namespace_name_kind_and_uid_let_through(folder: RecordFolder, root: Path) -> None:
    record = archived(report("wanted", "ns1", "u1"))
    folder.put(record)
    for name, namespace, kind in (("other", "ns1", "Report"), ("wanted", "ns2", "Report"), ("wanted", "ns1", "Other")):
        folder.put(archived(report(name, namespace, "u2", kind=kind)))
    for file in files(root):
        if "u2" in file:
            (root / file).write_bytes(b"none")
    for query in (
        Query(kind=KIND, namespaces=("ns1",), names=("wanted",)),
        Query(kind=KIND, namespaces=("ns1",), prefix="wan"),
        Query(kind=KIND, namespaces=("ns1",), suffix="ted", substring="ant"),
        Query(uid="u1"),
    ):
        page = folder.search(query)
        assert (page.records, page.corrupt) == ((record,), ())
    assert len(folder.search(Query()).corrupt) == 3


def test_pages_report_what_cannot_be_read_once_and_read_no_further_than_they_go(
    folder: RecordFolder, root: Path
) -> None:
    records = [archived(report(f"n{n}", uid=f"u{n}", text="written"), at_s=-(n // 2)) for n in range(9)]
    for record in records:
        folder.put(record)
    for file in files(root):
        if "u2" in file or "u7" in file:
            (root / file).write_bytes((root / file).read_bytes().replace(b"written", b"edited"))
        if "u5" in file:
            (root / file).write_bytes(b"none")
    query, found, reported = Query(limit=2), [], []
    while True:
        page = folder.search(query)
        found.append([record.subject.uid for record in page.records])
        reported.append([error.record.rpartition("/")[2] for error in page.corrupt])
        if not page.continue_:
            break
        query = Query(limit=2, continue_=page.continue_)
    assert found == [["u0", "u1"], ["u3", "u4"], ["u6", "u8"]]
    assert reported == [["u5.json"], ["u2.json"], ["u7.json"]]
    with counted(lambda *_: None) as calls:
        folder.search(Query(limit=1))
    whole = sum(name == "fstat" for name in calls) - 9  # each file is looked at, few are read whole
    assert 1 <= whole <= 5


def test_folders_that_deletes_have_emptied_are_taken_away(folder: RecordFolder, root: Path) -> None:
    one, other = archived(report("a", "ns1")), archived(report("b", "ns1"))
    folder.put(one)
    folder.put(other)
    folder.delete(one.subject.key)
    assert sorted(os.listdir(root / FOLDER_OF_REPORTS / "ns1")) == ["b"]
    folder.delete(other.subject.key)
    assert os.listdir(root / FOLDER_OF_REPORTS) == []
    folder.put(one)
    assert folder.get(one.subject.key) == one


def test_a_root_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    """Its volume may not be mounted: the records would go into the container, and `get` would say NotArchived."""
    folder = RecordFolder(tmp_path / "nowhere", 0.0)
    for call in (
        folder.check,
        lambda: folder.put(archived()),
        lambda: folder.get(archived().subject.key),
        lambda: folder.search(Query()),
        lambda: folder.delete(archived().subject.key),
    ):
        with pytest.raises(
            ArchiveUnavailable, match=r"folder .*nowhere does not exist: mount its volume, or create it"
        ):
            call()
    assert not (tmp_path / "nowhere").exists()
    (tmp_path / "file").touch()
    with pytest.raises(ArchiveRefused, match="file is not a folder: name another one"):
        RecordFolder(tmp_path / "file", 0.0).check()


def test_a_record_that_is_too_large_is_refused_for_good(folder: RecordFolder, root: Path) -> None:
    with pytest.raises(ArchiveTooLarge, match=r"its record has 16777\d+ bytes, allowed: 16777216"):
        folder.put(archived(report(data="x" * (16 << 20))))
    assert files(root) == []


@pytest.fixture
def busy(folder: RecordFolder, root: Path) -> Iterator[int]:
    """The name's folder, in which another process has stopped in the midst of a put."""
    folder.put(archived())
    handle = os.open(root / FOLDER_OF_REPORTS / "ns1" / "nightly", os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    yield handle
    os.close(handle)


def test_another_writer_of_the_name_is_waited_for_and_no_longer(folder: RecordFolder, busy: int) -> None:
    with pytest.raises(ArchiveUnavailable, match="another process has been writing records of this name for 0 s"):
        folder.put(archived(report(version=11)))
    assert folder.get(archived().subject.key) == archived(), "reading waits for nobody"
    folder.put(archived(report("other")))
    fcntl.flock(busy, fcntl.LOCK_UN)
    folder.put(archived(report(version=11)))


async def test_a_disk_that_hangs_holds_up_nothing_else(archiver: FilesystemArchiver, busy: int) -> None:
    newer = archived(report(version=11))
    put = asyncio.ensure_future(archiver.put(newer))
    assert await archiver.get(newer.subject.key) == archived()
    await archiver.put(archived(report("other")))
    assert not put.done()
    fcntl.flock(busy, fcntl.LOCK_UN)
    await put
    assert await archiver.get(newer.subject.key) == newer


@pytest.mark.parametrize(
    ("code", "expected", "advice"),
    [
        (errno.ENOSPC, ArchiveUnavailable, "free some space there"),
        (errno.EDQUOT, ArchiveUnavailable, "free some space there"),
        (errno.EIO, ArchiveUnavailable, "a retry may succeed"),
        (errno.ESTALE, ArchiveUnavailable, "a retry may succeed"),
        (errno.EACCES, ArchiveRefused, "grant this process read and write access"),
        (errno.EROFS, ArchiveRefused, "mount the volume read-write"),
        (errno.ENAMETOOLONG, ArchiveRefused, "names of 255 bytes"),
        (errno.EFBIG, ArchiveTooLarge, "raise the limit"),
    ],
)
def test_errors_of_the_system_say_whether_trying_again_helps(
    code: int, expected: type[ArchiveError], advice: str
) -> None:
    with pytest.raises(expected, match=f"the archive in /a: .*{advice}") as caught, _translate_errors(Path("/a")):
        raise OSError(code, os.strerror(code))
    assert type(caught.value) is expected


async def test_a_disk_without_room_is_unavailable_and_empties_by_itself(root: Path) -> None:
    """A put in a thread of its own, as the archiver makes them."""
    archiver = FilesystemArchiver(root)

    def full() -> None:
        def fail(_: int, name: str) -> None:
            if name == "write":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with counted(fail):
            RecordFolder(root, 0.0).put(archived())

    await archiver.check()
    with (
        pytest.raises(ArchiveUnavailable, match="No space left on device; free some space there"),
        _translate_errors(root),
    ):
        await asyncio.to_thread(full)
    assert os.listdir(root / ".partial") == []
    with pytest.raises(NotArchived):
        await archiver.get(archived().subject.key)
    await archiver.close()
