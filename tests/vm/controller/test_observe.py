"""What watches show becomes events of the ledger: which, in which order, and what is left out."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from situate.kube.client import Client
from situate.objects.kinds import nodes, pods
from situate.objects.kinds.meta import KubernetesObject
from situate.objects.kinds.unstructured import Unstructured
from situate.objects.resources import ResourceType
from situate.vm.api.parse_errors import ParseError
from situate.vm.api.well_known import (
    APPROVED,
    CLAIM,
    CREATED_BY_SCHEDULER_LABEL,
    ENABLED_LABEL,
    OVERCOMMIT,
    REQUESTED,
    SCALING_UNIT,
    TARGET_NODE,
    USAGE,
)
from situate.vm.api.well_known import RESOURCES as GUEST
from situate.vm.backends.neonvm import NeonVM
from situate.vm.backends.systems import NEONVM
from situate.vm.controller.informers import VmInformers
from situate.vm.controller.observe import Observer
from situate.vm.ledger.ledger import Ledger
from situate.vm.model.actions import Approve
from situate.vm.model.events import Event, MigrationObserved, MigrationRemoved, ResourcesRequested, WriteResult
from situate.vm.model.pods_and_nodes import Phase, Pod, Ref
from situate.vm.model.policy import GIB, Rules
from situate.vm.model.resource_amounts import Amounts
from tests.vm.objects import VM_OWNER, container, migration, migration_owner, node, pod, runner, vm

CLAIMED = (
    '{"id":"c","plan":"p","node":"n1","beneficiary":{"kind":"VM","namespace":"default","name":"b","uid":"uid-b"},'
    '"source":{"podUID":"uid-a-xyz"},"amount":{"cpu":1,"mem":"1Gi"},"deadline":"2100-01-01T00:00:00.000000Z"}'
)
UNIT, ONE, TWO = ('{"vCPUs":"500m","mem":"1Gi"}', '{"vCPUs":1,"mem":"1Gi"}', '{"vCPUs":2,"mem":"2Gi"}')


def guest(cpus: int) -> dict[str, Any]:
    slots = {"min": 1, "use": 1, "max": 8}
    return {"cpus": {"min": 1, "use": cpus, "max": 8}, "memorySlots": slots, "memorySlotSize": "1Gi"}


class Recording(Ledger):
    """Keeps what it was told."""

    def __init__(self, rules: Rules) -> None:
        super().__init__(rules, lambda: 1000.0, lambda: True)
        self.told: list[Event] = []

    def apply(self, event: Event) -> None:
        self.told.append(event)
        super().apply(event)


class Watch:
    """Stores that a test fills as reflectors would."""

    def __init__(self, rules: Rules) -> None:
        self.backend = NeonVM(rules)
        self.watched = VmInformers.create(Client(_nowhere()), Random(1), NEONVM, self.backend)
        self.ledger = Recording(rules)
        self.wrong: dict[str, tuple[ParseError, ...]] = {}
        self.forgotten: list[tuple[str, str]] = []
        self.observing = Observer(self.watched, NEONVM, self.backend, self.ledger, self)

    def unreadable(self, resource: ResourceType[Any], each: KubernetesObject, wrong: tuple[ParseError, ...]) -> None:
        self.wrong[f"{resource.plural} {each.metadata.name}"] = wrong

    def forget(self, resource: ResourceType[Any], uid: str) -> None:
        self.forgotten.append((resource.plural, uid))

    def begin(self) -> None:
        self.observing.load_objects()
        self.observing.complete_listing()

    def put(self, *objects: pods.Pod | nodes.Node | Unstructured) -> None:
        for each in objects:
            match each:
                case pods.Pod():
                    self.watched.all.pods.store.put(each)
                case nodes.Node():
                    self.watched.all.nodes.store.put(each)
                case _ if each.kind == "VirtualMachine":
                    self.watched.machines.store.put(each)
                case _:
                    self.watched.migrations.store.put(each)

    def booked(self, name: str) -> Pod | None:
        return self.ledger.state.pod(f"uid-{name}")


def _nowhere() -> Any:
    return object()


@pytest.fixture
def watch() -> Watch:
    made = Watch(Rules(ignored_namespaces=("filler",)))
    made.put(node("n1"), node("n2"))
    made.begin()
    return made


def changed(each: pods.Pod, **fields: Any) -> pods.Pod:
    return msgspec.structs.replace(each, **fields)


@pytest.mark.rule("vm:C25", "vm:C27", "vm:C28")
def test_pods_count_from_their_binding_to_their_end(watch: Watch) -> None:
    watch.put(pod("web"))
    assert watch.booked("web") is None, "nobody has placed it yet"
    bound = pod("web", nodeName="n1")
    watch.put(bound, pod("filler", nodeName="n1", metadata={"namespace": "filler"}))
    assert watch.booked("web") is not None
    assert watch.booked("filler") is None
    watch.watched.all.pods.store.remove("web", "default")
    assert watch.booked("web") is None


@pytest.mark.rule("vm:D14", "vm:B3")
@pytest.mark.parametrize("compat", [False, True])
def test_a_finished_pod_counts_until_its_containers_have_ended_and_in_compat_until_it_is_gone(compat: bool) -> None:
    watch = Watch(Rules(compat=compat))
    watch.put(node("n1"))
    watch.begin()
    running = {"name": "main", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
    over = {"name": "main", "state": {"terminated": {"exitCode": 1}}}
    watch.put(pod("web", nodeName="n1", status={"phase": "Failed", "containerStatuses": [running]}))
    assert watch.booked("web") is not None
    watch.put(pod("web", nodeName="n1", status={"phase": "Failed", "containerStatuses": [over]}))
    assert (watch.booked("web") is not None) == compat


@pytest.mark.rule("vm:D23", "vm:C1", "vm:D13")
def test_what_a_machine_says_is_told_of_its_pod(watch: Watch) -> None:
    watch.put(runner("a-xyz", nodeName="n1"))
    booked = watch.booked("a-xyz")
    assert booked is not None
    assert booked.machine is not None
    assert booked.machine.phase is Phase.RUNNING
    watch.put(vm(status={"phase": "Migrating", "cpus": "1500m"}))
    booked = watch.booked("a-xyz")
    assert booked is not None
    assert booked.machine is not None
    assert booked.machine.phase is Phase.FROZEN
    assert booked.used.cpu == 1500


@pytest.mark.rule("vm:F9")
def test_another_machine_of_the_same_name_says_nothing_of_the_pod(watch: Watch) -> None:
    watch.put(runner("a-xyz", nodeName="n1"), vm(status={"phase": "Migrating"}, uid="uid-of-another"))
    booked = watch.booked("a-xyz")
    assert booked is not None
    assert booked.machine is not None
    assert booked.machine.phase is Phase.RUNNING


@pytest.mark.rule("vm:D18", "vm:I1")
def test_a_bound_pod_that_cannot_be_read_counts_as_what_it_requests_and_is_told_of(watch: Watch) -> None:
    watch.put(pod("broken", container(cpu="3"), owners=(VM_OWNER,), nodeName="n1"))
    booked = watch.booked("broken")
    assert booked is not None
    assert booked.reserved.cpu == 3000
    assert watch.wrong["pods broken"]
    watch.put(runner("broken", nodeName="n1"))
    assert watch.wrong["pods broken"] == ()


@pytest.mark.rule("vm:D18", "vm:I1", "vm:I2", "vm:D23")
@pytest.mark.parametrize("broken", [SCALING_UNIT, APPROVED, REQUESTED, OVERCOMMIT, USAGE])
def test_how_large_a_machine_is_counts_whatever_cannot_be_read_any_more(watch: Watch, broken: str) -> None:
    """Its room was given to others once more."""
    annotations = {SCALING_UNIT: UNIT, REQUESTED: TWO, APPROVED: TWO}
    labels = {ENABLED_LABEL: "true"}
    watch.put(vm(), runner("a-xyz", annotations, labels=labels, nodeName="n1"))
    watch.put(runner("a-xyz", {**annotations, broken: "broken"}, labels=labels, nodeName="n1"))
    assert watch.ledger.state.nodes["n1"].reserved == Amounts.from_values(2000, 2 * GIB), "what was approved stays"
    watch.put(vm({"guest": guest(6)}, status={"cpus": 6, "memorySize": "1Gi"}))
    assert watch.ledger.state.nodes["n1"].reserved == Amounts.from_values(6000, 2 * GIB)
    watch.put(vm({"guest": guest(1)}, status={"cpus": 1, "memorySize": "1Gi"}))
    assert watch.ledger.state.nodes["n1"].reserved == Amounts.from_values(6000, 2 * GIB), "until it is read again"
    watch.put(runner("a-xyz", annotations, labels=labels, nodeName="n1"))
    assert watch.ledger.state.nodes["n1"].reserved == Amounts.from_values(2000, 2 * GIB)


@pytest.mark.rule("vm:D18", "vm:D13", "vm:C3")
def test_whether_a_machine_moves_is_followed_whatever_cannot_be_read_any_more(watch: Watch) -> None:
    watch.put(vm(), runner("a-xyz", nodeName="n1"))
    watch.put(runner("a-xyz", {OVERCOMMIT: "broken"}, nodeName="n1"))
    watch.put(vm(status={"phase": "PreMigrating"}))
    booked = watch.booked("a-xyz")
    assert booked is not None
    assert booked.machine is not None
    assert booked.machine.phase is Phase.FROZEN
    owners = (VM_OWNER, migration_owner(controller=False))
    watch.put(runner("a-xyz", {GUEST: "broken"}, owners=owners, nodeName="n1"))
    booked = watch.booked("a-xyz")
    assert booked is not None
    assert booked.migrating
    assert booked.migratable


@pytest.mark.rule("vm:D18", "vm:B9")
def test_what_is_being_written_is_not_taken_to_show_on_a_pod_that_cannot_be_read(watch: Watch) -> None:
    """What it showed before that write may be heard of later: it would be booked then, and is less."""
    labels = {ENABLED_LABEL: "true"}
    before = runner("a-xyz", {SCALING_UNIT: UNIT, APPROVED: ONE}, labels=labels, nodeName="n1")
    watch.put(vm(), before)
    two = Amounts.from_values(1500, 2 * GIB)
    watch.ledger.apply(
        ResourcesRequested("uid-a-xyz", Amounts.from_values(500, GIB), two, Amounts.from_values(1000, GIB))
    )
    (approve,) = (each for each in watch.ledger.take_actions() if isinstance(each, Approve))
    watch.ledger.apply(WriteResult(approve, "ok"))
    watch.put(runner("a-xyz", {SCALING_UNIT: "broken", APPROVED: ONE}, labels=labels, nodeName="n1"))
    watch.put(before)
    booked = watch.booked("a-xyz")
    assert booked is not None
    assert booked.reserved == two


@pytest.mark.rule("vm:D19", "vm:C27")
def test_pods_of_a_node_that_says_no_size_for_a_while_are_kept_aside(watch: Watch) -> None:
    watch.put(pod("web", nodeName="n1"))
    watch.put(node("n1", cpu="0"))
    assert "n1" not in watch.ledger.state.nodes
    watch.put(node("n1"))
    assert watch.booked("web") is not None


@pytest.mark.rule("vm:B2", "vm:C3")
def test_a_migration_is_told_with_the_uids_that_its_object_lacks(watch: Watch) -> None:
    watch.put(vm(status={"podName": "a-xyz"}), runner("a-xyz", nodeName="n1"))
    notes = {CLAIM: CLAIMED, TARGET_NODE: "n2"}
    labels = {CREATED_BY_SCHEDULER_LABEL: "true"}
    status = {"phase": "Pending", "targetPodName": "a-new"}
    watch.put(migration(status, "m", annotations=notes, labels=labels))
    seen = watch.ledger.told[-1]
    assert isinstance(seen, MigrationObserved)
    assert (seen.machine.uid, seen.target_node, seen.source_node) == ("uid-vm-a", "n2", "n1")
    assert seen.claim is not None
    assert seen.source == Ref("default", "a-xyz", "uid-a-xyz")
    assert seen.target == Ref("default", "a-new")
    owners = ({**VM_OWNER, "controller": False}, migration_owner(controller=True))
    watch.put(runner("a-new", owners=owners))
    again = watch.ledger.told[-1]
    assert isinstance(again, MigrationObserved)
    assert again.target == Ref("default", "a-new", "uid-a-new"), "only now the pod is there"
    watch.watched.migrations.store.remove("m", "default")
    assert watch.ledger.told[-1] == MigrationRemoved(seen.machine, "m")


@pytest.mark.rule("vm:B43", "vm:C30")
def test_between_terms_nothing_is_told_and_a_new_one_begins_with_everything(watch: Watch) -> None:
    watch.observing.end()
    watch.put(pod("web", nodeName="n1"))
    assert watch.booked("web") is None
    watch.ledger.begin()
    watch.begin()
    assert watch.booked("web") is not None
    assert watch.ledger.state.started


def test_of_objects_that_are_gone_nothing_is_kept() -> None:
    """Whoever makes and deletes broken ones all day takes no memory of ours."""
    watch = Watch(Rules())
    watch.begin()
    objects = (runner("broken", {"vm.neon.tech/resources": "{"}), node(), vm(), migration())
    watch.put(*objects)
    watch.put(runner("broken", {"vm.neon.tech/resources": "{"}, metadata={"uid": "uid-another"}))
    assert watch.forgotten == [("pods", "uid-broken")]
    for store in (watch.watched.all.pods.store, watch.watched.all.nodes.store):
        for each in store.list():
            store.remove(each.metadata.name, each.metadata.namespace)
    for further in (watch.watched.machines.store, watch.watched.migrations.store):
        for one in further.list():
            further.remove(one.metadata.name, one.metadata.namespace)
    plurals = ["nodes", "pods", "pods", "virtualmachinemigrations", "virtualmachines"]
    assert sorted(plural for plural, _ in watch.forgotten) == plurals
