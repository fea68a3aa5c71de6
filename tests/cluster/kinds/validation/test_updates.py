"""What of pods, StatefulSets and others may change; the texts are those of the real API server, 1.36.3."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from situate.cluster.kinds.defaults import apply_defaults
from situate.cluster.kinds.schemas import built_in_schema
from situate.cluster.kinds.schemas.decoding import DecodedObject, decode_object
from situate.cluster.kinds.validation import validate_resize, validate_scale, validate_status, validate_update


def stored(body: dict[str, Any]) -> dict[str, Any]:
    """As the object lies in the store."""
    schema = built_in_schema(body["apiVersion"], body["kind"])
    assert schema is not None
    decoded = decode_object(copy.deepcopy(body), schema)
    assert isinstance(decoded, DecodedObject)
    apply_defaults(decoded.object)
    decoded.object["metadata"].update(name="up", namespace="default", uid="u", resourceVersion="1")
    return decoded.object


def pod(**spec: Any) -> dict[str, Any]:
    container = {"name": "a", "image": "b"}
    return stored({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {"containers": [container], **spec}})


def changed(obj: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy with the value at the path, or without it for None; steps are names and indices."""
    new = copy.deepcopy(obj)
    *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    holder: Any = new
    for step in steps:
        holder = holder.setdefault(step, {}) if isinstance(holder, dict) else holder[step]
    if value is None:
        del holder[last]
    else:
        holder[last] = value
    return new


def texts(errors: list[Any]) -> list[str]:
    return [str(error) for error in errors]


PLAIN = pod(tolerations=[{"key": "k", "operator": "Exists"}])
TERMS = [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]
REQUIRED = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
GATED = pod(
    schedulingGates=[{"name": "g"}, {"name": "h"}],
    nodeSelector={"a": "b"},
    affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": TERMS}}},
)


@pytest.mark.parametrize(
    ("old", "path", "value"),
    [
        pytest.param(PLAIN, "spec.containers.0.image", "c", id="the image"),
        pytest.param(PLAIN, "spec.activeDeadlineSeconds", 5, id="a deadline where none was"),
        pytest.param(
            PLAIN,
            "spec.tolerations",
            [{"key": "k", "operator": "Exists"}, {"operator": "Exists"}],
            id="one more toleration",
        ),
        pytest.param(PLAIN, "metadata.labels", {"a": "b"}, id="labels"),
        pytest.param(GATED, "spec.schedulingGates", [{"name": "g"}], id="one gate less"),
        pytest.param(GATED, "spec.nodeSelector", {"a": "b", "c": "d"}, id="gated: one more selector"),
        pytest.param(
            GATED,
            f"spec.{REQUIRED}.0.matchExpressions",
            [{"key": "a", "operator": "Exists"}, {"key": "z", "operator": "Exists"}],
            id="gated: an expression appended",
        ),
    ],
)
def test_what_of_a_pod_may_change(old: dict[str, Any], path: str, value: Any) -> None:
    assert validate_update(changed(old, path, value), old) == []


@pytest.mark.parametrize(
    ("old", "path", "value", "want"),
    [
        pytest.param(PLAIN, "spec.containers.0.image", "", "spec.containers[0].image: Required value", id="no image"),
        pytest.param(
            PLAIN,
            "spec.containers",
            [{"name": "a", "image": "b"}] * 2,
            "spec.containers: Forbidden: pod updates may not add or remove containers",
            id="a container more",
        ),
        pytest.param(
            PLAIN,
            "spec.tolerations",
            [],
            "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds",
            id="a toleration less",
        ),
        pytest.param(
            PLAIN,
            "spec.schedulingGates",
            [{"name": "x"}],
            "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'x'",
            id="a gate more",
        ),
        pytest.param(
            PLAIN,
            "spec.nodeName",
            "n",
            "spec: Forbidden: pod updates may not change fields other than "
            "`spec.containers[*].image`,`spec.initContainers[*].image`,",
            id="the node",
        ),
        pytest.param(
            PLAIN,
            "spec.nodeSelector",
            {"a": "b"},
            "spec: Forbidden: pod updates may not change fields other than ",
            id="not gated: a selector",
        ),
        pytest.param(
            GATED,
            "spec.nodeSelector",
            {"c": "d"},
            'spec.nodeSelector: Invalid value: {"c":"d"}: only additions to spec.nodeSelector are '
            "allowed (no mutations or deletions)",
            id="gated: another selector",
        ),
        pytest.param(
            GATED,
            f"spec.{REQUIRED}",
            TERMS * 2,
            f"spec.{REQUIRED}: Invalid value: "
            f'[{{"MatchExpressions":[{{"Key":"a","Operator":"Exists","Values":null}}],"MatchFields":null}},',
            id="gated: a term more",
        ),
        pytest.param(
            GATED,
            f"spec.{REQUIRED}.0.matchExpressions",
            [{"key": "z", "operator": "Exists"}],
            f'spec.{REQUIRED}[0]: Invalid value: {{"MatchExpressions":[{{"Key":"z"',
            id="gated: another expression",
        ),
        pytest.param(
            PLAIN, "metadata.uid", "other", 'metadata.uid: Invalid value: "other": field is immutable', id="the uid"
        ),
        pytest.param(
            PLAIN,
            "metadata.finalizers",
            ["x"],
            'metadata.finalizers[0]: Invalid value: "x": name is neither a standard finalizer name nor '
            "is it fully qualified",
            id="a finalizer without domain",
        ),
    ],
)
def test_what_of_a_pod_may_not_change(old: dict[str, Any], path: str, value: Any, want: str) -> None:
    errors = texts(validate_update(changed(old, path, value), old))
    assert any(text.startswith(want) for text in errors), errors


def test_an_object_being_deleted_gets_no_new_finalizer() -> None:
    old = changed(PLAIN, "metadata.deletionTimestamp", "2026-01-01T00:00:00Z")
    new = changed(old, "metadata.finalizers", ["a/b"])
    want = (
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
        'found new finalizers []string{"a/b"}'
    )
    assert want in texts(validate_update(new, old))


BURSTABLE = pod(
    containers=[
        {"name": "a", "image": "b", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2"}}}
    ]
)
BURSTABLE["status"] = {"phase": "Running", "qosClass": "Burstable"}
RESOURCES = "spec.containers.0.resources"


@pytest.mark.parametrize(
    ("path", "value", "want"),
    [
        pytest.param(f"{RESOURCES}.requests.cpu", "1500m", [], id="more cpu"),
        pytest.param(
            f"{RESOURCES}.requests",
            {"cpu": "1"},
            ["spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed"],
            id="no memory",
        ),
        pytest.param(
            RESOURCES,
            {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}},
            ['spec: Invalid value: "Burstable": Pod QOS Class may not change as a result of resizing'],
            id="another class of service",
        ),
        pytest.param(
            f"{RESOURCES}.requests.cpu",
            "3",
            ['spec.containers[0].resources.requests: Invalid value: "3": must be less than or equal to cpu limit of 2'],
            id="a request above its limit",
        ),
        pytest.param(
            "spec.containers.0.image",
            "c",
            ["spec: Forbidden: only cpu and memory resources are mutable"],
            id="the image",
        ),
        pytest.param(
            "spec.containers.0.name",
            "c",
            ["spec.containers[0].name: Forbidden: containers may not be renamed or reordered on resize"],
            id="the name",
        ),
    ],
)
def test_what_a_resize_may_change(path: str, value: Any, want: list[str]) -> None:
    assert texts(validate_resize(changed(BURSTABLE, path, value), BURSTABLE)) == want


def test_a_kubelet_that_reports_no_resources_cannot_resize() -> None:
    running = [{"name": "a", "state": {"running": {}}}]
    old = changed(BURSTABLE, "status.containerStatuses", running)
    errors = texts(validate_resize(changed(old, f"{RESOURCES}.requests.cpu", "1500m"), old))
    assert errors == ["spec: Forbidden: Pod running on node without support for resize"]


@pytest.mark.parametrize(
    ("path", "value", "want"),
    [
        ("status.phase", "Failed", None),
        ("status.qosClass", "Guaranteed", 'status.qosClass: Invalid value: "Guaranteed": field is immutable'),
        (
            "status.conditions",
            [{"type": "a b"}],
            'status.conditions[0].Type: Invalid value: "a b": name part must consist',
        ),
        (
            "status.nominatedNodeName",
            "A B",
            'status.nominatedNodeName: Invalid value: "A B": a lowercase RFC 1123 subdomain',
        ),
    ],
)
def test_status_of_a_pod(path: str, value: Any, want: str | None) -> None:
    errors = texts(validate_status(changed(BURSTABLE, path, value), BURSTABLE))
    assert errors == [] if want is None else errors[0].startswith(want)


def test_a_terminated_container_of_a_job_does_not_run_again() -> None:
    old = changed(changed(BURSTABLE, "spec.restartPolicy", "OnFailure"), "status.containerStatuses", ended(0))
    new = changed(old, "status.containerStatuses", [{"name": "a", "state": {"running": {}}}])
    want = "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"
    assert texts(validate_status(new, old)) == [want]
    failed = changed(old, "status.containerStatuses", ended(1))
    assert (
        validate_status(changed(failed, "status.containerStatuses", new["status"]["containerStatuses"]), failed) == []
    )


def ended(code: int) -> list[dict[str, Any]]:
    return [{"name": "a", "state": {"terminated": {"exitCode": code}}}]


TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "b"}]}}


def workload(kind: str, **spec: Any) -> dict[str, Any]:
    body = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE, **spec}
    return stored({"apiVersion": "apps/v1", "kind": kind, "metadata": {}, "spec": body})


@pytest.mark.parametrize(("path", "value"), [("spec.replicas", 3), ("spec.template.spec.containers.0.image", "z")])
@pytest.mark.parametrize("kind", ["StatefulSet", "Deployment", "ReplicaSet"])
def test_replicas_and_templates_may_change(kind: str, path: str, value: Any) -> None:
    old = workload(kind)
    assert validate_update(changed(old, path, value), old) == []


@pytest.mark.parametrize(("path", "value"), [("spec.serviceName", "y"), ("spec.podManagementPolicy", "Parallel")])
def test_a_stateful_set_keeps_the_rest(path: str, value: Any) -> None:
    old = workload("StatefulSet", serviceName="x")
    assert texts(validate_update(changed(old, path, value), old)) == [
        "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
        "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are "
        "forbidden"
    ]


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "DaemonSet"])
def test_selectors_are_immutable(kind: str) -> None:
    old = workload(kind)
    errors = texts(validate_update(changed(old, "spec.selector", {"matchLabels": {"a": "c"}}), old))
    assert 'spec.selector: Invalid value: {"matchLabels":{"a":"c"}}: field is immutable' in errors


def test_counts_in_a_status_do_not_exceed_its_replicas() -> None:
    old = workload("StatefulSet")
    new = changed(old, "status", {"replicas": 1, "readyReplicas": 2, "availableReplicas": 3})
    assert texts(validate_status(new, old)) == [
        "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
        "status.availableReplicas: Invalid value: 3: cannot be greater than status.replicas",
        "status.availableReplicas: Invalid value: 3: cannot be greater than status.readyReplicas",
    ]


def test_a_scale_is_not_negative() -> None:
    assert texts(validate_scale({"spec": {"replicas": -1}})) == [
        "spec.replicas: Invalid value: -1: must be greater than or equal to 0"
    ]
    assert validate_scale({"spec": {"replicas": 0}}) == []


def other(kind: str, api_version: str = "v1", **fields: Any) -> dict[str, Any]:
    return stored({"apiVersion": api_version, "kind": kind, "metadata": {}, **fields})


LOCKED = other("Secret", type="Opaque", immutable=True, data={"a": "YQ=="})
NODE = other("Node", spec={"providerID": "p"})
NODE["metadata"].pop("namespace")


@pytest.mark.parametrize(
    ("old", "path", "value", "want"),
    [
        (LOCKED, "data.b", "YQ==", "data: Forbidden: field is immutable when `immutable` is set"),
        (LOCKED, "immutable", False, "immutable: Forbidden: field is immutable when `immutable` is set"),
        (LOCKED, "type", "x/y", 'type: Invalid value: "x/y": field is immutable'),
        (
            NODE,
            "spec.providerID",
            "q",
            'spec.providerID: Forbidden: node updates may not change providerID except from "" to valid',
        ),
        (
            other("PriorityClass", "scheduling.k8s.io/v1", value=1),
            "value",
            2,
            "value: Forbidden: may not be changed in an update.",
        ),
        (
            other("RoleBinding", "rbac.authorization.k8s.io/v1", roleRef={"kind": "Role", "name": "x"}),
            "roleRef.name",
            "y",
            "roleRef: Invalid value: "
            '{"APIGroup":"rbac.authorization.k8s.io","Kind":"Role","Name":"y"}: cannot change roleRef',
        ),
        (
            other("Lease", "coordination.k8s.io/v1", spec={}),
            "spec.leaseDurationSeconds",
            0,
            "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
        ),
    ],
)
def test_other_kinds(old: dict[str, Any], path: str, value: Any, want: str) -> None:
    assert want in texts(validate_update(changed(old, path, value), old))
