from __future__ import annotations

import gzip
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from situate.objects.resources import NODES, PODS, STATEFULSETS
from situate.scheduler.recordings.files import RecordingFile, read_recording
from situate.scheduler.recordings.format import (
    BadRecording,
    BindingEntry,
    ObjectEntry,
    SyncedEntry,
    binding_line,
    equal_except_version,
    essential_fields,
    header_line,
    object_line,
    synced_line,
)

BEGAN = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)


def node(name: str, **status: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def pod(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "shop", "uid": name}, "spec": {}}


def lines() -> list[bytes]:
    return [
        header_line(BEGAN),
        object_line(0.0, "LISTED", node("a")),
        synced_line(0.0),
        object_line(1.5, "ADDED", pod("web")),
        binding_line(1.75, "shop/web", "web", "a"),
    ]


def written(path: Path, *, compressed: bool) -> Path:
    content = b"".join(lines())
    path.write_bytes(gzip.compress(content) if compressed else content)
    return path


@pytest.mark.parametrize("compressed", [False, True])
def test_what_was_written_is_read(tmp_path: Path, compressed: bool) -> None:
    read = read_recording(written(tmp_path / "day", compressed=compressed))
    assert read.header.began == BEGAN
    assert read.remarks == ()
    listed, synced, added, bound = read.entries
    assert isinstance(listed, ObjectEntry)
    assert (listed.type, listed.resource, listed.object.metadata.name) == ("LISTED", NODES, "a")
    assert synced == SyncedEntry(0.0)
    assert isinstance(added, ObjectEntry)
    assert (added.at, added.resource) == (1.5, PODS)
    assert bound == BindingEntry(1.75, "shop/web", "web", "a")
    assert read.seconds == 1.75


def test_it_is_readable_up_to_the_last_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "day"
    whole = b"".join(lines())
    for cut in range(len(lines()[0]), len(whole)):
        path.write_bytes(whole[:cut])
        read = read_recording(path)
        ended = whole[:cut].count(b"\n")
        assert len(read.entries) == ended - 1
        assert bool(read.remarks) == (not whole[:cut].endswith(b"\n"))


def test_a_compressed_one_is_readable_up_to_its_last_flush(tmp_path: Path) -> None:
    path = tmp_path / "day.gz"
    file = RecordingFile(path, 2**20, 1)
    for line in lines():
        file.write(line)
    file.flush()
    survived = path.read_bytes()  # as a process that is killed now leaves it
    file.write(object_line(2.0, "ADDED", pod("late")))
    file.close()
    path.write_bytes(survived)
    read = read_recording(path)
    assert len(read.entries) == 4
    assert len(read.remarks) == 1
    assert "cut off" in read.remarks[0]


def test_parts_are_put_aside_and_the_oldest_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "day"
    file = RecordingFile(path, 10, 2)
    for number in range(4):
        assert not file.full
        file.write(b"part %d, more\n" % number)
        assert file.full
        file.begin_part()
    file.close()
    parts = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    assert parts == {"day": b"", "day.1": b"part 3, more\n", "day.2": b"part 2, more\n"}


def test_a_part_has_room_for_changes_however_long_its_listing_is(tmp_path: Path) -> None:
    file = RecordingFile(tmp_path / "day", 10, 1)
    file.write(b"a listing of some length\n")
    assert file.full
    file.raise_limit()
    assert not file.full
    file.write(b"as much in changes after it\n")
    assert file.full
    file.close()


def test_what_has_the_name_already_is_put_aside(tmp_path: Path) -> None:
    path = tmp_path / "day"
    path.write_bytes(b"yesterday")
    RecordingFile(path, 100, 1).close()
    assert (tmp_path / "day.1").read_bytes() == b"yesterday"
    assert path.read_bytes() == b""


@pytest.mark.parametrize(
    ("content", "told"),
    [
        pytest.param(b"", "the file is empty", id="nothing"),
        pytest.param(b"hello\n", "line 1: not the header of a recording", id="another file"),
        pytest.param(
            b'{"situateRecording": 7, "began": "2026-01-01T00:00:00Z"}\n', "found 7, allowed: 1", id="version"
        ),
        pytest.param(header_line(BEGAN) + b'{"at": 1}\n', "line 2: not an entry of a recording", id="an entry"),
        pytest.param(
            header_line(BEGAN) + b'{"at": 1, "type": "ADDED", "object": 3}\n', "line 2: object", id="an object"
        ),
    ],
)
def test_what_is_no_recording_is_refused_by_its_line(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "day"
    path.write_bytes(content)
    with pytest.raises(BadRecording, match=told):
        read_recording(path)


def test_one_bad_object_does_not_stop_the_others(tmp_path: Path) -> None:
    bad = {**pod("bad"), "spec": {"priority": "high"}}
    strange = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"}}
    path = tmp_path / "day"
    path.write_bytes(
        b"".join([*lines(), object_line(2.0, "ADDED", bad), object_line(2.0, "ADDED", strange), synced_line(1.0)])
    )
    read = read_recording(path)
    assert [len(read.entries), read.entries[-1]] == [5, SyncedEntry(2.0)]  # nor does a clock that was set back
    assert "line 6: left out: pods shop/bad" in read.remarks[0]
    assert read.remarks[1] == "line 7: left out: Thing of example.com/v1"


def test_nothing_is_kept_that_no_scheduler_looks_at() -> None:
    container = {
        "name": "main",
        "image": "x",
        "env": [{"name": "PASSWORD", "value": "secret"}],
        "command": ["secret"],
        "resources": {"requests": {"cpu": "1"}},
    }
    status = {"containerStatuses": [{"name": "main", "containerID": "secret", "resources": {}}]}
    kept = essential_fields(PODS, {**pod("web"), "spec": {"containers": [container], "priority": 3}, "status": status})
    assert "secret" not in str(kept)
    assert kept["spec"]["priority"] == 3
    assert kept["spec"]["containers"] == [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}]
    workload = {
        "metadata": {"name": "web"},
        "spec": {"selector": {}, "template": {"spec": {"containers": [container]}}},
    }
    assert essential_fields(STATEFULSETS, workload)["spec"] == {"selector": {}}


def test_what_changes_all_the_time_makes_no_difference() -> None:
    def state(version: str, beat: str, reason: str) -> dict[str, Any]:
        found = node("a", conditions=[{"type": "Ready", "lastHeartbeatTime": beat, "reason": reason}])
        found["metadata"] |= {"resourceVersion": version, "managedFields": [{"manager": version}]}
        return essential_fields(NODES, found)

    assert equal_except_version(state("1", "10:00", "KubeletReady"), state("2", "10:05", "KubeletReady"))
    assert not equal_except_version(state("1", "10:00", "KubeletReady"), state("2", "10:05", "KubeletNotReady"))
    assert "managedFields" not in state("1", "", "")["metadata"]
