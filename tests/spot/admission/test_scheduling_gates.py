"""Strict mode: gate and place (P7 to P9)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from situate.objects.selection.label_selectors import EVERYTHING
from situate.spot.admission.admit import AdmissionView, NeedsRead
from situate.spot.admission.patch_check import apply_operations
from situate.spot.admission.scheduling_gates import (
    GatedPodAnswer,
    classify_gated_pod,
    gate_removal_patch,
    gated_pods_in_order,
    overdue_gated_pods,
)
from situate.spot.model.pods_nodes_workloads import Capacity
from tests.spot.builders import NOW, OD, SPOT, cluster, created_by, owner, pod, settings

GATE = "spot.situate.dev/placement"
TWO = {"spot.situate.dev/on-demand": "2"}


def gated(name: str, **metadata: Any) -> dict[str, Any]:
    gates = [{"name": "other"}, {"name": GATE}]
    return created_by(name=name, spec={"schedulingGates": gates}, uid=f"uid-{name}", namespace="shop", **metadata)


def view(*names: str, **more: Any) -> AdmissionView:
    given = [pod(name, "", gated=True, created=NOW - 10) for name in names]
    strict = replace(settings(), strict=EVERYTHING)
    return AdmissionView(cluster(owner(len(names), **{"annotations": TWO, **more}), given), strict, {})


def placed(name: str, given: AdmissionView, sent: dict[str, Capacity]) -> GatedPodAnswer:
    found = classify_gated_pod(gated(name), given, sent, NOW, f"t-{name}")
    assert isinstance(found, GatedPodAnswer)
    return found


@pytest.mark.rule("spot:P7", "spot:P8", "spot:B1")
def test_existing_pods_are_classed_one_after_the_other_without_a_ledger() -> None:
    names = [f"p{number}" for number in range(5)]
    sent: dict[str, Capacity] = {}
    for name in names:
        found = placed(name, view(*names), sent)
        assert found.answer.pod_class is not None
        sent[f"uid-{name}"] = found.answer.pod_class
    assert list(sent.values()) == [OD, OD, SPOT, SPOT, SPOT]


@pytest.mark.rule("spot:P7", "spot:P8")
def test_one_patch_writes_all_and_takes_our_gate_away() -> None:
    test, *operations, name, remove = placed("p0", view("p0"), {}).operations
    assert test == {"op": "test", "path": "/metadata/uid", "value": "uid-p0"}
    assert name == {"op": "test", "path": "/spec/schedulingGates/1/name", "value": GATE}
    assert remove == {"op": "remove", "path": "/spec/schedulingGates/1"}
    after = apply_operations(gated("p0"), operations)
    assert after["metadata"]["labels"]["spot.situate.dev/class"] == "on-demand"
    assert "requiredDuringSchedulingIgnoredDuringExecution" in after["spec"]["affinity"]["nodeAffinity"]


@pytest.mark.rule("spot:P7", "spot:P9", "spot:I15")
def test_a_pod_that_is_not_ours_is_let_go_all_the_same() -> None:
    off = placed("p0", view("p0", annotations={"spot.situate.dev/mix": "disabled"}), {})
    assert off.answer.pod_class is None
    assert [operation["op"] for operation in off.operations] == ["test", "test", "remove"]
    assert gate_removal_patch(gated("p0")) == off.operations, "as an uninstallation lets all go"
    assert gate_removal_patch(created_by(uid="u")) == ({"op": "test", "path": "/metadata/uid", "value": "u"},)


@pytest.mark.rule("spot:P7")
def test_an_unknown_workload_is_read() -> None:
    nobody = AdmissionView(replace(view("p0").cluster, owners={}, replica_sets={}), view().settings, {})
    assert isinstance(classify_gated_pod(gated("p0"), nobody, {}, NOW, "t"), NeedsRead)


@pytest.mark.rule("spot:P9")
def test_who_waits_and_who_has_waited_too_long() -> None:
    given = [
        pod("young", "", gated=True, created=NOW - 1),
        pod("old", "", gated=True, created=NOW - 15),
        pod("free", "", created=NOW - 99),
        pod("going", "", gated=True, terminating=True, created=NOW - 99),
    ]
    assert [each.key.name for each in gated_pods_in_order(given)] == ["old", "young"]
    assert [each.key.name for each in overdue_gated_pods(given, NOW)] == ["old"]
