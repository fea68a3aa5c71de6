"""The shipped vm process over KubeVirt's kinds: neighbours are moved by its migrations, on a virtual clock."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from situate.cluster.controllers.node.nodes import node as node_object
from situate.cluster.storage.watch import Watch
from situate.objects.messages import Request, Response
from situate.testing.builders.objects import pod as pod_object
from situate.testing.vm.world.processes import NAMESPACE, PODS, VmSystemStandIn, VmWorld
from situate.vm.api.well_known import (
    AUTO_MIGRATION_LABEL,
    CLAIM,
    CREATED_BY_SCHEDULER_LABEL,
    DRAIN,
    MIGRATION_TIMES,
    RESIZE_REQUESTED,
    TARGET_NODE,
)
from situate.vm.backends.kubevirt import KubeVirtSystem
from situate.vm.controller.setup import VmSetup
from tests.vm.backends.kubevirt_controller import (
    FAILS_ANNOTATION,
    STALLS_ANNOTATION,
    STAYS_ANNOTATION,
    KubeVirtController,
)
from tests.vm.backends.kubevirt_kinds import kubevirt_definitions

INSTANCES = f"/apis/kubevirt.io/v1/namespaces/{NAMESPACE}/virtualmachineinstances"
MIGRATIONS = f"/apis/kubevirt.io/v1/namespaces/{NAMESPACE}/virtualmachineinstancemigrations"


class Stage:
    def __init__(self, world: VmWorld) -> None:
        self.world = world
        self.writes: list[tuple[str, str, Any]] = []
        """Every write of vm that was carried out: method, path and body."""
        world.request_listeners.append(self._note)

    def _note(self, request: Request, answer: Response | Watch, identity: Any) -> None:
        if isinstance(answer, Response) and answer.status < 300 and "leases" not in request.path:
            self.writes.append((request.method, request.path, json.loads(request.body or b"null")))

    def wait(self, for_: Callable[[], bool], within_s: float = 30.0) -> None:
        assert self.world.let_pass(within_s, stop=for_), (self.world.notes, self.writes[-5:])

    def create(self, name: str, cpu: str, *, node: str, **notes: str) -> None:
        """Runs on this node, and may be moved if KubeVirt can."""
        self.cordon(*({"n1", "n2"} - {node}))
        self.world.let_pass(1.0)  # until the scheduler has heard of that
        body = {
            "apiVersion": "kubevirt.io/v1",
            "kind": "VirtualMachineInstance",
            "metadata": {"name": name, "labels": {AUTO_MIGRATION_LABEL: "true"}, "annotations": notes},
            "spec": {
                "schedulerName": "situate-vm",
                "domain": {"memory": {"guest": "2Gi"}, "resources": {"requests": {"cpu": cpu, "memory": "4Gi"}}},
            },
        }
        answer = self.world.call("POST", INSTANCES, body)
        assert answer["kind"] == "VirtualMachineInstance", answer
        self.wait(lambda: self.status(name).get("phase") == "Running")
        self.cordon()

    def cordon(self, *names: str) -> None:
        for name in ("n1", "n2"):
            self.world.call("PATCH", f"/api/v1/nodes/{name}", {"spec": {"unschedulable": name in names}}, patch=True)

    def place(self, name: str, cpu: str) -> None:
        self.world.call("POST", PODS, pod_object(name, cpu=cpu, node="n1"))

    def ask(self, name: str, cpu: str | None) -> None:
        """For this much, or for nothing any more."""
        wish = None if cpu is None else json.dumps({"cpu": cpu})
        self.world.annotate(f"{PODS}/{name}", {RESIZE_REQUESTED: wish})

    def status(self, name: str) -> Any:
        return self.world.call("GET", f"{INSTANCES}/{name}").get("status") or {}

    def migrations(self) -> list[dict[str, Any]]:
        return self.world.list_items(MIGRATIONS)

    def made(self) -> list[Any]:
        return [body for method, path, body in self.writes if (method, path) == ("POST", MIGRATIONS)]

    def cpu(self, name: str) -> str:
        pod = self.world.call("GET", f"{PODS}/{name}")
        return str(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])

    def launchers(self) -> list[str]:
        """Nodes of the machines' pods that have not ended."""
        found = [each for each in self.world.list_items(PODS) if each["metadata"]["name"].startswith("virt-launcher")]
        return [each["spec"].get("nodeName", "") for each in found if each["status"].get("phase") != "Succeeded"]


@contextmanager
def stage(*, pin_target: bool = True, processes: int = 1) -> Iterator[Stage]:
    world = VmWorld(
        1,
        VmSetup(system=KubeVirtSystem(pin_target=pin_target)),
        nodes={"n1": "8", "n2": "8"},
        processes=processes,
        stand_in=VmSystemStandIn(kubevirt_definitions(), KubeVirtController),
    )
    try:
        world.let_pass(3.0)
        yield Stage(world)
    finally:
        world.close()


@pytest.mark.rule("vm:B49", "vm:N13", "vm:N5", "vm:N7", "vm:B2", "vm:B12", "vm:B14", "vm:C6")
def test_a_machine_of_kubevirt_makes_room_for_a_pod_that_grows() -> None:
    with stage() as ours:
        ours.create("db", "4", node="n1")
        ours.place("web", "2")
        ours.ask("web", "5")
        ours.wait(lambda: bool(ours.migrations()))
        (made,) = ours.made()
        source = made["metadata"]["name"].removeprefix("schedplugin-")
        assert source.startswith("virt-launcher-db-")
        assert made["metadata"]["labels"] == {CREATED_BY_SCHEDULER_LABEL: "true"}
        assert made["metadata"]["annotations"][TARGET_NODE] == "n2"
        claim = json.loads(made["metadata"]["annotations"][CLAIM])
        assert (claim["beneficiary"]["kind"], claim["beneficiary"]["name"]) == ("Pod", "web")
        assert made["spec"] == {"vmiName": "db", "addedNodeSelector": {"kubernetes.io/hostname": "n2"}}
        ours.wait(lambda: ours.cpu("web") == "5")
        assert ours.status("db")["nodeName"] == "n2"
        ours.wait(lambda: ours.launchers() == ["n2"])  # the resize is written before (B37)
        ours.wait(lambda: not ours.migrations())
        assert MIGRATION_TIMES in ours.world.call("GET", f"{INSTANCES}/db")["metadata"]["annotations"]
        ours.world.let_pass(60.0)
        assert len(ours.made()) == 1
        assert ours.launchers() == ["n2"]


@pytest.mark.rule("vm:B49", "vm:B14")
def test_without_a_pinned_target_the_reserved_node_is_the_only_one_that_is_offered() -> None:
    """A third node would be as good; the machine's own scheduler knows where its room is."""
    with stage(pin_target=False) as ours:
        ours.create("db", "4", node="n1")
        ours.place("web", "2")
        ours.ask("web", "5")
        ours.wait(lambda: bool(ours.migrations()))
        ours.world.call("POST", "/api/v1/nodes", node_object("n3", cpu="64", memory="256Gi", pods=110))
        ours.wait(lambda: ours.cpu("web") == "5")
        assert ours.made()[0]["spec"] == {"vmiName": "db"}
        assert ours.status("db")["nodeName"] == "n2"


@pytest.mark.rule("vm:B49", "vm:B17", "vm:D6")
@pytest.mark.parametrize("why_not", ["DisksNotLiveMigratable", "HostDeviceNotLiveMigratable"])
def test_what_kubevirt_cannot_move_is_no_candidate(why_not: str) -> None:
    with stage() as ours:
        ours.create("db", "4", node="n1", **{STAYS_ANNOTATION: why_not})
        ours.place("web", "2")
        ours.ask("web", "5")
        ours.world.annotate("/api/v1/nodes/n1", {DRAIN: ""})
        ours.world.let_pass(60.0)
        assert ours.made() == []
        assert ours.cpu("web") == "2"


@pytest.mark.rule("vm:B49", "vm:B21", "vm:B20", "vm:N10")
def test_a_move_that_nobody_needs_any_more_is_cancelled_by_deletion() -> None:
    with stage() as ours:
        ours.create("db", "4", node="n1")
        ours.place("web", "2")
        ours.ask("web", "5")
        ours.wait(lambda: bool(ours.migrations()))
        ours.ask("web", None)
        ours.wait(lambda: not ours.migrations())
        assert [path for method, path, _ in ours.writes if method == "DELETE" and path.startswith(MIGRATIONS)] != []
        ours.world.let_pass(5.0)
        assert ours.launchers() == ["n1"]
        assert ours.status("db")["nodeName"] == "n1"


@pytest.mark.rule("vm:B49", "vm:B15", "vm:B25", "vm:F7")
@pytest.mark.parametrize("fault", [{FAILS_ANNOTATION: "the guest went away"}, {STALLS_ANNOTATION: ""}])
def test_a_move_that_breaks_or_does_not_end_leaves_the_machine_where_it_is(fault: dict[str, str]) -> None:
    """KubeVirt tells of no bytes: what copying may take is known by the guest's memory alone, 300 s for 2 GiB."""
    with stage() as ours:
        ours.create("db", "4", node="n1", **fault)
        ours.place("web", "2")
        ours.ask("web", "5")
        ours.wait(lambda: bool(ours.migrations()))
        (first,) = ours.migrations()

        def ended() -> bool:
            return first["metadata"]["uid"] not in {each["metadata"]["uid"] for each in ours.migrations()}

        began = ours.world.now
        ours.wait(ended, within_s=400.0)
        assert (ours.world.now - began > 290.0) == (STALLS_ANNOTATION in fault)
        ours.wait(lambda: ours.launchers() == ["n1"])
        assert ours.status("db")["nodeName"] == "n1"
        assert ours.cpu("web") == "2"


@pytest.mark.rule("vm:B49", "vm:B43", "vm:I8")
def test_another_process_goes_on_with_a_move_of_kubevirt() -> None:
    with stage(processes=2) as ours:
        ours.create("db", "4", node="n1")
        ours.place("web", "2")
        ours.ask("web", "5")
        ours.wait(lambda: bool(ours.migrations()))
        leader = ours.world.leader()
        assert leader is not None
        ours.world.end(leader)
        ours.wait(lambda: ours.cpu("web") == "5", within_s=90.0)
        ours.wait(lambda: ours.launchers() == ["n2"], within_s=90.0)
        assert len(ours.made()) == 1


@pytest.mark.rule("vm:B49", "vm:B46")
def test_a_node_is_emptied_of_machines_of_kubevirt_and_they_may_come_back() -> None:
    with stage() as ours:
        ours.create("db", "4", node="n1")
        ours.world.annotate("/api/v1/nodes/n1", {DRAIN: ""})
        ours.wait(lambda: ours.launchers() == ["n2"])
        ours.world.annotate("/api/v1/nodes/n1", {DRAIN: None})
        ours.world.let_pass(1300.0)  # its cool-down
        ours.world.annotate("/api/v1/nodes/n2", {DRAIN: ""})
        ours.wait(lambda: ours.launchers() == ["n1"])
        assert len(ours.made()) == 2
        assert ours.status("db")["nodeName"] == "n1"
