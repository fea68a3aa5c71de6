"""Executors as real processes, with real threads, signals and sockets, before both servers."""

from __future__ import annotations

import pytest

from tests.controlplane.process import Process
from tests.sharding.processes.scene import Scene
from tests.waiting import eventually, steadily


def exit_code(process: Process) -> int | None:
    return None if process._popen is None else process._popen.poll()


@pytest.mark.rule("sharding:S2", "sharding:X4")
def test_a_process_stopped_past_its_lease_has_its_write_in_flight_refused(scene: Scene) -> None:
    """What the first one had sent before it was stopped arrives when somebody else is at work; and what it sends when
    it goes on."""
    gate = scene.gate()
    first, second = scene.executor("a", "writes", gate), scene.executor("b", "writes", lease="long")
    scene.assign("a")
    scene.works("a", by=scene.pod("a"))
    gate.hold()
    eventually("a request of the first one is under way", lambda: gate.held > 0)
    first.pause()
    scene.wait_expired("a")
    scene.assign("b")
    scene.works("b", by=scene.pod("b"))
    epoch = scene.view().epoch
    gate.let_go()
    first.resume()
    steadily(
        "only the second one's writes count", scene.get, lambda seen: seen["status"]["by"] == scene.pod("b"), seconds=1
    )
    eventually(
        "the first one has given up, by itself or its process",
        lambda: not first.running or "right to work lost" in first.tail(1000),
    )
    assert (scene.view().executor, scene.view().epoch, second.running) == (scene.pod("b"), epoch, True)
    counts = [scene.get()["status"]["count"] for _ in range(2)]
    eventually("the second one goes on", lambda: scene.get()["status"]["count"] > counts[-1])
    assert scene.get()["status"]["by"] == scene.pod("b")


@pytest.mark.rule("sharding:S1")
def test_a_process_whose_event_loop_is_held_up_ends_itself(scene: Scene) -> None:
    process = scene.executor("a", "blocks")
    scene.assign("a")
    scene.works("a", by="blocks")
    eventually("the process has ended", lambda: not process.running)
    assert exit_code(process) == 70, process.tail(40)
    assert scene.lease_holder("a") != "", "an expired lease, not one that was given back while something ran"


@pytest.mark.rule("sharding:S1")
def test_a_process_whose_handler_ignores_its_cancellation_ends_itself(scene: Scene) -> None:
    process = scene.executor("a", "ignores", lease="long")
    scene.assign("a")
    scene.works("a", by="ignores")
    scene.revoke()
    eventually("the process has ended", lambda: not process.running)
    assert exit_code(process) == 70, process.tail(40)


@pytest.mark.rule("sharding:L3")
def test_sigterm_stops_a_thread_and_releases_object_and_lease(scene: Scene) -> None:
    process = scene.executor("a", "thread", lease="long")
    scene.assign("a")
    scene.works("a", by="thread")
    process.stop(timeout_s=60)
    assert exit_code(process) == 0, process.tail(40)
    assert scene.view().holder is None
    assert scene.lease_holder("a") == ""
