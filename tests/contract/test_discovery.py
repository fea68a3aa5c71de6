"""What clients ask before anything else: versions, groups, resources, schemas; and tables for people."""

from __future__ import annotations

import pytest

from situate.cluster.storage.builtin_resources import BUILT_IN, NOT_SERVED, SUBRESOURCES_NOT_SERVED
from tests.contract.api import Api
from tests.contract.servers import Server
from tests.contract.things import apps, configmap, core, deployment, pod

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


async def test_version(api: Api) -> None:
    body = (await api.get("/version")).ok()
    assert (body["major"], body["minor"]) == ("1", "36")
    assert body["gitVersion"].startswith("v1.36.")


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/livez"])
async def test_health(api: Api, path: str) -> None:
    answer = await api.get(path)
    assert (answer.status, answer.body) == (200, "ok")


async def test_core_versions(api: Api) -> None:
    body = (await api.get("/api")).ok()
    assert (body["kind"], body["versions"]) == ("APIVersions", ["v1"])


async def test_groups(api: Api) -> None:
    body = (await api.get("/apis")).ok()
    assert body["kind"] == "APIGroupList"
    groups = {group["name"]: group["preferredVersion"]["groupVersion"] for group in body["groups"]}
    assert (
        groups.items()
        >= {
            "apps": "apps/v1",
            "policy": "policy/v1",
            "coordination.k8s.io": "coordination.k8s.io/v1",
            "apiextensions.k8s.io": "apiextensions.k8s.io/v1",
            "admissionregistration.k8s.io": "admissionregistration.k8s.io/v1",
            "events.k8s.io": "events.k8s.io/v1",
            "rbac.authorization.k8s.io": "rbac.authorization.k8s.io/v1",
            "scheduling.k8s.io": "scheduling.k8s.io/v1",
        }.items()
    )


async def test_one_group(api: Api) -> None:
    body = (await api.get("/apis/apps")).ok()
    assert (body["kind"], body["name"]) == ("APIGroup", "apps")
    assert body["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}


async def test_resources(api: Api) -> None:
    body = (await api.get("/api/v1")).ok()
    assert (body["kind"], body["groupVersion"]) == ("APIResourceList", "v1")
    resources = {each["name"]: each for each in body["resources"]}
    assert {"pods/status", "pods/binding", "pods/eviction", "pods/resize", "nodes/status", "namespaces"} <= set(
        resources
    )
    pods = resources["pods"]
    assert (pods["kind"], pods["namespaced"], pods["singularName"], pods["shortNames"]) == ("Pod", True, "pod", ["po"])
    assert pods["categories"] == ["all"]
    assert resources["nodes"]["namespaced"] is False
    eviction = resources["pods/eviction"]
    assert (eviction["kind"], eviction["group"], eviction["version"]) == ("Eviction", "policy", "v1")


async def test_resources_of_apps(api: Api) -> None:
    resources = {each["name"]: each for each in (await api.get("/apis/apps/v1")).ok()["resources"]}
    assert {"deployments", "deployments/scale", "deployments/status", "statefulsets", "replicasets"} <= set(resources)
    scale = resources["statefulsets/scale"]
    assert (scale["kind"], scale["group"], scale["version"]) == ("Scale", "autoscaling", "v1")


async def test_aggregated_discovery(api: Api) -> None:
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
    body = (await api.call("GET", "/apis", accept=accept)).ok()
    assert (body["kind"], body["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
    apps_group = next(item for item in body["items"] if item["metadata"]["name"] == "apps")
    resources = {each["resource"]: each for each in apps_group["versions"][0]["resources"]}
    assert resources["deployments"]["responseKind"]["kind"] == "Deployment"
    assert resources["deployments"]["scope"] == "Namespaced"
    assert {each["subresource"] for each in resources["deployments"]["subresources"]} == {"scale", "status"}


async def test_whatever_is_served_is_known_and_what_is_not_is_left_out_by_name(api: Api, server: Server) -> None:
    """Of stable versions: what kube-apiserver has besides is neither forgotten nor refused without a word."""
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
    served: set[tuple[str, str]] = set()
    subresources: set[tuple[str, str, str]] = set()
    for path in ("/api", "/apis"):
        for group in (await api.call("GET", path, accept=accept)).ok()["items"]:
            name = group["metadata"].get("name", "")
            stable = [version for version in group["versions"] if version["version"] in ("v1", "v2")]
            for resource in (each for version in stable for each in version["resources"]):
                served.add((name, resource["resource"]))
                of_it = resource.get("subresources", ())
                subresources |= {(name, resource["resource"], each["subresource"]) for each in of_it}
    known = {(each.group, each.plural) for each in BUILT_IN}
    known_subresources = {(each.group, each.plural, sub.name) for each in BUILT_IN for sub in each.subresources}
    refused = {("", *each) for each in SUBRESOURCES_NOT_SERVED}
    custom = {each for each in served if each[0].endswith("example.com")}
    if server.name == "real":
        assert known <= served - custom <= known | NOT_SERVED.keys()
        of_known = {each for each in subresources if each[:2] in known}
        assert of_known == known_subresources | refused
    else:
        assert served - custom == known
        assert {each for each in subresources if each[:2] in known} == known_subresources


async def test_schemas(api: Api) -> None:
    paths = (await api.get("/openapi/v3")).ok()["paths"]
    assert {"api/v1", "apis/apps/v1"} <= set(paths)
    document = (await api.get(paths["apis/apps/v1"]["serverRelativeURL"].split("?")[0])).ok()
    assert "io.k8s.api.apps.v1.Deployment" in document["components"]["schemas"]


class TestTables:
    async def test_pods(self, api: Api, namespace: str) -> None:
        (await api.post(core(namespace, "pods"), pod("p"))).ok(201)
        table = (await api.call("GET", core(namespace, "pods"), accept=TABLE)).ok()
        assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
        names = [column["name"] for column in table["columnDefinitions"]]
        assert names[:5] == ["Name", "Ready", "Status", "Restarts", "Age"]
        assert names[5:9] == ["IP", "Node", "Nominated Node", "Readiness Gates"]
        assert [column["priority"] for column in table["columnDefinitions"]][:7] == [0, 0, 0, 0, 0, 1, 1]
        (row,) = table["rows"]
        assert row["cells"][:4] == ["p", "0/1", "Pending", "0"]
        assert row["cells"][5:9] == ["<none>", "<none>", "<none>", "<none>"]
        assert row["object"]["kind"] == "PartialObjectMetadata"
        assert row["object"]["metadata"]["name"] == "p"

    async def test_one_object(self, api: Api, namespace: str) -> None:
        (await api.post(apps(namespace, "deployments"), deployment("d", 3))).ok(201)
        table = (await api.call("GET", apps(namespace, "deployments", "d"), accept=TABLE)).ok()
        names = [column["name"] for column in table["columnDefinitions"]]
        assert names[:5] == ["Name", "Ready", "Up-to-date", "Available", "Age"]
        assert table["rows"][0]["cells"][:4] == ["d", "0/3", 0, 0]

    async def test_other_kinds(self, api: Api, namespace: str) -> None:
        (await api.post(core(namespace, "configmaps"), configmap("c", {"a": "1", "b": "2"}))).ok(201)
        table = (await api.call("GET", core(namespace, "configmaps", "c"), accept=TABLE)).ok()
        assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Data", "Age"]
        assert table["rows"][0]["cells"][:2] == ["c", 2]

    async def test_without_objects(self, api: Api, namespace: str) -> None:
        (await api.post(core(namespace, "pods"), pod("p"))).ok(201)
        table = (await api.call("GET", core(namespace, "pods"), accept=TABLE, includeObject="None")).ok()
        assert table["rows"][0]["object"] is None

    async def test_nodes(self, api: Api, host: str) -> None:
        table = (await api.call("GET", f"/api/v1/nodes/{host}", accept=TABLE)).ok()
        assert table["rows"][0]["cells"][:3] == [host, "Ready", "<none>"]

    async def test_watch(self, api: Api, namespace: str) -> None:
        (await api.post(core(namespace, "pods"), pod("p"))).ok(201)
        accept = {"Accept": TABLE}
        async with api.watch(core(namespace, "pods"), headers=accept) as watch:
            event = await watch.next()
        assert event["type"] == "ADDED"
        assert event["object"]["kind"] == "Table"
        assert event["object"]["rows"][0]["cells"][0] == "p"
        assert event["object"]["columnDefinitions"]


async def test_metadata_only(api: Api, namespace: str) -> None:
    (await api.post(core(namespace, "configmaps"), configmap("c", {"a": "1"}, labels={"x": "y"}))).ok(201)
    accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    body = (await api.call("GET", core(namespace, "configmaps", "c"), accept=accept)).ok()
    assert (body["kind"], body["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert body["metadata"]["labels"] == {"x": "y"}
    assert "data" not in body
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    listing = (await api.call("GET", core(namespace, "configmaps"), accept=accept)).ok()
    assert listing["kind"] == "PartialObjectMetadataList"
    assert [item["metadata"]["name"] for item in listing["items"]] == ["c"]


async def test_an_answer_in_a_form_nobody_has(api: Api, namespace: str) -> None:
    answer = await api.call("GET", core(namespace, "configmaps"), accept="text/csv")
    answer.refused(
        406,
        "NotAcceptable",
        "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, …",
        ...,
    )


async def test_yaml_answers(api: Api, namespace: str) -> None:
    (await api.post(core(namespace, "configmaps"), configmap("c"))).ok(201)
    answer = await api.call("GET", core(namespace, "configmaps", "c"), accept="application/yaml")
    assert answer.headers["Content-Type"] == "application/yaml"
    assert answer.body.startswith("apiVersion: v1\nkind: ConfigMap\n")
