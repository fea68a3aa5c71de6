"""GPUs given out by the live scheduler: pods are told which before they are bound, and a new process reads it there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from situate.cluster.storage.watch import Watch
from situate.objects.messages import Request, Response
from situate.plugins.gpu_share.gpu_share import GpuShare
from situate.plugins.gpu_share.requests import COUNT, INDEX, MILLI
from situate.scheduler.permissions import permissions
from situate.testing.builders.objects import pod as pod_object
from situate.testing.scheduler.world import default_setup, with_plugins
from situate.testing.virtual_time.world import RESTART_S
from tests.scheduler.stage import PODS_PATH, Answer, Stage, stage

SETUP = default_setup(with_plugins(GpuShare))


def with_gpus(ours: Stage, gpus: int = 2) -> None:
    """On the one node."""
    room = {"status": {"allocatable": {COUNT: str(gpus)}, "capacity": {COUNT: str(gpus)}}}
    ours.world.call("PATCH", "/api/v1/nodes/node-0/status", room, patch=True)
    ours.let_pass(1)


def create(ours: Stage, name: str, milli: int) -> None:
    made: dict[str, Any] = pod_object(name, cpu="10m", scheduler="situate")
    made["spec"] |= {"priorityClassName": "worth-0", "terminationGracePeriodSeconds": 1}
    made["metadata"]["annotations"] = {COUNT: "1", MILLI: str(milli)}
    assert ours.world.call("POST", PODS_PATH, made)["kind"] == "Pod"


def device(ours: Stage, name: str) -> str:
    return str(ours.pod(name)["metadata"]["annotations"].get(INDEX, ""))


def test_pods_are_told_their_devices_and_a_new_process_keeps_to_them() -> None:
    with stage(SETUP, nodes=1) as ours:
        with_gpus(ours)
        for name, milli in (("a", 600), ("b", 600), ("c", 300)):
            create(ours, name, milli)
            ours.wait_bound(name)
        assert [device(ours, name) for name in "abc"] == ["0", "1", "0"]
        ours.world.end(ours.world.members[0])
        ours.let_pass(RESTART_S + 60)
        create(ours, "d", 400)
        ours.wait_bound("d", within_s=60)
        assert device(ours, "d") == "1", "100 are idle on the first one, 400 on the second"
        create(ours, "e", 500)
        ours.let_pass(5)
        assert "didn't have enough idle GPUs" in ours.condition("e")["message"]
        ours.delete("b")
        ours.wait_bound("e", within_s=60)
        assert device(ours, "e") == "1"


def test_a_pod_that_cannot_be_told_is_not_bound_and_its_device_is_free_again() -> None:
    refused: list[str] = []

    def refuse(request: Request, _: Callable[[], Response | Watch]) -> Answer:
        refused.append(request.method)
        return Response(500, b'{"kind":"Status","apiVersion":"v1","reason":"InternalError","code":500}')

    with stage(SETUP, nodes=1) as ours:
        with_gpus(ours, gpus=1)
        ours.meddle("/pods/first", refuse, times=1000)
        create(ours, "first", 700)
        ours.let_pass(3)
        assert refused
        assert ours.node_of("first") == device(ours, "first") == ""
        create(ours, "second", 700)
        ours.wait_bound("second")
        assert device(ours, "second") == "0"


def test_telling_pods_needs_a_right_that_others_do_without() -> None:
    def patches(allots: bool) -> list[str]:
        return [
            each.resource
            for each in permissions(None, shadow=False, allots=allots)
            if "patch" in each.verbs and not each.group
        ]

    assert set(patches(allots=True)) - set(patches(allots=False)) == {"pods"}
    assert SETUP.allots_devices
    assert not default_setup().allots_devices
