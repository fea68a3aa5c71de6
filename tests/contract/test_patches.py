"""JSON patch, merge patch and strategic merge patch; server-side apply has a file of its own."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.api import Api, Json
from tests.contract.things import apps, configmap, core, deployment, node, pod


async def test_json_patch(api: Api, namespace: str) -> None:
    (await api.post(core(namespace, "configmaps"), configmap("c", {"a": "1", "b": "2"}))).ok(201)
    operations = [
        {"op": "test", "path": "/data/a", "value": "1"},
        {"op": "replace", "path": "/data/a", "value": "9"},
        {"op": "remove", "path": "/data/b"},
        {"op": "add", "path": "/metadata/labels", "value": {"example.com/x": "y"}},
        {"op": "add", "path": "/metadata/labels/example.com~1z", "value": "w"},
        {"op": "copy", "from": "/data/a", "path": "/data/c"},
        {"op": "move", "from": "/data/c", "path": "/data/d"},
    ]
    new = (await api.patch(core(namespace, "configmaps", "c"), operations, form="json")).ok(200)
    assert new["data"] == {"a": "9", "d": "9"}
    assert new["metadata"]["labels"] == {"example.com/x": "y", "example.com/z": "w"}


async def test_json_patch_whose_test_fails(api: Api, namespace: str) -> None:
    (await api.post(core(namespace, "configmaps"), configmap("c", {"a": "1"}))).ok(201)
    operations = [{"op": "test", "path": "/data/a", "value": "2"}, {"op": "remove", "path": "/data/a"}]
    answer = await api.patch(core(namespace, "configmaps", "c"), operations, form="json")
    answer.refused(422, "Invalid", "the server rejected our request due to an error in our request", ...)
    assert (await api.get(core(namespace, "configmaps", "c"))).ok()["data"] == {"a": "1"}


async def test_json_patch_whose_copies_double(api: Api, namespace: str) -> None:
    (await api.post(core(namespace, "configmaps"), configmap("c"))).ok(201)
    operations = [{"op": "add", "path": "/x", "value": [1]}, *[{"op": "copy", "from": "/x", "path": "/x/-"}] * 40]
    answer = await api.patch(core(namespace, "configmaps", "c"), operations, form="json")
    answer.refused(422, "Invalid", "the server rejected our request due to an error in our request", ...)


async def test_json_patch_of_what_is_missing(api: Api, namespace: str) -> None:
    (await api.post(core(namespace, "configmaps"), configmap("c"))).ok(201)
    operations = [{"op": "replace", "path": "/data/a", "value": "2"}]
    answer = await api.patch(core(namespace, "configmaps", "c"), operations, form="json")
    answer.refused(422, "Invalid", "the server rejected our request due to an error in our request", ...)


async def test_json_patch_that_is_none(api: Api, namespace: str) -> None:
    (await api.post(core(namespace, "configmaps"), configmap("c"))).ok(201)
    answer = await api.patch(core(namespace, "configmaps", "c"), {"data": {}}, form="json")
    answer.refused(400, "BadRequest", "error decoding patch: …", ...)


async def test_merge_patch(api: Api, namespace: str) -> None:
    (await api.post(core(namespace, "configmaps"), configmap("c", {"a": "1", "b": "2"}))).ok(201)
    new = (await api.patch(core(namespace, "configmaps", "c"), {"data": {"a": None, "c": "3"}})).ok(200)
    assert new["data"] == {"b": "2", "c": "3"}


async def test_merge_patch_replaces_lists(api: Api, namespace: str) -> None:
    (await api.post(apps(namespace, "deployments"), deployment("d"))).ok(201)
    spec = {"template": {"spec": {"containers": [{"name": "other", "image": "registry.example/other:1"}]}}}
    new = (await api.patch(apps(namespace, "deployments", "d"), {"spec": spec})).ok(200)
    assert [each["name"] for each in new["spec"]["template"]["spec"]["containers"]] == ["other"]


async def test_merge_patch_that_is_not_json(api: Api, namespace: str) -> None:
    (await api.post(core(namespace, "configmaps"), configmap("c"))).ok(201)
    answer = await api.patch(core(namespace, "configmaps", "c"), b"{nope")
    answer.refused(400, "BadRequest", "…", ...)


async def test_strategic_patch_merges_lists_by_key(api: Api, namespace: str) -> None:
    (await api.post(apps(namespace, "deployments"), deployment("d"))).ok(201)
    spec = {"template": {"spec": {"containers": [{"name": "other", "image": "registry.example/other:1"}]}}}
    new = (await api.patch(apps(namespace, "deployments", "d"), {"spec": spec}, form="strategic")).ok(200)
    assert [each["name"] for each in new["spec"]["template"]["spec"]["containers"]] == ["other", "app"]


@pytest.mark.parametrize(
    ("patch", "want"),
    [
        pytest.param([{"name": "app", "image": "x:2"}], [("app", "x:2"), ("side", "s:1")], id="merge by key"),
        pytest.param([{"name": "side", "$patch": "delete"}], [("app", "a:1")], id="delete by key"),
        pytest.param([{"$patch": "replace"}, {"name": "n", "image": "n:1"}], [("n", "n:1")], id="replace the list"),
    ],
)
async def test_strategic_directives(api: Api, namespace: str, patch: list[Any], want: list[Any]) -> None:
    body = deployment("d")
    body["spec"]["template"]["spec"]["containers"] = [{"name": "app", "image": "a:1"}, {"name": "side", "image": "s:1"}]
    (await api.post(apps(namespace, "deployments"), body)).ok(201)
    change = {"spec": {"template": {"spec": {"containers": patch}}}}
    new = (await api.patch(apps(namespace, "deployments", "d"), change, form="strategic")).ok(200)
    assert [(each["name"], each["image"]) for each in new["spec"]["template"]["spec"]["containers"]] == want


async def test_strategic_order_of_a_list(api: Api, namespace: str) -> None:
    body = deployment("d")
    body["spec"]["template"]["spec"]["containers"] = [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]
    (await api.post(apps(namespace, "deployments"), body)).ok(201)
    spec = {
        "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
        "containers": [{"name": "b", "image": "b:2"}],
    }
    new = (
        await api.patch(apps(namespace, "deployments", "d"), {"spec": {"template": {"spec": spec}}}, form="strategic")
    ).ok()
    assert [each["image"] for each in new["spec"]["template"]["spec"]["containers"]] == ["b:2", "a:1"]


async def test_strategic_lists_of_plain_values(api: Api, namespace: str) -> None:
    """Finalizers merge as a set; a directive removes from it."""
    (await api.post(core(namespace, "configmaps"), configmap("c", finalizers=["example.com/a"]))).ok(201)
    path = core(namespace, "configmaps", "c")
    both = (await api.patch(path, {"metadata": {"finalizers": ["example.com/b"]}}, form="strategic")).ok()
    assert sorted(both["metadata"]["finalizers"]) == ["example.com/a", "example.com/b"]
    removal = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a", "example.com/b"]}}
    none = (await api.patch(path, removal, form="strategic")).ok()
    assert "finalizers" not in none["metadata"]


async def test_strategic_taints_merge_by_key(api: Api, host: str) -> None:
    taints = [{"key": "a", "effect": "NoSchedule"}]
    (await api.patch(f"/api/v1/nodes/{host}", {"spec": {"taints": taints}})).ok()
    more = {"spec": {"taints": [{"key": "b", "effect": "NoExecute"}]}}
    new = (await api.patch(f"/api/v1/nodes/{host}", more, form="strategic")).ok()
    # The type says patchStrategy nothing: a node's taints are replaced.
    assert [taint["key"] for taint in new["spec"]["taints"]] == ["b"]


async def test_strategic_conditions_merge_by_type(api: Api, host: str) -> None:
    change = {"status": {"conditions": [{"type": "DiskPressure", "status": "False"}]}}
    new = (await api.patch(f"/api/v1/nodes/{host}/status", change, form="strategic")).ok()
    assert {condition["type"] for condition in new["status"]["conditions"]} == {"Ready", "DiskPressure"}


async def test_cordon(api: Api, host: str) -> None:
    new = (await api.patch(f"/api/v1/nodes/{host}", {"spec": {"unschedulable": True}}, form="strategic")).ok()
    assert new["spec"]["unschedulable"] is True


async def test_versions_in_a_patch(api: Api, namespace: str) -> None:
    made = (await api.post(core(namespace, "configmaps"), configmap("c", {"a": "1"}))).ok(201)
    path = core(namespace, "configmaps", "c")
    (await api.patch(path, {"data": {"a": "2"}})).ok()
    old = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "data": {"a": "3"}}
    answer = await api.patch(path, old)
    answer.refused(
        409,
        "Conflict",
        'Operation cannot be fulfilled on configmaps "c": the object has been modified; please apply your changes to '
        "the latest version and try again",
        {"name": "c", "kind": "configmaps"},
    )


async def test_uid_in_a_patch(api: Api, namespace: str) -> None:
    (await api.post(core(namespace, "configmaps"), configmap("c"))).ok(201)
    answer = await api.patch(core(namespace, "configmaps", "c"), {"metadata": {"uid": "0000"}})
    answer.refused(
        422,
        "Invalid",
        'ConfigMap "c" is invalid: metadata.uid: Invalid value: "0000": field is immutable',
        ...,
    )


async def test_a_name_in_a_patch(api: Api, namespace: str) -> None:
    (await api.post(core(namespace, "configmaps"), configmap("c"))).ok(201)
    answer = await api.patch(core(namespace, "configmaps", "c"), {"metadata": {"name": "d"}})
    answer.refused(400, "BadRequest", "the name of the object (d) does not match the name on the URL (c)")


async def test_patch_of_nobody(api: Api, namespace: str) -> None:
    answer = await api.patch(core(namespace, "configmaps", "c"), {"data": {}})
    answer.refused(404, "NotFound", 'configmaps "c" not found', {"name": "c", "kind": "configmaps"})


async def test_a_patched_object_is_validated(api: Api, namespace: str) -> None:
    (await api.post(apps(namespace, "deployments"), deployment("d"))).ok(201)
    answer = await api.patch(apps(namespace, "deployments", "d"), {"spec": {"replicas": -1}})
    answer.refused(
        422,
        "Invalid",
        'Deployment.apps "d" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0',
        {
            "name": "d",
            "group": "apps",
            "kind": "Deployment",
            "causes": [
                {
                    "reason": "FieldValueInvalid",
                    "message": "Invalid value: -1: must be greater than or equal to 0",
                    "field": "spec.replicas",
                }
            ],
        },
    )


async def test_gates_go_one_way(api: Api, namespace: str) -> None:
    (await api.post(core(namespace, "pods"), pod("p"))).ok(201)
    answer = await api.patch(core(namespace, "pods", "p"), {"spec": {"schedulingGates": [{"name": "example.com/x"}]}})
    assert (answer.status, answer.body["reason"]) == (422, "Invalid")
    assert (
        "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate"
        in answer.body["message"]
    )


class TestGatedPods:
    """A gated pod's scheduling may still be narrowed, in the same patch that removes the gate."""

    @staticmethod
    def gated() -> Json:
        terms = [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
        return pod("g", schedulingGates=[{"name": "example.com/wait"}], affinity=affinity)

    TERMS = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms"

    async def test_narrow_label_and_release(self, api: Api, namespace: str) -> None:
        (await api.post(core(namespace, "pods"), self.gated())).ok(201)
        expression = {"key": "zone", "operator": "In", "values": ["a"]}
        operations = [
            {"op": "add", "path": f"{self.TERMS}/0/matchExpressions/-", "value": expression},
            {"op": "add", "path": "/metadata/labels", "value": {"placed": "yes"}},
            {"op": "remove", "path": "/spec/schedulingGates"},
        ]
        new = (await api.patch(core(namespace, "pods", "g"), operations, form="json")).ok()
        assert "schedulingGates" not in new["spec"]
        assert new["metadata"]["labels"] == {"placed": "yes"}

    async def test_affinity_may_be_added_where_there_is_none(self, api: Api, namespace: str) -> None:
        (await api.post(core(namespace, "pods"), pod("g", schedulingGates=[{"name": "example.com/wait"}]))).ok(201)
        change = {"spec": {"affinity": self.gated()["spec"]["affinity"], "schedulingGates": None}}
        (await api.patch(core(namespace, "pods", "g"), change)).ok()

    async def test_node_selector_may_be_added(self, api: Api, namespace: str) -> None:
        (await api.post(core(namespace, "pods"), pod("g", schedulingGates=[{"name": "example.com/wait"}]))).ok(201)
        (await api.patch(core(namespace, "pods", "g"), {"spec": {"nodeSelector": {"disk": "ssd"}}})).ok()

    async def test_expressions_are_appended_only(self, api: Api, namespace: str) -> None:
        (await api.post(core(namespace, "pods"), self.gated())).ok(201)
        expression = {"key": "zone", "operator": "In", "values": ["a"]}
        operations = [{"op": "add", "path": f"{self.TERMS}/0/matchExpressions/0", "value": expression}]
        answer = await api.patch(core(namespace, "pods", "g"), operations, form="json")
        assert (answer.status, answer.body["reason"]) == (422, "Invalid")
        assert "only additions are allowed (no mutations or deletions)" in answer.body["message"]

    async def test_terms_are_not_added(self, api: Api, namespace: str) -> None:
        (await api.post(core(namespace, "pods"), self.gated())).ok(201)
        term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
        operations = [{"op": "add", "path": f"{self.TERMS}/-", "value": term}]
        answer = await api.patch(core(namespace, "pods", "g"), operations, form="json")
        assert (answer.status, answer.body["reason"]) == (422, "Invalid")
        assert "no additions/deletions to non-empty NodeSelectorTerms list are allowed" in answer.body["message"]

    async def test_an_empty_term_cannot_be_filled(self, api: Api, namespace: str) -> None:
        body = self.gated()
        body["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = {
            "nodeSelectorTerms": [{}]
        }
        (await api.post(core(namespace, "pods"), body)).ok(201)
        value = [{"key": "zone", "operator": "In", "values": ["a"]}]
        operations = [{"op": "add", "path": f"{self.TERMS}/0/matchExpressions", "value": value}]
        answer = await api.patch(core(namespace, "pods", "g"), operations, form="json")
        assert (answer.status, answer.body["reason"]) == (422, "Invalid")

    async def test_not_without_a_gate(self, api: Api, namespace: str) -> None:
        (await api.post(core(namespace, "pods"), pod("p"))).ok(201)
        answer = await api.patch(core(namespace, "pods", "p"), {"spec": {"nodeSelector": {"disk": "ssd"}}})
        assert (answer.status, answer.body["reason"]) == (422, "Invalid")


async def test_nodes_keep_what_another_wrote(api: Api) -> None:
    """Two writers of one status, each with a patch of its own condition."""
    (await api.post("/api/v1/nodes", node("shared-node"))).ok(201)
    for name in ("A", "B"):
        change = {"status": {"conditions": [{"type": f"example.com/{name}", "status": "True"}]}}
        (await api.patch("/api/v1/nodes/shared-node/status", change, form="strategic")).ok()
    types = [each["type"] for each in (await api.get("/api/v1/nodes/shared-node")).ok()["status"]["conditions"]]
    assert sorted(types) == ["Ready", "example.com/A", "example.com/B"]
    (await api.delete("/api/v1/nodes/shared-node")).ok()
