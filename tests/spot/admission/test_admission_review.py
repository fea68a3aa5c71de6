"""Every review gets an answer that API servers take; what is not the creation of a pod is admitted as it is."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from situate.objects.reviews.admission import NoReview
from situate.spot.admission.admission_review import IgnoredReview, PodReview, encode_reply, read_review

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "web-", "namespace": "shop"}, "spec": {}}
PODS = {"group": "", "version": "v1", "resource": "pods"}


def review(request: dict[str, Any] | None = None, **top: Any) -> dict[str, Any]:
    asked = {
        "uid": "u-1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": PODS,
        "operation": "CREATE",
        "namespace": "shop",
        "userInfo": {"username": "system:admin"},
        "object": POD,
        "oldObject": None,
        "dryRun": False,
        **(request or {}),
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked, **top}


def read(content: Any) -> PodReview | IgnoredReview | NoReview:
    return read_review(json.dumps(content).encode())


def test_the_creation_of_a_pod_is_read() -> None:
    found = read(review({"dryRun": True}))
    assert isinstance(found, PodReview)
    assert (found.uid, found.request.namespace, found.request.dry_run) == ("u-1", "shop", True)
    assert found.request.pod == POD
    assert found.request.name == ""


@pytest.mark.rule("spot:P3", "spot:P27")
@pytest.mark.parametrize(
    ("content", "why"),
    [
        pytest.param(review(apiVersion="admission.k8s.io/v1beta1"), "v1beta1", id="an old version"),
        pytest.param(review(apiVersion="admission.k8s.io/v2"), "v2", id="a version to come"),
        pytest.param(review(apiVersion="v1"), '"v1"', id="no version of reviews"),
        pytest.param(review(kind="Pod"), '"Pod"', id="another kind of document"),
        pytest.param(review({"object": None}), "no object", id="no object"),
        pytest.param(review({"object": []}), "no object", id="an object that is a list"),
        pytest.param(review({"object": {**POD, "kind": "Deployment"}}), "Deployment", id="an object of another kind"),
        pytest.param(review({"operation": "DELETE"}), "DELETE", id="a deletion"),
        pytest.param(review({"operation": "UPDATE"}), "UPDATE", id="an update"),
        pytest.param(review({"subResource": "eviction"}), "pods/eviction", id="an eviction"),
        pytest.param(
            review({"resource": {"group": "apps", "version": "v1", "resource": "deployments"}}),
            "deployments",
            id="another resource",
        ),
        pytest.param(review({"dryRun": "yes"}), "a field of the AdmissionReview", id="a field of another type"),
        pytest.param(review({"resource": 7}), "a field of the AdmissionReview", id="a number for the resource"),
    ],
)
def test_anything_else_is_passed_with_its_own_uid(content: Any, why: str) -> None:
    found = read(content)
    assert isinstance(found, IgnoredReview)
    assert found.uid == "u-1"
    assert why in found.why
    answer = json.loads(encode_reply(found))
    assert answer["response"] == {"uid": "u-1", "allowed": True}


def test_the_answer_is_of_the_version_that_was_asked() -> None:
    for version in ("admission.k8s.io/v1", "admission.k8s.io/v1beta1"):
        found = read(review(apiVersion=version))
        assert not isinstance(found, NoReview)
        assert json.loads(encode_reply(found))["apiVersion"] == version


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"<html>", id="no JSON"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b"{}", id="an empty object"),
        pytest.param(b'{"request":null}', id="no request"),
        pytest.param(b'{"request":{"uid":7}}', id="a uid that is a number"),
        pytest.param(b"\xff\xfe{", id="no UTF-8"),
        pytest.param(b"[" * 100_000, id="nested without end"),
        pytest.param(b'{"request":{"uid":"u","object":' + b'{"a":' * 100_000, id="an object nested without end"),
    ],
)
def test_what_names_no_question_is_no_review(body: bytes) -> None:
    assert isinstance(read_review(body), NoReview)


def test_a_nested_object_in_a_whole_review_has_an_answer() -> None:
    deep = "[" * 100_000 + "]" * 100_000
    body = json.dumps(review({"object": "HERE"})).replace('"HERE"', deep).encode()
    assert not isinstance(read_review(body), PodReview)


def test_three_mebibytes_are_read() -> None:
    found = read(review({"object": {**POD, "metadata": {"annotations": {"a": "x" * 3 * 2**20}}}}))
    assert isinstance(found, PodReview)


@pytest.mark.rule("spot:P27")
def test_a_patch_is_sent_as_api_servers_read_it() -> None:
    found = read(review())
    assert isinstance(found, PodReview)
    operations = [{"op": "add", "path": "/metadata/labels", "value": {"spot.situate.dev/class": "spot"}}]
    response = json.loads(encode_reply(found, operations, ["mind this"]))["response"]
    assert (response["uid"], response["allowed"], response["patchType"]) == ("u-1", True, "JSONPatch")
    assert json.loads(base64.b64decode(response["patch"])) == operations
    assert response["warnings"] == ["mind this"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
mutated = st.builds(
    lambda field, value: review({field: value}),
    st.sampled_from(
        ["kind", "resource", "subResource", "operation", "namespace", "name", "object", "oldObject", "dryRun"]
    ),
    json_values,
)


@given(mutated | st.builds(lambda value: review(apiVersion=value), json_values))
@example(review({"namespace": None}))
def test_a_review_with_a_uid_is_always_answered(content: dict[str, Any]) -> None:
    found = read(content)
    assert not isinstance(found, NoReview)
    answer = json.loads(encode_reply(found))
    assert answer["response"] == {"uid": "u-1", "allowed": True}
    assert answer["kind"] == "AdmissionReview"


@given(st.binary() | json_values.map(lambda value: json.dumps(value).encode()))
def test_no_bytes_are_too_strange(body: bytes) -> None:
    read_review(body)
