"""The EndpointSlices of Services; what both servers agree in is in the contract suite."""

from __future__ import annotations

from typing import Any

from tests.cluster.controllers.world import World, pod

SLICES = "endpointslices.discovery.k8s.io"


def service(**spec: Any) -> dict[str, Any]:
    whole = {"selector": {"app": "a"}, "ports": [{"port": 80}], **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": whole}


def member(name: str, **metadata: Any) -> dict[str, Any]:
    made = pod(name)
    made["metadata"]["labels"] = {"app": "a"}
    made["metadata"] |= metadata
    return made


def endpoints(world: World) -> list[list[str]]:
    return [[each["targetRef"]["name"] for each in found.get("endpoints") or ()] for found in world.list(SLICES)]


def test_slices_hold_a_hundred_and_grow_and_shrink() -> None:
    world = World(node_count=3)
    world.create("services", service())
    world.run(1)
    assert endpoints(world) == [[]]
    for number in range(120):
        world.create("pods", member(f"p-{number:03}"))
    world.run(10)
    assert sorted(map(len, endpoints(world))) == [20, 100]
    assert sorted(name for names in endpoints(world) for name in names) == [f"p-{number:03}" for number in range(120)]
    for number in range(60):
        world.delete("pods", f"p-{number:03}")
    world.run(60)
    assert endpoints(world) == [[f"p-{number:03}" for number in range(60, 120)]]


def test_pods_that_are_not_ready_are_named_as_such() -> None:
    world = World(node_count=1)
    world.create("services", service())
    world.create("pods", member("p", annotations={"unready": "1"}))
    world.run(5)
    (found,) = world.list(SLICES)
    assert found["endpoints"][0]["conditions"] == {"ready": False, "serving": False, "terminating": False}


def test_a_service_may_want_those_that_are_not_ready() -> None:
    world = World(node_count=1)
    world.create("pods", member("p", annotations={"unready": "1"}))
    world.create("services", service(publishNotReadyAddresses=True))
    world.run(5)
    (found,) = world.list(SLICES)
    assert found["endpoints"][0]["conditions"]["ready"] is True


def test_a_service_without_a_selector_has_none() -> None:
    world = World(node_count=1)
    world.create("pods", member("p"))
    world.create("services", service(selector=None))
    world.run(5)
    assert world.list(SLICES) == []


def test_pods_in_other_namespaces_are_none_of_its_own() -> None:
    world = World(node_count=1)
    world.create("services", service())
    world.create("pods", member("p", namespace="elsewhere"))
    world.run(5)
    assert endpoints(world) == [[]]


def test_a_slice_that_somebody_deletes_comes_back() -> None:
    world = World(node_count=1)
    world.create("services", service())
    world.create("pods", member("p"))
    world.run(5)
    (found,) = world.list(SLICES)
    world.delete(SLICES, found["metadata"]["name"])
    world.run(5)
    assert endpoints(world) == [["p"]]
