"""Machines, nodes and migrations as the ledger sees them."""

from __future__ import annotations

from typing import Any

import pytest

from situate.vm.api.claims import amount_text, claim_text, handover_text
from situate.vm.api.machines import read_machine
from situate.vm.api.migrations import read_migration
from situate.vm.api.nodes import read_node, watermark
from situate.vm.api.well_known import APPROVED, DOWNTIME, OVERCOMMIT, REQUESTED, SCALING_UNIT
from situate.vm.model.events import MigrationPhase, WrittenClaim, WrittenHandOver
from situate.vm.model.migrations import Beneficiary, BeneficiaryKind, CopyProgress
from situate.vm.model.pods_and_nodes import Phase, Ref
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from tests.vm.objects import migration, node, vm

Json = Any
GIB = 2**30
RULES = Rules()
NOW = 1000.0
CLAIM = WrittenClaim(
    "c1",
    "p1",
    "n1",
    Beneficiary(BeneficiaryKind.VM, Ref("default", "b", "uid-b")),
    "uid-a",
    Amounts.from_values(1000, GIB),
    2e9,
)
HANDOVER = WrittenHandOver(Ref("default", "a", "uid-a"), Ref("default", "b", "uid-b"), Amounts.from_values(1000, GIB))
OURS: Json = {"labels": {"autoscaling.neon.tech/created-by-scheduler": "true"}}


@pytest.mark.parametrize(
    ("phase", "wanted"),
    [
        ("Running", Phase.RUNNING),
        ("Scaling", Phase.RUNNING),
        ("PreMigrating", Phase.FROZEN),
        ("Migrating", Phase.FROZEN),
        ("Pending", Phase.OTHER),
        ("", Phase.OTHER),
    ],
)
def test_phases_as_accounting_sees_them(phase: str, wanted: Phase) -> None:
    seen = read_machine(vm(status={"phase": phase}), RULES).value
    assert seen is not None
    assert seen.phase is wanted


@pytest.mark.rule("vm:D23")
def test_a_machine_uses_the_larger_of_spec_and_status() -> None:
    seen = read_machine(vm(status={"cpus": "500m", "memorySize": "4Gi", "podName": "a-xyz"}), RULES).value
    assert seen is not None
    assert (seen.use, seen.used) == (Amounts.from_values(1000, 2 * GIB), Amounts.from_values(1000, 4 * GIB))
    assert (seen.ref, seen.own, seen.pod) == (Ref("default", "a", "uid-vm-a"), True, "a-xyz")


@pytest.mark.parametrize(
    ("spec", "status", "said"),
    [
        ({"guest": None}, {}, "spec.guest: found null, allowed: a mapping"),
        ({"guest": {"cpus": {}}}, {}, "spec.guest.cpus.min: missing"),
        ({}, {"memorySize": "much"}, 'status.memorySize: found "much"'),
        ({}, {"phase": 7}, "status.phase: found 7, allowed: text"),
    ],
)
def test_a_machine_that_cannot_be_read_is_named(spec: Json, status: Json, said: str) -> None:
    read = read_machine(vm(spec, status), RULES)
    assert read.value is None
    assert str(read.errors[0]).startswith("VirtualMachine default/a: ")
    assert said in str(read.errors[0])


@pytest.mark.parametrize("name", [SCALING_UNIT, APPROVED, REQUESTED, OVERCOMMIT])
def test_what_is_wrong_with_an_annotation_is_told_of_the_machine_that_it_was_written_to(name: str) -> None:
    read = read_machine(vm(annotations={name: "broken"}), RULES)
    assert read.value is not None, "it keeps what it has"
    (wrong,) = read.errors
    assert str(wrong).startswith("VirtualMachine default/a: ")
    assert name in str(wrong)


@pytest.mark.rule("vm:C7")
def test_a_watermark_is_a_float_product_that_is_cut() -> None:
    assert watermark(Amounts.from_values(1001, 29), 0.9) == Amounts.from_values(900, 26)
    assert watermark(Amounts.from_values(10, 100), 0.29) == Amounts.from_values(2, 28), (
        "100 * 0.29 is less than 29 in floats"
    )


@pytest.mark.rule("vm:B24")
def test_a_node_s_own_watermark_goes_before_its_class_s() -> None:
    rules = Rules(watermark=0.5, watermarks={"n1": 0.9}, class_watermarks={"big": 0.7}, class_label="class")
    for name, label, wanted in (("n1", "big", 9000), ("n2", "big", 7000), ("n3", "small", 5000)):
        seen = read_node(node(name, metadata={"labels": {"class": label}}), rules).value
        assert seen is not None
        assert seen.watermark.cpu == wanted


@pytest.mark.rule("vm:B46")
@pytest.mark.parametrize(
    ("more", "draining", "schedulable"),
    [
        ({}, False, True),
        ({"metadata": {"annotations": {"vm.situate.dev/drain": ""}}}, True, True),
        ({"spec": {"taints": [{"key": "vm.situate.dev/drain", "effect": "NoSchedule"}]}}, True, True),
        ({"spec": {"unschedulable": True}}, False, False),
        ({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}, False, False),
        ({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, False, True),
    ],
)
def test_marks_of_nodes(more: Json, draining: bool, schedulable: bool) -> None:
    seen = read_node(node(**more), RULES).value
    assert seen is not None
    assert (seen.draining, seen.schedulable) == (draining, schedulable)


@pytest.mark.rule("vm:B45")
def test_further_resources_of_nodes() -> None:
    rules = Rules(further_resources=("hugepages-2Mi", "gpus"))
    seen = read_node(node(further={"hugepages-2Mi": "8Mi"}), rules).value
    assert seen is not None
    assert seen.total == Amounts.from_values(10_000, 40 * GIB, 8 * 2**20, 0)


@pytest.mark.parametrize(("cpu", "said"), [("0", "cpu: found 0, allowed: an amount above 0"), ("-1", "cpu: found -1")])
def test_a_node_without_room_is_named(cpu: str, said: str) -> None:
    read = read_node(node(cpu=cpu), RULES)
    assert read.value is None
    assert said in str(read.errors[0])


@pytest.mark.rule("vm:C34", "vm:N13")
@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        ({}, MigrationPhase(starting=True)),
        ({"phase": "Pending"}, MigrationPhase(starting=True)),
        ({"phase": "Running"}, MigrationPhase(copying=True)),
        ({"phase": "Succeeded"}, MigrationPhase(succeeded=True)),
        (
            {"phase": "Failed", "conditions": [{"type": "Degraded", "status": "True", "reason": "Busy"}]},
            MigrationPhase(failed=True, reason="Busy"),
        ),
        ({"phase": "Failed"}, MigrationPhase(failed=True)),
    ],
)
def test_phases_of_migrations(status: Json, wanted: MigrationPhase) -> None:
    seen = read_migration(migration(status), RULES, NOW).value
    assert seen is not None
    assert seen.phase == wanted


@pytest.mark.rule("vm:B2", "vm:B10", "vm:C6")
def test_a_migration_of_ours_before_anything_has_happened() -> None:
    annotations = {
        "vm.situate.dev/claim": claim_text(CLAIM),
        "vm.situate.dev/handover": handover_text(HANDOVER),
        "vm.situate.dev/target-node": "n2",
        "vm.situate.dev/target-amount": amount_text(Amounts.from_values(1500, 2 * GIB)),
    }
    read = read_migration(migration(annotations=annotations, **OURS), RULES, NOW)
    assert read.errors == ()
    seen = read.value
    assert seen is not None
    assert (seen.own, seen.plan, seen.claim, seen.handover) == (True, "p1", CLAIM, HANDOVER)
    assert (seen.machine, seen.source) == (Ref("default", "a"), Ref("default", "a-xyz", "uid-a"))
    assert (seen.source_node, seen.target_node, seen.target, seen.progress) == ("n1", "n2", None, None)
    assert seen.amount == Amounts.from_values(1500, 2 * GIB)
    foreign = read_migration(migration(annotations=annotations), RULES, NOW).value
    assert foreign is not None
    assert foreign.amount is None, "nothing is reserved for one that others made"


def test_a_migration_that_copies() -> None:
    status = {
        "phase": "Running",
        "sourcePodName": "a-xyz",
        "sourceNode": "n1",
        "targetPodName": "a-new",
        "targetNode": "n2",
        "info": {"ram": {"transferred": 4, "remaining": 6, "total": 10}},
    }
    seen = read_migration(migration(status, name="by-hand", deletionTimestamp="2026-01-01T00:00:00Z"), RULES, NOW).value
    assert seen is not None
    assert (seen.own, seen.deleting, seen.progress) == (False, True, CopyProgress(6, 10, NOW))
    assert (seen.source, seen.target) == (Ref("default", "a-xyz"), Ref("default", "a-new"))
    assert (seen.source_node, seen.target_node) == ("n1", "n2")


@pytest.mark.rule("vm:B2")
def test_a_broken_claim_is_named_and_stops_nothing_else() -> None:
    annotations = {
        "vm.situate.dev/claim": "{}",
        "vm.situate.dev/handover": "[]",
        "vm.situate.dev/target-amount": '{"cpu":-1,"mem":"1Gi"}',
    }
    read = read_migration(migration({"info": {"ram": {"total": -1}}}, annotations=annotations, **OURS), RULES, NOW)
    assert read.value is not None
    assert (read.value.claim, read.value.handover, read.value.amount, read.value.progress) == (None,) * 4
    assert [wrong.field for wrong in read.errors] == [
        'metadata.annotations["vm.situate.dev/claim"].beneficiary.kind',
        'metadata.annotations["vm.situate.dev/handover"]',
        'metadata.annotations["vm.situate.dev/target-amount"].cpu',
        "status.info.ram.remaining",
    ]


@pytest.mark.parametrize("status", [{"phase": "Dancing"}, {"phase": "Failed", "conditions": 7}, {"targetNode": 1}])
def test_a_migration_that_cannot_be_read_is_named(status: Json) -> None:
    read = read_migration(migration(status), RULES, NOW)
    assert read.value is None
    assert str(read.errors[0]).startswith("VirtualMachineMigration default/schedplugin-a-xyz: status.")


@pytest.mark.rule("vm:B17")
@pytest.mark.parametrize(
    ("status", "want"),
    [
        ({"phase": "Succeeded", "info": {"downtimeMs": 39}}, 0.039),
        ({"phase": "Succeeded"}, None),
        ({"phase": "Running", "info": {"downtimeMs": 0}}, None),
    ],
)
def test_a_migration_that_is_over_says_for_how_long_it_paused_its_machine(status: Json, want: float | None) -> None:
    seen = read_migration(migration(status), RULES, NOW).value
    assert seen is not None
    assert seen.downtime_s == want


@pytest.mark.rule("vm:B17")
def test_a_machine_says_for_how_long_its_last_move_paused_it() -> None:
    def read(text: str) -> tuple[float | None, int]:
        found = read_machine(vm(annotations={DOWNTIME: text}), RULES)
        assert found.value is not None
        return found.value.notes.downtime_s, len(found.errors)

    assert read("0.039s") == (0.039, 0)
    assert read("-1s") == (0.0, 0)
    assert read("long") == (None, 1)
