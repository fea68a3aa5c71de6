"""The bodies of writes: what they set, and what keeps them from reaching anything else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from situate.cluster.errors.field_errors import Refused
from situate.cluster.patch.patches import json_patch
from situate.kube.patches import JsonPatch
from situate.objects.resources import PODS
from situate.vm.api.claims import claim_text, read_claim
from situate.vm.api.parse_errors import Place
from situate.vm.api.patches import (
    CONFLICT,
    LATER,
    OK,
    REFUSED,
    NothingToWrite,
    PatchObject,
    approval_patch,
    invalid_outcome,
    resize_patch,
)
from situate.vm.api.well_known import APPROVED, CLAIM, CLAIM_CLOSED, REQUESTED, SCALING_UNIT, TARGET_AMOUNT, TARGET_NODE
from situate.vm.backends.neonvm import MACHINES, NeonVM
from situate.vm.model.actions import Approve, ResizePod
from situate.vm.model.events import WrittenClaim
from situate.vm.model.migrations import Beneficiary, BeneficiaryKind, Claim, Move
from situate.vm.model.pods_and_nodes import Ref
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from tests.vm.objects import container, pod, vm

GIB = 2**30
MACHINE = Ref("default", "a", "uid-vm-a")
UNIT, REQUEST = '{"vCPUs":"250m","mem":"1Gi"}', '{"vCPUs":3,"mem":"12Gi"}'
APPROVE = Approve(
    MACHINE,
    Ref("default", "a-xyz", "uid-a-xyz"),
    Amounts.from_values(2000, 8 * GIB),
    Amounts.from_values(250, GIB),
    Amounts.from_values(3000, 12 * GIB),
)


def path(key: str) -> str:
    return "/metadata/annotations/" + key.replace("/", "~1")


def operations(change: PatchObject | NothingToWrite) -> list[Any]:
    assert isinstance(change, PatchObject)
    assert isinstance(change.patch, JsonPatch)
    return list(change.patch.body)


def conditions_of(change: PatchObject | NothingToWrite) -> dict[str, Any]:
    return {each["path"]: each["value"] for each in operations(change) if each["op"] == "test"}


@pytest.mark.rule("vm:C26", "vm:D20", "vm:B44", "vm:B9")
@pytest.mark.parametrize(
    ("compat", "there", "how"), [(False, True, "add"), (True, True, "replace"), (True, False, "add")]
)
def test_an_approval_tests_the_texts_that_the_machine_has(compat: bool, there: bool, how: str) -> None:
    spaced = '{"mem": "12Gi", "vCPUs": "3000m"}'  # an agent's own words for what was decided on
    annotations = {SCALING_UNIT: UNIT, REQUESTED: spaced, **({APPROVED: UNIT} if there else {})}
    action = replace(APPROVE, closed_claim="c-1")
    change = approval_patch(action, vm(annotations=annotations, resourceVersion="7"), MACHINES, Rules(compat=compat))
    texts = {"/metadata/uid": "uid-vm-a", path(SCALING_UNIT): UNIT, path(REQUESTED): spaced}
    assert conditions_of(change) == (texts if compat else {**texts, "/metadata/resourceVersion": "7"})
    assert operations(change)[-2:] == [
        {"op": how, "path": path(APPROVED), "value": '{"vCPUs":2,"mem":"8Gi"}'},
        {"op": "add", "path": path(CLAIM_CLOSED), "value": "c-1"},
    ]


@pytest.mark.rule("vm:B45", "vm:C4")
def test_an_approval_says_nothing_of_further_resources_which_its_pod_asks_for() -> None:
    rules = Rules(further_resources=("hugepages-2Mi",))
    machine = vm(annotations={SCALING_UNIT: UNIT, REQUESTED: REQUEST}, resourceVersion="7")
    amount, requested = Amounts.from_values(2000, 8 * GIB, 8), Amounts.from_values(3000, 12 * GIB, 8)
    action = replace(APPROVE, amount=amount, unit=Amounts.from_values(250, GIB, 0), requested=requested)
    assert operations(approval_patch(action, machine, MACHINES, rules))[-1]["value"] == '{"vCPUs":2,"mem":"8Gi"}'


@pytest.mark.rule("vm:B44", "vm:F1", "vm:I1", "vm:I2")
def test_an_approval_that_comes_late_finds_no_request_of_its_time_in_the_same_words() -> None:
    """Its agent has asked for less since, others got the room, and it has asked for as much again."""
    annotations = {SCALING_UNIT: UNIT, REQUESTED: REQUEST, APPROVED: UNIT}
    then, now = (vm(annotations=annotations, resourceVersion=version) for version in ("7", "9"))
    sent = operations(approval_patch(APPROVE, then, MACHINES, Rules()))
    assert not isinstance(json_patch(then.content, sent), Refused)
    assert isinstance(json_patch(now.content, sent), Refused)


@pytest.mark.rule("vm:C26")
def test_an_approval_of_something_that_was_asked_for_otherwise_by_now_is_moot() -> None:
    other = vm(annotations={SCALING_UNIT: UNIT, REQUESTED: '{"vCPUs":4,"mem":"12Gi"}'})
    found = approval_patch(APPROVE, other, MACHINES, Rules())
    assert isinstance(found, NothingToWrite)
    assert found.outcome == CONFLICT


@pytest.mark.rule("vm:I1", "vm:B44")
def test_what_one_pod_is_granted_never_counts_for_the_next_pod_of_its_machine() -> None:
    annotations = {SCALING_UNIT: UNIT, REQUESTED: REQUEST}
    here = approval_patch(APPROVE, vm(annotations=annotations, status={"podName": "a-xyz"}), MACHINES, Rules())
    assert conditions_of(here)["/status/podName"] == "a-xyz"
    elsewhere = vm(annotations=annotations, status={"podName": "a-next"})
    found = approval_patch(APPROVE, elsewhere, MACHINES, Rules())
    assert isinstance(found, NothingToWrite)
    assert found.outcome == CONFLICT
    as_reference = approval_patch(APPROVE, elsewhere, MACHINES, Rules(compat=True))
    assert "/status/podName" not in conditions_of(as_reference)


@pytest.mark.parametrize("status", [None, {"podName": 5}, {"podName": None}])
def test_a_status_that_names_no_pod_hinders_no_approval(status: Any) -> None:
    there = vm(annotations={SCALING_UNIT: UNIT, REQUESTED: REQUEST}, status=status)
    assert "/status/podName" not in conditions_of(approval_patch(APPROVE, there, MACHINES, Rules()))


@pytest.mark.rule("vm:D20")
def test_without_annotations_the_version_stands_for_them() -> None:
    bare = approval_patch(APPROVE, vm(resourceVersion="7"), MACHINES, Rules())
    assert conditions_of(bare) == {"/metadata/uid": "uid-vm-a", "/metadata/resourceVersion": "7"}
    assert operations(bare)[-1]["path"] == "/metadata/annotations"
    others = approval_patch(APPROVE, vm(resourceVersion="7", annotations={"note": "x"}), MACHINES, Rules())
    assert conditions_of(others) == {"/metadata/uid": "uid-vm-a", "/metadata/resourceVersion": "7"}
    assert operations(others)[-1] == {"op": "add", "path": path(APPROVED), "value": '{"vCPUs":2,"mem":"8Gi"}'}


@pytest.mark.rule("vm:B34", "vm:B47", "vm:N12", "vm:N8")
def test_a_resize_raises_limits_by_what_requests_rise() -> None:
    limited = {"name": "main", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1500m"}}}
    found = resize_patch(
        ResizePod(Ref("default", "web", "uid-web"), Amounts.from_values(3500, GIB)),
        pod("web", limited, metadata={"resourceVersion": "7"}),
        PODS,
        Rules(),
    )
    assert isinstance(found, PatchObject)
    assert found.subresource == "resize"
    resources = "/spec/containers/0/resources"
    assert conditions_of(found) == {
        "/metadata/uid": "uid-web",
        "/spec/containers/0/name": "main",
        f"{resources}/requests/cpu": "1",
        f"{resources}/limits/cpu": "1500m",
    }
    assert operations(found)[-2:] == [
        {"op": "replace", "path": f"{resources}/requests/cpu", "value": "3500m"},
        {"op": "replace", "path": f"{resources}/limits/cpu", "value": "4"},
    ]


@pytest.mark.rule("vm:B34")
def test_a_resize_is_of_the_container_that_is_named_and_a_sidecar_may_be() -> None:
    side = {**container("side"), "restartPolicy": "Always"}
    web = pod("web", container("main"), initContainers=[container("first"), side])
    action = ResizePod(
        Ref("default", "web"), Amounts.from_values(4000, 2 * GIB), "side", own=Amounts.from_values(3000, GIB)
    )
    (last,) = [each for each in operations(resize_patch(action, web, PODS, Rules())) if each["op"] == "replace"]
    assert (last["path"], last["value"]) == ("/spec/initContainers/1/resources/requests/cpu", "3")


@pytest.mark.rule("vm:B36")
@pytest.mark.parametrize(
    ("causes", "outcome"),
    [
        pytest.param([], CONFLICT, id="a test of the patch failed"),
        pytest.param(["Forbidden: Pod QOS Class may not change as a result of resizing"], REFUSED, id="final"),
        pytest.param(["Forbidden: Pod running on node without support for resize"], LATER, id="no status yet"),
    ],
)
def test_what_a_422_means(causes: list[str], outcome: str) -> None:
    assert invalid_outcome(causes) == outcome


@pytest.mark.rule("vm:B36")
@pytest.mark.parametrize(
    ("containers", "action", "outcome"),
    [
        pytest.param(
            (container(),), ResizePod(Ref("default", "web"), Amounts.from_values(1000, GIB)), OK, id="has it already"
        ),
        pytest.param(
            ({"name": "main", "resources": {}},),
            ResizePod(Ref("default", "web"), Amounts.from_values(1, 1)),
            REFUSED,
            id="no request",
        ),
        pytest.param(
            (container(),), ResizePod(Ref("default", "web"), Amounts.from_values(2, 2), "x"), REFUSED, id="no such one"
        ),
    ],
)
def test_a_resize_of_what_cannot_be_resized_is_moot(containers: Any, action: ResizePod, outcome: str) -> None:
    found = resize_patch(action, pod("web", *containers), PODS, Rules())
    assert isinstance(found, NothingToWrite)
    assert found.outcome == outcome


@pytest.mark.rule("vm:C6", "vm:B2", "vm:N13")
def test_a_migration_is_created_with_its_claim_its_target_and_all_of_its_spec() -> None:
    claim = Claim(
        "c",
        "p",
        "n1",
        Beneficiary(BeneficiaryKind.VM, Ref("default", "b-x", "u")),
        "uid-a-xyz",
        Amounts.from_values(1000, GIB),
        9e8,
    )
    move = Move(
        "schedplugin-a-xyz", "p", MACHINE, Ref("default", "a-xyz"), "n1", "n2", Amounts.from_values(1000, GIB), 0.0
    )
    backend = NeonVM(Rules())
    made = backend.create(move, claim).content
    notes = made["metadata"]["annotations"]
    assert notes[TARGET_NODE] == "n2"
    assert notes[TARGET_AMOUNT] == '{"cpu":1,"mem":"1Gi"}'
    assert notes[CLAIM] == claim_text(claim)
    assert isinstance(read_claim(notes[CLAIM], Place("", "")), WrittenClaim)
    assert made["spec"]["completionTimeout"] == 3600
    slow = backend.create(replace(move, bandwidth=2**20, target_node=""), None).content
    assert slow["spec"]["maxBandwidth"] == "1Mi"
    assert "annotations" not in slow["metadata"]
    assert backend.cancel("default", "m", "u") == backend.delete("default", "m", "u")
