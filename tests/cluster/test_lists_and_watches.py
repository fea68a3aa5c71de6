from __future__ import annotations

import pytest

from tests.cluster.asking import MAPS, PODS, TABLE, Cluster, config_map, events, pod

WATCHLIST = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan"


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def names(listed: dict[str, object]) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]  # type: ignore[attr-defined]


def test_pages_are_of_one_moment(cluster: Cluster) -> None:
    for name in "abcde":
        cluster.post(MAPS, config_map(name)).ok(201)
    first = cluster.get(f"{MAPS}?limit=2").ok()
    assert names(first) == ["a", "b"]
    assert first["metadata"]["remainingItemCount"] == 3
    cluster.delete(f"{MAPS}/d").ok()
    cluster.post(MAPS, config_map("cc")).ok(201)
    second = cluster.get(f"{MAPS}?limit=5&continue={first['metadata']['continue']}").ok()
    assert names(second) == ["c", "d", "e"]
    assert second["metadata"] == {"resourceVersion": first["metadata"]["resourceVersion"]}


def test_items_of_typed_lists_have_no_kind(cluster: Cluster) -> None:
    cluster.post(MAPS, config_map("a")).ok(201)
    listed = cluster.get(MAPS).ok()
    assert (listed["kind"], listed["apiVersion"]) == ("ConfigMapList", "v1")
    assert "kind" not in listed["items"][0]


def test_an_expired_token_offers_to_go_on_inconsistently(cluster: Cluster) -> None:
    for name in "abc":
        cluster.post(MAPS, config_map(name)).ok(201)
    token = cluster.get(f"{MAPS}?limit=1").ok()["metadata"]["continue"]
    cluster.post(MAPS, config_map("bb")).ok(201)
    cluster.api.store.compact()
    assert names(cluster.get(f"{MAPS}?continue={token}").ok()) == ["b", "c"]
    cluster.api.store.compact(pages=True)
    refused = cluster.get(f"{MAPS}?continue={token}").ok(410)
    assert refused["reason"] == "Expired"
    assert names(cluster.get(f"{MAPS}?continue={refused['metadata']['continue']}").ok()) == ["b", "bb", "c"]


@pytest.mark.parametrize(
    ("query", "code", "text"),
    [
        ("resourceVersion=99999", 504, "Timeout: Too large resource version: 99999, current: 8"),
        (
            "resourceVersion=x",
            400,
            'invalid resource version: resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": '
            "invalid syntax",
        ),
        ("limit=x", 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ("labelSelector=a===", 400, "unable to parse requirement: found '=', expected: identifier"),
        ("fieldSelector=a=b", 400, "field label not supported: a"),
        (
            "resourceVersionMatch=Exact",
            422,
            'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden '
            "unless resourceVersion is provided",
        ),
        (
            "sendInitialEvents=true",
            422,
            'ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for '
            "list",
        ),
    ],
)
def test_bad_lists_are_refused_in_upstreams_words(cluster: Cluster, query: str, code: int, text: str) -> None:
    assert cluster.get(f"{PODS}?{query}").ok(code)["message"] == text


def test_selectors(cluster: Cluster) -> None:
    cluster.post(PODS, pod("a", nodeName="n1")).ok(201)
    cluster.post(PODS, {**pod("b"), "metadata": {"name": "b", "labels": {"app": "b", "x": ""}}}).ok(201)
    for query, want in {
        "fieldSelector=spec.nodeName=n1": ["a"],
        "fieldSelector=spec.nodeName!=n1": ["b"],
        "fieldSelector=metadata.name=b,status.phase=Pending": ["b"],
        "labelSelector=app in (a,b),!x": ["a"],
        "labelSelector=x": ["b"],
        "labelSelector=app!=a": ["b"],
        "labelSelector=app notin (c)": ["a", "b"],
    }.items():
        assert names(cluster.get(f"{PODS}?{query}").ok()) == want, query
    assert "remainingItemCount" not in cluster.get(f"{PODS}?limit=1&labelSelector=app").ok()["metadata"]


def test_a_watch_goes_on_where_a_list_ended(cluster: Cluster) -> None:
    cluster.post(MAPS, config_map("a")).ok(201)
    revision = cluster.get(MAPS).ok()["metadata"]["resourceVersion"]
    cluster.post(MAPS, config_map("b")).ok(201)
    watch = cluster.watch(f"{MAPS}?resourceVersion={revision}")
    cluster.patch(f"{MAPS}/a", {"data": {"x": "y"}}).ok()
    cluster.delete(f"{MAPS}/b").ok()
    assert [(kind, obj["metadata"]["name"]) for kind, obj in events(watch)] == [
        ("ADDED", "b"),
        ("MODIFIED", "a"),
        ("DELETED", "b"),
    ]


def test_a_watchlist_ends_with_a_bookmark(cluster: Cluster) -> None:
    cluster.post(PODS, pod("a")).ok(201)
    watch = cluster.watch(f"{PODS}?{WATCHLIST}&allowWatchBookmarks=true")
    (added, first), (bookmark, end) = events(watch)
    assert (added, first["metadata"]["name"], bookmark) == ("ADDED", "a", "BOOKMARK")
    assert end == {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "resourceVersion": str(cluster.api.store.revision),
            "annotations": {"k8s.io/initial-events-end": "true"},
        },
        "spec": {"containers": None},
        "status": {},
    }
    assert events(cluster.watch(f"{PODS}?{WATCHLIST}"))[-1][0] == "ADDED"


def test_a_watch_from_too_long_ago_is_an_error_event(cluster: Cluster) -> None:
    revision = cluster.api.store.revision
    cluster.post(MAPS, config_map("a")).ok(201)
    cluster.api.store.compact()
    watch = cluster.watch(f"{MAPS}?resourceVersion={revision}")
    [(kind, status)] = events(watch)
    assert kind == "ERROR"
    assert (status["code"], status["reason"]) == (410, "Expired")
    assert watch.closed


def test_a_watch_from_the_future_is_silent_and_a_watchlist_refused(cluster: Cluster) -> None:
    future = cluster.api.store.revision + 2
    watch = cluster.watch(f"{MAPS}?resourceVersion={future}")
    for name in "abc":
        cluster.post(MAPS, config_map(name)).ok(201)
    assert [obj["metadata"]["name"] for _, obj in events(watch)] == ["c"]
    (kind, status), *_ = events(cluster.watch(f"{MAPS}?{WATCHLIST}&resourceVersion=99999"))
    assert (kind, status["code"], status["reason"]) == ("ERROR", 504, "Timeout")
    assert status["details"]["retryAfterSeconds"] == 1


def test_an_object_that_leaves_the_selector_is_deleted_for_the_watcher(cluster: Cluster) -> None:
    watch = cluster.watch(f"{PODS}?labelSelector=app=a&resourceVersion={cluster.api.store.revision}")
    cluster.post(PODS, pod("p")).ok(201)
    after = cluster.patch(f"{PODS}/p", {"metadata": {"labels": {"app": "b"}}}).ok()
    cluster.patch(f"{PODS}/p", {"metadata": {"labels": {"app": "a"}}}).ok()
    (_, _), (gone, old), (back, _) = events(watch)
    assert (gone, back) == ("DELETED", "ADDED")
    assert old["metadata"]["labels"] == {"app": "a"}
    assert old["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]


def test_bookmarks_come_each_minute_and_the_watch_ends_in_time(cluster: Cluster) -> None:
    watch = cluster.watch(f"{MAPS}?allowWatchBookmarks=true&timeoutSeconds=90&resourceVersion=0")
    events(watch)
    woken: list[int] = []
    watch.wake = lambda: woken.append(1)
    assert watch.tick(cluster.now) == cluster.now + 60
    assert watch.tick(cluster.now + 60) == cluster.now + 90
    assert [kind for kind, _ in events(watch)] == ["BOOKMARK"]
    watch.tick(cluster.now + 90)
    assert watch.closed
    assert woken == [1, 1]
    cluster.post(MAPS, config_map("late")).ok(201)
    assert events(watch) == []


def test_a_watcher_is_woken_once_until_it_takes(cluster: Cluster) -> None:
    watch = cluster.watch(f"{MAPS}?resourceVersion={cluster.api.store.revision}")
    watch.take()
    woken: list[int] = []
    watch.wake = lambda: woken.append(1)
    cluster.post(MAPS, config_map("a")).ok(201)
    cluster.post(MAPS, config_map("b")).ok(201)
    assert woken == [1]
    assert len(events(watch)) == 2
    cluster.post(MAPS, config_map("c")).ok(201)
    assert woken == [1, 1]


def test_tables(cluster: Cluster) -> None:
    cluster.post(PODS, pod("p", nodeName="n1")).ok(201)
    cluster.now += 3 * 3600 + 5 * 60
    table = cluster.get(PODS, accept=TABLE).ok()
    shown = [column["name"] for column in table["columnDefinitions"]]
    cells = dict(zip(shown, table["rows"][0]["cells"], strict=True))
    assert cells == {
        "Name": "p",
        "Ready": "0/1",
        "Status": "Pending",
        "Restarts": "0",
        "Age": "3h5m",
        "IP": "<none>",
        "Node": "n1",
        "Nominated Node": "<none>",
        "Readiness Gates": "<none>",
    }
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


def test_only_metadata(cluster: Cluster) -> None:
    cluster.post(PODS, pod("p")).ok(201)
    accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    shown = cluster.get(f"{PODS}/p", accept=accept).ok()
    assert shown.keys() == {"kind", "apiVersion", "metadata"}
    assert shown["metadata"]["managedFields"]


def test_protobuf_alone_is_refused_by_name(cluster: Cluster) -> None:
    refused = cluster.get(PODS, accept="application/vnd.kubernetes.protobuf").ok(406)
    assert "does not write protobuf" in refused["message"]
    assert cluster.get(PODS, accept="application/vnd.kubernetes.protobuf,application/json").code == 200
