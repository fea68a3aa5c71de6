from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from situate.cluster.storage.store import Store
from situate.embedded.journal import Journal, UnusableDirectory
from tests.cluster.asking import MAPS, PODS, Cluster, config_map, pod

T = TypeVar("T")


def reopened(directory: Path) -> Store:
    journal = Journal(directory)
    store = journal.load()
    journal.close()
    return store


def shown(store: Store) -> dict[str, bytes]:
    return {f"{table.resource} {obj.key}": obj.json() for table in store.tables() for obj in table.sorted_objects()}


def filled(directory: Path) -> tuple[Journal, Cluster]:
    journal = Journal(directory)
    cluster = Cluster(store=journal.load())
    cluster.post(MAPS, config_map("a", x="1")).ok(201)
    cluster.post(PODS, pod("p")).ok(201)
    cluster.patch(f"{MAPS}/a", {"data": {"x": "2"}}).ok()
    cluster.post(MAPS, config_map("b")).ok(201)
    cluster.delete(f"{MAPS}/b").ok()
    return journal, cluster


def test_what_was_answered_is_there_again(tmp_path: Path) -> None:
    journal, cluster = filled(tmp_path)
    # No close: the process was killed. Only its lock goes with it.
    os.close(journal._lock)
    store = reopened(tmp_path)
    assert shown(store) == shown(cluster.api.store)
    assert store.revision > cluster.api.store.revision


def test_revisions_never_go_back_and_the_past_is_gone(tmp_path: Path) -> None:
    journal, cluster = filled(tmp_path)
    last = cluster.api.store.revision
    journal.close()
    journal = Journal(tmp_path)
    again = Cluster(store=journal.load())
    assert int(again.post(MAPS, config_map("c")).ok(201)["metadata"]["resourceVersion"]) > last
    watch = again.watch(f"{MAPS}?resourceVersion={last}")
    assert b'"code":410' in watch.take()
    journal.close()


def test_a_write_that_fails_is_reported_and_refused(tmp_path: Path) -> None:
    journal, cluster = filled(tmp_path)
    told: list[UnusableDirectory] = []
    journal.on_failure = told.append
    os.close(journal._file)
    with pytest.raises(UnusableDirectory, match="cannot be written"):
        cluster.post(MAPS, config_map("unwritten"))
    assert len(told) == 1
    os.close(journal._lock)


@pytest.mark.parametrize("lost", [1, 7, 30])
def test_a_torn_end_is_cut_off(tmp_path: Path, lost: int) -> None:
    journal, _ = filled(tmp_path)
    journal.close()
    whole = shown(reopened(tmp_path))
    journal = Journal(tmp_path)
    Cluster(store=journal.load()).post(MAPS, config_map("torn")).ok(201)
    journal.close()
    file = tmp_path / "cluster.journal"
    file.write_bytes(file.read_bytes()[:-lost])
    assert shown(reopened(tmp_path)) == whole


def test_damage_in_the_middle_is_no_silent_loss(tmp_path: Path) -> None:
    journal, _ = filled(tmp_path)
    journal.close()
    file = tmp_path / "cluster.journal"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(bytes(data))
    with pytest.raises(UnusableDirectory, match=r"is damaged at byte \d+ of \d+; restore it from a copy"):
        reopened(tmp_path)


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cluster.journal").write_bytes(b"situate-journal 9\nx")
    with pytest.raises(UnusableDirectory, match="no journal of this version"):
        reopened(tmp_path)


def test_a_directory_is_one_servers(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    with pytest.raises(UnusableDirectory, match="in use by another server"):
        Journal(tmp_path)
    journal.load()
    journal.close()
    assert reopened(tmp_path).revision


async def at_once(work: Callable[[], T]) -> T:
    """Another thread that is quick."""
    return work()


async def test_compaction_keeps_the_state_and_drops_the_history(tmp_path: Path) -> None:
    journal, cluster = filled(tmp_path)
    for value in range(50):
        cluster.patch(f"{MAPS}/a", {"data": {"x": str(value)}}).ok()
    before = (tmp_path / "cluster.journal").stat().st_size
    assert await journal.compact(at_once) == ""
    assert (tmp_path / "cluster.journal").stat().st_size < before
    cluster.post(MAPS, config_map("after")).ok(201)
    journal.close()
    assert shown(reopened(tmp_path)) == shown(cluster.api.store)


async def test_what_happens_during_a_compaction_is_kept(tmp_path: Path) -> None:
    journal, cluster = filled(tmp_path)
    changes = [
        lambda: cluster.patch(f"{MAPS}/a", {"data": {"large": "x" * 300_000}}),
        lambda: cluster.delete(f"{PODS}/p"),
    ]

    async def busy(work: Callable[[], T]) -> T:
        result = work()
        if changes:
            changes.pop(0)().ok()
        return result

    assert await journal.compact(busy) == ""
    assert not changes
    cluster.post(MAPS, config_map("later")).ok(201)
    os.close(journal._lock)
    assert shown(reopened(tmp_path)) == shown(cluster.api.store)


async def test_a_compaction_without_room_leaves_the_old_file(tmp_path: Path) -> None:
    journal, cluster = filled(tmp_path)
    (tmp_path / "cluster.new").mkdir()
    assert "directory" in await journal.compact(at_once)
    cluster.post(MAPS, config_map("after")).ok(201)
    journal.close()
    (tmp_path / "cluster.new").rmdir()
    assert shown(reopened(tmp_path)) == shown(cluster.api.store)


async def test_a_compaction_that_is_given_up_leaves_no_trace(tmp_path: Path) -> None:
    journal, cluster = filled(tmp_path)

    async def stopping(work: Callable[[], T]) -> T:
        journal.abandon()
        return work()

    assert await journal.compact(stopping) == "the server stops"
    assert sorted(os.listdir(tmp_path)) == ["cluster.journal", "lock"]
    journal.close()
    assert shown(reopened(tmp_path)) == shown(cluster.api.store)


def test_nothing_is_written_after_a_record_that_failed(tmp_path: Path) -> None:
    journal, cluster = filled(tmp_path)
    kept = shown(cluster.api.store)
    file, journal._file = journal._file, os.open(os.devnull, os.O_RDONLY)
    watch = cluster.watch(MAPS)
    watch.take()
    with pytest.raises(UnusableDirectory):
        cluster.post(MAPS, config_map("torn"))
    journal._file = file
    with pytest.raises(UnusableDirectory):
        cluster.post(MAPS, config_map("behind"))
    assert not watch.take()
    journal.close()
    assert shown(reopened(tmp_path)) == kept


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UnusableDirectory, match="name a directory that can be written"):
        Journal(tmp_path / "file" / "data")
