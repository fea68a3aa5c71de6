"""What virt-launcher pods are, by their labels and by what their machine says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from situate.objects.kinds import pods
from situate.vm.api.quantities import ContainerResizeRequest
from situate.vm.api.well_known import ALWAYS_MIGRATE_LABEL, CLAIM_CLOSED, MIGRATION_TIMES
from situate.vm.backends.kubevirt import KubeVirtSystem
from situate.vm.backends.kubevirt_instances import ObservedInstance, read_instance
from situate.vm.backends.kubevirt_pods import (
    instance_of,
    launcher_role,
    migration_of_target,
    read_launcher,
    running_pod_name,
    without_target_constraints,
)
from situate.vm.model.pods_and_nodes import Machine, Node, Phase, Ref, Role
from situate.vm.model.policy import GIB, Rules
from situate.vm.model.resource_amounts import Amounts
from situate.vm.protocol.resize_request import ResizeRequest, resize_refusal
from tests.vm.backends.kubevirt_objects import OWNER, instance, launcher
from tests.vm.objects import pod

RULES = Rules()
SOURCE, TARGET, IDLE = Role.SOURCE, Role.TARGET, Role.IDLE
UNDER_WAY = {"migrationUid": "m1", "sourcePod": "old", "sourceNode": "n1", "targetNode": "n2"}
DONE = {**UNDER_WAY, "completed": True, "endTimestamp": "2026-01-01T01:00:00Z"}
UNNAMED = {key: value for key, value in DONE.items() if key != "sourcePod"}


def seen(status: Any = None, **metadata: Any) -> ObservedInstance:
    read = read_instance(instance(status, **metadata), RULES)
    assert read.value is not None, read.errors
    return read.value


def machine(of: pods.Pod, known: ObservedInstance | None) -> Machine:
    found = read_launcher(of, RULES, known).machine
    assert found is not None
    return found


@pytest.mark.rule("vm:B49", "vm:C3")
@pytest.mark.parametrize(
    ("each", "ref"),
    [
        pytest.param(launcher(), Ref("default", "db", "uid-db"), id="launcher"),
        pytest.param(pod("web"), None, id="plain"),
        pytest.param(launcher(labels={"kubevirt.io": "hotplug-disk"}), None, id="attaches a volume"),
        pytest.param(launcher(owners=({**OWNER, "controller": False},)), None, id="not controlled"),
        pytest.param(launcher(owners=({**OWNER, "apiVersion": "vm.neon.tech/v1"},)), None, id="of somebody else"),
        pytest.param(
            launcher(owners=({**OWNER, "apiVersion": "kubevirt.io/v1alpha3"},)),
            Ref("default", "db", "uid-db"),
            id="old",
        ),
    ],
)
def test_a_launcher_is_known_by_its_owner_and_its_label(each: pods.Pod, ref: Ref | None) -> None:
    assert instance_of(each) == ref
    assert (KubeVirtSystem().read_pod(each, RULES, None).value.machine is not None) == (ref is not None)  # type: ignore[union-attr]  # every pod can be read


def test_what_a_target_was_made_for_is_on_it() -> None:
    assert migration_of_target(launcher(made_for="m1")) == Ref("default", "m", "m1")
    assert migration_of_target(launcher()) is None
    assert migration_of_target(pod("web", labels={"kubevirt.io/migrationJobUID": "m1"})) is None


@pytest.mark.rule("vm:B49", "vm:C3", "vm:C9")
@pytest.mark.parametrize(
    ("each", "status", "role"),
    [
        pytest.param(launcher(), {}, IDLE, id="runs"),
        pytest.param(launcher(), {"nodeName": ""}, IDLE, id="starts"),
        pytest.param(launcher(), {"migrationState": UNDER_WAY}, SOURCE, id="is left"),
        pytest.param(launcher(), {"migrationState": {**DONE, "failed": True}}, IDLE, id="its move failed"),
        pytest.param(launcher(made_for="m1", node=""), {}, TARGET, id="target without a node"),
        pytest.param(launcher(made_for="m1", node="n2"), {}, TARGET, id="target before the hand-off"),
        pytest.param(launcher(made_for="m1", node="n2"), {"migrationState": UNDER_WAY}, TARGET, id="target"),
        pytest.param(
            launcher(made_for="m1", node="n2"),
            {"migrationState": UNDER_WAY, "nodeName": "n2"},
            IDLE,
            id="arrived, and not said to be done",
        ),
        pytest.param(
            launcher(made_for="m1", node="n2"), {"migrationState": DONE, "nodeName": "n2"}, IDLE, id="arrived"
        ),
        pytest.param(launcher(), {"migrationState": DONE, "nodeName": "n2"}, SOURCE, id="left, and not ended yet"),
        pytest.param(
            launcher(made_for="m1", node="n2"),
            {"migrationState": {**DONE, "failed": True}},
            TARGET,
            id="target of a move that failed",
        ),
        pytest.param(
            launcher(name="old", made_for="m0", node="n1"),
            {"migrationState": DONE, "nodeName": "n2"},
            SOURCE,
            id="left, once a target",
        ),
        pytest.param(
            launcher(name="new", made_for="m2", node="n1"),
            {"migrationState": DONE, "nodeName": "n2"},
            TARGET,
            id="target on the way back",
        ),
        pytest.param(
            launcher(made_for="m0", node="n1"),
            {"migrationState": UNNAMED, "nodeName": "n2"},
            SOURCE,
            id="left, once a target, and no pod is named",
        ),
        pytest.param(
            launcher(made_for="m2", node="n1", metadata={"creationTimestamp": "2026-01-01T02:00:00Z"}),
            {"migrationState": UNNAMED, "nodeName": "n2"},
            TARGET,
            id="target on the way back, and no pod is named",
        ),
    ],
)
def test_what_a_pod_is_to_a_move(each: pods.Pod, status: Any, role: Role) -> None:
    assert launcher_role(each, seen(status)) is role


def test_of_a_machine_that_is_not_known_the_label_says_what_a_pod_is() -> None:
    assert launcher_role(launcher(), None) is Role.IDLE
    assert launcher_role(launcher(made_for="m1"), None) is Role.TARGET
    assert not machine(launcher(), None).migratable


@pytest.mark.rule("vm:B49", "vm:B17", "vm:C9")
@pytest.mark.parametrize(
    ("status", "labels", "migratable"),
    [
        pytest.param({}, None, True, id="allowed and able"),
        pytest.param({}, {}, False, id="not allowed"),
        pytest.param({}, {ALWAYS_MIGRATE_LABEL: "true"}, True, id="always"),
        pytest.param({"conditions": []}, None, False, id="nothing said"),
        pytest.param(
            {"conditions": [{"type": "LiveMigratable", "status": "False", "reason": "DisksNotLiveMigratable"}]},
            None,
            False,
            id="volumes are not shared",
        ),
        pytest.param({"conditions": [{"type": "LiveMigratable", "status": "Unknown"}]}, None, False, id="unknown"),
    ],
)
def test_only_what_kubevirt_can_move_and_its_owner_lets_go_is_a_candidate(
    status: Any, labels: Any, migratable: bool
) -> None:
    assert machine(launcher(), seen(status, labels=labels)).migratable is migratable


@pytest.mark.parametrize(
    ("status", "phase"),
    [
        ({}, Phase.RUNNING),
        ({"phase": "Scheduling"}, Phase.OTHER),
        ({"migrationState": UNDER_WAY}, Phase.FROZEN),
        ({"migrationState": DONE}, Phase.RUNNING),
    ],
)
def test_a_machine_on_its_way_is_frozen(status: Any, phase: Phase) -> None:
    assert machine(launcher(), seen(status)).phase is phase


@pytest.mark.rule("vm:B49", "vm:C8", "vm:B25")
def test_a_launcher_counts_for_what_it_requests_and_costs_what_its_guest_has() -> None:
    notes = {MIGRATION_TIMES: '["2026-01-01T00:00:00Z"]', CLAIM_CLOSED: "c"}
    read = read_launcher(launcher(), RULES, seen(annotations=notes))
    assert read.reserved == read.requested == read.used == Amounts.from_values(500, 3 * GIB)
    assert read.machine is not None
    assert read.machine.load.memory_used == 2 * GIB
    assert (read.machine.own, read.machine.autoscaled) == (True, False)
    assert (len(read.machine.moved_at), read.machine.closed_claim) == (1, "c")


@pytest.mark.rule("vm:B49", "vm:B34")
def test_nobody_resizes_a_launcher_by_the_permit_port() -> None:
    nothing = Amounts.from_values(0, 0)
    entry = read_launcher(launcher(), RULES, seen())
    node = Node("n1", Amounts.from_values(8000, 32 * GIB), nothing, nothing, nothing, nothing, {entry.uid: entry})
    request = ResizeRequest(entry.ref, ContainerResizeRequest("", 1000, None))
    answer = resize_refusal(request, launcher(), node)
    assert answer is not None
    assert (answer.status, "runs a VM" in answer.text) == (400, True)
    assert resize_refusal(request, launcher(), replace(node, pods={})) is None


def test_notes_that_cannot_be_read_are_told_of_and_left_out() -> None:
    read = read_instance(instance(annotations={MIGRATION_TIMES: "yesterday"}), RULES)
    assert read.value is not None
    assert read.value.moved_at == ()
    assert "vm.situate.dev/moved" in str(read.errors[0])
    broken = read_instance(instance({"migrationState": {"endTimestamp": "soon"}}), RULES)
    assert broken.value is None
    assert "status.migrationState.endTimestamp" in str(broken.errors[0])


def test_a_machine_runs_in_the_youngest_pod_of_its_node_that_has_not_ended() -> None:
    target = launcher("t", node="n2", made_for="m1")
    younger = launcher("younger", metadata={"creationTimestamp": "2026-01-02T00:00:00Z"})
    ended = launcher("ended", status={"phase": "Succeeded"})
    assert running_pod_name(seen(), (target, younger, launcher(), ended)) == "younger"
    assert running_pod_name(seen(), (target, ended)) == ""
    assert running_pod_name(seen({"nodeName": ""}), (launcher(node=""),)) == ""


@pytest.mark.rule("vm:B49", "vm:B12")
def test_the_next_target_is_asked_for_what_the_machine_asks_for_and_not_the_last_move() -> None:
    def away(*nodes: str) -> Any:
        return {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": list(nodes)}

    def needing(*terms: Any) -> Any:
        required = {"nodeSelectorTerms": [{"matchExpressions": list(each)} for each in terms]}
        return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}

    zone = {"key": "zone", "operator": "In", "values": ["a"]}
    selector = {"kubernetes.io/hostname": "n1", "cpu": "new"}

    def after(**more: Any) -> Any:
        spec = without_target_constraints(launcher(nodeSelector=selector, **more)).spec
        node = spec.affinity.node_affinity
        terms = () if node is None or node.required is None else node.required.node_selector_terms
        return dict(spec.node_selector), [[each.key for each in term.match_expressions] for term in terms]

    assert after(made_for="m1", affinity=needing([away("n0")])) == ({"cpu": "new"}, [])
    assert after(made_for="m1", affinity=needing([zone, away("n0")])) == ({"cpu": "new"}, [["zone"]])
    own = needing([away("x"), away("n0")], [zone])
    assert after(made_for="m1", affinity=own) == ({"cpu": "new"}, [["kubernetes.io/hostname"], ["zone"]])
    assert after(made_for="m1", affinity=needing([away("x", "y")])) == ({"cpu": "new"}, [["kubernetes.io/hostname"]])
    assert after(affinity=needing([away("n0")])) == (selector, [["kubernetes.io/hostname"]])
