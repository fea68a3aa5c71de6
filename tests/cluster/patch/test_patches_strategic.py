"""Strategic merge patches: the lists and maps of pods and services, directive by directive, and computed patches."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.cluster.errors.field_errors import Refused
from situate.cluster.kinds.schemas import built_in_schema
from situate.cluster.patch.patches_strategic import strategic_merge_patch


def patched(document: dict[str, Any], patch: Any, kind: str = "Pod") -> Any:
    schema = built_in_schema("v1", kind)
    assert schema is not None
    return strategic_merge_patch(document, patch, schema)


def containers(*items: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"containers": list(items)}}


A, B, C = {"name": "a", "image": "1"}, {"name": "b", "image": "1"}, {"name": "c", "image": "1"}


@pytest.mark.parametrize(
    ("document", "patch", "want"),
    [
        pytest.param(
            containers(A, B),
            containers({"name": "b", "image": "2"}),
            containers(A, {"name": "b", "image": "2"}),
            id="items merge by name",
        ),
        pytest.param(containers(A), containers(B), containers(B, A), id="a new item leads"),
        pytest.param(
            containers(A, B), containers({"name": "a", "$patch": "delete"}), containers(B), id="delete one item"
        ),
        pytest.param(containers(A, B), containers(C, {"$patch": "replace"}), containers(C), id="replace a list"),
        pytest.param(
            {"spec": {"nodeSelector": {"x": "1", "y": "2"}}},
            {"spec": {"nodeSelector": {"$patch": "replace", "z": "3"}}},
            {"spec": {"nodeSelector": {"z": "3"}}},
            id="replace a map",
        ),
        pytest.param(
            {"spec": {"nodeSelector": {"x": "1"}}},
            {"spec": {"nodeSelector": {"$patch": "delete"}}},
            {"spec": {"nodeSelector": {}}},
            id="empty a map",
        ),
        pytest.param(
            {"spec": {"tolerations": [{"key": "a"}]}},
            {"spec": {"tolerations": [{"key": "b"}]}},
            {"spec": {"tolerations": [{"key": "b"}]}},
            id="tolerations are replaced",
        ),
        pytest.param(
            {"metadata": {"finalizers": ["a/b", "c/d"]}},
            {"metadata": {"finalizers": ["e/f", "a/b"]}},
            {"metadata": {"finalizers": ["e/f", "a/b", "c/d"]}},
            id="primitive lists unite",
        ),
        pytest.param(
            {"metadata": {"finalizers": ["a/b", "c/d"]}},
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/b"]}},
            {"metadata": {"finalizers": ["c/d"]}},
            id="delete from a primitive list",
        ),
        pytest.param(
            containers(A, B, C),
            {
                "spec": {
                    "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}],
                    "containers": [{"name": "a", "image": "2"}],
                }
            },
            containers(B, C, {"name": "a", "image": "2"}),
            id="the order given, the server's own between",
        ),
        pytest.param(
            {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}},
            {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}},
            {"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]}},
            id="retain keys drops the other source",
        ),
        pytest.param(
            {"metadata": {"labels": {"a": "b"}}},
            {"metadata": {"labels": {"a": None, "c": "d"}}},
            {"metadata": {"labels": {"c": "d"}}},
            id="null removes",
        ),
        pytest.param(
            {},
            {"metadata": {"labels": {"a": None, "c": "d"}}},
            {"metadata": {"labels": {"c": "d"}}},
            id="null where nothing was",
        ),
    ],
)
def test_patches_that_apply(document: dict[str, Any], patch: dict[str, Any], want: dict[str, Any]) -> None:
    before, given_patch = copy.deepcopy(document), copy.deepcopy(patch)
    assert patched(document, patch) == want
    assert (document, patch) == (before, given_patch)


@pytest.mark.parametrize(
    ("patch", "code", "message"),
    [
        ("x", 400, "json: cannot unmarshal string into Go value of type map[string]interface {}"),
        ({"data": {"$patch": "foo"}}, 500, "unknown patch type: foo in map: map[$patch:foo]"),
        (
            {"metadata": {"$setElementOrder/ownerReferences": [{"uid": "a"}], "ownerReferences": [{"uid": "zz"}]}},
            500,
            "The order in patch list:\n[map[uid:zz]]\n doesn't match $setElementOrder list:\n[map[uid:a]]\n",
        ),
        ({"$retainKeys": ["metadata"], "data": {}}, 500, "invalid patch format of retainKeys"),
        (
            {"metadata": {"ownerReferences": [{"kind": "x"}]}},
            500,
            "map: map[kind:x] does not contain declared merge key: uid",
        ),
    ],
)
def test_patches_that_contradict_themselves(patch: Any, code: int, message: str) -> None:
    document = {"metadata": {"ownerReferences": [{"uid": "a"}]}, "data": {"k": "v"}}
    outcome = patched(document, patch, "ConfigMap")
    assert isinstance(outcome, Refused)
    assert (outcome.code, outcome.message) == (code, message)


NAMES = st.sampled_from("abcd")
CONTAINERS = st.lists(
    st.fixed_dictionaries({"name": NAMES, "image": st.sampled_from("123")}), unique_by=lambda item: item["name"]
)
LABELS = st.dictionaries(st.sampled_from("xyz"), st.sampled_from("12"))
PODS = st.fixed_dictionaries(
    {"metadata": st.fixed_dictionaries({"labels": LABELS}), "spec": st.fixed_dictionaries({"containers": CONTAINERS})}
)


@given(PODS, PODS)
def test_a_computed_patch_reaches_its_target(source: dict[str, Any], target: dict[str, Any]) -> None:
    assert patched(source, computed(source, target)) == target


def computed(source: dict[str, Any], target: dict[str, Any]) -> dict[str, Any]:
    """As kubectl's client-side apply computes it: changes, deletions by directive, and the order."""
    old, new = source["spec"]["containers"], target["spec"]["containers"]
    kept = [item["name"] for item in new]
    gone = [{"name": item["name"], "$patch": "delete"} for item in old if item["name"] not in kept]
    labels = {key: None for key in source["metadata"]["labels"] if key not in target["metadata"]["labels"]}
    return {
        "metadata": {"labels": {**labels, **target["metadata"]["labels"]}},
        "spec": {"$setElementOrder/containers": [{"name": name} for name in kept], "containers": [*new, *gone]},
    }


@given(PODS, PODS)
def test_a_patch_without_deletions_is_idempotent(source: dict[str, Any], patch: dict[str, Any]) -> None:
    once = patched(source, patch)
    assert patched(once, patch) == once
