"""The shipped vm process in small: what it writes for what it sees, over an in-process transport on a virtual clock."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import structlog
from prometheus_client import generate_latest

from situate.cluster.storage.effects import Identity
from situate.cluster.storage.watch import Watch
from situate.objects.messages import Request, Response
from situate.runtime.reconcile.outcomes import BrokenInvariant
from situate.testing.builders.objects import pod as pod_object
from situate.testing.virtual_time.network import RequestHandler
from situate.testing.virtual_time.processes import ProcessState
from situate.testing.vm.world.processes import MIGRATIONS, NAMESPACE, PODS, UNIT, VmWorld
from situate.vm.api.quantities import GIB
from situate.vm.api.well_known import APPROVED, CLAIM, CLAIM_CLOSED, CREATED_BY_SCHEDULER_LABEL, TARGET_NODE
from situate.vm.controller.controller import VmController
from situate.vm.controller.setup import VmSetup
from situate.vm.ledger.migrations.planner import Planner
from situate.vm.model.events import Event, ResourcesRequested
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts

Json = dict[str, Any]
UNAVAILABLE = Response(503, b'{"kind":"Status","status":"Failure","code":503,"message":"not now"}', {})


class Stage:
    def __init__(self, world: VmWorld) -> None:
        self.world = world
        self.requests: list[tuple[str, str, Json]] = []
        """Every write that was carried out: method, path and body."""
        world.request_listeners.append(self._note)

    def _note(self, request: Request, answer: Response | Watch, identity: Identity) -> None:
        if isinstance(answer, Response) and answer.status < 300 and "leases" not in request.path:
            self.requests.append((request.method, request.path, json.loads(request.body or b"null")))

    def writes(self, method: str, path: str) -> list[Any]:
        """Bodies of what was written there."""
        return [body for how, where, body in self.requests if how == method and where == path]

    def wait(self, for_: Callable[[], bool], within_s: float = 30.0) -> None:
        assert self.world.let_pass(within_s, stop=for_), (self.world.notes, self.requests[-5:])

    def approved(self, name: str) -> Any:
        return self.world.annotation(name, APPROVED)

    def run(self, *names: str, **more: Any) -> None:
        for name in names:
            self.world.create_machine(name, **more)
        self.wait(lambda: self.world.all_running(*names))

    def tell(self, event: Event) -> None:
        """Something happens to the ledger that no watch shows: a request of an agent."""
        self.world.members[0].process.loop.call_soon_threadsafe(self.controller.ledger.apply, event)

    def attempts(self, result: str) -> float:
        """Scheduling cycles that came to this."""
        name = "scheduler_schedule_attempts_total"
        return self.world.registry.get_sample_value(name, {"result": result, "profile": "situate-vm"}) or 0.0

    @property
    def controller(self) -> VmController:
        return self.world.members[0].controller

    def meddle(self, method: str, part: str, answer: Callable[[Callable[[], Any]], Any], times: int = 1_000) -> Meddler:
        """The next such requests are answered by somebody else, who is given what carries one out."""
        self.world.network.server = meddler = Meddler(self.world.network.server, method, part, answer, times)
        return meddler


class Meddler:
    def __init__(
        self, behind: RequestHandler, method: str, part: str, answer: Callable[[Callable[[], Any]], Any], times: int
    ) -> None:
        self._behind, self._method, self._part, self._answer, self.left = behind, method, part, answer, times

    def answer(self, request: Request, now: float, identity: Identity) -> Response | Watch | None:
        if request.method != self._method or self._part not in request.path or not self.left:
            return self._behind.answer(request, now, identity)
        self.left -= 1
        given: Response | Watch | None = self._answer(lambda: self._behind.answer(request, now, identity))
        return given


@contextmanager
def stage(rules: Rules = Rules(), *, processes: int = 1, **nodes: str) -> Iterator[Stage]:  # noqa: B008  # frozen
    world = VmWorld(1, VmSetup(rules), nodes=nodes or {"n1": "8", "n2": "8"}, processes=processes)
    try:
        world.let_pass(3.0)
        yield Stage(world)
    finally:
        world.close()


def crowd(ours: Stage) -> None:
    """`a` and `b` share n1; only `b` can move, and only to n2."""
    ours.world.call("PATCH", "/api/v1/nodes/n2", {"spec": {"unschedulable": True}}, patch=True)
    ours.run("a", cpus=2, slots=8, migratable=False)
    ours.run("b", cpus=4, slots=16)
    ours.world.call("PATCH", "/api/v1/nodes/n2", {"spec": {"unschedulable": False}}, patch=True)
    assert ours.world.node_of("a") == ours.world.node_of("b") == "n1"


@pytest.mark.rule("vm:C1", "vm:C8", "vm:N14")
def test_runner_pods_are_placed_under_our_name_and_booked_with_what_they_use() -> None:
    with stage() as ours:
        ours.run("a", cpus=2, slots=8)
        node = ours.controller.ledger.state.nodes[ours.world.node_of("a")]
        assert node.reserved == Amounts.from_values(2000, 8 * GIB)
        runner = ours.world.runner_pod("a")["metadata"]["name"]
        assert any(note[:2] == (f"Pod {runner}", "Scheduled") for note in ours.world.notes)


@pytest.mark.rule("vm:C26", "vm:B44", "vm:D20", "vm:C4")
def test_a_request_is_granted_by_a_patch_that_tests_what_was_decided_on() -> None:
    with stage() as ours:
        ours.run("a", cpus=2, slots=8)
        ours.requests.clear()
        ours.world.write_request("a", Amounts.from_values(3000, 12 * GIB))
        ours.wait(lambda: ours.approved("a") == {"vCPUs": 3, "mem": "12Gi"}, within_s=1.0)
        (patch,) = ours.writes("PATCH", f"/apis/vm.neon.tech/v1/namespaces/{NAMESPACE}/virtualmachines/a")
        machine, (version,) = ours.world.machine("a"), (each for each in patch if each["path"].endswith("Version"))
        prefix, inner = "/metadata/annotations/", "internal.autoscaling.neon.tech~1resources-"
        assert patch == [
            {"op": "test", "path": "/status/podName", "value": machine["status"]["podName"]},
            {"op": "test", "path": "/metadata/resourceVersion", "value": version["value"]},
            {"op": "test", "path": "/metadata/uid", "value": machine["metadata"]["uid"]},
            {
                "op": "test",
                "path": f"{prefix}autoscaling.neon.tech~1scaling-unit",
                "value": '{"vCPUs":"250m","mem":"1Gi"}',
            },
            {"op": "test", "path": f"{prefix}{inner}requested", "value": '{"vCPUs":3,"mem":"12Gi"}'},
            {"op": "add", "path": f"{prefix}{inner}approved", "value": '{"vCPUs":3,"mem":"12Gi"}'},
        ]


@pytest.mark.rule(
    "vm:N1", "vm:N4", "vm:N5", "vm:N7", "vm:B2", "vm:B9", "vm:B10", "vm:B11", "vm:B12", "vm:B14", "vm:C6", "vm:I12"
)
def test_a_neighbour_makes_room_and_what_it_leaves_goes_to_the_one_who_asked() -> None:
    with stage() as ours:
        crowd(ours)
        gone: list[float] = []
        source = ours.world.runner_pod("b")["metadata"]["name"]
        ours.world.write_request("a", Amounts.from_values(6000, 24 * GIB))
        ours.wait(lambda: bool(ours.world.list_items(MIGRATIONS)))
        (made,) = ours.writes("POST", MIGRATIONS)
        assert made["metadata"]["name"] == f"schedplugin-{source}"
        assert made["metadata"]["labels"] == {CREATED_BY_SCHEDULER_LABEL: "true"}
        assert made["metadata"]["annotations"][TARGET_NODE] == "n2"
        claim = json.loads(made["metadata"]["annotations"][CLAIM])
        assert (claim["node"], claim["beneficiary"]["name"]) == ("n1", ours.world.runner_pod("a")["metadata"]["name"])
        assert made["spec"] == {
            "vmName": "b",
            "preventMigrationToSameHost": True,
            "completionTimeout": 3600,
            "incremental": True,
            "allowPostCopy": False,
            "autoConverge": True,
            "maxBandwidth": "1Gi",
        }

        def left() -> bool:
            if not gone and ours.world.call("GET", f"{PODS}/{source}")["kind"] == "Status":
                gone.append(ours.world.now)
            return bool(ours.approved("a") == {"vCPUs": 6, "mem": "24Gi"})

        ours.wait(left, within_s=60.0)
        assert gone
        assert ours.world.now - gone[0] <= 0.1
        assert ours.world.node_of("b") == "n2"
        noted = [number for number, each in enumerate(ours.requests) if "handover" in str(each[2])]
        ended = [number for number, each in enumerate(ours.requests) if each[:2] == ("DELETE", f"{PODS}/{source}")]
        assert noted
        assert noted[0] < ended[0], "whoever finds the note goes on where it was stopped (B10)"
        assert claim["id"] in ours.world.machine("a")["metadata"]["annotations"][CLAIM_CLOSED]
        ours.wait(lambda: not ours.world.list_items(MIGRATIONS))
        ours.world.let_pass(30.0)
        assert len(ours.writes("POST", MIGRATIONS)) == 1
        assert ours.world.all_running("a", "b")


@pytest.mark.rule("vm:B12")
def test_a_target_is_chosen_by_all_filters_of_the_profile() -> None:
    """Without them `b` would go to n2: of two equal nodes the first by name."""
    with stage(n1="8", n2="8", n3="8") as ours:
        ours.world.call("PATCH", "/api/v1/nodes/n3", {"spec": {"unschedulable": True}}, patch=True)
        crowd(ours)
        taint = {"key": "example.com/gpu", "value": "yes", "effect": "NoSchedule"}
        ours.world.call("PATCH", "/api/v1/nodes/n2", {"spec": {"taints": [taint]}}, patch=True)
        ours.world.call("PATCH", "/api/v1/nodes/n3", {"spec": {"unschedulable": False}}, patch=True)
        ours.world.write_request("a", Amounts.from_values(6000, 24 * GIB))
        ours.wait(lambda: bool(ours.world.list_items(MIGRATIONS)))
        (made,) = ours.writes("POST", MIGRATIONS)
        assert made["metadata"]["annotations"][TARGET_NODE] == "n3"


@pytest.mark.rule("vm:B43", "vm:I8")
def test_another_process_goes_on_with_a_move_and_starts_none_twice() -> None:
    with stage(processes=2) as ours:
        crowd(ours)
        ours.world.write_request("a", Amounts.from_values(6000, 24 * GIB))
        ours.wait(lambda: bool(ours.world.list_items(MIGRATIONS)))
        leader = ours.world.leader()
        assert leader is not None
        ours.world.end(leader)
        ours.wait(lambda: ours.world.leader() is not None, within_s=60.0)
        ours.wait(lambda: ours.approved("a") == {"vCPUs": 6, "mem": "24Gi"}, within_s=60.0)
        assert len(ours.writes("POST", MIGRATIONS)) == 1
        assert ours.world.node_of("b") == "n2"


@pytest.mark.rule("vm:F1", "vm:C25", "vm:B2")
def test_a_migration_whose_creation_was_not_answered_is_not_made_again() -> None:
    with stage() as ours:
        crowd(ours)

        def unanswered(carry: Callable[[], Any]) -> Response:
            carry()
            return UNAVAILABLE

        ours.meddle("POST", "virtualmachinemigrations", unanswered, times=1)
        ours.world.write_request("a", Amounts.from_values(6000, 24 * GIB))
        ours.wait(lambda: ours.approved("a") == {"vCPUs": 6, "mem": "24Gi"}, within_s=60.0)
        assert len(ours.writes("POST", MIGRATIONS)) == 1


@pytest.mark.rule("vm:C30", "vm:B43")
def test_nothing_is_granted_or_placed_before_everything_is_listed() -> None:
    with stage() as ours:
        ours.run("a", cpus=2, slots=8)
        member = ours.world.members[0]
        ours.world.network.server = meddler = Meddler(
            ours.world.network.server, "GET", "virtualmachinemigrations", lambda _: UNAVAILABLE, 10_000
        )
        ours.world.end(member)
        ours.world.write_request("a", Amounts.from_values(3000, 12 * GIB))
        ours.world.let_pass(40.0)
        assert ours.approved("a") is None
        assert ours.controller.not_ready() is not None
        meddler.left = 0
        ours.wait(lambda: ours.approved("a") == {"vCPUs": 3, "mem": "12Gi"}, within_s=60.0)
        assert ours.controller.not_ready() is None


@pytest.mark.rule("vm:B44", "vm:F4")
def test_a_leader_that_cannot_renew_writes_nothing_any_more() -> None:
    with stage() as ours:
        ours.run("a", cpus=2, slots=8)
        ours.meddle("PATCH", "/leases/", lambda _: UNAVAILABLE)
        ours.meddle("PUT", "/leases/", lambda _: UNAVAILABLE)
        ours.world.let_pass(20.0)
        ours.requests.clear()
        ours.world.write_request("a", Amounts.from_values(3000, 12 * GIB))
        ours.world.let_pass(5.0)
        assert ours.approved("a") is None
        assert [each for each in ours.requests if "virtualmachine" in each[1] and each[0] != "GET"] == []
        assert ours.world.members[0].process.state is ProcessState.RUNNING


@pytest.mark.rule("vm:B44", "vm:F4")
def test_a_process_that_was_paused_and_lost_the_lease_writes_nothing_when_it_goes_on() -> None:
    with stage(processes=2) as ours:
        ours.run("a", cpus=2, slots=8)
        writers: list[str] = []

        def note(request: Request, _: Response | Watch, identity: Identity) -> None:
            by_us = identity.user in {each.identity for each in ours.world.members}
            if by_us and request.method != "GET" and "/leases" not in request.path:
                writers.append(identity.user)

        first = ours.world.leader()
        assert first is not None
        first.process.pause()
        ours.wait(lambda: ours.world.leader() is not None, within_s=60.0)
        ours.world.request_listeners.append(note)
        second = ours.world.leader()
        assert second is not None
        second.process.pause()  # so that there is something left to do when the first one goes on
        ours.world.write_request("a", Amounts.from_values(3000, 12 * GIB))
        ours.world.let_pass(0.5)
        uid = ours.world.runner_pod("a")["metadata"]["uid"]
        asked = ResourcesRequested(uid, UNIT, Amounts.from_values(3000, 12 * GIB), None)
        # decided before the clocks are looked at that end its term: what is to be written is in its hands by then
        first.process.loop.call_soon_threadsafe(first.controller.ledger.apply, asked)
        first.process.resume()
        ours.world.let_pass(3.0)
        assert writers == []
        second.process.resume()
        ours.wait(lambda: ours.approved("a") == {"vCPUs": 3, "mem": "12Gi"})
        assert set(writers) == {second.identity}


def test_without_the_definitions_plain_pods_are_placed_and_it_is_said_once_what_adds_them() -> None:
    with structlog.testing.capture_logs() as logs:
        world = VmWorld(1, VmSetup(), nodes={"n1": "8"}, machines=None)
        try:
            world.let_pass(60.0)
            world.call("POST", PODS, pod_object("web", cpu="1", scheduler="situate-vm"))
            assert world.let_pass(10.0, stop=lambda: bool(world.call("GET", f"{PODS}/web")["spec"].get("nodeName")))
            assert world.members[0].controller.not_ready() is None
        finally:
            world.close()
    said = [each for each in logs if "not served by the cluster" in each["event"]]
    assert sorted(each["resource"] for each in said) == [
        "virtualmachinemigrations.vm.neon.tech",
        "virtualmachines.vm.neon.tech",
    ]
    assert all("situate crds vm | kubectl apply" in each["next_step"] for each in said)


@pytest.mark.parametrize("point", ["plan", "startable_migrations"])
def test_a_defect_of_the_ledger_ends_the_process_with_its_story(point: str) -> None:
    """In a beat, or in the handler of a watch, whose exceptions stop nobody: a ledger that lacks an event is void."""

    def broken(*_: object) -> Any:
        raise ZeroDivisionError("no such plan")

    with stage() as ours:
        ours.run("a", cpus=2, slots=8)
        ours.controller.ledger.planner = replace(Planner(), **{point: broken})
        ours.world.write_request("a", Amounts.from_values(12000, 48 * GIB))
        process = ours.world.members[0].process
        ours.wait(lambda: process.state is ProcessState.ENDED)
        failure = process.failure()
        while isinstance(failure, ExceptionGroup):
            (failure,) = failure.exceptions
        assert isinstance(failure, ZeroDivisionError if point == "plan" else BrokenInvariant), failure


@pytest.mark.rule("vm:C31")
def test_metrics_of_nodes_show_the_labels_that_are_asked_for() -> None:
    world = VmWorld(1, VmSetup(node_metric_labels={"host": "kubernetes.io/hostname"}), nodes={"n1": "8"})
    try:
        world.let_pass(3.0)
        text = generate_latest(world.registry).decode()
        assert 'situate_vm_node_cpu_resources_current{field="Total",host="n1",node="n1"} 8.0' in text
    finally:
        world.close()


@pytest.mark.rule("vm:F1", "vm:C31")
def test_an_approval_that_nobody_answers_is_written_again_after_its_time() -> None:
    with stage() as ours:
        ours.run("a", cpus=2, slots=8)
        ours.meddle("PATCH", "/virtualmachines/a", lambda _: None, times=1)
        ours.world.write_request("a", Amounts.from_values(3000, 12 * GIB))
        ours.wait(lambda: ours.approved("a") == {"vCPUs": 3, "mem": "12Gi"}, within_s=5.0)


@pytest.mark.rule("vm:C32")
@pytest.mark.parametrize("compat", [False, True])
def test_metrics_bear_our_names_and_in_compat_the_references(compat: bool) -> None:
    with stage(Rules(compat=compat)) as ours:
        ours.run("a", cpus=2, slots=8)
        ours.world.write_request("a", Amounts.from_values(3000, 12 * GIB))
        ours.wait(lambda: ours.approved("a") == {"vCPUs": 3, "mem": "12Gi"})
        ours.world.let_pass(1.0)
        text = generate_latest(ours.world.registry).decode()
        node = ours.world.node_of("a")
        for prefix in ("situate_vm_", *(("autoscaling_plugin_",) if compat else ())):
            assert f'{prefix}node_cpu_resources_current{{field="Reserved",node="{node}"}} 3.0' in text
            assert f'{prefix}node_mem_resources_current{{field="Total",node="{node}"}} 3.4359738368e+10' in text
            assert f'{prefix}extension_calls_total{{ignored="false",method="Filter"}}' in text
            assert f'{prefix}k8s_ops_total{{kind="Pod",op="Approve",outcome="ok"}}' in text
            assert f"{prefix}reserve_should_deny_total 0.0" in text
            assert f"{prefix}reconcile_failing_objects 0.0" in text
            assert f"{prefix}reconcile_panics_count 0.0" in text
        assert ("autoscaling_plugin_" in text) == compat
        assert 'situate_vm_ledger_entries{kind="pod"} 1.0' in text


@pytest.mark.rule("vm:B44", "vm:C17")
def test_only_the_pod_of_the_one_that_leads_bears_the_name_that_agents_look_for() -> None:
    world = VmWorld(1, VmSetup(namespace=NAMESPACE, pod="vm-new"), nodes={"n1": "8"})
    try:
        for name in ("vm-old", "vm-new"):
            labels = {"name": "situate-vm"} if name == "vm-old" else {}
            made = pod_object(name, node="n1") | {}
            made["metadata"]["labels"] = labels
            world.call("POST", PODS, made)

        def bearers() -> list[str]:
            found = world.list_items(PODS)
            return [each["metadata"]["name"] for each in found if "name" in each["metadata"].get("labels", {})]

        assert world.let_pass(30.0, stop=lambda: bearers() == ["vm-new"]), bearers()
    finally:
        world.close()
