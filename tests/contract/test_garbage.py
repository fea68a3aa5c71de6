"""Owner references, propagation of deletions, and namespaces that go."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.api import Json
from tests.contract.things import apps, configmap, core, replicaset
from tests.contract.waiting import eventually, gone, steady
from tests.contract.work import Work, owner


def owned(name: str, by: Json, *, blocks: bool = False, **more: Any) -> Json:
    reference = {
        "apiVersion": by["apiVersion"],
        "kind": by["kind"],
        "name": by["metadata"]["name"],
        "uid": by["metadata"]["uid"],
        **({"blockOwnerDeletion": True} if blocks else {}),
    }
    return configmap(name, ownerReferences=[reference], **more)


async def test_dependents_go_with_their_owner(work: Work) -> None:
    path = core(work.namespace, "configmaps")
    parent = (await work.api.post(path, configmap("parent"))).ok(201)
    child = (await work.api.post(path, owned("child", parent))).ok(201)
    (await work.api.post(path, owned("grandchild", child))).ok(201)
    (await work.api.delete(f"{path}/parent")).ok()
    await gone(work.api, f"{path}/child")
    await gone(work.api, f"{path}/grandchild")


async def test_orphans_stay(work: Work) -> None:
    path = core(work.namespace, "configmaps")
    parent = (await work.api.post(path, configmap("parent"))).ok(201)
    (await work.api.post(path, owned("child", parent))).ok(201)
    (await work.api.delete(f"{path}/parent", {"propagationPolicy": "Orphan"})).ok()
    await gone(work.api, f"{path}/parent")
    left = (await work.api.get(f"{path}/child")).ok()
    assert "ownerReferences" not in left["metadata"]


async def test_foreground_waits_for_those_that_block(work: Work) -> None:
    path = core(work.namespace, "configmaps")
    parent = (await work.api.post(path, configmap("parent"))).ok(201)
    (await work.api.post(path, owned("child", parent, blocks=True, finalizers=["example.com/stay"]))).ok(201)
    going = (await work.api.delete(f"{path}/parent", {"propagationPolicy": "Foreground"})).ok()
    assert going["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert going["metadata"]["deletionTimestamp"]
    await eventually(
        lambda: work.api.get(f"{path}/child"), lambda answer: "deletionTimestamp" in answer.ok()["metadata"]
    )
    await steady(lambda: work.api.get(f"{path}/parent"), lambda answer: answer.status == 200, seconds=0.3)
    (await work.api.patch(f"{path}/child", {"metadata": {"finalizers": None}})).ok()
    await gone(work.api, f"{path}/parent")


async def test_an_owner_that_never_was(work: Work) -> None:
    path = core(work.namespace, "configmaps")
    nobody = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "nobody", "uid": "0000"}}
    (await work.api.post(path, owned("child", nobody))).ok(201)
    await gone(work.api, f"{path}/child")


async def test_another_owner_keeps_it(work: Work) -> None:
    path = core(work.namespace, "configmaps")
    one = (await work.api.post(path, configmap("one"))).ok(201)
    two = (await work.api.post(path, configmap("two"))).ok(201)
    body = owned("child", one)
    body["metadata"]["ownerReferences"] += owned("x", two)["metadata"]["ownerReferences"]
    (await work.api.post(path, body)).ok(201)
    (await work.api.delete(f"{path}/one")).ok()
    left = await eventually(
        lambda: work.api.get(f"{path}/child"), lambda answer: len(answer.ok()["metadata"]["ownerReferences"]) == 1
    )
    assert left.ok()["metadata"]["ownerReferences"][0]["name"] == "two"


@pytest.mark.parametrize("policy", ["Orphan", "Background"])
async def test_pods_of_a_replicaset(work: Work, policy: str) -> None:
    await work.create("replicasets", replicaset("rs", 2))
    await work.settled(2, holds=owner)
    # Orphans are those of which the collector knows, and owners and pods come to it by watches of their own.
    await work.known_to_collector()
    (await work.api.delete(apps(work.namespace, "replicasets", "rs"), propagationPolicy=policy)).ok()
    await gone(work.api, apps(work.namespace, "replicasets", "rs"))
    if policy == "Orphan":
        await work.settled(2, holds=lambda each: not owner(each))
    else:
        await eventually(work.pods, lambda pods: not pods)


async def test_an_unknown_policy(work: Work) -> None:
    path = core(work.namespace, "configmaps")
    (await work.api.post(path, configmap("c"))).ok(201)
    answer = await work.api.delete(f"{path}/c", {"propagationPolicy": "Sideways"})
    assert (answer.status, answer.body["reason"]) == (422, "Invalid")
    assert 'propagationPolicy: Unsupported value: "Sideways"' in answer.body["message"]


async def test_a_namespace_takes_its_objects_along(work: Work) -> None:
    (await work.api.post(core(work.namespace, "configmaps"), configmap("c"))).ok(201)
    (await work.api.delete(f"/api/v1/namespaces/{work.namespace}")).ok()
    await gone(work.api, f"/api/v1/namespaces/{work.namespace}")
    assert (await work.api.get(core(work.namespace, "configmaps", "c"))).status == 404
