"""Owners and their dependents (pkg/controller/garbagecollector; reference kubernetes.md §4)."""

from __future__ import annotations

from typing import Any

from situate.cluster.controllers import MachinerySettings
from tests.cluster.controllers.world import World, deployment

ALONE = MachinerySettings(
    disabled=frozenset(
        {"statefulset", "deployment", "replicaset", "scheduler", "kubelet", "heartbeat", "node-lifecycle"}
    )
)


def reference(owner: dict[str, Any], **changes: Any) -> dict[str, Any]:
    own = {"apiVersion": owner["apiVersion"], "kind": owner["kind"]}
    return {**own, "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], **changes}


def config(world: World, name: str, *owners: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "ownerReferences": list(owners)} if owners else {"name": name}
    return world.create("configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


def names(world: World) -> list[str]:
    return [entry["metadata"]["name"] for entry in world.list("configmaps")]


def references(world: World, name: str) -> list[str]:
    found = world.get("configmaps", name)
    assert found is not None
    return [entry["name"] for entry in found["metadata"].get("ownerReferences") or ()]


def test_background_deletion_collects_all_generations() -> None:
    world = World(ALONE, node_count=0)
    parent = config(world, "parent")
    child = config(world, "child", reference(parent))
    config(world, "grandchild", reference(child))
    world.delete("configmaps", "parent")
    world.run(1)
    assert names(world) == []


def test_an_invented_owner_is_collected_at_once() -> None:
    world = World(ALONE, node_count=0)
    parent = config(world, "parent")
    config(world, "wrong-uid", reference(parent, uid="no-such-uid"))
    config(world, "wrong-name", reference(parent, name="nobody"))
    world.run(0.1)
    assert names(world) == ["parent"]


def test_an_owner_of_an_unknown_kind_keeps_its_dependent() -> None:
    world = World(ALONE, node_count=0)
    config(world, "child", {"apiVersion": "example.com/v1", "kind": "Unheard", "name": "x", "uid": "u"})
    world.run(10)
    assert names(world) == ["child"]


def test_one_living_owner_is_enough_and_the_dead_one_is_taken_off() -> None:
    world = World(ALONE, node_count=0)
    one, two = config(world, "one"), config(world, "two")
    config(world, "child", reference(one), reference(two))
    world.delete("configmaps", "one")
    world.run(1)
    assert names(world) == ["child", "two"]
    assert references(world, "child") == ["two"]


def test_orphaning_keeps_dependents_and_takes_the_owner_off() -> None:
    world = World(ALONE, node_count=0)
    parent = config(world, "parent")
    config(world, "child", reference(parent))
    world.delete("configmaps", "parent", "Orphan")
    world.run(1)
    assert names(world) == ["child"]
    assert references(world, "child") == []


def test_foreground_waits_for_blocking_dependents() -> None:
    world = World(ALONE, node_count=0)
    parent = config(world, "parent")
    child = config(world, "child", reference(parent, blockOwnerDeletion=True))
    world.patch("configmaps", child["metadata"]["name"], {"metadata": {"finalizers": ["example.com/wait"]}})
    world.delete("configmaps", "parent", "Foreground")
    world.run(10)
    assert names(world) == ["child", "parent"]
    world.patch("configmaps", "child", {"metadata": {"finalizers": None}})
    world.run(1)
    assert names(world) == []


def test_foreground_does_not_wait_for_others() -> None:
    world = World(ALONE, node_count=0)
    parent = config(world, "parent")
    config(world, "child", reference(parent))
    world.patch("configmaps", "child", {"metadata": {"finalizers": ["example.com/wait"]}})
    world.delete("configmaps", "parent", "Foreground")
    world.run(1)
    assert names(world) == ["child"]


def test_a_deployment_goes_in_the_foreground_from_the_pods_up() -> None:
    world = World()
    world.create("deployments.apps", deployment(replicas=2))
    world.run(10)
    held = world.pods()[0]
    world.patch("pods", held, {"metadata": {"annotations": {"hold": "1"}}})
    world.delete("deployments.apps", "web", "Foreground")
    world.run(60)
    assert world.pods() == [held]
    assert len(world.list("replicasets.apps")) == len(world.list("deployments.apps")) == 1
    world.patch("pods", held, {"metadata": {"annotations": {"hold": None}}})
    world.run(5)
    assert not [*world.pods(), *world.list("replicasets.apps"), *world.list("deployments.apps")]


def test_leases_of_nodes_go_with_them() -> None:
    world = World(node_count=2)
    world.run(5)
    world.delete("nodes", "node-0")
    world.run(5)
    assert [entry["metadata"]["name"] for entry in world.list("leases.coordination.k8s.io")] == ["node-1"]


def test_a_deleted_namespace_is_emptied_first() -> None:
    world = World(node_count=1)
    world.create("namespaces", namespace("gone"))
    for number in range(3):
        metadata = {"name": f"c{number}", "namespace": "gone"}
        world.create("configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    world.run(1)
    assert world.get("serviceaccounts", "default", "gone") is not None
    world.patch("configmaps", "c0", {"metadata": {"finalizers": ["example.com/wait"]}}, "gone")
    world.delete("namespaces", "gone")
    world.run(10)
    assert names(world) == ["c0"]
    assert world.get("namespaces", "gone") is not None
    world.patch("configmaps", "c0", {"metadata": {"finalizers": None}}, "gone")
    world.run(1)
    assert names(world) == []
    assert world.get("namespaces", "gone") is None
    assert world.get("namespaces", "default") is not None


def test_the_default_service_account_comes_back() -> None:
    world = World(node_count=0)
    world.run(1)
    world.delete("serviceaccounts", "default")
    world.run(1)
    assert world.get("serviceaccounts", "default") is not None


def namespace(name: str) -> dict[str, Any]:
    spec = {"finalizers": ["kubernetes"]}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "spec": spec}
