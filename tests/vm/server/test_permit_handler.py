"""The permit protocol from request to answer, with everything that is written between."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from situate.objects.messages import Request, Response
from situate.testing.vm.world.processes import MACHINES, NAMESPACE
from situate.vm.api.quantities import GIB
from situate.vm.api.well_known import REQUESTED, SCALING_UNIT
from situate.vm.config.settings import PermitSettings
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from situate.vm.server.permit_handler import Turn
from tests.vm.server.scene import AGENT, Stage, asking, cores, shown, stage

COMPAT = Rules(compat=True)
ANY = PermitSettings(callers="any")


@pytest.mark.rule("vm:C12", "vm:C13", "vm:B28")
def test_an_increase_is_granted_written_and_told() -> None:
    with stage() as ours:
        pod = ours.run("a", cpus=2, slots=8)
        answer = ours.permit(pod, cores(3), cores(2))
        assert answer["permit"] == shown(cores(3))
        assert answer["reason"] == "granted"
        assert answer["expires"].endswith("Z")
        assert ours.approved("a") == shown(cores(3))
        assert ours.node().reserved == cores(3)


@pytest.mark.rule("vm:B45", "vm:C13")
@pytest.mark.parametrize("compat", [False, True])
def test_agents_are_answered_where_further_resources_are_accounted_for(compat: bool) -> None:
    rules = Rules(further_resources=("hugepages-2Mi",), compat=compat)
    with stage(rules, ANY if compat else PermitSettings()) as ours:
        pod = ours.run("a", cpus=2, slots=8)
        assert ours.permit(pod, cores(3), cores(2))["permit"] == shown(cores(3))
        assert ours.approved("a") == shown(cores(3))
        assert ours.node().reserved == Amounts((*cores(3), 0))


@pytest.mark.rule("vm:C13", "vm:B28", "vm:B30")
def test_what_the_node_has_not_is_not_granted() -> None:
    with stage() as ours:
        pod = ours.run("a", cpus=2, slots=8)
        answer = ours.permit(pod, cores(100), cores(2))
        assert answer["permit"] == shown(cores(8))
        assert answer["reason"] == "partial"
        again = ours.permit(pod, cores(100), cores(8))
        assert (again["permit"], again["reason"]) == (shown(cores(8)), "noRoom")
        assert again["retryAfterMs"] == 5000
        assert not ours.node().over_budget


@pytest.mark.rule("vm:C13", "vm:C16", "vm:D24")
def test_a_decrease_is_answered_at_once_and_booked_when_it_is_certain() -> None:
    with stage() as ours:
        pod = ours.run("a", cpus=2, slots=8)
        ours.permit(pod, cores(4), cores(2))
        before = ours.world.now
        answer = ours.permit(pod, cores(2), cores(4))
        assert answer["permit"] == shown(cores(2))
        assert ours.world.now - before < 0.5
        assert ours.node().reserved == cores(4), "its agent may hold on to what it was told"
        ours.permit(pod, cores(2), cores(2))
        ours.wait(lambda: ours.node().reserved == cores(2), 5.0)


@pytest.mark.rule("vm:B29")
def test_an_increase_that_is_not_used_is_lowered_in_the_answer() -> None:
    with stage() as ours:
        pod = ours.run("a", cpus=2, slots=8)
        ours.permit(pod, cores(4), cores(2))
        ours.world.let_pass(61.0)
        answer = ours.permit(pod, cores(4), cores(4))
        assert answer["permit"] == shown(cores(2))
        assert ours.node().reserved == cores(4), "the booking follows what its agent confirms, and not before"


BROKEN: dict[str, tuple[Any, int, str]] = {
    "no JSON": (b"{", 400, "JSON"),
    "nothing": (b"", 400, "JSON"),
    "a list": ([], 400, "mapping"),
    "version 0": ({"protoVersion": 0}, 400, "version"),
    "an earlier version": ({"protoVersion": 6}, 400, "v4.0"),
    "a later version": ({"protoVersion": 8}, 400, "version 8"),
    "zero unit": ({"computeUnit": {"vCPUs": 0, "mem": "1Gi"}}, 400, "computeUnit.vCPUs"),
    "negative": ({"resources": {"vCPUs": -1, "mem": "1Gi"}}, 400, "resources.vCPUs"),
    "huge": ({"resources": {"vCPUs": "1e30", "mem": "1Gi"}}, 400, "resources.vCPUs"),
    "too long": ({"pod": {"namespace": "x" * 2000, "name": "a"}}, 400, "1024"),
    "unknown": ({"pod": {"namespace": NAMESPACE, "name": "nobody"}}, 404, "nobody"),
    "half a character": ({"pod": {"namespace": NAMESPACE, "name": "\ud800"}}, 404, "\ufffd"),
    "half a character as an amount": ({"resources": {"vCPUs": "\udfff", "mem": "1Gi"}}, 400, "resources.vCPUs"),
    "other namespace": ({"pod": {"namespace": "default", "name": "POD"}}, 404, "default/"),
}


@pytest.mark.rule("vm:C14", "vm:C15", "vm:F5")
def test_what_agents_send_wrongly_is_answered_by_status_and_reason_and_changes_nothing() -> None:
    with stage() as ours:
        pod = ours.run("a", cpus=2, slots=8)
        plain = ours.world.call(
            "POST",
            f"/api/v1/namespaces/{NAMESPACE}/pods",
            {"metadata": {"name": "web"}, "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}},
        )
        assert plain["kind"] == "Pod"
        ours.world.let_pass(1.0)
        before = ours.node()
        writes = len(ours.writes)
        for what, (change, status, words) in BROKEN.items():
            body = change
            if isinstance(change, dict):
                body = json.loads(json.dumps(asking(pod, cores(3), cores(2)) | change).replace("POD", pod))
            answer = ours.send("POST", "/", body)
            assert (answer.status, answer.headers["content-type"]) == (status, "text/plain; charset=utf-8"), what
            assert words in answer.body.decode(), what
        runner = ours.send("POST", "/", asking("web", cores(3), cores(2)))
        assert (runner.status, b"is not a runner Pod" in runner.body) == (400, True)
        assert ours.send("GET", "/anything").status == 400
        assert ours.node() == before
        assert len(ours.writes) == writes


@pytest.mark.rule("vm:D8", "vm:F5", "vm:I1")
def test_a_lying_agent_gets_no_more_than_there_is() -> None:
    with stage() as ours:
        liar, honest = ours.run("a", cpus=2, slots=8), ours.run("b", cpus=4, slots=16)
        huge = Amounts.from_values(500_000, 2000 * GIB)
        answer = ours.permit(liar, huge, huge)
        assert answer["permit"] == shown(cores(4))
        assert not ours.node().over_budget
        assert ours.permit(honest, cores(5), cores(4))["permit"] == shown(cores(4))


@pytest.mark.rule("vm:F5")
def test_a_request_that_is_overtaken_on_its_way_changes_nothing() -> None:
    with stage() as ours:
        pod = ours.run("a", cpus=2, slots=8)
        ours.permit(pod, cores(4), cores(2), sequence=2, run="r")
        late = ours.permit(pod, cores(3), cores(2), sequence=1, run="r")
        assert late["permit"] == shown(cores(3)), "never above the request"
        assert ours.world.annotation("a", REQUESTED) == shown(cores(4))
        assert ours.node().pods[next(iter(ours.node().pods))].requested == cores(4)
        again = ours.permit(pod, cores(4), cores(4), sequence=2, run="r")
        assert again["permit"] == shown(cores(4)), "a repetition is answered as the first was"


@pytest.mark.rule("vm:C14", "vm:D18", "vm:I2")
def test_nothing_is_granted_to_a_machine_that_a_new_leader_cannot_read() -> None:
    """It was resized as if it were a plain pod, and what it was told was written nowhere."""
    with stage(processes=2) as ours:
        pod = ours.run("a", cpus=2, slots=8)
        leader = next(number for number, each in enumerate(ours.world.members) if each.leads)
        assert ours.send("POST", "/", asking(pod, cores(3), cores(2)), server=leader).status == 200
        ours.world.annotate(f"{MACHINES}/a", {SCALING_UNIT: "broken"})
        ours.wait(lambda: ours.world.runner_pod("a")["metadata"]["annotations"][SCALING_UNIT] == "broken")
        ours.world.members[leader].process.kill()
        ours.wait(lambda: ours.world.members[1 - leader].leads, within_s=60.0)
        ours.wait(lambda: ours.world.members[1 - leader].controller.ledger.state.started)
        ours.writes.clear()
        body = asking(pod, cores(5), cores(3))
        answer = ours.send("POST", "/", body, server=1 - leader)
        assert (answer.status, b"failed to extract state from pod" in answer.body) == (500, True)
        assert not [path for path in ours.writes if path.endswith("/resize")]
        ours.world.let_pass(3.0)
        again = json.loads(ours.send("POST", "/", body, server=1 - leader).body)
        assert again["permit"] == shown(cores(5)), "its request has written the unit anew"


@pytest.mark.rule("vm:F5", "vm:F14", "vm:I5")
def test_the_numbers_of_one_run_of_an_agent_say_nothing_about_another_s() -> None:
    """An agent whose clock was behind, or that came after one that lied, was refused for so long."""
    with stage() as ours:
        pod = ours.run("a", cpus=2, slots=8)
        assert ours.permit(pod, cores(3), cores(2), sequence=2**53 - 1, run="r")["reason"] == "granted"
        assert ours.permit(pod, cores(4), cores(3), sequence=1, run="s")["permit"] == shown(cores(4))
        assert ours.permit(pod, cores(5), cores(4), sequence=0)["permit"] == shown(cores(5)), "of none at all"


@pytest.mark.rule("vm:F16", "vm:I1")
def test_many_who_ask_at_once_are_answered_within_a_second_and_share_what_there_is() -> None:
    with stage(n1="40") as ours:
        names = [f"m{number}" for number in range(24)]
        for name in names:
            ours.world.create_machine(name)
        ours.wait(lambda: ours.world.all_running(*names), 120.0)
        runners = [ours.world.runner_pod(name)["metadata"]["name"] for name in names]
        ours.world.let_pass(1.0)
        began = ours.world.now
        coming = [ours.begin(_request(asking(runner, cores(3), cores(1), lowersAtOnce=True))) for runner in runners]
        ours.wait(lambda: all(each.done() for each in coming), 10.0)
        assert ours.world.now - began <= 1.5
        answers = [json.loads(each.result().body) for each in coming]
        total = sum(_milli(each["permit"]["vCPUs"]) for each in answers)
        assert total == 40_000
        assert not ours.node().over_budget


@pytest.mark.rule("vm:F5", "vm:C14", "vm:C39", "vm:I1")
def test_ten_thousand_requests_at_once_are_answered_each_in_time_and_none_above_the_node() -> None:
    """Broken ones, ones of others' names, and of one machine ever more than its node has, which tells what it likes."""
    with stage() as ours:
        pod = ours.run("a", cpus=2, slots=8)
        before, writes = ours.node(), len(ours.writes)
        huge = Amounts.from_values(500_000, 2000 * GIB)
        broken = [_request(b'{"protoVersion":7'), _request(asking("nobody", cores(3), cores(2)))] * 5000
        greedy = [_request(asking(pod, cores(100 + each), huge)) for each in range(60)]

        async def all_at_once(requests: list[Any]) -> Any:
            return await asyncio.gather(*(ours.servers[0].router.answer(each, "10.0.0.9") for each in requests))

        began = ours.world.now
        coming = [ours.run_there(all_at_once(each)) for each in (broken, greedy)]
        ours.wait(coming[0].done, 10.0)
        assert [(each.status, bool(each.body)) for each in coming[0].result()] == [(400, True), (404, True)] * 5000
        assert (ours.node(), len(ours.writes)) == (before, writes)
        ours.wait(coming[1].done, 10.0)
        assert ours.world.now - began <= 1.6
        told = [json.loads(each.body) for each in coming[1].result() if each.status == 200]
        assert len(told) == 60
        assert {each["reason"] for each in told} <= {"partial", "noRoom", "busy"}
        assert max(_milli(each["permit"]["vCPUs"]) for each in told) == 8000
        assert not ours.node().over_budget
        assert ours.permit(pod, cores(3), cores(8))["permit"] == shown(cores(3)), "whoever comes next is served"


def _request(body: dict[str, Any] | bytes) -> Any:
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Request("POST", "/", (), {"authorization": f"Bearer {AGENT}"}, sent)


def _milli(value: int | str) -> int:
    return int(value.removesuffix("m")) if isinstance(value, str) else 1000 * value


@pytest.mark.rule("vm:F5")
async def test_a_pod_has_one_turn_at_a_time_and_whoever_is_cut_off_leaves_his_place() -> None:
    """However often one pod asks, it keeps one place of all."""
    pod, lane = asyncio.Lock(), asyncio.Semaphore(2)
    first, again, other = Turn(pod, lane), Turn(pod, lane), Turn(asyncio.Lock(), lane)
    await first.acquire()
    waiting = asyncio.create_task(again.acquire())
    await other.acquire()
    assert lane.locked()
    assert not waiting.done()
    first.release()
    first.release()
    await waiting
    late = Turn(asyncio.Lock(), lane)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await late.acquire()
    late.release()
    again.release()
    other.release()
    assert (lane._value, pod.locked()) == (2, False)


def test_who_waits_for_room_keeps_nobody_from_being_written() -> None:
    with stage() as ours:
        pod, other = ours.run("a", cpus=7, slots=28), ours.run("b", cpus=1, slots=4)
        desk = ours.servers[0].router._context
        desk.lane = asyncio.Semaphore(1)
        coming = ours.begin(_request(asking(pod, cores(8), cores(7))))
        ours.world.let_pass(0.3)
        assert not coming.done()
        began = ours.world.now
        assert ours.permit(other, cores(1), cores(1))["reason"] == "granted", "it is written that it asks"
        assert ours.world.now - began < 0.5


@pytest.mark.rule("vm:C14", "vm:F1")
@pytest.mark.parametrize("compat", [False, True])
def test_a_patch_that_fails_is_an_error_and_grants_nothing(compat: bool) -> None:
    with stage(Rules(compat=compat), ANY if compat else PermitSettings()) as ours:
        pod = ours.run("a", cpus=2, slots=8)
        ours.world.call("DELETE", f"/apis/vm.neon.tech/v1/namespaces/{NAMESPACE}/virtualmachines/a")
        _refuse_patches(ours)
        answer = ours.send("POST", "/", asking(pod, cores(3), cores(2)))
        assert answer.status == 500
        assert b"failed to patch VM" in answer.body
        assert ours.node().reserved == cores(2)


@pytest.mark.rule("vm:C39", "vm:I2")
def test_where_writes_take_too_long_agents_hear_in_time_that_they_keep_what_they_have() -> None:
    with stage() as ours:
        pod = ours.run("a", cpus=2, slots=8)
        assert ours.permit(pod, cores(2), cores(2))["reason"] == "granted"
        behind, held = ours.world.network.server, []

        class Slow:
            def answer(self, request: Any, now: float, identity: Any) -> Any:
                if request.method == "PATCH" and "virtualmachines/" in request.path:
                    held.append(request.path)
                    return None
                return behind.answer(request, now, identity)

        ours.world.network.server = Slow()
        before, began = ours.node(), ours.world.now
        coming = [ours.begin(_request(asking(pod, cores(4), cores(2), sequence=each, run="r"))) for each in (1, 2)]
        ours.wait(lambda: all(each.done() for each in coming), 10.0)
        assert ours.world.now - began <= 1.6, "also the one that waits for its turn"
        for each in coming:
            told = json.loads(each.result().body)
            assert (each.result().status, told["permit"], told["reason"]) == (200, shown(cores(2)), "busy")
            assert told["retryAfterMs"] > 0
        assert held
        assert ours.node() == before
        ours.world.network.server = behind
        assert ours.permit(pod, cores(4), cores(2), sequence=3, run="r")["reason"] == "granted"


def _refuse_patches(ours: Stage) -> None:
    behind = ours.world.network.server

    class Refusing:
        def answer(self, request: Any, now: float, identity: Any) -> Any:
            if request.method == "PATCH" and "virtualmachines" in request.path:
                return Response(503, b'{"kind":"Status","code":503,"message":"no"}')
            return behind.answer(request, now, identity)

    ours.world.network.server = Refusing()


@pytest.mark.rule("vm:C15", "vm:C16")
def test_with_compat_the_request_is_written_once_and_the_pods_annotations_are_the_answer() -> None:
    with stage(COMPAT, ANY) as ours:
        pod = ours.run("a", cpus=2, slots=8)
        answer = ours.permit(pod, cores(3), cores(2))
        assert answer == {"permit": shown(cores(3))}, "what is beyond v5.0 is left out"
        writes = len(ours.writes)
        before = ours.world.now
        assert ours.permit(pod, cores(3), cores(3)) == {"permit": shown(cores(3))}
        assert len(ours.writes) == writes, "the pod shows all of it already"
        assert ours.world.now - before < 0.5
        denied_at = ours.world.now
        assert ours.permit(pod, cores(9), cores(8))["permit"] == shown(cores(8))
        assert ours.world.now - denied_at >= 1.0


@pytest.mark.rule("vm:D13", "vm:F5")
def test_a_machine_that_is_being_moved_keeps_what_it_has_and_nothing_is_written() -> None:
    with stage(n1="8", n2="8") as ours:
        ours.world.call("PATCH", "/api/v1/nodes/n2", {"spec": {"unschedulable": True}}, patch=True)
        pod = ours.run("a", cpus=2, slots=8)
        body = {
            "apiVersion": "vm.neon.tech/v1",
            "kind": "VirtualMachineMigration",
            "metadata": {"name": "by-hand"},
            "spec": {"vmName": "a"},
        }
        path = f"/apis/vm.neon.tech/v1/namespaces/{NAMESPACE}/virtualmachinemigrations"
        assert ours.world.call("POST", path, body)["kind"] == "VirtualMachineMigration"
        ours.wait(lambda: ours.world.machine("a")["status"]["phase"] in ("PreMigrating", "Migrating"))
        ours.world.let_pass(1.0)
        writes = [each for each in ours.writes if each.endswith("virtualmachines/a")]
        answer = ours.permit(pod, cores(4), cores(2))
        assert (answer["permit"], answer["migrate"], answer["reason"]) == (shown(cores(2)), {}, "frozen")
        assert [each for each in ours.writes if each.endswith("virtualmachines/a")] == writes
