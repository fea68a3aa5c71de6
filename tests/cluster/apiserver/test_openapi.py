"""The documents that kubectl asks for: complete, with fieldValidation and custom kinds, hashes that follow content."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from situate.cluster.apiserver import openapi
from situate.cluster.kinds.schemas.catalog import published_data
from situate.objects.messages import Response
from tests.cluster.asking import Cluster
from tests.cluster.kinds.structural.test_schema import definition


def references(value: Any) -> set[str]:
    if isinstance(value, list):
        return set().union(*map(references, value)) if value else set()
    if not isinstance(value, dict):
        return set()
    own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
    return own.union(*map(references, value.values()))


@pytest.mark.parametrize("path", [*published_data()["paths"], "apis/ex.dev/v1"])
def test_every_reference_of_a_document_leads_somewhere(path: str) -> None:
    document = openapi.document(path, [definition()])
    assert document is not None
    known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert references(document) <= known


def test_the_old_document_is_empty_and_refused_in_json() -> None:
    cluster = Cluster()
    protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    empty = cluster.api.answer(cluster.request("GET", "/openapi/v2", headers={"accept": protobuf}), cluster.now)
    assert isinstance(empty, Response)
    assert (empty.status, empty.body) == (200, openapi.EMPTY_SWAGGER)
    refused = cluster.get("/openapi/v2", accept="application/json").ok(406)
    assert "use /openapi/v3" in refused["message"]


@pytest.mark.parametrize(
    ("path", "resource", "kind"),
    [
        ("api/v1", "/api/v1/namespaces/{namespace}/pods/{name}", "Pod"),
        ("apis/ex.dev/v1", "/apis/ex.dev/v1/namespaces/{namespace}/widgets/{name}", "Widget"),
    ],
)
def test_a_patch_says_that_it_takes_field_validation(path: str, resource: str, kind: str) -> None:
    """kubectl decides by this parameter whether the server validates."""
    document = openapi.document(path, [definition()])
    assert document is not None
    patch = document["paths"][resource]["patch"]
    assert patch["x-kubernetes-group-version-kind"]["kind"] == kind
    assert "fieldValidation" in {parameter["name"] for parameter in patch["parameters"]}


def test_a_custom_kind_is_described_with_its_metadata() -> None:
    document = openapi.document("apis/ex.dev/v1", [definition()])
    assert document is not None
    kind = document["components"]["schemas"]["dev.ex.v1.Widget"]
    assert kind["x-kubernetes-group-version-kind"] == [{"group": "ex.dev", "kind": "Widget", "version": "v1"}]
    assert kind["properties"].keys() == {"apiVersion", "kind", "metadata", "spec", "status"}


def test_discovery_lists_custom_groups_and_hashes_their_content() -> None:
    changed = copy.deepcopy(definition())
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "changed"
    before, after = openapi.discovery([definition()])["paths"], openapi.discovery([changed])["paths"]
    assert before["apis/ex.dev/v1"] != after["apis/ex.dev/v1"]
    assert before["api/v1"] == after["api/v1"]
    assert before["api/v1"]["serverRelativeURL"].startswith("/openapi/v3/api/v1?hash=")


def test_nothing_is_published_for_groups_that_are_not_served() -> None:
    assert openapi.document("apis/nothing/v1", [definition()]) is None
