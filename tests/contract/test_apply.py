"""Server-side apply: ownership of fields, conflicts, removal, and managedFields of the other writes."""

from __future__ import annotations

from typing import Any

from tests.contract.api import Api, Json, causes
from tests.contract.things import IMAGE, apps, configmap, core, deployment, pod


def owners(made: Json) -> dict[tuple[str, str, str], Any]:
    """Fields by manager, operation and subresource."""
    return {
        (entry["manager"], entry["operation"], entry.get("subresource", "")): entry["fieldsV1"]
        for entry in made["metadata"]["managedFields"]
    }


async def test_apply_creates(api: Api, namespace: str) -> None:
    answer = await api.apply(core(namespace, "configmaps", "c"), configmap("c", {"a": "1"}), manager="one")
    made = answer.ok(201)
    assert owners(made) == {("one", "Apply", ""): {"f:data": {"f:a": {}}}}
    entry = made["metadata"]["managedFields"][0]
    assert (entry["apiVersion"], entry["fieldsType"]) == ("v1", "FieldsV1")


async def test_apply_again_changes_nothing(api: Api, namespace: str) -> None:
    path, body = core(namespace, "configmaps", "c"), configmap("c", {"a": "1"})
    made = (await api.apply(path, body, manager="one")).ok(201)
    assert (await api.apply(path, body, manager="one")).ok(200) == made


async def test_a_manager_must_be_named(api: Api, namespace: str) -> None:
    answer = await api.patch(core(namespace, "configmaps", "c"), configmap("c"), form="apply")
    answer.refused(
        422,
        "Invalid",
        'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch',
        ...,
    )


async def test_a_kind_must_be_named(api: Api, namespace: str) -> None:
    answer = await api.apply(core(namespace, "configmaps", "c"), {"metadata": {"name": "c"}}, manager="one")
    assert answer.status == 400
    assert answer.body["message"].startswith("invalid object type: /, Kind=")


async def test_unapplied_fields_go(api: Api, namespace: str) -> None:
    path = core(namespace, "configmaps", "c")
    (await api.apply(path, configmap("c", {"a": "1", "b": "2"}), manager="one")).ok(201)
    assert (await api.apply(path, configmap("c", {"a": "1"}), manager="one")).ok(200)["data"] == {"a": "1"}


async def test_other_managers_fields_stay(api: Api, namespace: str) -> None:
    path = core(namespace, "configmaps", "c")
    (await api.apply(path, configmap("c", {"a": "1"}), manager="one")).ok(201)
    (await api.apply(path, configmap("c", {"b": "2"}), manager="two")).ok(200)
    left = (await api.apply(path, configmap("c", {"c": "3"}), manager="one")).ok(200)
    assert left["data"] == {"b": "2", "c": "3"}


async def test_a_shared_field_goes_with_its_last_owner(api: Api, namespace: str) -> None:
    path = core(namespace, "configmaps", "c")
    for manager in ("one", "two"):
        (await api.apply(path, configmap("c", {"a": "1", "b": "2"}), manager=manager)).ok()
    assert (await api.apply(path, configmap("c", {"a": "1"}), manager="one")).ok()["data"] == {"a": "1", "b": "2"}
    assert (await api.apply(path, configmap("c", {"a": "1"}), manager="two")).ok()["data"] == {"a": "1"}


async def test_conflict(api: Api, namespace: str) -> None:
    path = core(namespace, "configmaps", "c")
    (await api.apply(path, configmap("c", {"a": "1"}), manager="one")).ok(201)
    answer = await api.apply(path, configmap("c", {"a": "2"}), manager="two")
    answer.refused(
        409,
        "Conflict",
        'Apply failed with 1 conflict: conflict with "one": .data.a',
        {
            "causes": [
                {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.a"},
            ]
        },
    )


async def test_conflicts_with_an_update(api: Api, namespace: str) -> None:
    path = apps(namespace, "deployments", "d")
    (await api.post(apps(namespace, "deployments"), deployment("d", 1), fieldManager="maker")).ok(201)
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}
    body["spec"] = {
        "replicas": 5,
        "template": {"spec": {"containers": [{"name": "app", "image": "registry.example/app:9"}]}},
    }
    answer = await api.apply(path, body, manager="two")
    assert answer.status == 409
    assert answer.body["message"].startswith('Apply failed with 2 conflicts: conflicts with "maker" using apps/v1')
    assert [field for _, field, _ in causes(answer)] == [
        ".spec.replicas",
        '.spec.template.spec.containers[name="app"].image',
    ]


async def test_force_takes_over(api: Api, namespace: str) -> None:
    path = core(namespace, "configmaps", "c")
    (await api.apply(path, configmap("c", {"a": "1", "b": "1"}), manager="one")).ok(201)
    new = (await api.apply(path, configmap("c", {"a": "2"}), manager="two", force=True)).ok(200)
    assert new["data"] == {"a": "2", "b": "1"}
    assert owners(new) == {
        ("one", "Apply", ""): {"f:data": {"f:b": {}}},
        ("two", "Apply", ""): {"f:data": {"f:a": {}}},
    }


async def test_the_same_value_is_no_conflict(api: Api, namespace: str) -> None:
    path = core(namespace, "configmaps", "c")
    (await api.apply(path, configmap("c", {"a": "1"}), manager="one")).ok(201)
    new = (await api.apply(path, configmap("c", {"a": "1"}), manager="two")).ok(200)
    assert set(owners(new)) == {("one", "Apply", ""), ("two", "Apply", "")}


async def test_an_update_takes_ownership(api: Api, namespace: str) -> None:
    path = core(namespace, "configmaps", "c")
    (await api.apply(path, configmap("c", {"a": "1", "b": "1"}), manager="one")).ok(201)
    new = (await api.patch(path, {"data": {"a": "2"}}, fieldManager="hand")).ok(200)
    assert owners(new) == {
        ("one", "Apply", ""): {"f:data": {"f:b": {}}},
        ("hand", "Update", ""): {"f:data": {"f:a": {}}},
    }


async def test_lists_by_key(api: Api, namespace: str) -> None:
    path = core(namespace, "pods", "p")
    body = pod("p")
    made = (await api.apply(path, body, manager="one")).ok(201)
    assert owners(made)[("one", "Apply", "")] == {
        "f:spec": {"f:containers": {'k:{"name":"app"}': {".": {}, "f:image": {}, "f:name": {}}}}
    }


async def test_sets_of_plain_values(api: Api, namespace: str) -> None:
    path = core(namespace, "configmaps", "c")
    (await api.apply(path, configmap("c", finalizers=["example.com/a"]), manager="one")).ok(201)
    new = (await api.apply(path, configmap("c", finalizers=["example.com/b"]), manager="two")).ok(200)
    assert new["metadata"]["finalizers"] == ["example.com/a", "example.com/b"]
    assert owners(new)[("two", "Apply", "")] == {"f:metadata": {"f:finalizers": {'v:"example.com/b"': {}}}}
    (await api.patch(path, {"metadata": {"finalizers": None}})).ok()


async def test_two_owners_of_one_list(api: Api, namespace: str) -> None:
    path = apps(namespace, "deployments", "d")
    (await api.apply(path, deployment("d"), manager="one")).ok(201)
    side = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"template": {"spec": {"containers": [{"name": "side", "image": IMAGE}]}}},
    }
    new = (await api.apply(path, side, manager="two")).ok(200)
    assert [each["name"] for each in new["spec"]["template"]["spec"]["containers"]] == ["app", "side"]
    gone = (await api.apply(path, {**side, "spec": {}}, manager="two")).ok(200)
    assert [each["name"] for each in gone["spec"]["template"]["spec"]["containers"]] == ["app"]


async def test_writes_name_their_manager(api: Api, namespace: str) -> None:
    made = (await api.post(core(namespace, "configmaps"), configmap("c", {"a": "1"}), fieldManager="maker")).ok(201)
    assert owners(made) == {("maker", "Update", ""): {"f:data": {".": {}, "f:a": {}}}}
    made["data"]["b"] = "2"
    new = (await api.put(core(namespace, "configmaps", "c"), made, fieldManager="other")).ok(200)
    assert owners(new) == {
        ("maker", "Update", ""): {"f:data": {".": {}, "f:a": {}}},
        ("other", "Update", ""): {"f:data": {"f:b": {}}},
    }


async def test_a_manager_unnamed_is_the_user_agent(api: Api, namespace: str) -> None:
    made = (await api.post(core(namespace, "configmaps"), configmap("c", {"a": "1"}))).ok(201)
    assert [entry["manager"] for entry in made["metadata"]["managedFields"]] == ["Python"]


async def test_subresources_are_owned_apart(api: Api, namespace: str) -> None:
    (await api.post(core(namespace, "pods"), pod("p"), fieldManager="maker")).ok(201)
    change = {"status": {"message": "well"}}
    new = (await api.patch(core(namespace, "pods", "p", "status"), change, fieldManager="kubelet")).ok(200)
    assert owners(new)[("kubelet", "Update", "status")] == {"f:status": {"f:message": {}}}


async def test_applying_a_status(api: Api, namespace: str) -> None:
    (await api.post(apps(namespace, "deployments"), deployment("d"))).ok(201)
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "status": {"replicas": 4}}
    new = (await api.apply(apps(namespace, "deployments", "d", "status"), body, manager="one")).ok(200)
    assert new["status"] == {"replicas": 4}
    assert owners(new)[("one", "Apply", "status")] == {"f:status": {"f:replicas": {}}}


async def test_scaling_is_owned_by_who_scales(api: Api, namespace: str) -> None:
    path = apps(namespace, "deployments", "d")
    (await api.apply(path, deployment("d", 1), manager="one")).ok(201)
    (await api.patch(f"{path}/scale", {"spec": {"replicas": 3}}, fieldManager="scaler")).ok(200)
    answer = await api.apply(path, deployment("d", 1), manager="one")
    assert answer.status == 409
    assert causes(answer)[0][1] == ".spec.replicas"


async def test_managed_fields_are_reset_by_an_empty_list(api: Api, namespace: str) -> None:
    path = core(namespace, "configmaps", "c")
    (await api.apply(path, configmap("c", {"a": "1"}), manager="one")).ok(201)
    new = (await api.patch(path, {"metadata": {"managedFields": [{}]}})).ok(200)
    assert "managedFields" not in new["metadata"]


async def test_managed_fields_may_not_be_applied(api: Api, namespace: str) -> None:
    body = configmap("c", managedFields=[{"manager": "x"}])
    answer = await api.apply(core(namespace, "configmaps", "c"), body, manager="one")
    answer.refused(400, "BadRequest", "metadata.managedFields must be nil", ...)


async def test_yaml_is_applied(api: Api, namespace: str) -> None:
    body = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c, namespace: {namespace}}}\ndata:\n  a: b\n".encode()
    answer = await api.patch(core(namespace, "configmaps", "c"), body, form="apply", fieldManager="one")
    assert answer.ok(201)["data"] == {"a": "b"}


async def test_unknown_fields_are_refused(api: Api, namespace: str) -> None:
    body = {**configmap("c"), "colour": "red"}
    answer = await api.apply(core(namespace, "configmaps", "c"), body, manager="one")
    assert answer.status == 500
    assert "field not declared in schema" in answer.body["message"]


async def test_apply_with_an_old_version(api: Api, namespace: str) -> None:
    path = core(namespace, "configmaps", "c")
    made = (await api.apply(path, configmap("c", {"a": "1"}), manager="one")).ok(201)
    (await api.apply(path, configmap("c", {"a": "2"}), manager="one")).ok(200)
    body = configmap("c", {"a": "3"}, resourceVersion=made["metadata"]["resourceVersion"])
    assert (await api.apply(path, body, manager="one")).status == 409


async def test_apply_dry_run(api: Api, namespace: str) -> None:
    path = core(namespace, "configmaps", "c")
    (await api.apply(path, configmap("c", {"a": "1"}), manager="one", dryRun="All")).ok(201)
    assert (await api.get(path)).status == 404
