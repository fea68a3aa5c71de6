"""N13's four verbs over KubeVirt's migrations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from situate.kube.election.lease_record import LeaseName
from situate.objects.kinds.unstructured import unstructured_from
from situate.objects.settings.section import Mistake
from situate.vm.api.claims import claim_text, handover_text
from situate.vm.api.patches import DeleteObject
from situate.vm.api.well_known import (
    CLAIM,
    CREATED_BY_SCHEDULER_LABEL,
    FOR_NODE,
    HANDOVER,
    TARGET_AMOUNT,
    TARGET_NODE,
    TARGET_RECHOSEN,
)
from situate.vm.backends.kubevirt_migrations import KubeVirtMigrations
from situate.vm.backends.kubevirt_names import INSTANCE_MIGRATIONS
from situate.vm.backends.systems import NEONVM, select_system
from situate.vm.config.settings import KubeVirtSettings, VmSettings
from situate.vm.controller.setup import vm_setup
from situate.vm.model.events import WrittenHandOver
from situate.vm.model.migrations import Beneficiary, BeneficiaryKind, Claim, Move
from situate.vm.model.pods_and_nodes import Ref
from situate.vm.model.policy import GIB, Rules
from situate.vm.model.resource_amounts import Amounts
from situate.vm.permissions import permissions
from tests.vm.backends.kubevirt_objects import migration

RULES = Rules()
BACKEND = KubeVirtMigrations(RULES, pin_target=True)
AMOUNT = '{"cpu":"500m","mem":"1Gi"}'
OURS = {CREATED_BY_SCHEDULER_LABEL: "true"}
MOVE = Move(
    "schedplugin-virt-launcher-db-1",
    "plan",
    Ref("default", "db", "uid-db"),
    Ref("default", "virt-launcher-db-1", "uid-1"),
    "n1",
    "n2",
    Amounts.from_values(500, GIB),
    0.0,
    bandwidth=100,
)
WEB = Ref("default", "web", "uid-web")
CLAIMED = Claim(
    "c", "plan", "n1", Beneficiary(BeneficiaryKind.POD, WEB), "uid-1", Amounts.from_values(500, GIB), 2_000_000_000.0
)


@pytest.mark.rule("vm:B49", "vm:N13", "vm:B2", "vm:C6")
def test_a_migration_is_created_with_its_claim_and_its_target() -> None:
    made = BACKEND.create(MOVE, CLAIMED)
    assert (made.resource, made.namespace) == (INSTANCE_MIGRATIONS, "default")
    assert made.content == {
        "metadata": {
            "name": "schedplugin-virt-launcher-db-1",
            "namespace": "default",
            "labels": OURS,
            "annotations": {CLAIM: claim_text(CLAIMED, RULES.resources), TARGET_NODE: "n2", TARGET_AMOUNT: AMOUNT},
        },
        "spec": {"vmiName": "db", "addedNodeSelector": {"kubernetes.io/hostname": "n2"}},
    }
    unpinned = KubeVirtMigrations(RULES, pin_target=False).create(MOVE, None)
    assert unpinned.content["spec"] == {"vmiName": "db"}
    assert unpinned.content["metadata"]["annotations"] == {TARGET_NODE: "n2", TARGET_AMOUNT: AMOUNT}
    nowhere = BACKEND.create(replace(MOVE, target_node=""), None)
    assert nowhere.content["spec"] == {"vmiName": "db"}


@pytest.mark.rule("vm:B49", "vm:N13", "vm:B44")
def test_cancelling_and_deleting_reach_the_one_object_that_was_decided_on() -> None:
    gone = DeleteObject(INSTANCE_MIGRATIONS, "default", "m", "uid-m")
    assert BACKEND.cancel("default", "m", "uid-m") == gone
    assert BACKEND.delete("default", "m", "uid-m") == gone


@pytest.mark.rule("vm:B49", "vm:N13")
@pytest.mark.parametrize(
    ("phase", "what"),
    [
        *((each, "starting") for each in ("", "Pending", "Scheduling", "Scheduled", "PreparingTarget", "TargetReady")),
        *((each, "starting") for each in ("WaitingForSync", "Synchronizing")),
        ("Running", "copying"),
        ("Succeeded", "succeeded"),
        ("Failed", "failed"),
    ],
)
def test_phases_are_told_apart_by_whether_anything_is_copied(phase: str, what: str) -> None:
    read = BACKEND.observe(migration({"phase": phase, "migrationState": {"failureReason": "lost"}}), 1.0)
    assert read.value is not None
    said = read.value.phase
    assert [name for name in ("starting", "copying", "succeeded", "failed") if getattr(said, name)] == [what]
    assert said.reason == ("lost" if phase == "Failed" else "")


@pytest.mark.rule("vm:B49", "vm:N13", "vm:B2", "vm:B10", "vm:B15")
def test_what_stands_on_a_migration_of_ours_is_seen() -> None:
    record = WrittenHandOver(MOVE.source, WEB, Amounts.from_values(500, GIB))
    notes = {
        CLAIM: claim_text(CLAIMED, RULES.resources),
        TARGET_NODE: "n2",
        HANDOVER: handover_text(record, RULES.resources),
        TARGET_RECHOSEN: "2026-01-31T12:00:00.250000Z",
        FOR_NODE: "true",
        TARGET_AMOUNT: AMOUNT,
    }
    seen = BACKEND.observe(migration(labels=OURS, annotations=notes), 1.0).value
    assert seen is not None
    assert (seen.machine, seen.name, seen.uid, seen.own) == (Ref("default", "db"), MOVE.name, "uid-m", True)
    assert (seen.source, seen.source_node) == (Ref("default", "virt-launcher-db-1", "uid-1"), "n1")
    assert (seen.target_node, seen.plan) == ("n2", "plan")
    assert seen.claim is not None
    assert seen.claim.id == "c"
    assert seen.handover == record
    assert not seen.reports_progress
    assert (seen.rechosen_at, seen.for_node, seen.pinned) == (1769860800.25, True, False)
    assert seen.amount == MOVE.amount


@pytest.mark.rule("vm:B49", "vm:B14")
def test_a_migration_that_names_its_node_itself_is_pinned_to_it() -> None:
    spec = BACKEND.create(MOVE, CLAIMED).content["spec"]
    seen = BACKEND.observe(unstructured_from({**migration(labels=OURS).content, "spec": spec}), 1.0).value
    assert seen is not None
    assert seen.pinned


@pytest.mark.rule("vm:B49", "vm:B15", "vm:F12")
def test_one_that_others_made_is_no_claim_of_ours() -> None:
    state = {"sourcePod": "s", "sourceNode": "n1", "targetPod": "t", "targetNode": "n3"}
    seen = BACKEND.observe(migration({"phase": "Running", "migrationState": state}, "kubevirt-evacuation-x"), 1.0).value
    assert seen is not None
    assert not seen.own
    assert (seen.source, seen.target) == (Ref("default", "s"), Ref("default", "t"))
    assert (seen.source_node, seen.target_node) == ("n1", "n3")
    before = BACKEND.observe(migration(name="kubevirt-evacuation-x"), 1.0).value
    assert before is not None
    assert before.source is None


def test_what_cannot_be_read_is_told_of() -> None:
    odd = BACKEND.observe(migration({"phase": "Dreaming"}), 1.0)
    assert odd.value is None
    assert "status.phase" in str(odd.errors[0])
    claimed = BACKEND.observe(migration(labels=OURS, annotations={CLAIM: "{"}), 1.0)
    assert claimed.value is not None
    assert claimed.value.claim is None
    assert CLAIM in str(claimed.errors[0])


@pytest.mark.rule("vm:B49")
def test_the_settings_choose_the_system_and_its_rights() -> None:
    def of(**given: Any) -> VmSettings:
        return msgspec.convert(given, VmSettings)

    assert vm_setup(of()).system is NEONVM
    chosen = of(system="kubevirt", kubevirt={"pinTarget": False})
    assert chosen.kubevirt == KubeVirtSettings(pin_target=False)
    backend = select_system(chosen).backend(RULES)
    assert "addedNodeSelector" not in backend.create(MOVE, None).content["spec"]
    rights = {
        (each.resource, verb)
        for each in permissions(LeaseName("default", "vm"), RULES, select_system(chosen))
        for verb in each.verbs
        if each.group == "kubevirt.io"
    }
    assert rights == {
        *(("virtualmachineinstances", verb) for verb in ("get", "list", "watch", "patch")),
        *(("virtualmachineinstancemigrations", verb) for verb in ("get", "list", "watch", "create", "patch", "delete")),
    }
    assert list(of(system="kubevirt", compat=True).mistakes()) == [
        Mistake("system", '"kubevirt"', "neonvm", "compat: true supports only NeonVM")
    ]
