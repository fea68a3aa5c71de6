from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.kube.watch.store import Store
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.pods import Pod


def pod(name: str, namespace: str = "default", version: int = 1, **labels: str) -> Pod:
    meta = ObjectMeta(name, namespace, uid=f"{namespace}-{name}", resource_version=str(version), labels=labels)
    return Pod(metadata=meta)


def names(pods: object) -> list[str]:
    return [each.metadata.name for each in pods]  # type: ignore[attr-defined]  # an iterable of pods


Told = list[tuple[str | None, str | None]]


def listening(store: Store[Pod]) -> Told:
    told: Told = []

    def handler(old: Pod | None, new: Pod | None) -> None:
        told.append((old.metadata.resource_version if old else None, new.metadata.resource_version if new else None))

    store.on_change(handler)
    return told


def test_handlers_are_told_old_and_new() -> None:
    store = Store[Pod]("pods")
    store.put(pod("early", version=1))
    told = listening(store)
    store.put(pod("a", version=2))
    store.put(pod("a", version=3))
    store.remove("a", "default")
    store.remove("a", "default")
    assert told == [(None, "1"), (None, "2"), ("2", "3"), ("3", None)]


def test_a_new_listing_tells_only_differences() -> None:
    store = Store[Pod]("pods")
    store.replace([pod("a", version=1), pod("b", version=2), pod("c", version=3)])
    told = listening(store)
    told.clear()
    store.replace([pod("b", version=2), pod("c", version=9), pod("d", version=10)])
    assert told == [("3", "9"), (None, "10"), ("1", None)]
    assert names(store.list()) == ["b", "c", "d"]


def test_an_object_made_anew_with_equal_version_is_a_change() -> None:
    store = Store[Pod]("pods")
    store.replace([pod("a")])
    told = listening(store)
    store.replace([Pod(metadata=ObjectMeta("a", "default", uid="other", resource_version="1"))])
    assert told == [(None, "1"), ("1", "1")]


def test_a_failing_handler_is_counted_and_stops_nobody() -> None:
    store = Store[Pod]("pods")

    def broken(old: Pod | None, new: Pod | None) -> None:
        raise ZeroDivisionError

    store.on_change(broken)
    told = listening(store)
    store.put(pod("a"))
    assert told == [(None, "1")]
    assert store.handler_failures == 1


def test_a_snapshot_does_not_change() -> None:
    store = Store[Pod]("pods")
    store.put(pod("a"))
    store.put(pod("x", "other"))
    before = store.snapshot()
    store.put(pod("a", version=2))
    store.put(pod("b"))
    store.remove("x", "other")
    assert names(before) == ["a", "x"]
    assert (len(before), len(store), len(store.snapshot())) == (2, 2, 2)
    kept = before.get("a", "default")
    assert kept is not None
    assert kept.metadata.resource_version == "1"
    assert before.get("b", "default") is None
    assert names(before.in_namespace("other")) == ["x"]


def test_an_index_groups_by_every_value() -> None:
    store = Store[Pod]("pods")
    store.put(pod("a", app="web"))
    store.add_index("label", lambda each: each.metadata.labels.values())
    store.put(pod("b", app="web", zone="z"))
    assert names(store.by_index("label", "web")) == ["a", "b"]
    store.put(pod("a", version=2, app="db"))
    assert names(store.by_index("label", "web")) == ["b"]
    store.remove("b", "default")
    assert list(store.index_values("label")) == ["db"]
    with pytest.raises(ValueError, match="already has an index label"):
        store.add_index("label", lambda each: [])


STEP = st.tuples(st.sampled_from(["put", "put", "remove", "replace", "snapshot"]), st.integers(0, 5), st.integers(0, 2))


@given(st.lists(STEP, max_size=40), st.integers(0, 999))
def test_reads_equal_a_plain_dict_after_any_steps(steps: list[tuple[str, int, int]], seed: int) -> None:
    rng = random.Random(seed)
    store, plain = Store[Pod]("pods"), dict[tuple[str, str], Pod]()
    told: dict[tuple[str, str], Pod] = {}

    def handler(old: Pod | None, new: Pod | None) -> None:
        seen = new or old
        assert seen is not None
        key = (seen.metadata.namespace, seen.metadata.name)
        assert told.get(key) is old
        if new is None:
            del told[key]
        else:
            told[key] = new

    store.on_change(handler)
    store.add_index("app", lambda each: [each.metadata.labels["app"]])
    frozen: list[tuple[object, dict[tuple[str, str], Pod]]] = []
    for version, (what, number, group) in enumerate(steps, start=1):
        name, namespace = str(number), f"ns{number % 2}"
        if what == "put":
            plain[namespace, name] = pod(name, namespace, version, app=str(group))
            store.put(plain[namespace, name])
        elif what == "remove":
            plain.pop((namespace, name), None)
            store.remove(name, namespace)
        elif what == "replace":
            for key in [key for key in plain if rng.random() < 0.3]:
                del plain[key]
            store.replace(plain.values())
        else:
            frozen.append((store.snapshot(), dict(plain)))
    assert {(each.metadata.namespace, each.metadata.name): each for each in store.list()} == plain == told
    for app in "012":
        want = {each.metadata.name for each in plain.values() if each.metadata.labels["app"] == app}
        assert set(names(store.by_index("app", app))) == want
    for snapshot, then in frozen:
        assert sorted(names(snapshot)) == sorted(name for _, name in then)
