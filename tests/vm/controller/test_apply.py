"""Writes on their way: what is tried again and when, what is said to the ledger, and that the newest word counts."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from situate.objects.messages import Response
from situate.testing.builders.objects import pod as pod_object
from situate.testing.vm.world.processes import MACHINES, MIGRATIONS, PODS, UNIT
from situate.vm.api.claims import claim_text
from situate.vm.api.quantities import GIB
from situate.vm.api.well_known import CLAIM, DOWNTIME, MIGRATION_TIMES
from situate.vm.model.actions import Action, CancelMove, Condition, NoteMoved
from situate.vm.model.events import ResourcesRequested
from situate.vm.model.migrations import Stage as MoveStage
from situate.vm.model.pods_and_nodes import Pod
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from tests.vm.controller.test_controller import Stage, crowd, stage

BUSY = Response(429, b'{"kind":"Status","status":"Failure","code":429,"reason":"TooManyRequests","message":"busy"}', {})
UNSURE = Response(500, b'{"kind":"Status","status":"Failure","code":500,"reason":"InternalError","message":"etcd"}', {})


def submit(ours: Stage, *actions: Action) -> None:
    """As the ledger has them carried out."""
    performing = ours.controller._applier
    assert performing is not None
    ours.world.members[0].process.loop.call_soon_threadsafe(performing.submit, actions)


def running(ours: Stage, name: str) -> Pod:
    """A new machine's pod, as it is booked."""
    ours.run(name, cpus=2, slots=8)
    pod = ours.controller.ledger.state.pod(ours.world.runner_pod(name)["metadata"]["uid"])
    assert pod is not None
    return pod


def leaving(ours: Stage) -> Any:
    """The migration of `b`, by which `a` is to have room. Its target never starts: nothing is lost if the move ends."""
    crowd(ours)
    ours.meddle("POST", "/binding", lambda _: BUSY)
    ours.world.write_request("a", Amounts.from_values(6000, 24 * GIB))
    ours.wait(lambda: bool(ours.world.list_items(MIGRATIONS)))
    (made,) = ours.world.list_items(MIGRATIONS)
    return made


@pytest.mark.rule("vm:C24", "vm:F1")
def test_a_write_that_is_put_off_is_tried_again_ever_more_slowly() -> None:
    with stage() as ours:
        ours.run("a", cpus=2, slots=8)
        times: list[float] = []

        def busy(_: object) -> Response:
            times.append(ours.world.now)
            return BUSY

        ours.meddle("PATCH", "/virtualmachines/a", busy, times=5)
        ours.world.write_request("a", Amounts.from_values(3000, 12 * GIB))
        ours.wait(lambda: ours.approved("a") == {"vCPUs": 3, "mem": "12Gi"})
        waits = [after - before for before, after in pairwise(times)]
        for waited, least in zip(waits, (0.1, 0.203, 0.412, 0.836), strict=True):
            assert least <= waited <= least + 0.05
        assert len(ours.writes("PATCH", f"{MACHINES}/a")) == 1


def test_of_two_writes_about_one_machine_only_the_newer_is_sent() -> None:
    with stage() as ours:
        ours.run("a", cpus=2, slots=8)
        ours.meddle("PATCH", "/virtualmachines/a", lambda _: BUSY, times=2)
        ours.world.write_request("a", Amounts.from_values(3000, 12 * GIB))
        ours.world.let_pass(0.05)
        ours.world.write_request("a", Amounts.from_values(4000, 16 * GIB))
        uid = ours.world.runner_pod("a")["metadata"]["uid"]
        ours.tell(ResourcesRequested(uid, UNIT, Amounts.from_values(4000, 16 * GIB), None))
        ours.wait(lambda: ours.approved("a") is not None)
        assert ours.approved("a") == {"vCPUs": 4, "mem": "16Gi"}
        assert len(ours.writes("PATCH", f"{MACHINES}/a")) == 1


@pytest.mark.rule("vm:C26", "vm:F1")
def test_a_refused_approval_is_decided_anew() -> None:
    with stage() as ours:
        ours.run("a", cpus=2, slots=8)
        conflict = Response(409, b'{"kind":"Status","code":409,"reason":"Conflict","message":"changed"}', {})
        ours.meddle("PATCH", "/virtualmachines/a", lambda _: conflict, times=2)
        ours.world.write_request("a", Amounts.from_values(3000, 12 * GIB))
        ours.wait(lambda: ours.approved("a") == {"vCPUs": 3, "mem": "12Gi"}, within_s=5.0)


@pytest.mark.rule("vm:B21", "vm:B20", "vm:N10", "vm:B23")
def test_room_that_appears_ends_a_move_that_does_not_copy_yet() -> None:
    with stage(Rules(watermark=1.0)) as ours:
        made = leaving(ours)
        ours.world.write_request("a", Amounts.from_values(2000, 8 * GIB))
        before = ours.world.now
        ours.wait(lambda: not ours.world.list_items(MIGRATIONS))
        assert ours.world.now - before <= 1.0
        assert made["metadata"]["name"].startswith("schedplugin-b")
        ours.world.let_pass(10.0)
        assert ours.world.all_running("a", "b")
        assert ours.world.node_of("b") == "n1"
        state = ours.controller.ledger.state
        assert not state.moves
        assert not state.claims


@pytest.mark.rule("vm:B44", "vm:F1", "vm:F4")
def test_a_move_whose_creation_was_not_answered_is_ended_by_the_uid_that_it_has() -> None:
    with stage(Rules(watermark=1.0)) as ours:
        made = leaving(ours)
        ((_, move),) = ours.controller.ledger.state.moves.items()
        submit(ours, *(CancelMove(name, move.machine, "", "nobody needs it") for name in (move.name, "never-made")))
        ours.wait(lambda: not ours.world.list_items(MIGRATIONS))
        ours.world.let_pass(1.0)
        (deleted,) = ours.writes("DELETE", f"{MIGRATIONS}/{move.name}")
        assert deleted["preconditions"] == {"uid": made["metadata"]["uid"]}
        assert ours.writes("DELETE", f"{MIGRATIONS}/never-made") == []


@pytest.mark.rule("vm:B25", "vm:F1")
def test_that_a_machine_was_moved_is_written_until_that_is_answered() -> None:
    with stage() as ours:
        pod = running(ours, "a")
        assert pod.machine is not None
        ours.meddle("PATCH", "/virtualmachines/a", lambda _: UNSURE, times=2)
        submit(ours, NoteMoved(pod.machine.ref, (5.0,)))
        ours.wait(lambda: MIGRATION_TIMES in ours.world.machine("a")["metadata"].get("annotations", {}), within_s=5.0)


@pytest.mark.rule("vm:B17")
def test_for_how_long_its_last_move_paused_a_machine_is_kept_on_it() -> None:
    with stage(Rules(watermark=1.0)) as ours:
        crowd(ours)
        ours.world.write_request("a", Amounts.from_values(6000, 24 * GIB))
        ours.wait(lambda: MIGRATION_TIMES in ours.world.machine("b")["metadata"].get("annotations", {}))
        assert ours.world.machine("b")["metadata"]["annotations"][DOWNTIME] == "0.039s"
        ours.world.let_pass(3.0)
        booked = ours.controller.ledger.state.pod(ours.world.runner_pod("b")["metadata"]["uid"])
        assert booked is not None
        assert booked.machine is not None
        assert booked.machine.load.last_downtime_s == 0.039


@pytest.mark.rule("vm:B50", "vm:F1")
def test_a_condition_of_a_pod_is_written_until_that_is_answered() -> None:
    with stage() as ours:
        pod = running(ours, "a")
        ours.meddle("PATCH", "/status", lambda _: UNSURE, times=2)
        submit(ours, Condition(pod.ref, "NeedsNode", True, "NoMoveHelps", "it needs 2 more"))

        def said() -> bool:
            conditions = ours.world.runner_pod("a")["status"].get("conditions", ())
            return any((each["type"], each["status"]) == ("NeedsNode", "True") for each in conditions)

        ours.wait(said, within_s=5.0)


@pytest.mark.rule("vm:B20", "vm:F1")
def test_what_is_left_of_a_claim_is_written_until_that_is_answered() -> None:
    with stage(Rules(watermark=1.0)) as ours:
        made = leaving(ours)
        ours.meddle("PATCH", "/virtualmachinemigrations/", lambda _: UNSURE, times=2)
        ours.world.write_request("a", Amounts.from_values(5000, 20 * GIB))

        def shown() -> bool:
            (claim,) = ours.controller.ledger.state.claims.values()
            found = ours.world.call("GET", f"{MIGRATIONS}/{made['metadata']['name']}")
            written = found["metadata"]["annotations"][CLAIM]
            return bool(claim_text(claim) == written != made["metadata"]["annotations"][CLAIM])

        ours.wait(shown, within_s=5.0)


@pytest.mark.rule("vm:B19", "vm:B38")
@pytest.mark.parametrize("wanted_on", [True, False])
def test_a_pod_that_its_budget_keeps_is_evicted_later_only_if_somebody_still_needs_its_room(wanted_on: bool) -> None:
    with stage(Rules(evict=True), n1="8") as ours:
        ours.run("a", cpus=2, slots=8)
        ours.world.call(
            "POST", "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "low"}, "value": -5}
        )
        asks = {"requests": {"cpu": "4", "memory": "16Gi"}}
        spec = {"nodeName": "n1", "priorityClassName": "low"}
        containers = [{"name": "c", "image": "i", "resources": asks}]
        ours.world.call("POST", PODS, {"metadata": {"name": "low"}, "spec": {**spec, "containers": containers}})
        refused = ours.meddle("POST", "/eviction", lambda _: BUSY)
        ours.world.write_request("a", Amounts.from_values(6000, 24 * GIB))
        ours.wait(lambda: refused.left < 1_000)
        if not wanted_on:
            ours.world.write_request("a", Amounts.from_values(2000, 8 * GIB))
            ours.world.let_pass(1.0)
        refused.left = 0
        ours.world.let_pass(120.0)
        assert ("low" in [each["metadata"]["name"] for each in ours.world.list_items(PODS)]) is not wanted_on
        assert (ours.approved("a") == {"vCPUs": 6, "mem": "24Gi"}) is wanted_on


@pytest.mark.rule("vm:N24", "vm:B21")
def test_a_target_is_held_while_its_move_is_being_cancelled_and_never_bound_then() -> None:
    with stage(Rules(watermark=1.0)) as ours:
        crowd(ours)
        ours.meddle("POST", "/binding", lambda _: BUSY, times=1)
        ours.meddle("DELETE", "/virtualmachinemigrations/", lambda _: BUSY, times=6)
        ours.world.write_request("a", Amounts.from_values(6000, 24 * GIB))
        ours.wait(lambda: bool(ours.world.list_items(MIGRATIONS)))
        ours.world.let_pass(0.1)
        ours.world.write_request("a", Amounts.from_values(2000, 8 * GIB))

        def held() -> bool:
            engine = ours.controller.scheduler.engine
            return engine is not None and len(engine.permits) == 1

        ours.wait(held)
        ours.wait(lambda: not ours.world.list_items(MIGRATIONS) and not held())
        ours.world.let_pass(5.0)
        assert [each["spec"].get("nodeName") for each in ours.world.list_items(PODS)] == ["n1", "n1"]
        assert ours.world.all_running("a", "b")


@pytest.mark.rule("vm:F12", "vm:N24", "vm:B14")
def test_a_target_whose_migration_somebody_deletes_is_not_placed() -> None:
    with stage() as ours:
        crowd(ours)
        ours.world.call("PATCH", "/api/v1/nodes/n2", {"spec": {"unschedulable": True}}, patch=True)
        ours.world.call("PATCH", "/api/v1/nodes/n2", {"spec": {"unschedulable": False}}, patch=True)
        ours.world.write_request("a", Amounts.from_values(6000, 24 * GIB))
        ours.wait(lambda: bool(ours.world.list_items(MIGRATIONS)))
        ours.world.call("PATCH", "/api/v1/nodes/n2", {"spec": {"unschedulable": True}}, patch=True)
        (made,) = ours.world.list_items(MIGRATIONS)
        ours.world.call("DELETE", f"{MIGRATIONS}/{made['metadata']['name']}")
        ours.world.let_pass(10.0)
        bound = [each["spec"]["nodeName"] for each in ours.world.list_items(PODS) if each["spec"].get("nodeName")]
        assert bound == ["n1", "n1"]
        moves = ours.controller.ledger.state.moves.values()
        assert all(each.stage is not MoveStage.COPYING for each in moves)


@pytest.mark.rule("vm:D16")
def test_pods_that_fit_into_what_a_machine_gives_back_are_tried_at_once_and_no_others() -> None:
    with stage(Rules(grow_pod="never"), n1="8") as ours:
        ours.run("a", cpus=2, slots=8)
        ours.world.write_request("a", Amounts.from_values(7000, 28 * GIB))
        ours.wait(lambda: ours.approved("a") == {"vCPUs": 7, "mem": "28Gi"})
        for name, cpu in (("web", "4"), ("huge", "7")):
            ours.world.call("POST", PODS, pod_object(name, cpu=cpu, scheduler="situate-vm"))
        ours.world.let_pass(20.0)
        attempts = ours.attempts("unschedulable")
        uid = ours.world.runner_pod("a")["metadata"]["uid"]
        small = Amounts.from_values(2000, 8 * GIB)
        ours.world.write_request("a", small)
        ours.tell(ResourcesRequested(uid, UNIT, small, Amounts.from_values(7000, 28 * GIB), lowers_at_once=True))

        def placed() -> bool:
            return bool(ours.world.call("GET", f"{PODS}/web")["spec"].get("nodeName"))

        ours.wait(placed, within_s=0.5)
        assert ours.attempts("unschedulable") == attempts, "nothing is tried that cannot fit"
