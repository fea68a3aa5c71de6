"""Files of objects answer reads as an API server does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from situate.cli.read_cluster.files import FileTransport, guess_plural
from situate.cli.terminal.failures import WrongInput
from situate.kube.client import Client
from situate.kube.errors import MethodNotAllowed, NotFound
from situate.kube.patches import MergePatch
from situate.objects.messages import Request
from situate.objects.resources import CONFIGMAPS, LEASES, NODES, PODS, STORAGECLASSES, unstructured

Write = Callable[..., Path]
SHEEP = unstructured("farm.example.com", "v1", "Sheep", "sheep")


def a_pod(name: str, namespace: str = "shop", **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "labels": fields.pop("labels", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, **fields}


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """A file of these objects as `kubectl get -o json` prints them."""

    def written(*objects: dict[str, Any], name: str = "cluster.json") -> Path:
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}), encoding="utf-8")
        return file

    return written


def reading(*paths: Path) -> Client:
    return Client(FileTransport(paths))


async def names(client: Client, namespace: str | None = None, **selectors: str) -> list[str]:
    found = await client.list_all(PODS, namespace, **selectors)  # type: ignore[arg-type]  # selectors only
    return [f"{each.metadata.namespace}/{each.metadata.name}" for each in found.items]


async def test_a_list_has_the_objects_of_its_type_in_the_order_of_an_api_server(write: Write) -> None:
    pods = [a_pod("web-1"), a_pod("web-0"), a_pod("db-0", "billing"), a_pod("x", "shop-b")]
    client = reading(write(*pods, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}))
    # etcd sorts keys such as /registry/pods/shop/web-0, and "-" comes before "/"
    assert await names(client) == ["billing/db-0", "shop-b/x", "shop/web-0", "shop/web-1"]
    assert await names(client, "shop") == ["shop/web-0", "shop/web-1"]
    assert await names(client, "elsewhere") == []
    assert [each.metadata.name for each in (await client.list_all(NODES)).items] == ["n1"]


@pytest.mark.parametrize(
    ("selectors", "found"),
    [
        ({"label_selector": "app=web"}, ["shop/a"]),
        ({"label_selector": "app!=web"}, ["shop/b", "shop/c"]),
        ({"label_selector": "app in (web,db),!canary"}, ["shop/a"]),
        ({"label_selector": "app"}, ["shop/a", "shop/b"]),
        ({"field_selector": "status.phase=Pending"}, ["shop/a", "shop/c"]),
        ({"field_selector": "status.phase=Pending,spec.nodeName!="}, ["shop/a"]),
        ({"field_selector": "metadata.name=b"}, ["shop/b"]),
        ({"field_selector": "metadata.namespace=other"}, []),
        ({"field_selector": "status.phase=Pending", "label_selector": "!app"}, ["shop/c"]),
    ],
)
async def test_labels_and_fields_select(write: Write, selectors: dict[str, str], found: list[str]) -> None:
    pods = [
        a_pod("a", labels={"app": "web"}, spec={"nodeName": "n1"}, status={"phase": "Pending"}),
        a_pod("b", labels={"app": "db", "canary": "yes"}, status={"phase": "Running"}),
        a_pod("c", labels=None, status={"phase": "Pending"}),
    ]
    assert await names(reading(write(*pods)), **selectors) == found


@pytest.mark.parametrize("labels", [["app=web"], "app=web", {"app": 7}])
async def test_an_object_that_cannot_be_read_is_named_and_the_others_are_there(write: Write, labels: Any) -> None:
    """As a server whose object was stored by an older version."""
    client = reading(write(a_pod("odd", labels=labels), a_pod("well", labels={"app": "web"})))
    page = await client.list_all(PODS)
    assert [each.metadata.name for each in page.items] == ["well"]
    assert "shop/odd" in str(page.malformed[0])
    assert "metadata.labels" in str(page.malformed[0])
    assert (await client.list_all(PODS, label_selector="app=web")).items == page.items


async def test_one_object_by_its_name(write: Write) -> None:
    record = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "x"}, "data": {"k": "v"}}
    client = reading(write(record))
    assert (await client.get(CONFIGMAPS, "a", "x")).data == {"k": "v"}
    for name, namespace in (("b", "x"), ("a", "y")):
        with pytest.raises(NotFound, match=f'configmaps "{name}" not found in the files'):
            await client.get(CONFIGMAPS, name, namespace)
    with pytest.raises(NotFound, match='leases "a" not found'):
        await client.get(LEASES, "a", "x")


async def test_a_type_that_no_file_holds_is_an_empty_list(write: Write) -> None:
    client = reading(write(a_pod("a")))
    assert (await client.list_all(SHEEP)).items == []
    assert (await client.list_all(STORAGECLASSES)).items == []


async def test_nothing_is_written(write: Write) -> None:
    file = write(a_pod("a"))
    before = file.read_bytes()
    client = reading(file)
    with pytest.raises(MethodNotAllowed, match="PATCH /api/v1/namespaces/shop/pods/a: files of objects are read-only"):
        await client.patch(PODS, "a", MergePatch({"metadata": {"labels": {"b": "c"}}}), "shop")
    with pytest.raises(MethodNotAllowed):
        await client.create(PODS, a_pod("b"), "shop")
    with pytest.raises(MethodNotAllowed):
        await client.delete(PODS, "a", "shop")
    assert file.read_bytes() == before
    assert await names(client) == ["shop/a"]


async def test_a_subresource_and_a_document_of_the_server_are_not_there(write: Write) -> None:
    client = reading(write(a_pod("a")))
    for path in ("/api/v1/namespaces/shop/pods/a/log", "/version", "/openapi/v3"):
        with pytest.raises(NotFound, match="files hold objects, and no other documents"):
            await client.raw(Request("GET", path, (), {}))


async def test_a_definition_among_the_objects_says_the_plural(write: Write) -> None:
    sheep = {"apiVersion": "farm.example.com/v1", "kind": "Sheep", "metadata": {"name": "dolly", "namespace": "a"}}
    names = {"kind": "Sheep", "plural": "sheep"}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "sheep.farm.example.com"},
        "spec": {"group": "farm.example.com", "names": names, "versions": [{"name": "v1"}]},
    }
    assert (await reading(write(sheep)).list_all(SHEEP)).items == []  # they are taken for "sheeps"
    found = await reading(write(sheep, definition)).list_all(SHEEP)
    assert [each.metadata.name for each in found.items] == ["dolly"]
    flock = {"group": "zoo.example.com", "names": {"kind": "Sheep", "plural": "flock"}, "versions": [{"name": "v1"}]}
    other = {**definition, "spec": flock}
    found = await reading(write(sheep, definition, other, {**definition, "spec": "?"})).list_all(SHEEP)
    assert [each.metadata.name for each in found.items] == ["dolly"], "of its own group"


@pytest.mark.parametrize(
    ("kind", "plural"),
    [
        ("Pod", "pods"),
        ("StorageClass", "storageclasses"),
        ("NetworkPolicy", "networkpolicies"),
        ("Endpoints", "endpoints"),
        ("ResourceQuota", "resourcequotas"),
        ("VirtualMachineInstance", "virtualmachineinstances"),
    ],
)
def test_plural_names_without_a_definition(kind: str, plural: str) -> None:
    assert guess_plural(kind) == plural


async def test_several_files_and_folders_are_one_cluster(write: Write, tmp_path: Path) -> None:
    pods, more = write(a_pod("a"), name="pods.json"), write(a_pod("b"), name="folder/more.json")
    (more.parent / "third.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: c, namespace: shop}\n---\n"
        "apiVersion: v1\nkind: Pod\nmetadata: {name: d, namespace: shop}\n"
    )
    (more.parent / "notes.txt").write_text("no objects")
    assert await names(reading(pods, more.parent)) == ["shop/a", "shop/b", "shop/c", "shop/d"]


async def test_an_object_that_two_files_hold_counts_once_as_the_last_has_it(write: Write) -> None:
    old = write(a_pod("a", labels={"age": "old"}), a_pod("b"), name="1.json")
    new = write(a_pod("a", labels={"age": "new"}), name="2.json")
    (found, _) = (await reading(old, new).list_all(PODS)).items
    assert found.metadata.labels == {"age": "new"}
    assert await names(reading(old, new)) == ["shop/a", "shop/b"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param("", "the file is empty", id="empty"),
        pytest.param("---\n", "the file is empty", id="a separator alone"),
        pytest.param("# nothing\n", "the file is empty", id="a comment alone"),
        pytest.param('{"apiVersion": "v1", "kind": "List", "items": []}', "found no object", id="an empty List"),
        pytest.param("hello\n", 'found "hello", allowed: a Kubernetes object', id="text"),
        pytest.param("kind: Pod\n", "apiVersion: missing", id="half an object"),
    ],
)
def test_a_file_without_objects_is_refused_by_name(tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(content)
    with pytest.raises(WrongInput) as refused:
        reading(file)
    assert f"--objects {file}" in str(refused.value)
    assert said in str(refused.value)


async def test_an_empty_list_beside_objects_is_taken(write: Write) -> None:
    assert await names(reading(write(name="none.json"), write(a_pod("a"), name="pods.json"))) == ["shop/a"]


@pytest.mark.parametrize(("name", "said"), [("absent.yaml", "No such file"), ("folder", "the folder has no file")])
def test_what_cannot_be_read_is_named(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(WrongInput, match=f"--objects {tmp_path / name}: .*{said}"):
        reading(tmp_path / name)


async def test_closing_is_harmless(write: Write) -> None:
    client = reading(write(a_pod("a")))
    await client.close()
    assert await names(client) == ["shop/a"]
