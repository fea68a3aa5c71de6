"""Wishes of plain pods as they stand on objects: what they come to, and why some are not attempted (B34 to B36)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import structs

from situate.vm.api.nodes import read_node
from situate.vm.api.pods import read_pod
from situate.vm.api.resize_annotation import qos_class
from situate.vm.api.well_known import RESIZE_REQUESTED
from situate.vm.model.pods_and_nodes import Pod
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from tests.vm.objects import Json, container, node, pod, runner

GIB = 2**30
RULES = Rules()
EQUAL = {"name": "main", "resources": {key: {"cpu": "1", "memory": "1Gi"} for key in ("requests", "limits")}}


def wishes(wish: Json, *containers: Json, rules: Rules = RULES, **more: Any) -> Pod:
    annotations = {RESIZE_REQUESTED: json.dumps(wish), **more.pop("annotations", {})}
    read = read_pod(pod("web", *containers, annotations=annotations, **{"nodeName": "n1", **more}), rules)
    assert read.value is not None
    assert read.errors == ()
    return read.value


def reason(found: Pod) -> str:
    assert found.resize is not None
    return "" if found.resize.refusal is None else found.resize.refusal.reason


@pytest.mark.rule("vm:B34")
def test_a_wish_is_of_one_container_and_counts_for_the_pod() -> None:
    found = wishes({"container": "b", "cpu": 3}, container("a"), container("b"), overhead={"cpu": "100m"})
    assert (found.reserved, found.requested) == (Amounts.from_values(2100, 2 * GIB), Amounts.from_values(4100, 2 * GIB))
    assert found.resize is not None
    assert (found.resize.own, found.resize.done) == (Amounts.from_values(3000, GIB), False)
    assert found.resize.container_amount(Amounts.from_values(3100, 2 * GIB)) == Amounts.from_values(2000, GIB), (
        "a part of it"
    )


@pytest.mark.rule("vm:B34")
def test_where_a_step_is_stated_a_part_is_of_use() -> None:
    assert wishes({"cpu": 3}).factor == Amounts.from_values(2000, 0)
    stated = wishes({"cpu": 3, "memory": "3Gi", "step": {"cpu": "500m"}})
    assert stated.factor == Amounts.from_values(500, 2 * GIB)


@pytest.mark.rule("vm:B34", "vm:B33")
def test_what_init_containers_reach_before_is_not_counted_twice() -> None:
    found = wishes({"cpu": 2}, initContainers=[container("first", "4")])
    assert found.reserved == found.requested == Amounts.from_values(4000, GIB)
    assert found.resize is not None
    assert not found.resize.done


@pytest.mark.rule("vm:B36")
@pytest.mark.parametrize(
    ("wish", "more", "want"),
    [
        pytest.param({"cpu": 2}, {}, "", id="attempted"),
        pytest.param({"cpu": 2, "ephemeral-storage": "1Gi"}, {}, "OtherResource", id="other resource"),
        pytest.param({"example.com/gpu": 1}, {}, "OtherResource", id="only an other resource"),
        pytest.param({"cpu": 2}, {"nodeName": ""}, "PodUnbound", id="unbound"),
        pytest.param({"cpu": 2}, {"schedulingGates": [{"name": "x"}]}, "PodGated", id="gated"),
        pytest.param({"cpu": 2}, {"status": {"phase": "Succeeded"}}, "PodEnded", id="ended"),
        pytest.param(
            {"cpu": 2}, {"metadata": {"deletionTimestamp": "2026-01-02T00:00:00Z"}}, "PodTerminating", id="terminating"
        ),
        pytest.param({"cpu": 2}, {"resources": {"requests": {"cpu": "4"}}}, "PodLevelResources", id="pod level"),
        pytest.param({"cpu": 2}, {"annotations": {"kubernetes.io/config.mirror": "x"}}, "StaticPod", id="static pod"),
        pytest.param(
            {"container": "first", "cpu": 2}, {"initContainers": [container("first")]}, "InitContainer", id="init"
        ),
        pytest.param(
            {"container": "side", "cpu": 2},
            {"initContainers": [{**container("side"), "restartPolicy": "Always"}]},
            "",
            id="a sidecar is attempted",
        ),
    ],
)
def test_what_is_not_attempted(wish: Json, more: dict[str, Any], want: str) -> None:
    found = wishes(wish, **more)
    assert reason(found) == want
    assert (found.requested == found.reserved) is bool(want)


@pytest.mark.rule("vm:B36")
@pytest.mark.parametrize(
    ("resources", "want"),
    [
        pytest.param({"requests": {"memory": "1Gi"}}, "NoRequest", id="it has no such request"),
        pytest.param({"requests": {"cpu": "0"}}, "QOSClassWouldChange", id="a best-effort pod stays one"),
        pytest.param(EQUAL["resources"], "", id="guaranteed stays guaranteed"),
        pytest.param({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}, "", id="burstable stays burstable"),
    ],
)
def test_the_class_of_service_stays(resources: Json, want: str) -> None:
    assert reason(wishes({"cpu": 2}, {"name": "main", "resources": resources})) == want


@pytest.mark.rule("vm:B36")
def test_classes_of_service_are_upstream_s() -> None:
    both, half, none = {"cpu": 1, "memory": 1}, {"cpu": 1}, dict[str, int]()
    assert qos_class([(none, none), ({"cpu": 0}, none)]) == "BestEffort"
    assert qos_class([(both, both), (both, both)]) == "Guaranteed"
    for containers in ([(both, both), (none, none)], [(half, half)], [(both, {"cpu": 2, "memory": 1})]):
        assert qos_class(containers) == "Burstable"


@pytest.mark.rule("vm:B36")
def test_restarts_are_allowed_by_a_setting() -> None:
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    restarts = {**container(), "resizePolicy": policy}
    assert reason(wishes({"memory": "2Gi"}, restarts)) == "RestartNeeded"
    assert reason(wishes({"cpu": 2}, restarts)) == ""
    assert reason(wishes({"cpu": 2, "memory": "1Gi"}, restarts)) == "", "its memory stays as it is"
    assert reason(wishes({"cpu": 2, "memory": "512Mi"}, restarts)) == "RestartNeeded"
    assert reason(wishes({"memory": "2Gi"}, restarts, rules=structs.replace(RULES, resize_with_restart=True))) == ""


@pytest.mark.rule("vm:B36")
def test_a_server_without_the_subresource_is_not_asked() -> None:
    assert reason(wishes({"cpu": 2}, rules=structs.replace(RULES, server_resizes=False))) == "ServerTooOld"


@pytest.mark.rule("vm:B35", "vm:B36")
def test_what_the_kubelet_calls_infeasible_is_not_asked_for_again_and_something_else_is() -> None:
    running = {"requests": {"cpu": "1", "memory": "1Gi"}}
    pending = {"type": "PodResizePending", "status": "True", "reason": "Infeasible", "message": "no room ever"}
    status = {
        "conditions": [pending],
        "containerStatuses": [{"name": "main", "resources": running, "allocatedResources": running["requests"]}],
    }
    same = wishes({"cpu": 4}, container(cpu="4"), status=status)
    assert (reason(same), same.reserved.cpu) == ("Infeasible", 1000)
    other = wishes({"cpu": 2}, container(cpu="4"), status=status)
    assert (reason(other), other.reserved.cpu, other.requested.cpu) == ("", 1000, 2000)


@pytest.mark.rule("vm:B47")
@pytest.mark.parametrize(
    ("more", "rules", "want"),
    [
        pytest.param({}, RULES, Amounts.from_values(1000, GIB), id="auto"),
        pytest.param({}, structs.replace(RULES, grow_pod="never"), None, id="never"),
        pytest.param({}, structs.replace(RULES, server_resizes=False), None, id="server below 1.33"),
        pytest.param({}, structs.replace(RULES, compat=True), None, id="compat"),
        pytest.param({"resources": {"requests": {"cpu": "4"}}}, RULES, None, id="resources of the whole pod"),
        pytest.param({"nodeName": ""}, RULES, None, id="unbound"),
    ],
)
def test_which_runner_pods_grow_with_their_machines(more: Any, rules: Rules, want: Amounts | None) -> None:
    read = read_pod(runner(**{"nodeName": "n1", **more}), rules)
    assert read.value is not None
    assert read.value.account == want


@pytest.mark.rule("vm:B36")
def test_a_node_says_that_its_kubelet_has_static_managers() -> None:
    read = read_node(node(metadata={"labels": {"vm.situate.dev/static-managers": "true"}}), RULES)
    assert read.value is not None
    assert read.value.static
