"""Placing a pod on a node through pods/binding."""

from __future__ import annotations

import pytest

from tests.contract.api import Api
from tests.contract.things import binding, core, pod


async def test_bind(api: Api, namespace: str, host: str) -> None:
    (await api.post(core(namespace, "pods"), pod("b"))).ok(201)
    answer = await api.post(core(namespace, "pods", "b", "binding"), binding("b", host))
    body = answer.ok(201)
    assert (body["kind"], body["status"], body["code"]) == ("Status", "Success", 201)
    bound = (await api.get(core(namespace, "pods", "b"))).ok()
    assert bound["spec"]["nodeName"] == host
    scheduled = [c for c in bound["status"]["conditions"] if c["type"] == "PodScheduled"]
    assert [c["status"] for c in scheduled] == ["True"]


async def test_bind_through_the_namespace(api: Api, namespace: str, host: str) -> None:
    (await api.post(core(namespace, "pods"), pod("b"))).ok(201)
    (await api.post(core(namespace, "bindings"), binding("b", host))).ok(201)
    assert (await api.get(core(namespace, "pods", "b"))).ok()["spec"]["nodeName"] == host


async def test_bind_keeps_generation_and_clears_the_nomination(api: Api, namespace: str, host: str) -> None:
    made = (await api.post(core(namespace, "pods"), pod("b"))).ok(201)
    nominated = {"status": {"nominatedNodeName": host}}
    (await api.patch(core(namespace, "pods", "b", "status"), nominated)).ok()
    (await api.post(core(namespace, "pods", "b", "binding"), binding("b", host))).ok(201)
    bound = (await api.get(core(namespace, "pods", "b"))).ok()
    assert bound["metadata"]["generation"] == made["metadata"]["generation"]
    assert "nominatedNodeName" not in bound["status"]


async def test_bind_copies_the_zone(api: Api, namespace: str, host: str) -> None:
    (await api.post(core(namespace, "pods"), pod("b", meta={"labels": {"app": "x"}}))).ok(201)
    (await api.post(core(namespace, "pods", "b", "binding"), binding("b", host))).ok(201)
    assert (await api.get(core(namespace, "pods", "b"))).ok()["metadata"]["labels"] == {
        "app": "x",
        "topology.kubernetes.io/region": "r",
        "topology.kubernetes.io/zone": "a",
    }


async def test_a_pod_made_on_a_node_has_its_zone(api: Api, namespace: str, host: str) -> None:
    made = (await api.post(core(namespace, "pods"), pod("b", nodeName=host))).ok(201)
    assert made["metadata"]["labels"] == {"topology.kubernetes.io/region": "r", "topology.kubernetes.io/zone": "a"}


async def test_bind_copies_annotations(api: Api, namespace: str, host: str) -> None:
    (await api.post(core(namespace, "pods"), pod("b"))).ok(201)
    body = binding("b", host, annotations={"why": "because"})
    (await api.post(core(namespace, "pods", "b", "binding"), body)).ok(201)
    assert (await api.get(core(namespace, "pods", "b"))).ok()["metadata"]["annotations"] == {"why": "because"}


@pytest.mark.parametrize("target", ["same", "other"])
async def test_bind_a_bound_pod(api: Api, namespace: str, host: str, target: str) -> None:
    (await api.post(core(namespace, "pods"), pod("b1"))).ok(201)
    (await api.post(core(namespace, "pods", "b1", "binding"), binding("b1", host))).ok(201)
    answer = await api.post(core(namespace, "pods", "b1", "binding"), binding("b1", host if target == "same" else "x"))
    answer.refused(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on pods/binding "b1": pod b1 is already assigned to node "{host}"',
        {"name": "b1", "kind": "pods/binding"},
    )


async def test_bind_a_gated_pod(api: Api, namespace: str, host: str) -> None:
    (await api.post(core(namespace, "pods"), pod("g", schedulingGates=[{"name": "example.com/wait"}]))).ok(201)
    answer = await api.post(core(namespace, "pods", "g", "binding"), binding("g", host))
    answer.refused(
        409,
        "Conflict",
        'Operation cannot be fulfilled on pods/binding "g": pod g has non-empty .spec.schedulingGates',
        {"name": "g", "kind": "pods/binding"},
    )


async def test_bind_a_terminating_pod(api: Api, namespace: str, host: str) -> None:
    (await api.post(core(namespace, "pods"), pod("t", meta={"finalizers": ["example.com/stay"]}))).ok(201)
    (await api.delete(core(namespace, "pods", "t"))).ok()
    answer = await api.post(core(namespace, "pods", "t", "binding"), binding("t", host))
    answer.refused(
        409,
        "Conflict",
        'Operation cannot be fulfilled on pods/binding "t": pod t is being deleted, cannot be assigned to a host',
        {"name": "t", "kind": "pods/binding"},
    )
    (await api.patch(core(namespace, "pods", "t"), {"metadata": {"finalizers": None}})).ok()


@pytest.mark.parametrize("precondition", ["uid", "resourceVersion"])
async def test_bind_preconditions(api: Api, namespace: str, host: str, precondition: str) -> None:
    made = (await api.post(core(namespace, "pods"), pod("p"))).ok(201)["metadata"]
    wrong = {"uid": "0000", "resourceVersion": "1"}[precondition]
    name = {"uid": "UID", "resourceVersion": "ResourceVersion"}[precondition]
    answer = await api.post(core(namespace, "pods", "p", "binding"), binding("p", host, **{precondition: wrong}))
    answer.refused(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on pods "p": StorageError: invalid object, Code: 4, Key: /registry/pods/'
        f"{namespace}/p, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {name} in precondition: {wrong}, "
        f"{name} in object meta: {made[precondition]}",
        {"name": "p", "kind": "pods"},
    )
    right = binding("p", host, **{precondition: made[precondition]})
    (await api.post(core(namespace, "pods", "p", "binding"), right)).ok(201)


async def test_bind_to_nowhere(api: Api, namespace: str) -> None:
    (await api.post(core(namespace, "pods"), pod("e"))).ok(201)
    answer = await api.post(core(namespace, "pods", "e", "binding"), binding("e", ""))
    answer.refused(500, None, "target.name: Required value", ...)


async def test_bind_to_an_unknown_node(api: Api, namespace: str) -> None:
    (await api.post(core(namespace, "pods"), pod("u"))).ok(201)
    (await api.post(core(namespace, "pods", "u", "binding"), binding("u", "no-such-node"))).ok(201)


async def test_bind_to_a_full_node(api: Api, namespace: str, host: str) -> None:
    (await api.post(core(namespace, "pods"), pod("f", requests={"cpu": "900"}))).ok(201)
    (await api.post(core(namespace, "pods", "f", "binding"), binding("f", host))).ok(201)


async def test_bind_an_unknown_pod(api: Api, namespace: str, host: str) -> None:
    answer = await api.post(core(namespace, "pods", "nobody", "binding"), binding("nobody", host))
    answer.refused(404, "NotFound", 'pods "nobody" not found', {"name": "nobody", "kind": "pods"})
