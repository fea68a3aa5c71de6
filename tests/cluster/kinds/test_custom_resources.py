from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.asking import APPLY, TABLE, Cluster, events

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FOOS = "/apis/x.io/v1/namespaces/default/foos"


def definition(**more: Any) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {"replicas": {"type": "integer", "default": 1}, "size": {"type": "string"}},
            },
            "status": {"type": "object", "properties": {"replicas": {"type": "integer"}, "n": {"type": "integer"}}},
        },
    }
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, "scale": scale},
        "additionalPrinterColumns": [{"name": "Size", "type": "string", "jsonPath": ".spec.size"}],
        **more,
    }
    old = {**version, "name": "v1beta1", "storage": False}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.x.io"},
        "spec": {
            "group": "x.io",
            "names": {"plural": "foos", "kind": "Foo", "shortNames": ["fo"]},
            "scope": "Namespaced",
            "versions": [old, version],
        },
    }


def foo(name: str = "f", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.post(CRDS, definition()).ok(201)
    return made


def test_a_definition_is_accepted_and_served_at_once(cluster: Cluster) -> None:
    crd = cluster.get(f"{CRDS}/foos.x.io").ok()
    assert {c["type"]: c["status"] for c in crd["status"]["conditions"]} == {
        "NamesAccepted": "True",
        "Established": "True",
    }
    assert crd["status"]["acceptedNames"]["listKind"] == "FooList"
    assert cluster.get("/apis/x.io").ok()["preferredVersion"]["version"] == "v1"
    listed = cluster.get("/apis/x.io/v1").ok()["resources"]
    assert [row["name"] for row in listed] == ["foos", "foos/scale", "foos/status"]
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
    groups = cluster.get("/apis", accept=accept).ok()
    assert "x.io" in [group["metadata"]["name"] for group in groups["items"]]


def test_defaults_pruning_generation_and_status(cluster: Cluster) -> None:
    made = cluster.post(FOOS, {**foo(none=1), "status": {"n": 1}}).ok(201)
    assert (made["spec"], "status" in made, made["metadata"]["generation"]) == ({"replicas": 1}, False, 1)
    changed = cluster.patch(f"{FOOS}/f/status", {"status": {"n": 2}, "spec": {"size": "x"}}).ok()
    assert (changed["status"], changed["spec"], changed["metadata"]["generation"]) == ({"n": 2}, {"replicas": 1}, 1)
    changed = cluster.patch(f"{FOOS}/f", {"status": {"n": 3}, "spec": {"size": "x"}}).ok()
    assert (changed["status"], changed["spec"]["size"], changed["metadata"]["generation"]) == ({"n": 2}, "x", 2)


def test_the_schema_is_enforced(cluster: Cluster) -> None:
    refused = cluster.post(FOOS, foo(replicas="x")).ok(422)
    assert refused["details"]["kind"] == "Foo"
    assert refused["details"]["causes"][0]["field"] == "spec.replicas"
    strict = cluster.post(f"{FOOS}?fieldValidation=Strict", foo(none=1)).ok(400)
    assert 'unknown field "spec.none"' in strict["message"]


def test_an_update_needs_a_version(cluster: Cluster) -> None:
    cluster.post(FOOS, foo()).ok(201)
    refused = cluster.put(f"{FOOS}/f", foo(size="x")).ok(422)
    assert refused["message"] == (
        'foos.x.io "f" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update'
    )


def test_every_version_shows_the_same_object(cluster: Cluster) -> None:
    cluster.post("/apis/x.io/v1beta1/namespaces/default/foos", {**foo(size="s"), "apiVersion": "x.io/v1beta1"}).ok(201)
    assert cluster.get(f"{FOOS}/f").ok()["apiVersion"] == "x.io/v1"
    watch = cluster.watch("/apis/x.io/v1beta1/foos?resourceVersion=0")
    [(_, shown)] = events(watch)
    assert (shown["apiVersion"], shown["spec"]["size"]) == ("x.io/v1beta1", "s")


def test_scale_columns_lists_and_apply(cluster: Cluster) -> None:
    cluster.patch(f"{FOOS}/f?fieldManager=m", foo(size="s"), APPLY).ok(201)
    cluster.patch(f"{FOOS}/f/scale", {"spec": {"replicas": 4}}).ok()
    assert cluster.get(f"{FOOS}/f").ok()["spec"]["replicas"] == 4
    table = cluster.get(FOOS, accept=TABLE).ok()
    assert table["rows"][0]["cells"] == ["f", "s"]
    listed = cluster.get(FOOS).ok()
    assert (listed["kind"], listed["items"][0]["kind"]) == ("FooList", "Foo")


def test_protobuf_is_for_built_in_kinds(cluster: Cluster) -> None:
    refused = cluster.ask("POST", FOOS, b"k8s\x00", media="application/vnd.kubernetes.protobuf").ok(415)
    assert "does not read application/vnd.kubernetes.protobuf" in refused["message"]


def test_strategic_patches_are_for_built_in_kinds(cluster: Cluster) -> None:
    cluster.post(FOOS, foo()).ok(201)
    assert cluster.patch(f"{FOOS}/f", {}, "application/strategic-merge-patch+json").code == 415


def test_a_definition_takes_its_objects_with_it(cluster: Cluster) -> None:
    held = foo("held")
    held["metadata"]["finalizers"] = ["x.io/wait"]
    cluster.post(FOOS, held).ok(201)
    cluster.post(FOOS, foo()).ok(201)
    cluster.delete(f"{CRDS}/foos.x.io").ok()
    assert cluster.get(f"{FOOS}/f").code == 404
    assert cluster.get(f"{FOOS}/held").ok()["metadata"]["deletionTimestamp"]
    cluster.patch(f"{FOOS}/held", {"metadata": {"finalizers": None}}).ok()
    assert cluster.get(f"{CRDS}/foos.x.io").code == 404
    assert cluster.get(FOOS).code == 404
    cluster.post(CRDS, definition()).ok(201)
    assert cluster.get(FOOS).ok()["items"] == []


def test_names_that_are_taken_are_not_served(cluster: Cluster) -> None:
    other = definition()
    other["metadata"]["name"] = "bars.x.io"
    other["spec"]["names"] = {"plural": "bars", "kind": "Foo"}
    cluster.post(CRDS, other).ok(201)
    conditions = cluster.get(f"{CRDS}/bars.x.io").ok()["status"]["conditions"]
    assert {c["type"]: c["status"] for c in conditions} == {"NamesAccepted": "False", "Established": "False"}
    assert cluster.get("/apis/x.io/v1/bars").code == 404


def test_conversion_by_webhook_is_refused_by_name(cluster: Cluster) -> None:
    other = definition()
    other["metadata"]["name"] = "bars.x.io"
    other["spec"]["names"] = {"plural": "bars", "kind": "Bar"}
    client = {"url": "https://127.0.0.1/x"}
    other["spec"]["conversion"] = {
        "strategy": "Webhook",
        "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]},
    }
    refused = cluster.post(CRDS, other)
    assert refused.code in (400, 422)
    assert "conversion" in refused.body["message"]
