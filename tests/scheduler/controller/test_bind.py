"""A bind answered 404, 409, 429, 500 or not at all; carried out, not carried out, or carried out much later.

Whatever happens the pod ends on one node, no node holds more than it has, and room that is still spoken for is given to
nobody (framework.md section 5).
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from situate.cluster.storage.watch import Watch
from situate.objects.messages import Request, Response
from tests.scheduler.stage import PODS_PATH, Answer, stage


def refused(status: int, reason: str) -> Response:
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": reason,
        "code": status,
        "message": "no",
    }
    return Response(status, msgspec.json.encode(body), {"content-type": "application/json"})


Carry = Callable[[], Response | Watch]


def nothing_happens(_: Request, __: Carry) -> Answer:
    return None


def carried_out_without_an_answer(_: Request, carry: Carry) -> Answer:
    carry()
    return None


def server_error(_: Request, __: Carry) -> Answer:
    return refused(500, "InternalError")


def server_error_although_carried_out(_: Request, carry: Carry) -> Answer:
    carry()
    return refused(500, "InternalError")


def gateway_timeout_although_carried_out(_: Request, carry: Carry) -> Answer:
    carry()
    return refused(504, "Timeout")


def conflict(_: Request, __: Carry) -> Answer:
    return refused(409, "Conflict")


def too_many_requests(_: Request, __: Carry) -> Answer:
    return refused(429, "TooManyRequests")


def forbidden(_: Request, __: Carry) -> Answer:
    return refused(403, "Forbidden")


@pytest.mark.parametrize(
    "meddle",
    [
        nothing_happens,
        carried_out_without_an_answer,
        server_error,
        server_error_although_carried_out,
        gateway_timeout_although_carried_out,
        conflict,
        too_many_requests,
        forbidden,
    ],
)
@pytest.mark.parametrize("times", [1, 3])
def test_the_pod_gets_its_node_in_the_end(meddle: Callable[[Request, Carry], Answer], times: int) -> None:
    with stage() as ours:
        ours.meddle("/binding", meddle, times)
        ours.create("web")
        ours.wait_bound("web", within_s=200)
        ours.let_pass(35)  # as long as an answer is waited for
        assert ours.notes("web", "Scheduled") == [f"Successfully assigned work/web to {ours.node_of('web')}"]
        assert ours.condition("web")["status"] == "True"
        engine = ours.world.members[0].controller.engine
        assert engine is not None
        counted = engine.cache.pod(ours.pod("web")["metadata"]["uid"])
        assert counted is not None
        assert (counted.node, counted.assumed) == (ours.node_of("web"), False)


def test_a_pod_that_is_gone_is_let_go() -> None:
    """404: deleted between decision and binding."""
    with stage() as ours:

        def deleted(_: Request, carry: Carry) -> Answer:
            ours.delete("web", at_once=True)
            return carry()

        ours.meddle("/binding", deleted)
        ours.create("web", cpu="3500m")
        ours.let_pass(5)
        assert ours.pod("web")["kind"] == "Status"
        assert ours.notes("web", "Scheduled") == []
        for number in range(10):
            ours.create(f"next-{number}", cpu="3500m")
        ours.wait_bound(*(f"next-{number}" for number in range(10)))


def test_somebody_else_was_quicker() -> None:
    """409: the pod has a node already; it is counted there, and its room here is free."""
    with stage(nodes=2) as ours:

        def bound_elsewhere(_: Request, carry: Carry) -> Answer:
            body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "web"}, "target": {"name": "foreign"}}
            ours.world.call("POST", f"{PODS_PATH}/web/binding", body)
            return carry()

        ours.meddle("/binding", bound_elsewhere)
        ours.create("web", cpu="3")
        ours.let_pass(5)
        assert ours.node_of("web") == "foreign"
        assert ours.notes("web", "FailedScheduling") == []
        ours.create("one", cpu="3")
        ours.create("two", cpu="3")
        ours.wait_bound("one", "two")


def test_a_binding_that_arrives_very_late_finds_the_pod_moved_on() -> None:
    """The request is stuck for 40 s, longer than anybody waits for its answer; meanwhile its room goes to another pod.

    If it were carried out then, the node would hold more than it has.
    """
    late: list[Response | Watch] = []
    with stage(nodes=1) as ours:

        def stuck(_: Request, carry: Carry) -> Answer:
            ours.world.timeline.call_after(40.0, lambda: late.append(carry()))
            return None

        ours.meddle("/binding", stuck)
        ours.create("web", cpu="3")
        ours.let_pass(29)
        ours.create("other", cpu="3")
        assert ours.node_of("other") == "", "the room is spoken for until the outcome is certain"
        ours.wait_bound("other", within_s=8)
        ours.let_pass(20)
        (answer,) = late
        assert isinstance(answer, Response)
        assert answer.status == 409
        assert ours.node_of("web") == ""
        ours.delete("other")
        ours.wait_bound("web", within_s=60)


def test_room_stays_spoken_for_as_long_as_a_lost_binding_could_land() -> None:
    """The pod cannot be moved on either: then its room is given to nobody, and the late binding does no harm."""
    with stage(nodes=1) as ours:

        def stuck(_: Request, carry: Carry) -> Answer:
            ours.world.timeline.call_after(60.0, carry)
            return None

        def unavailable(_: Request, __: Carry) -> Answer:
            return refused(503, "ServiceUnavailable")

        ours.meddle("/binding", stuck)
        ours.meddle("/status", unavailable, times=10_000)
        ours.create("web", cpu="3")
        ours.let_pass(31)
        ours.create("other", cpu="3")
        ours.let_pass(60)
        assert (ours.node_of("web"), ours.node_of("other")) == ("node-0", "")


def test_a_pod_that_changes_meanwhile_is_bound_all_the_same() -> None:
    """The binding presumes the pod as it was decided on; a label is no reason to wait for the next attempt."""
    with stage() as ours:

        def labelled(_: Request, carry: Carry) -> Answer:
            labels = {"metadata": {"labels": {"seen": "yes"}}}
            ours.world.call("PATCH", f"{PODS_PATH}/web", labels, patch=True)
            return carry()

        ours.meddle("/binding", labelled)
        ours.create("web")
        ours.wait_bound("web", within_s=1)
        assert ours.notes("web", "FailedScheduling") == []


def test_a_pod_of_the_same_name_is_another_one() -> None:
    with stage() as ours:

        def replaced(_: Request, carry: Carry) -> Answer:
            ours.delete("web", at_once=True)
            ours.create("web", cpu="200m")
            return carry()

        ours.meddle("/binding", replaced)
        ours.create("web")
        ours.wait_bound("web")
        assert ours.pod("web")["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "200m"}
        ours.let_pass(1)
        assert len(ours.notes("web", "Scheduled")) == 1
