"""Server-side apply as laws: idempotent, undone by applying nothing, owners exact; the rest is in test_recorded."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.cluster.errors.field_errors import Refused
from situate.cluster.kinds.schemas import Schema, built_in_schema
from situate.cluster.kinds.schemas.custom import custom_schema
from situate.cluster.patch.fieldmanager import ManagerIdentity, reset_fields, server_side_apply, update_managers
from situate.cluster.patch.fieldmanager_creation import created_fields
from situate.cluster.patch.fieldmanager_paths import format_path, from_fields_v1, to_fields_v1
from situate.cluster.patch.fieldmanager_values import compare

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"


def schema_of(kind: str = "ConfigMap") -> Schema:
    schema = built_in_schema("v1", kind)
    assert schema is not None
    return schema


def writer(name: str, time: str = NOW, subresource: str = "") -> ManagerIdentity:
    return ManagerIdentity(name, "v1", time, subresource)


def config(data: dict[str, str], **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", **metadata}, "data": data}


def accepted(outcome: dict[str, Any] | Refused) -> dict[str, Any]:
    assert not isinstance(outcome, Refused), outcome
    return outcome


DATA = st.dictionaries(st.sampled_from("abcd"), st.sampled_from("123"))


@given(DATA, DATA)
def test_applying_twice_is_applying_once(live: dict[str, str], applied: dict[str, str]) -> None:
    obj = config(live)
    obj["metadata"]["managedFields"] = update_managers(None, obj, schema_of(), writer("u"))
    once = accepted(server_side_apply(obj, config(applied), schema_of(), writer("a"), force=True))
    assert accepted(server_side_apply(once, config(applied), schema_of(), writer("a", LATER), force=True)) == once


@given(DATA, DATA)
def test_applying_nothing_takes_back_what_was_applied(live: dict[str, str], applied: dict[str, str]) -> None:
    obj = config(live)
    obj["metadata"]["managedFields"] = update_managers(None, obj, schema_of(), writer("u"))
    fresh = {key: value for key, value in applied.items() if key not in live}
    with_it = accepted(server_side_apply(obj, config(fresh), schema_of(), writer("a")))
    without = accepted(server_side_apply(with_it, config({}), schema_of(), writer("a")))
    assert without["data"] == live
    assert [entry["manager"] for entry in without["metadata"]["managedFields"]] in ([], ["u"], ["a"], ["a", "u"])


@given(DATA, DATA)
def test_without_force_only_others_fields_conflict(live: dict[str, str], applied: dict[str, str]) -> None:
    obj = config(live)
    obj["metadata"]["managedFields"] = update_managers(None, obj, schema_of(), writer("u"))
    disputed = sorted(key for key, value in applied.items() if key in live and live[key] != value)
    outcome = server_side_apply(obj, config(applied), schema_of(), writer("a"))
    if not disputed:
        assert accepted(outcome)["data"] == {**live, **applied}
        return
    assert isinstance(outcome, Refused)
    assert (outcome.code, outcome.reason) == (409, "Conflict")
    assert [cause["field"] for cause in outcome.details["causes"]] == [f".data.{key}" for key in disputed]
    assert {cause["reason"] for cause in outcome.details["causes"]} == {"FieldManagerConflict"}


POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "labels": {"a": "b"}, "finalizers": ["x/y"], "annotations": {}},
    "spec": {
        "containers": [
            {
                "name": "b",
                "image": "i",
                "resources": {},
                "ports": [{"containerPort": 80}, {"containerPort": 9, "protocol": "UDP"}],
            },
            {"name": "a", "env": [{"name": "E", "value": "1"}], "command": ["x"]},
        ],
        "nodeSelector": {"k": "v"},
        "affinity": {"nodeAffinity": {}},
        "tolerations": [{"key": "k"}],
    },
    "status": {"phase": "Pending"},
}


def test_the_short_way_of_a_creation_gives_what_a_comparison_gives() -> None:
    schema = schema_of("Pod")
    reset = reset_fields("Pod", "", has_status=True)
    empty = {"metadata": {}, "spec": {"containers": None}, "status": {}}
    difference = compare(empty, POD, schema)
    slow = {path for path in difference.added | difference.modified if path[0] != "f:status" and len(path) > 1}
    unowned = {("f:metadata", "f:name")}
    assert created_fields(POD, empty, schema, reset) == to_fields_v1(slow - unowned)


@given(DATA)
def test_field_sets_survive_the_way_through_fields_v1(data: dict[str, str]) -> None:
    paths = compare({}, config(data), schema_of()).added
    assert from_fields_v1(to_fields_v1(paths)) == frozenset(paths)


def test_an_updated_field_changes_hands_and_a_removed_one_has_no_owner() -> None:
    obj = config({"a": "1", "b": "1"})
    obj["metadata"]["managedFields"] = update_managers(None, obj, schema_of(), writer("u"))
    new = copy.deepcopy(obj)
    new["data"] = {"a": "2"}
    entries = update_managers(obj, new, schema_of(), writer("v", LATER))
    owned = {entry["manager"]: entry["fieldsV1"] for entry in entries}
    assert owned == {"u": {"f:data": {}}, "v": {"f:data": {"f:a": {}}}}


def test_a_status_write_is_an_entry_of_its_own_and_owns_no_spec() -> None:
    schema = schema_of("Pod")
    new = copy.deepcopy(POD)
    live = copy.deepcopy(POD)
    live["metadata"]["managedFields"] = update_managers(None, live, schema, writer("u"), reset_fields("Pod", "", True))
    new["status"]["phase"], new["spec"]["nodeName"] = "Running", "n"
    entries = update_managers(
        live, new, schema, writer("kubelet", LATER, "status"), reset_fields("Pod", "status", True)
    )
    entry = next(entry for entry in entries if entry["manager"] == "kubelet")
    assert (entry["subresource"], entry["fieldsV1"]) == ("status", {"f:status": {"f:phase": {}}})


def test_an_update_of_an_untracked_object_leaves_it_untracked() -> None:
    assert update_managers(config({"a": "1"}), config({"a": "2"}), schema_of(), writer("u")) == []


def test_the_first_apply_to_an_untracked_object_gives_the_rest_to_before_first_apply() -> None:
    after = accepted(server_side_apply(config({"a": "1", "b": "1"}), config({"a": "1"}), schema_of(), writer("a")))
    assert [entry["manager"] for entry in after["metadata"]["managedFields"]] == ["a", "before-first-apply"]


def test_a_writer_that_sends_an_empty_list_stops_the_tracking() -> None:
    obj = config({"a": "1"})
    obj["metadata"]["managedFields"] = update_managers(None, obj, schema_of(), writer("u"))
    new = config({"a": "2"}, managedFields=[])
    assert update_managers(obj, new, schema_of(), writer("u")) == []


def test_beyond_ten_updaters_the_oldest_are_folded() -> None:
    obj = config({"k0": "0"})
    obj["metadata"]["managedFields"] = update_managers(None, obj, schema_of(), writer("u00"))
    for number in range(1, 14):
        new = copy.deepcopy(obj)
        new["data"][f"k{number}"] = "1"
        new["metadata"]["managedFields"] = update_managers(
            obj, new, schema_of(), writer(f"u{number:02}", f"2026-01-01T00:{number:02}:00Z")
        )
        obj = new
    entries = obj["metadata"]["managedFields"]
    assert len(entries) == 10
    assert entries[0]["manager"] == "ancient-changes"
    owned = set().union(*(from_fields_v1(entry["fieldsV1"]) for entry in entries))
    assert {path[-1] for path in owned} == {"f:data", *(f"f:k{number}" for number in range(14))}


def test_lists_of_custom_resources_merge_as_their_schema_says() -> None:
    items = {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}}
    keyed = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": items}
    spec = {"type": "object", "properties": {"keyed": keyed, "whole": {"type": "array", "items": items}}}
    schema = custom_schema({"type": "object", "properties": {"spec": spec}})

    def widget(spec: dict[str, Any]) -> dict[str, Any]:
        return {"apiVersion": "ex.dev/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec}

    a, b = ManagerIdentity("a", "ex.dev/v1", NOW), ManagerIdentity("b", "ex.dev/v1", NOW)
    first = accepted(server_side_apply(None, widget({"keyed": [{"k": "x", "v": 1}], "whole": [{"k": "x"}]}), schema, a))
    second = accepted(server_side_apply(first, widget({"keyed": [{"k": "y", "v": 2}]}), schema, b))
    assert second["spec"]["keyed"] == [{"k": "x", "v": 1}, {"k": "y", "v": 2}]
    refused = server_side_apply(second, widget({"whole": [{"k": "z"}]}), schema, b)
    assert isinstance(refused, Refused)
    assert refused.details["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "a"', "field": ".spec.whole"}
    ]


@pytest.mark.parametrize(
    ("path", "want"),
    [
        (("f:spec", 'k:{"name":"a","n":1}', "f:x"), '.spec[name="a",n=1].x'),
        (("f:finalizers", 'v:"a/b"'), '.finalizers[="a/b"]'),
        (("f:list", "i:3"), ".list[3]"),
    ],
)
def test_paths_are_shown_as_in_conflicts(path: tuple[str, ...], want: str) -> None:
    assert format_path(path) == want
