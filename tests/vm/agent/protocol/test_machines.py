"""Which machines an agent handles, and what it reads of them (C5, C35)."""

from __future__ import annotations

from typing import Any

import pytest

from situate.objects.kinds.unstructured import unstructured_from
from situate.vm.agent.decide.core import SizeChange
from situate.vm.agent.decide.scaling import Scaling
from situate.vm.agent.model.revisions import Revision, RevisionAt
from situate.vm.agent.protocol.machines import MachineSnapshot, is_handled, parse_machine, size_patch
from situate.vm.model.resource_amounts import Amounts
from tests.vm.agent.builders import GIB, units, vm_content


def machine(**changed: Any) -> MachineSnapshot:
    found = parse_machine(unstructured_from(vm_content(**changed)), Scaling()).value
    assert found is not None
    return found


@pytest.mark.rule("vm:C35")
@pytest.mark.parametrize(
    ("changed", "want"),
    [
        ({}, True),
        ({"phase": "Scaling"}, True),
        ({"phase": "PreMigrating"}, True),
        ({"phase": "Migrating"}, False),
        ({"phase": "Pending"}, False),
        ({"phase": "Succeeded"}, False),
        ({"phase": ""}, False),
        ({"node": "n2"}, False),
        ({"podIP": ""}, False),
        ({"schedulerName": "default-scheduler"}, False),
        ({"labels": {"autoscaling.neon.tech/enabled": "yes"}}, False),
        ({"labels": {}}, False),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, False),
    ],
)
def test_which_machines_are_handled(changed: dict[str, Any], want: bool) -> None:
    assert is_handled(machine(**changed), "n1", "situate-vm") == want


@pytest.mark.rule("vm:C35")
def test_one_agent_may_look_after_all_nodes_but_not_after_machines_without_one() -> None:
    assert is_handled(machine(node="n9"), None, "situate-vm")
    assert not is_handled(machine(node=""), None, "situate-vm")


@pytest.mark.rule("vm:D13", "vm:D23", "vm:C40")
def test_what_is_read_of_a_machine() -> None:
    found = machine(phase="PreMigrating")
    guest = found.guest
    assert (guest.minimum, guest.use, guest.maximum, guest.slot) == (units(1), units(2), units(4), GIB)
    assert (guest.grown, guest.frozen, guest.generation) == (units(2), True, 3)
    assert guest.current_revision == RevisionAt(Revision(4, 1), 1_767_225_600_000)
    assert found.newest_revision == 4


@pytest.mark.rule("vm:C5")
def test_bounds_replace_the_limits_inside_of_the_hard_ones() -> None:
    bounds = '{"min":{"cpu":"500m","mem":"2Gi"},"max":{"cpu":"750m","mem":"3Gi"}}'
    guest = machine(annotations={"autoscaling.neon.tech/bounds": bounds}).guest
    assert (guest.minimum, guest.maximum) == (units(2), units(3))


@pytest.mark.rule("vm:D16")
@pytest.mark.parametrize(("text", "want"), [('{"vCPUs":"750m","mem":"3Gi"}', units(3)), ("much", None)])
def test_what_the_scheduler_approved_is_read(text: str, want: Amounts | None) -> None:
    annotations = {"internal.autoscaling.neon.tech/resources-approved": text}
    assert machine(annotations=annotations).guest.approved == want


@pytest.mark.rule("vm:C5")
@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        ("autoscaling.neon.tech/bounds", '{"min":{"cpu":"2","mem":"2Gi"},"max":{"cpu":"1","mem":"3Gi"}}'),
        ("autoscaling.neon.tech/config", '{"loadAverage":1}'),
        ("autoscaling.neon.tech/config", "no JSON"),
        ("vm.situate.dev/load", "2.7"),
        ("vm.situate.dev/load", '{"load1":-1}'),
    ],
)
def test_a_broken_annotation_is_named_and_the_machine_keeps_what_it_has(annotation: str, text: str) -> None:
    found = parse_machine(unstructured_from(vm_content(annotations={annotation: text})), Scaling())
    assert found.value is not None
    assert found.value.guest == machine().guest
    assert annotation in str(found.errors[0])
    assert "VirtualMachine default/a" in str(found.errors[0])


@pytest.mark.parametrize(
    "changed", [{"cpus": {}}, {"memorySlots": 5}, {"schedulerName": 7}, {"currentRevision": {"updatedAt": "now"}}]
)
def test_a_machine_that_cannot_be_read_is_a_value(changed: dict[str, Any]) -> None:
    found = parse_machine(unstructured_from(vm_content(**changed)), Scaling())
    assert found.value is None
    assert found.errors


@pytest.mark.rule("vm:C39", "vm:D13")
def test_a_patch_holds_for_this_machine_in_this_phase_alone() -> None:
    change = SizeChange(units(2), Amounts.from_values(1000, 3 * GIB), RevisionAt(Revision(5, 1), 1_767_225_600_500))
    assert size_patch(machine(), change) == [
        {"op": "test", "path": "/metadata/uid", "value": "u1"},
        {"op": "test", "path": "/status/phase", "value": "Running"},
        {"op": "test", "path": "/spec/guest/memorySlots/use", "value": 2},
        {"op": "replace", "path": "/spec/guest/cpus/use", "value": 1},
        {"op": "replace", "path": "/spec/guest/memorySlots/use", "value": 3},
        {
            "op": "add",
            "path": "/spec/targetRevision",
            "value": {"revision": {"value": 5, "flags": 1}, "updatedAt": "2026-01-01T00:00:00Z"},
        },
    ]
