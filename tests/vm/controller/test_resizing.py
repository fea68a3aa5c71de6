"""Plain pods and runner pods that are resized in place by the shipped process, on a virtual clock (B34 to B36, B47)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from situate.objects.messages import Response
from situate.testing.builders.objects import pod as pod_object
from situate.testing.vm.world.processes import PODS
from situate.vm.api.quantities import GIB
from situate.vm.api.well_known import RESIZE_REQUESTED
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from tests.vm.controller.test_controller import Stage, stage

QUOTA = Response(403, b'{"kind":"Status","code":403,"reason":"Forbidden","message":"exceeded quota: team"}', {})


def web(ours: Stage, cpu: str = "1") -> None:
    ours.world.call("POST", PODS, pod_object("web", cpu=cpu, scheduler="situate-vm"))
    ours.wait(lambda: now(ours)["status"].get("phase") == "Running")


def now(ours: Stage, name: str = "web") -> Any:
    return ours.world.call("GET", f"{PODS}/{name}")


def requests(pod: Any) -> Any:
    (container,) = pod["spec"]["containers"]
    return container["resources"]["requests"]


def allocated(ours: Stage) -> str:
    (container,) = now(ours)["status"]["containerStatuses"]
    return str(container["allocatedResources"]["cpu"])


def wish(ours: Stage, **wanted: Any) -> None:
    ours.world.annotate(f"{PODS}/web", {RESIZE_REQUESTED: json.dumps(wanted)})


def condition(pod: Any, kind: str) -> tuple[str, str] | None:
    return next(((c["status"], c["reason"]) for c in pod["status"]["conditions"] if c["type"] == kind), None)


@pytest.mark.rule("vm:B34", "vm:B36", "vm:B41", "vm:N12")
def test_a_plain_pod_grows_by_its_annotation_and_is_told_why_it_does_not() -> None:
    with stage(n1="8") as ours:
        web(ours)
        wish(ours, cpu=3)
        ours.wait(lambda: allocated(ours) == "3")
        wish(ours, cpu=9)
        ours.wait(lambda: condition(now(ours), "ResizeRefused") == ("True", "LargerThanNode"))
        assert any(note[:2] == ("Pod web", "ResizeRefused") for note in ours.world.notes)
        assert requests(now(ours))["cpu"] == "3"
        wish(ours, cpu=2)
        ours.wait(lambda: allocated(ours) == "2")
        ours.wait(lambda: condition(now(ours), "ResizeRefused") == ("False", "NotRefused"))
        ours.wait(lambda: ours.controller.ledger.state.nodes["n1"].reserved.cpu == 2000)
        assert len(ours.writes("PATCH", f"{PODS}/web/resize")) == 2


@pytest.mark.rule("vm:B36")
def test_what_a_quota_forbids_is_asked_for_again_a_minute_later() -> None:
    with stage(n1="8") as ours:
        web(ours)
        ours.meddle("PATCH", "/web/resize", lambda _: QUOTA, times=1)
        wish(ours, cpu=3)
        ours.wait(lambda: condition(now(ours), "ResizeRefused") == ("True", "Denied"))
        before = ours.world.now
        ours.wait(lambda: allocated(ours) == "3", within_s=90.0)
        assert 50.0 <= ours.world.now - before <= 70.0


@pytest.mark.rule("vm:B36", "vm:B47")
def test_a_server_without_the_subresource_is_not_asked() -> None:
    old = Response(200, b'{"major":"1","minor":"32","gitVersion":"v1.32.1"}', {})
    with stage(n1="8") as ours:
        ours.meddle("GET", "/version", lambda _: old)
        ours.world.members[0].process.kill()
        ours.world.start_member()
        ours.world.let_pass(40.0)
        web(ours)
        wish(ours, cpu=3)
        ours.wait(lambda: condition(now(ours), "ResizeRefused") == ("True", "ServerTooOld"))


@pytest.mark.rule("vm:B37", "vm:N7", "vm:B10")
def test_a_pod_asks_for_its_room_before_the_machine_that_makes_it_is_deleted() -> None:
    with stage(Rules(watermark=1.0), n1="8", n2="8") as ours:
        ours.world.call("PATCH", "/api/v1/nodes/n2", {"spec": {"unschedulable": True}}, patch=True)
        ours.run("b", cpus=4, slots=16)
        web(ours, "2")
        ours.world.call("PATCH", "/api/v1/nodes/n2", {"spec": {"unschedulable": False}}, patch=True)
        source = f"{PODS}/{ours.world.runner_pod('b')['metadata']['name']}"
        ours.world.let_pass(1.0)
        seen: list[str | None] = []

        def when_deleted(carry_out: Any) -> Any:
            pending = condition(now(ours), "PodResizePending")
            seen.extend((requests(now(ours))["cpu"], None if pending is None else pending[1], allocated(ours)))
            return carry_out()

        ours.meddle("DELETE", source, when_deleted, times=1)
        wish(ours, cpu=7)
        ours.wait(lambda: allocated(ours) == "7", within_s=90.0)
        assert seen in (["7", "Deferred", "2"], ["7", None, "2"]), "as it was when its source was deleted"
        assert len(ours.writes("PATCH", f"{PODS}/web/resize")) == 1
        ours.wait(lambda: not ours.controller.ledger.state.claims and not ours.controller.ledger.state.waiters)
        assert ours.world.node_of("b") == "n2"


@pytest.mark.rule("vm:B47", "vm:N8", "vm:C1")
def test_a_runner_pod_requests_what_its_machine_may_use_and_a_quota_stops_no_grant() -> None:
    with stage(n1="8") as ours:
        ours.run("a", cpus=2, slots=8)
        ours.world.write_request("a", Amounts.from_values(3000, 12 * GIB))
        ours.wait(lambda: ours.approved("a") == {"vCPUs": 3, "mem": "12Gi"})
        assert requests(ours.world.runner_pod("a")) == {"cpu": "3", "memory": "12Gi"}
        ours.world.let_pass(1.0)
        ours.meddle("PATCH", "/resize", lambda _: QUOTA, times=1)
        ours.world.write_request("a", Amounts.from_values(4000, 16 * GIB))
        ours.wait(lambda: ours.approved("a") == {"vCPUs": 4, "mem": "16Gi"}, within_s=5.0)
        assert requests(ours.world.runner_pod("a"))["cpu"] == "3"
        ours.wait(lambda: condition(ours.world.runner_pod("a"), "PodNotResized") == ("True", "Denied"))
        ours.wait(lambda: requests(ours.world.runner_pod("a"))["cpu"] == "4", within_s=90.0)
