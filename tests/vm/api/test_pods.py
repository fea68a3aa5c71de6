"""Pods as the ledger counts them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.vm.api.machines import read_machine
from situate.vm.api.pods import has_ended, machine_ref, pod_from_requests, read_pod, role_of
from situate.vm.api.quantities import amounts_text
from situate.vm.api.well_known import API_VERSION, MACHINE_KIND
from situate.vm.model.pods_and_nodes import Phase, Role
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from tests.vm.objects import GUEST, VM_OWNER, container, migration_owner, pod, runner, vm

GIB = 2**30
OURS, COMPAT = Rules(), Rules(compat=True)
UNIT = '{"vCPUs":"250m","mem":"1Gi"}'
ENABLED = {"autoscaling.neon.tech/enabled": "true"}
ASKED = "internal.autoscaling.neon.tech/resources-requested"
APPROVED = "internal.autoscaling.neon.tech/resources-approved"
SCALING = "autoscaling.neon.tech/scaling-unit"
Json = Any


def two(cores: float) -> str:
    return json.dumps({"vCPUs": cores, "mem": f"{cores}Gi"})


def amounts(cores: float) -> Amounts:
    return Amounts.from_values(round(cores * 1000), round(cores * GIB))


@pytest.mark.rule("vm:C3")
@pytest.mark.parametrize(
    ("owners", "role"),
    [
        pytest.param((), Role.IDLE, id="idle"),
        pytest.param((migration_owner(controller=False),), Role.SOURCE, id="source"),
        pytest.param((migration_owner(controller=True),), Role.TARGET, id="target"),
    ],
)
def test_the_role_in_a_migration_is_by_owners(owners: tuple[Json, ...], role: Role) -> None:
    of_vm = {**VM_OWNER, "controller": role is not Role.TARGET}
    each = runner(owners=(of_vm, *owners))
    assert role_of(each) is role
    read = read_pod(each, OURS).value
    assert read is not None
    assert read.machine is not None
    assert (read.machine.role, read.migrating) == (role, role is Role.SOURCE)


@pytest.mark.rule("vm:C3")
def test_a_finished_source_that_nobody_controls_is_a_runner_and_a_source() -> None:
    each = runner(owners=({**VM_OWNER, "controller": False}, migration_owner(controller=False)))
    assert machine_ref(each) is not None
    assert role_of(each) is Role.SOURCE


@pytest.mark.rule("vm:C3")
@pytest.mark.parametrize(
    "owner",
    [
        {**VM_OWNER, "apiVersion": "vm.example.com/v1"},
        {**VM_OWNER, "apiVersion": "vm.neon.tech/v2"},
        {**VM_OWNER, "kind": "ReplicaSet"},
    ],
)
def test_other_owners_make_no_runner(owner: Json) -> None:
    assert machine_ref(runner(owners=(owner,))) is None


@pytest.mark.rule("vm:C9")
@pytest.mark.parametrize("label", ["auto-migration-enabled", "testing-only-always-migrate"])
@pytest.mark.parametrize(
    ("owners", "text", "wanted"),
    [
        pytest.param((), "true", True, id="idle"),
        pytest.param((), "True", False, id="only exactly true"),
        pytest.param((migration_owner(controller=True),), "true", False, id="no target"),
        pytest.param((migration_owner(controller=False),), "false", True, id="always a source"),
    ],
)
def test_who_may_move(label: str, owners: tuple[Json, ...], text: str, wanted: bool) -> None:
    read = read_pod(runner(owners=(VM_OWNER, *owners), labels={f"autoscaling.neon.tech/{label}": text}), OURS).value
    assert read is not None
    assert read.migratable is wanted


@pytest.mark.rule("vm:C8")
def test_a_machine_without_autoscaling_holds_what_it_uses() -> None:
    read = read_pod(runner(annotations={APPROVED: two(3), ASKED: two(3)}), OURS).value
    assert read is not None
    use = Amounts.from_values(1000, 2 * GIB)
    assert (read.reserved, read.requested, read.factor, read.approved) == (use, use, Amounts.zero(), False)


@pytest.mark.rule("vm:C8")
def test_a_machine_with_autoscaling_holds_what_is_approved_and_wants_what_is_requested() -> None:
    each = runner(annotations={APPROVED: two(3), ASKED: two(4), SCALING: UNIT}, labels=ENABLED)
    read = read_pod(each, OURS).value
    assert read is not None
    assert (read.reserved, read.requested, read.approved) == (amounts(3), amounts(4), True)
    assert read.factor == Amounts.from_values(250, GIB)
    assert read.machine is not None
    assert read.machine.autoscaled


@pytest.mark.rule("vm:C8")
def test_what_is_neither_approved_nor_requested_is_what_is_used() -> None:
    read = read_pod(runner(labels=ENABLED), OURS).value
    assert read is not None
    assert read.reserved == read.requested == Amounts.from_values(1000, 2 * GIB)
    assert not read.approved


@pytest.mark.rule("vm:C8")
def test_a_request_without_a_unit_is_an_error() -> None:
    read = read_pod(runner(annotations={ASKED: two(4)}, labels=ENABLED), OURS)
    assert read.value is None
    assert str(read.errors[0]) == (
        f'pod default/a-xyz: metadata.annotations["{SCALING}"]: missing, allowed: a compute unit; '
        f"the writer of {ASKED} must write this annotation too"
    )


@pytest.mark.rule("vm:D18")
def test_a_runner_without_its_resources_is_named() -> None:
    read = read_pod(pod("a-xyz", owners=(VM_OWNER,)), OURS)
    assert read.value is None
    assert 'pod default/a-xyz: metadata.annotations["vm.neon.tech/resources"]: missing' in str(read.errors[0])


@pytest.mark.rule("vm:I2")
def test_a_runner_that_cannot_be_read_counts_for_what_it_may_grow_to() -> None:
    broken = runner(annotations={APPROVED: "{", SCALING: UNIT}, labels=ENABLED)
    assert read_pod(broken, OURS).value is None
    assert pod_from_requests(broken, OURS).reserved == Amounts.from_values(1500, 3 * GIB)
    nothing = pod("a-xyz", container(cpu="100m"), owners=(VM_OWNER,))
    assert pod_from_requests(nothing, OURS).reserved == Amounts.from_values(100, GIB)
    machine = read_machine(vm(status={"cpus": "4", "memorySize": "1Gi"}), OURS).value
    assert pod_from_requests(nothing, OURS, machine).reserved == Amounts.from_values(4000, 3 * GIB)


@pytest.mark.rule("vm:I2", "vm:D18")
def test_a_runner_that_cannot_be_read_counts_for_what_its_machine_is_approved_where_that_can_be() -> None:
    broken = runner(annotations={APPROVED: two(1), ASKED: "{", SCALING: UNIT}, labels=ENABLED)
    assert read_pod(broken, OURS).value is None
    machine = read_machine(vm(annotations={APPROVED: two(1.25)}, labels=ENABLED), OURS).value
    assert pod_from_requests(broken, OURS, machine).reserved == Amounts.from_values(1250, 2 * GIB), "it uses 2 GiB"


@pytest.mark.rule("vm:I2", "vm:I8", "vm:B43")
@pytest.mark.parametrize(
    ("runs_in", "labels", "held"),
    [
        pytest.param("a-xyz", ENABLED, 3, id="it runs in the pod"),
        pytest.param("a-next", ENABLED, 2, id="it has left the pod"),
        pytest.param("a-xyz", {}, 2, id="nobody scales it any more"),
    ],
)
def test_what_a_machine_was_granted_counts_before_it_is_copied_to_its_pod(
    runs_in: str, labels: Json, held: int
) -> None:
    """Its agent may be using it, and whoever copies annotations may be slow, or not run: nobody else has the room."""
    copied = runner(annotations={APPROVED: two(2), ASKED: two(2), SCALING: UNIT}, labels=ENABLED)
    granted = vm(status={"podName": runs_in}, annotations={APPROVED: two(3)}, labels=labels)
    read = read_pod(copied, OURS, read_machine(granted, OURS).value).value
    assert read is not None
    assert read.reserved == amounts(held)
    as_reference = read_pod(copied, COMPAT, read_machine(granted, COMPAT).value).value
    assert as_reference is not None
    assert as_reference.reserved == amounts(2), "which reads the pod alone (C1)"


@pytest.mark.rule("vm:D23", "vm:I2")
def test_the_larger_of_spec_and_status_is_used_and_never_less_is_booked() -> None:
    annotations = {"vm.neon.tech/usage": '{"cpu":2,"memory":"1Gi"}', APPROVED: two(1), SCALING: UNIT}
    read = read_pod(runner(annotations=annotations, labels=ENABLED), OURS).value
    assert read is not None
    assert read.used == Amounts.from_values(2000, 2 * GIB)
    assert read.reserved == Amounts.from_values(2000, 2 * GIB)
    compat = read_pod(runner(annotations=annotations, labels=ENABLED), COMPAT).value
    assert compat is not None
    assert compat.reserved == amounts(1), "the reference takes what is approved"


@pytest.mark.rule("vm:D23")
def test_what_the_machine_itself_says_counts_too() -> None:
    machine = read_machine(vm(status={"phase": "PreMigrating", "cpus": "3", "memorySize": "1Gi"}), OURS).value
    read = read_pod(runner(), OURS, machine).value
    assert read is not None
    assert read.used == read.reserved == read.requested == Amounts.from_values(3000, 2 * GIB)
    assert read.machine is not None
    assert read.machine.phase is Phase.FROZEN


@pytest.mark.rule("vm:C7")
def test_overcommit_is_a_machine_s_own() -> None:
    read = read_pod(runner(annotations={"vm.neon.tech/overcommit": '{"cpu":2}'}), OURS).value
    assert read is not None
    assert read.counted_amount(read.reserved) == Amounts.from_values(500, 2 * GIB)
    assert pod_from_requests(pod(), OURS).overcommit == Amounts.from_values(1000, 1000)


@pytest.mark.rule("vm:C5")
def test_bounds_lie_inside_the_hard_ones_and_bad_ones_are_told_of() -> None:
    name = "autoscaling.neon.tech/bounds"
    read = read_pod(runner(annotations={name: '{"min":{"cpu":1,"mem":"1Gi"},"max":{"cpu":8,"mem":"2Gi"}}'}), OURS)
    assert read.value is not None
    assert read.value.machine is not None
    assert (read.value.machine.minimum, read.value.machine.maximum) == (amounts(1), Amounts.from_values(1500, 2 * GIB))
    bad = read_pod(runner(annotations={name: "{}"}), OURS)
    assert bad.value is not None
    assert bad.value.machine is not None
    assert bad.value.machine.maximum == Amounts.from_values(1500, 3 * GIB)
    assert len(bad.errors) == 4


def test_whose_machine_it_is_and_what_is_remembered_of_it() -> None:
    annotations = {"vm.situate.dev/claim-closed": "c7", "vm.situate.dev/moved": '["2026-01-01T00:00:00Z"]'}
    read = read_pod(runner(annotations=annotations, schedulerName="another", priority=7), OURS).value
    assert read is not None
    assert read.machine is not None
    assert not read.machine.own
    assert (read.machine.closed_claim, read.machine.moved_at) == ("c7", (1767225600.0,))
    assert (read.priority, read.created_at) == (7, 1767225600.0)


@pytest.mark.rule("vm:C8")
def test_a_plain_pod_holds_the_sum_of_its_requests() -> None:
    read = read_pod(pod("web", container("a", "250m", "256Mi"), container("b", "500m", "1Gi")), OURS).value
    assert read is not None
    assert read.reserved == read.requested == read.used == Amounts.from_values(750, 1280 * 2**20)
    assert read.machine is None


@pytest.mark.rule("vm:B33", "vm:D15")
def test_sidecars_init_containers_overhead_and_the_pod_s_own_requests_count() -> None:
    side = {**container("side", "500m", "512Mi"), "restartPolicy": "Always"}
    spec: Json = {"initContainers": [container("init", "3", "1Gi"), side], "overhead": {"cpu": "100m"}}
    read = read_pod(pod("web", container(), **spec), OURS).value
    assert read is not None
    assert read.reserved == Amounts.from_values(3100, 1536 * 2**20)
    compat = read_pod(pod("web", container(), **spec), COMPAT).value
    assert compat is not None
    assert compat.reserved == Amounts.from_values(1000, GIB), "the reference sums containers"
    whole = read_pod(pod("web", container(), resources={"requests": {"cpu": "4"}}), OURS).value
    assert whole is not None
    assert whole.reserved == Amounts.from_values(4000, GIB)


def resizing(reason: str, *, observed: int = 3, generation: int = 3, status: str = "True") -> Json:
    """Asks for 4 CPUs, has 1."""
    running = {"requests": {"cpu": "1", "memory": "1Gi"}}
    condition = {"type": "PodResizePending", "status": status, "reason": reason, "observedGeneration": observed}
    return pod(
        "web",
        container("main", "4"),
        metadata={"generation": generation},
        status={
            "conditions": [condition],
            "containerStatuses": [{"name": "main", "resources": running, "allocatedResources": running["requests"]}],
        },
    )


@pytest.mark.rule("vm:B33", "vm:B35")
@pytest.mark.parametrize(
    ("each", "reserved", "used", "deferred"),
    [
        pytest.param(resizing("Deferred"), 4, 1, True, id="deferred counts for others, and is demand"),
        pytest.param(resizing("Infeasible"), 1, 1, False, id="infeasible counts as allocated"),
        pytest.param(resizing("Infeasible", observed=2), 4, 4, False, id="infeasible was an earlier wish"),
        pytest.param(resizing("Deferred", observed=2), 4, 4, False, id="deferred was an earlier wish"),
        pytest.param(resizing("Deferred", observed=0), 4, 1, True, id="a kubelet that does not say is believed"),
        pytest.param(resizing("Deferred", status="False"), 4, 4, False, id="not pending any more"),
        pytest.param(resizing(""), 4, 4, False, id="in progress is granted"),
    ],
)
def test_a_pod_under_resize(each: Json, reserved: int, used: int, deferred: bool) -> None:
    read = read_pod(each, OURS).value
    assert read is not None
    assert (read.reserved.cpu, read.used.cpu, read.deferred) == (reserved * 1000, used * 1000, deferred)


@pytest.mark.rule("vm:B35", "vm:B36")
def test_nobody_makes_room_for_a_pod_that_is_being_deleted() -> None:
    each = resizing("Deferred")
    going = msgspec.structs.replace(each.metadata, deletion_timestamp=each.metadata.creation_timestamp)
    read = read_pod(msgspec.structs.replace(each, metadata=going), OURS).value
    assert read is not None
    assert (read.reserved.cpu, read.used.cpu, read.deferred) == (4000, 1000, False), (
        "it counts as before until it is gone"
    )


@pytest.mark.rule("vm:B16", "vm:D11")
def test_nobody_makes_room_for_a_machine_that_is_being_deleted() -> None:
    has, wants = Amounts.from_values(1000, 2 * GIB), Amounts.from_values(1500, 3 * GIB)
    annotations = {APPROVED: amounts_text(has), ASKED: amounts_text(wants), SCALING: UNIT}
    for going, wish in ((None, wants), ("2026-01-02T00:00:00Z", has)):
        metadata = {"labels": ENABLED, "deletionTimestamp": going}
        read = read_pod(runner(annotations=annotations, metadata=metadata), OURS).value
        assert read is not None
        assert (read.reserved, read.requested, read.limited_request) == (has, wants, wish)


@pytest.mark.rule("vm:B16", "vm:I8")
def test_nobody_makes_room_for_a_pod_that_its_machine_has_left() -> None:
    """Seed 406146 of the ledger: whose migration is gone, that is nobody's source any more."""
    has, wants = Amounts.from_values(1000, 2 * GIB), Amounts.from_values(1500, 3 * GIB)
    annotations = {APPROVED: amounts_text(has), ASKED: amounts_text(wants), SCALING: UNIT}
    pod_ = runner(annotations=annotations, metadata={"labels": ENABLED})
    for runs_in, wish in (("", wants), (pod_.metadata.name, wants), ("a-next", has)):
        seen = read_machine(vm(status={"phase": "Running", "podName": runs_in}), OURS).value
        assert seen is not None
        read = read_pod(pod_, OURS, seen).value
        assert read is not None
        assert (read.reserved, read.requested, read.limited_request) == (has, wants, wish)


@pytest.mark.rule("vm:B34")
def test_a_plain_pod_s_wish_is_requested_as_a_whole() -> None:
    name = "vm.situate.dev/resize-requested"
    wish = {name: '{"container":"b","cpu":3,"memory":"512Mi"}'}
    each = pod("web", container("a"), container("b"), annotations=wish, nodeName="n1")
    read = read_pod(each, OURS).value
    assert read is not None
    assert read.reserved == amounts(2)
    assert read.requested == Amounts.from_values(4000, GIB + GIB // 2)
    assert read.factor == Amounts.from_values(2000, 0)
    for text, said in (('{"cpu":3}', "one of a, b"), ('{"container":"c","cpu":3}', "one of a, b"), ("{", "JSON")):
        refused = read_pod(pod("web", container("a"), container("b"), annotations={name: text}, nodeName="n1"), OURS)
        assert refused.value == replace(read, requested=read.reserved, factor=Amounts.zero(), resize=None)
        assert said in str(refused.errors[0])


@pytest.mark.rule("vm:B45")
def test_further_resources_are_what_the_containers_ask_for() -> None:
    rules = Rules(further_resources=("hugepages-2Mi",))
    more = container(**{"hugepages-2Mi": "8Mi"})
    plain = read_pod(pod("web", more), rules).value
    assert plain is not None
    assert plain.reserved == Amounts.from_values(1000, GIB, 8 * 2**20)
    machine = read_pod(
        runner(
            containers=None,
            annotations={APPROVED: two(2), ASKED: two(2), SCALING: UNIT},
            labels=ENABLED,
            overhead={"hugepages-2Mi": "8Mi"},
        ),
        rules,
    ).value
    assert machine is not None
    assert machine.reserved == machine.requested == Amounts.from_values(2000, 2 * GIB, 8 * 2**20)
    assert (len(machine.factor), len(machine.overcommit)) == (3, 3)


@pytest.mark.rule("vm:B45")
def test_what_a_machine_is_approved_counts_for_cpu_and_memory_alone() -> None:
    rules = Rules(further_resources=("hugepages-2Mi",))
    said = amounts_text(Amounts.from_values(2000, 2 * GIB, 8 * 2**20), rules.resources)
    annotations = {APPROVED: said, ASKED: said, SCALING: UNIT}
    seen = read_machine(vm(annotations=annotations, labels=ENABLED, status={"podName": "a-xyz"}), rules).value
    found = read_pod(
        runner(annotations=annotations, labels=ENABLED, overhead={"hugepages-2Mi": "8Mi"}), rules, seen
    ).value
    assert found is not None
    assert found.reserved == found.requested == Amounts.from_values(2000, 2 * GIB, 8 * 2**20), "not counted twice"


@pytest.mark.rule("vm:C28")
def test_pods_of_ignored_namespaces_are_known_by_it() -> None:
    read = read_pod(pod(), Rules(ignored_namespaces=("default",))).value
    assert read is not None
    assert read.ignored


@pytest.mark.rule("vm:D14", "vm:B3")
@pytest.mark.parametrize(
    ("phase", "state", "wanted"),
    [
        ("Running", {"running": {}}, False),
        ("Succeeded", {"terminated": {"exitCode": 0}}, True),
        ("Failed", {"running": {}}, False),
        ("Failed", {}, True),
    ],
)
def test_a_pod_has_ended_once_none_of_its_containers_runs(phase: str, state: Json, wanted: bool) -> None:
    status = {"phase": phase, "containerStatuses": [{"name": "main", "state": state}]}
    assert has_ended(pod(status=status)) is wanted
    assert not has_ended(pod(status={"phase": "Running"}, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}))


NAMES = st.sampled_from(
    [
        "vm.neon.tech/resources",
        "vm.neon.tech/usage",
        "vm.neon.tech/overcommit",
        "autoscaling.neon.tech/bounds",
        SCALING,
        ASKED,
        APPROVED,
        "vm.situate.dev/resize-requested",
        "vm.situate.dev/moved",
    ]
)
TEXTS = st.text(max_size=10) | st.sampled_from(
    [GUEST, UNIT, two(1), "{}", "[]", "null", '{"cpu":0}', '{"cpus":{"use":"1e99"}}', '{"vCPUs":-1,"mem":1}']
)


@given(st.dictionaries(NAMES, TEXTS, max_size=5), st.booleans(), st.booleans())
def test_annotations_of_any_text_give_a_pod_or_a_reason(annotations: dict[str, str], enabled: bool, mine: bool) -> None:
    labels = {"autoscaling.neon.tech/enabled": "true" if enabled else "1"}
    owners = ({"apiVersion": API_VERSION, "kind": MACHINE_KIND, "name": "a", "uid": "u", "controller": mine},)
    each = runner(annotations=annotations, labels=labels, owners=owners if mine else ())
    read = read_pod(each, OURS)
    if read.value is None:
        assert all(str(wrong).startswith("pod default/a-xyz: metadata.annotations[") for wrong in read.errors)
        assert read.errors
    else:
        assert not read.value.used.exceeds(read.value.reserved)


@pytest.mark.rule("vm:B35", "vm:B33")
@pytest.mark.parametrize(
    ("allocated", "observed", "deferred"),
    [
        pytest.param("1", 1, True, id="its kubelet has not looked yet"),
        pytest.param("1", 2, False, id="it has, and says nothing against it"),
        pytest.param("1", 0, False, id="it never says what it has seen"),
        pytest.param("3", 1, False, id="something else has changed"),
        pytest.param("5", 1, False, id="it is to become smaller"),
    ],
)
def test_a_resize_that_nobody_has_answered_is_not_taken_for_allocated(
    allocated: str, observed: int, deferred: bool
) -> None:
    resources = {"requests": {"cpu": allocated, "memory": "1Gi"}}
    statuses = [{"name": "main", "resources": resources, "allocatedResources": resources["requests"]}]
    status = {"containerStatuses": statuses, "observedGeneration": observed}
    read = read_pod(pod("web", container(cpu="3"), status=status, metadata={"generation": 2}), Rules()).value
    assert read is not None
    assert (read.deferred, read.reserved.cpu) == (deferred, max(3000, 1000 * int(allocated)))
    assert read.used.cpu == (1000 if deferred else read.reserved.cpu)
