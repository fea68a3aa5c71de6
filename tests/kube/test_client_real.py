"""The client's calls on the real API server: what it means by each of them is what happens."""

from __future__ import annotations

from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest

from situate.kube.client import Client
from situate.kube.connect import connect
from situate.kube.errors import AlreadyExists, BadRequest, Conflict, Forbidden, Invalid, NotFound, Unauthorized
from situate.kube.login.connection import Connection, Impersonation, Pem
from situate.kube.patches import ApplyPatch, JsonPatch, MergePatch, StrategicMergePatch
from situate.objects.decoding.codec import decode_event
from situate.objects.resources import CONFIGMAPS, LEASES, NODES, PODS, STATEFULSETS, unstructured
from situate.objects.reviews.authorization import ResourceAttributes
from situate.objects.values.timestamps import micro_time, parse_time
from tests.controlplane.plane import ControlPlane

CONTAINER = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}}}
POD = {"metadata": {"name": "p"}, "spec": {"containers": [CONTAINER], "automountServiceAccountToken": False}}


def connection(plane: ControlPlane, **changes: Any) -> Connection:
    settings: dict[str, Any] = {"token": plane.token(), "ca": Pem(data=plane.authority)} | changes
    return Connection(server=plane.url, source="the test", **settings)


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    client = connect(connection(control_plane), Random(1))
    yield client
    await client.close()


async def test_each_patch_and_subresource(client: Client, control_plane_namespace: str) -> None:
    namespace = control_plane_namespace
    labels = {"app": "web"}
    spec = {
        "serviceName": "web",
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [CONTAINER]}},
    }
    content = {"metadata": {"name": "web"}, "spec": spec}
    created = await client.create(STATEFULSETS, content, namespace)
    with pytest.raises(AlreadyExists, match=r'statefulsets\.apps "web" already exists; use the existing object'):
        await client.create(STATEFULSETS, content, namespace)

    scaled = await client.update_scale(
        STATEFULSETS, "web", 5, namespace, resource_version=created.metadata.resource_version
    )
    assert scaled.spec.replicas == 5
    with pytest.raises(Conflict, match="read the object again and base the request on its new state"):
        await client.update_scale(STATEFULSETS, "web", 6, namespace, resource_version=created.metadata.resource_version)
    assert (await client.get_scale(STATEFULSETS, "web", namespace)).spec.replicas == 5

    for patch in (
        MergePatch({"metadata": {"labels": {"merge": "1"}}}),
        StrategicMergePatch({"metadata": {"labels": {"strategic": "1"}}}),
        JsonPatch([{"op": "add", "path": "/metadata/labels/json", "value": "1"}]),
    ):
        await client.patch(STATEFULSETS, "web", patch, namespace)
    owned = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"labels": {"apply": "1"}}}
    got = await client.patch(STATEFULSETS, "web", ApplyPatch(owned), namespace, field_manager="test", force=True)
    assert set(got.metadata.labels) == {"merge", "strategic", "json", "apply"}
    got = await client.patch_status(
        STATEFULSETS, "web", MergePatch({"spec": {"replicas": 9}, "status": {"replicas": 2}}), namespace
    )
    assert (got.spec.replicas, got.status.replicas) == (5, 2)


async def test_pods_are_bound_resized_and_evicted(client: Client, control_plane_namespace: str) -> None:
    namespace, node = control_plane_namespace, f"node-of-{control_plane_namespace}"
    await client.create(NODES, {"metadata": {"name": node}})
    room = {"cpu": "1", "memory": "1Gi", "pods": "10"}
    await client.patch_status(NODES, node, MergePatch({"status": {"allocatable": room, "capacity": room}}))
    assert (await client.create(PODS, POD, namespace, dry_run=True)).metadata.name == "p"
    pod = await client.create(PODS, POD, namespace)
    await client.bind(pod, node)
    with pytest.raises(Conflict, match=f'pod p is already assigned to node "{node}"'):
        await client.bind(pod, node)
    resized = await client.resize(pod, [{"name": "c", "resources": {"requests": {"cpu": "150m"}}}])
    assert resized.spec.containers[0].resources.requests["cpu"].milli_value == 150
    with pytest.raises(Forbidden, match=r"enough allocatable resources: cpu.*; change the object, or the rule"):
        await client.resize(pod, [{"name": "c", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "3"}}}])
    await client.evict(pod)
    assert (await client.get(PODS, "p", namespace)).metadata.deletion_timestamp is not None
    with pytest.raises(Conflict, match="UID in the precondition"):
        await client.delete(PODS, "p", namespace, uid="another")
    await client.delete(PODS, "p", namespace, uid=pod.metadata.uid, grace_period_s=0)
    with pytest.raises(NotFound, match="check the name and namespace"):
        await client.get(PODS, "p", namespace)


async def test_lists_watches_and_what_survives(client: Client, control_plane_namespace: str) -> None:
    namespace = control_plane_namespace
    for number in range(7):
        await client.create(CONFIGMAPS, {"metadata": {"name": f"c{number}"}, "data": {"n": str(number)}}, namespace)
    selector = "metadata.name!=kube-root-ca.crt"
    page = await client.list_all(CONFIGMAPS, namespace, field_selector=selector, page_size=3)
    assert [item.metadata.name for item in page.items] == [f"c{number}" for number in range(7)]
    anything = unstructured("", "v1", "ConfigMap", "configmaps")
    raw = (await client.list(anything, namespace, field_selector=selector)).items[0]
    assert (raw.kind, raw.content["data"]) == ("ConfigMap", {"n": "0"})
    changed = raw.content
    changed["data"]["n"] = "changed"
    assert (await client.replace(CONFIGMAPS, "c0", changed, namespace)).data == {"n": "changed"}

    seen = []
    async with client.watch(CONFIGMAPS, namespace, send_initial_events=True, timeout_s=30) as batches:
        async for lines in batches:
            seen += [decode_event(line).type for line in lines]
            if "BOOKMARK" in seen:
                break
    assert seen == ["ADDED"] * (len(seen) - 1) + ["BOOKMARK"]
    assert len(seen) >= 8


async def test_lease_times_keep_six_decimals(client: Client, control_plane_namespace: str) -> None:
    moment = parse_time("2024-01-01T00:00:00.1Z")
    content = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "x", "renewTime": micro_time(moment)}}
    await client.create(LEASES, content, control_plane_namespace)
    assert (await client.get(LEASES, "l", control_plane_namespace)).spec.renew_time == moment


async def test_refusals(client: Client, control_plane: ControlPlane, control_plane_namespace: str) -> None:
    with pytest.raises(BadRequest, match="unable to parse requirement"):
        await client.list(PODS, label_selector="a in")
    with pytest.raises(Invalid) as invalid:
        await client.create(PODS, POD | {"spec": {"containers": [{"name": "c"}]}}, control_plane_namespace)
    assert [cause.field for cause in invalid.value.details.causes] == ["spec.containers[0].image"]
    with pytest.raises(NotFound, match="the resource's CRD is installed"):
        await client.list(unstructured("example.com", "v1", "Widget", "widgets"))
    stranger = connect(connection(control_plane, token="nonsense"), Random(1))
    with pytest.raises(Unauthorized, match="log in again"):
        await stranger.list(PODS)
    await stranger.close()


async def test_who_we_are(control_plane: ControlPlane) -> None:
    pair = control_plane.client_certificate("jane")
    certificate, key = Pem(data=pair.certificate), Pem(data=pair.key)
    jane = connect(connection(control_plane, token="", certificate=certificate, key=key), Random(1))
    with pytest.raises(Forbidden, match=r'User "jane" cannot list resource "pods".*; grant the permission'):
        await jane.list(PODS)
    assert not (await jane.review_access(ResourceAttributes(verb="list", resource="pods"))).allowed
    await jane.close()
    as_joe = connect(connection(control_plane, impersonation=Impersonation("joe", groups=("a",))), Random(1))
    with pytest.raises(Forbidden, match='User "joe"'):
        await as_joe.list(PODS)
    await as_joe.close()
