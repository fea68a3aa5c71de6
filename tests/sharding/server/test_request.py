"""What a request asks for, from its path, parameters and Accept header alone."""

from __future__ import annotations

import pytest

from situate.archive.operations.object_reader import Selection
from situate.objects.messages import Request
from situate.objects.resources import unstructured
from situate.objects.reviews.authorization import NonResourceAttributes, ResourceAttributes
from situate.objects.selection.field_selectors import parse_field_selector
from situate.runtime.serving.status_answers import Declined
from situate.sharding.server.discovery import ServedResource, discovery_document
from situate.sharding.server.request import Document, Form, Get, Include, List, ParsedRequest, Shape, parse_request

pytestmark = pytest.mark.rule("sharding:K11")
REPORTS = ServedResource(unstructured("x.io", "v1", "Report", "reports"), {"name": "reports"})
POOLS = ServedResource(unstructured("x.io", "v1", "Pool", "pools", namespaced=False), {"name": "pools"})
WHOLE = Shape(Form.WHOLE)


def of(path: str, *query: tuple[str, str], accept: str = "") -> ParsedRequest:
    return parse_request(Request("GET", path, query, {"accept": accept} if accept else {}), (REPORTS, POOLS))


@pytest.mark.parametrize(
    ("path", "want"),
    [
        ("/apis/x.io/v1/reports", List(REPORTS, Selection(), None, "", WHOLE)),
        ("/apis/x.io/v1/namespaces/ns/reports", List(REPORTS, Selection("ns"), None, "", WHOLE)),
        ("/apis/x.io/v1/namespaces/ns/reports/a", Get(REPORTS, "ns", "a", "", WHOLE)),
        ("/apis/x.io/v1/pools", List(POOLS, Selection(), None, "", WHOLE)),
        ("/apis/x.io/v1/pools/a", Get(POOLS, "", "a", "", WHOLE)),
        ("/apis/x.io/v1", Document("/apis/x.io/v1")),
        ("/", Document("/")),
    ],
)
def test_a_path_names_an_object_a_list_or_a_document(path: str, want: ParsedRequest) -> None:
    assert of(path) == want


@pytest.mark.parametrize(
    "path",
    ["/apis/x.io/v1/namespaces/ns/pools", "/apis/x.io/v1/namespaces/ns/pools/a", "/apis/x.io/v1/pools/a/status",
     "/apis/x.io/v1/namespaces//reports", "/apis/x.io/v1/namespaces/ns", "/apis/x.io/v1/reports/"],
)  # fmt: skip
def test_other_paths_are_none(path: str) -> None:
    with pytest.raises(Declined) as refused:
        of(path)
    assert refused.value.code == 404


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", Form.WHOLE),
        ("*/*", Form.WHOLE),
        ("application/json", Form.WHOLE),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Form.TABLE),
        ("application/json; as=Table; g=meta.k8s.io; v=v1beta1, application/json; charset=utf-8", Form.WHOLE),
        ("application/vnd.kubernetes.protobuf,application/json", Form.WHOLE),
    ],
)
def test_the_first_form_that_can_be_written(accept: str, form: Form) -> None:
    found = of("/apis/x.io/v1/reports", ("includeObject", "None"), accept=accept)
    assert isinstance(found, List)
    assert found.shape == Shape(form, Include.NONE)


@pytest.mark.parametrize(
    ("fields", "name"),
    [("metadata.name=a", "a"), ("metadata.name=a,metadata.name=b", ""), ("metadata.name!=a", ""), ("spec.a=b", "")],
)
def test_who_asks_for_one_name_needs_that_name_only(fields: str, name: str) -> None:
    found = of("/apis/x.io/v1/namespaces/ns/reports", ("fieldSelector", fields), ("limit", "0"))
    assert isinstance(found, List)
    assert (found.selection.fields, found.limit) == (parse_field_selector(fields), None)
    assert found.action == ResourceAttributes("ns", "list", "x.io", "v1", "reports", "", name)


def test_documents_are_paths_to_whoever_may_read_them() -> None:
    found = of("/apis")
    assert isinstance(found, Document)
    assert found.action == NonResourceAttributes("/apis", "get")
    assert discovery_document("/apis/y.io", (REPORTS,)) is None
    assert discovery_document("/apis/x.io/v2", (REPORTS,)) is None
