"""Where a pod is expected before it is bound (KEP-5278): said on the pod, taken back, and kept to by a new process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from situate.cluster.storage.watch import Watch
from situate.framework.plugin_api.actions import Action, Patch
from situate.framework.pod.pods import PodInfo
from situate.framework.results.status import SKIP, SUCCESS, Code, Status
from situate.framework.snapshot.snapshot import Snapshot
from situate.objects.messages import Request, Response
from situate.testing.scheduler.world import default_setup, with_plugins
from situate.testing.virtual_time.network import NetworkFaults
from situate.testing.virtual_time.world import RESTART_S
from tests.scheduler.stage import PODS_PATH, Answer, Stage, stage


class Marks:
    """Writes an annotation before the pod is bound, unless its name begins with `plain`."""

    name = "Marks"

    def pre_bind_preflight(self, pod: PodInfo, node: str, snapshot: Snapshot) -> Status:
        return SKIP if pod.name.startswith("plain") else SUCCESS

    def pre_bind(self, pod: PodInfo, node: str, snapshot: Snapshot) -> tuple[Action, ...]:
        return (Patch("pods", pod.key, {"metadata": {"annotations": {"example.com/marked": "yes"}}}),)


class Holds:
    """Holds every pod for five seconds, in vain."""

    name = "Holds"

    def permit(self, pod: PodInfo, node: str, now: float) -> tuple[Status, float]:
        return Status(Code.WAIT), 5.0


MARKS, HOLDS = default_setup(with_plugins(Marks)), default_setup(with_plugins(Holds))


def expected(ours: Stage, name: str) -> str:
    return str(ours.pod(name)["status"].get("nominatedNodeName", ""))


def never(_: object, __: object) -> Answer:
    return None


def refuse(_: Request, __: Callable[[], Response | Watch]) -> Answer:
    return Response(500, b'{"kind":"Status","apiVersion":"v1","reason":"InternalError","code":500}')


def nominations_written(ours: Stage) -> list[tuple[str, str | None]]:
    """Pod and node, in the order in which they arrive at the API server."""
    seen: list[tuple[str, str | None]] = []

    def note(request: Request, carry: Callable[[], Response | Watch]) -> Answer:
        status = msgspec.json.decode(request.body).get("status", {})
        if "nominatedNodeName" in status:
            seen.append((request.path.split("/")[-2], status["nominatedNodeName"]))
        return carry()

    ours.meddle("/status", note, times=10**6)
    return seen


def test_a_pod_says_where_it_is_expected_while_pre_bind_is_at_work() -> None:
    with stage(MARKS, nodes=1) as ours:
        written = nominations_written(ours)
        ours.meddle("/pods/slow", never)
        ours.create("slow")
        ours.create("plain")
        ours.wait_bound("plain")
        assert expected(ours, "slow") == "node-0"
        assert ours.node_of("slow") == ""
        assert written == [("slow", "node-0")], "a pod that is bound at once says nothing"


def test_when_it_is_bound_it_says_nothing_any_more() -> None:
    with stage(MARKS, nodes=1) as ours:
        written = nominations_written(ours)
        ours.create("web")
        ours.wait_bound("web")
        assert written == [("web", "node-0")]
        assert expected(ours, "web") == ""
        assert ours.pod("web")["metadata"]["annotations"]["example.com/marked"] == "yes"


def test_what_failed_before_the_binding_takes_it_back() -> None:
    with stage(MARKS, nodes=1) as ours:
        written = nominations_written(ours)
        ours.meddle("/pods/web", refuse)
        ours.create("web")
        ours.let_pass(0.5)
        assert ours.condition("web")["reason"] == "SchedulerError"
        assert written == [("web", "node-0"), ("web", None)]
        engine = ours.world.members[0].controller.engine
        assert engine is not None
        assert not engine.nominations, "nothing is kept free for it"
        ours.wait_bound("web")
        assert expected(ours, "web") == ""


def test_it_is_taken_back_although_no_event_has_shown_it_yet() -> None:
    with stage(MARKS, nodes=1) as ours:
        written = nominations_written(ours)

        def slow_from_now_on(_: Request, carry: Callable[[], Response | Watch]) -> Answer:
            ours.world.network.faults = NetworkFaults(event_delay_s=5.0)
            return carry()

        ours.meddle("/status", slow_from_now_on)
        ours.meddle("/pods/web", refuse)
        ours.create("web")
        ours.let_pass(1)
        assert ("web", None) in written


def test_what_a_pod_still_says_that_failed_keeps_no_room_free() -> None:
    """The promise cannot be taken back on the pod itself, whose binding fails again and again."""
    with stage(MARKS, nodes=1) as ours:

        def only_promises(request: Request, carry: Callable[[], Response | Watch]) -> Answer:
            return carry() if b'"nominatedNodeName":"node-0"' in request.body else refuse(request, carry)

        ours.meddle("/pods/web/status", only_promises, times=10**6)
        ours.meddle("/pods/web", refuse, times=10**6)
        ours.create("web", cpu="3")
        ours.let_pass(0.5)
        assert expected(ours, "web") == "node-0"
        ours.create("plain", cpu="3")
        ours.wait_bound("plain")


def test_a_pod_that_is_held_says_where_until_it_is_refused() -> None:
    with stage(HOLDS, nodes=1) as ours:
        written = nominations_written(ours)
        ours.create("web", cpu="3")
        ours.let_pass(1)
        assert expected(ours, "web") == "node-0"
        ours.let_pass(5)
        assert ours.condition("web")["reason"] == "Unschedulable"
        assert written[:2] == [("web", "node-0"), ("web", None)]


def test_what_changed_while_a_pod_was_held_counts_when_it_waits_again() -> None:
    with stage(HOLDS, nodes=1) as ours:
        ours.create("web")
        ours.let_pass(1)
        ours.world.call("PATCH", f"{PODS_PATH}/web", {"metadata": {"labels": {"meanwhile": "yes"}}}, patch=True)
        engine = ours.world.members[0].controller.engine
        assert engine is not None
        uid = ours.pod("web")["metadata"]["uid"]

        def counts() -> bool:
            waiting = engine.queue.get(uid)
            return waiting is not None and waiting.info.labels.get("meanwhile") == "yes"

        assert ours.world.let_pass(10, stop=counts)


def test_a_new_process_tries_it_there_first() -> None:
    """Though by then other nodes are better."""
    with stage(MARKS, nodes=3) as ours:
        ours.meddle("/pods/web", never)
        ours.create("web")
        ours.let_pass(1)
        there = expected(ours, "web")
        assert there
        fill: dict[str, Any] = {"nodeName": there, "schedulerName": "somebody-else"}
        ours.create("crowd", cpu="3", **fill)
        ours.world.end(ours.world.members[0])
        ours.let_pass(RESTART_S)
        ours.wait_bound("web", within_s=60)
        assert ours.node_of("web") == there
        ours.create("plain")
        ours.wait_bound("plain")
        assert ours.node_of("plain") != there


def test_where_it_does_not_fit_any_more_it_goes_elsewhere() -> None:
    with stage(MARKS, nodes=3) as ours:
        ours.meddle("/pods/web", never)
        ours.create("web", cpu="1")
        ours.let_pass(1)
        there = expected(ours, "web")
        fill: dict[str, Any] = {"nodeName": there, "schedulerName": "somebody-else"}
        ours.create("crowd", cpu="3500m", **fill)
        ours.world.end(ours.world.members[0])
        ours.let_pass(RESTART_S)
        ours.wait_bound("web", within_s=60)
        assert ours.node_of("web") not in ("", there)
        assert expected(ours, "web") == ""
