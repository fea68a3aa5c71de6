from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.cluster.storage.store import Event, Expired, Store
from situate.cluster.storage.stored_object import encode_object, parse_managed_fields


def thing(name: str, value: int = 0, namespace: str = "n") -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "uid": f"u-{name}", "labels": {"v": str(value)}}
    return {"kind": "Thing", "apiVersion": "v1", "metadata": metadata, "value": value}


def test_revisions_count_every_change_of_every_resource() -> None:
    store = Store()
    first = store.put("things", thing("a"))
    second = store.put("others", thing("b"))
    gone = store.remove("things", "n", "a")
    assert [first.revision, second.revision, gone.revision] == [2, 3, 4]
    assert store.get("things", "n", "a") is None
    assert store.get("others", "n", "b") == second


def test_an_object_shows_its_revision_and_its_managers() -> None:
    entries = [{"manager": "m", "operation": "Update", "apiVersion": "v1", "time": "t", "fieldsV1": {"f:value": {}}}]
    store = Store()
    kept = store.put("things", thing("a", 7), managed=parse_managed_fields(entries))
    shown = json.loads(kept.json())
    assert shown["metadata"]["resourceVersion"] == "2"
    assert shown["metadata"]["managedFields"] == [{**entries[0], "fieldsType": "FieldsV1"}]
    assert shown["value"] == 7
    assert "managedFields" not in kept.object()["metadata"]


def test_a_deletion_shows_the_old_object_at_the_new_revision() -> None:
    store = Store()
    store.put("things", thing("a", 3))
    last = store.remove("things", "n", "a").last
    assert json.loads(last.json()) == {
        **thing("a", 3),
        "metadata": {**thing("a", 3)["metadata"], "resourceVersion": "3"},
    }


def test_keys_come_in_etcds_order_and_by_namespace() -> None:
    store = Store()
    for namespace, name in (("b", "x"), ("a", "z"), ("a-b", "y"), ("a", "a")):
        store.put("things", thing(name, namespace=namespace))
    table = store.table("things")
    assert table.keys() == ["a-b/y", "a/a", "a/z", "b/x"]
    assert table.keys("a") == ["a/a", "a/z"]


def test_listeners_hear_of_changes_in_order_before_the_write_returns() -> None:
    store = Store()
    heard: list[tuple[str, int]] = []
    stop = store.subscribe(lambda event: heard.append((event.type, event.revision)))
    store.put("things", thing("a"))
    store.put("things", thing("a", 1))
    store.remove("things", "n", "a")
    stop()
    store.put("things", thing("b"))
    assert heard == [("ADDED", 2), ("MODIFIED", 3), ("DELETED", 4)]


def test_the_log_forgets_what_leaves_its_window() -> None:
    store = Store(window=2)
    for value in range(4):
        store.put("things", thing("a", value))
    table = store.table("things")
    assert [event.revision for event in table.events_since(3)] == [4, 5]
    with pytest.raises(Expired, match=r"too old resource version: 2 \(3\)"):
        table.events_since(2)


def test_compaction_ends_watches_but_not_lists_unless_asked() -> None:
    store = Store()
    store.put("things", thing("a", 1))
    store.put("things", thing("a", 2))
    table = store.table("things")
    store.compact()
    with pytest.raises(Expired):
        table.events_since(2)
    assert table.objects_at(2)["n/a"].object()["value"] == 1
    store.compact(pages=True)
    with pytest.raises(Expired):
        table.objects_at(2)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.integers(0, 9))), max_size=30))
def test_the_past_can_be_seen_as_it_was(changes: list[tuple[str, int | None]]) -> None:
    store = Store(window=1000)
    history: dict[int, dict[str, int]] = {store.revision: {}}
    now: dict[str, int] = {}
    for name, value in changes:
        if value is not None:
            store.put("things", thing(name, value))
            now[name] = value
        elif name in now:
            store.remove("things", "n", name)
            del now[name]
        history[store.revision] = dict(now)
    table = store.table("things")
    for revision, then in history.items():
        assert {obj.name: obj.object()["value"] for obj in table.objects_at(revision).values()} == then


@given(st.integers(1, 10**9), st.integers(1, 10**9))
def test_a_revision_can_be_replaced_whatever_its_length(first: int, second: int) -> None:
    obj = encode_object(thing("a", 5), first)
    again = obj.with_revision(second)
    assert again == encode_object(thing("a", 5), second)


def test_equal_labels_are_kept_once() -> None:
    store = Store()
    one, other = store.put("things", thing("a")), store.put("things", thing("b"))
    assert one.labels is other.labels


def test_an_event_builds_a_frame_once() -> None:
    built: list[int] = []

    def build() -> bytes:
        built.append(1)
        return b"x"

    event = Event("ADDED", "things", 1, None, encode_object(thing("a"), 1))
    assert event.frame("k", build) == event.frame("k", build) == b"x"
    assert built == [1]
