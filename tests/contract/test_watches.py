"""Watching: order, starts, ends, bookmarks, selectors."""

from __future__ import annotations

from typing import ClassVar

import pytest

from tests.contract.api import Api, Json
from tests.contract.held import HeldWatch
from tests.contract.servers import Server, expire
from tests.contract.things import configmap, core, pod
from tests.contract.waiting import eventually


async def version(api: Api, namespace: str) -> str:
    return str((await api.get(core(namespace, "configmaps"))).ok()["metadata"]["resourceVersion"])


def seen(events: list[Json]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


async def test_events_in_order(api: Api, namespace: str) -> None:
    start = await version(api, namespace)
    made = (await api.post(core(namespace, "configmaps"), configmap("a"))).ok(201)
    changed = (await api.patch(core(namespace, "configmaps", "a"), {"data": {"x": "1"}})).ok()
    (await api.delete(core(namespace, "configmaps", "a"))).ok()
    async with api.watch(core(namespace, "configmaps"), resourceVersion=start) as watch:
        assert watch.status == 200
        added, modified, deleted = await watch.take(3)
    assert added == {"type": "ADDED", "object": made}
    assert modified == {"type": "MODIFIED", "object": changed}
    assert deleted["type"] == "DELETED"
    assert deleted["object"]["data"] == {"x": "1"}
    # A deleted object comes in its last state, with the version of its deletion.
    assert int(deleted["object"]["metadata"]["resourceVersion"]) > int(changed["metadata"]["resourceVersion"])


async def test_events_carry_kind_and_version(api: Api, namespace: str) -> None:
    start = await version(api, namespace)
    async with api.watch(core(namespace, "configmaps"), resourceVersion=start) as watch:
        (await api.post(core(namespace, "configmaps"), configmap("a"))).ok(201)
        event = await watch.next()
    assert (event["object"]["kind"], event["object"]["apiVersion"]) == ("ConfigMap", "v1")


async def test_without_a_version_it_begins_with_what_is_there(api: Api, namespace: str) -> None:
    for name in "ab":
        (await api.post(core(namespace, "configmaps"), configmap(name))).ok(201)
    async with api.watch(core(namespace, "configmaps")) as watch:
        assert sorted(seen(await watch.take(2))) == [("ADDED", "a"), ("ADDED", "b")]
        (await api.post(core(namespace, "configmaps"), configmap("c"))).ok(201)
        assert seen([await watch.next()]) == [("ADDED", "c")]


async def test_writes_that_change_nothing_are_no_events(api: Api, namespace: str) -> None:
    made = (await api.post(core(namespace, "configmaps"), configmap("a", {"x": "1"}))).ok(201)
    start = made["metadata"]["resourceVersion"]
    async with api.watch(core(namespace, "configmaps"), resourceVersion=start) as watch:
        same = (await api.patch(core(namespace, "configmaps", "a"), {"data": {"x": "1"}})).ok()
        assert same["metadata"]["resourceVersion"] == start
        assert (await api.put(core(namespace, "configmaps", "a"), made)).ok() == made
        (await api.post(core(namespace, "configmaps"), configmap("b"))).ok(201)
        assert seen([await watch.next()]) == [("ADDED", "b")]


async def test_timeout_ends_the_watch(api: Api, namespace: str) -> None:
    async with api.watch(core(namespace, "configmaps"), timeoutSeconds=1) as watch:
        assert await watch.rest() == []


async def test_a_bookmark_comes_before_the_end(api: Api, namespace: str) -> None:
    """If there was anything since the start, in its last two seconds, which a server may spend without a processor."""
    query: Json = {"timeoutSeconds": 4, "allowWatchBookmarks": True, "fieldSelector": "metadata.name=nobody"}
    start = await version(api, namespace)

    async def told() -> list[Json]:
        async with api.watch(core(namespace, "configmaps"), resourceVersion=start, **query) as watch:
            (await api.post(core(namespace, "configmaps"), {"metadata": {"generateName": "somebody-"}})).ok(201)
            return await watch.rest()

    events = await eventually(told)
    assert {event["type"] for event in events} == {"BOOKMARK"}
    assert int(events[0]["object"]["metadata"]["resourceVersion"]) > int(start)
    assert "annotations" not in events[0]["object"]["metadata"]


@pytest.mark.verify
async def test_bookmarks_come_about_once_a_minute(api: Api, held: HeldWatch) -> None:
    """On a watch that has no time-out, if there was anything. Seldom is it begun by this test, and waited for."""

    async def heard() -> list[float]:
        (await api.post(core("default", "configmaps"), {"metadata": {"generateName": "somebody-"}})).ok(201)
        return list(held.after_s)

    assert min(await eventually(heard)) > 50


async def test_one_name(api: Api, namespace: str) -> None:
    start = await version(api, namespace)
    async with api.watch(
        core(namespace, "configmaps"), resourceVersion=start, fieldSelector="metadata.name=b"
    ) as watch:
        for name in "abc":
            (await api.post(core(namespace, "configmaps"), configmap(name))).ok(201)
        (await api.patch(core(namespace, "configmaps", "b"), {"data": {"x": "1"}})).ok()
        assert seen(await watch.take(2)) == [("ADDED", "b"), ("MODIFIED", "b")]


async def test_leaving_and_entering_a_selector(api: Api, namespace: str) -> None:
    start = await version(api, namespace)
    (await api.post(core(namespace, "configmaps"), configmap("a", {"x": "1"}, labels={"app": "web"}))).ok(201)
    left = (
        await api.patch(core(namespace, "configmaps", "a"), {"metadata": {"labels": {"app": "db"}}, "data": {"x": "2"}})
    ).ok()
    (await api.patch(core(namespace, "configmaps", "a"), {"data": {"x": "3"}})).ok()
    back = (await api.patch(core(namespace, "configmaps", "a"), {"metadata": {"labels": {"app": "web"}}})).ok()
    async with api.watch(core(namespace, "configmaps"), resourceVersion=start, labelSelector="app=web") as watch:
        added, deleted, again = await watch.take(3)
    assert added["type"] == "ADDED"
    # The old object, as it was when it still matched, with the version of the change.
    assert deleted["type"] == "DELETED"
    assert deleted["object"]["data"] == {"x": "1"}
    assert deleted["object"]["metadata"]["labels"] == {"app": "web"}
    assert deleted["object"]["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]
    assert again == {"type": "ADDED", "object": back}


async def test_fields_as_they_change(api: Api, namespace: str, host: str) -> None:
    start = (await api.get(core(namespace, "pods"))).ok()["metadata"]["resourceVersion"]
    (await api.post(core(namespace, "pods"), pod("p"))).ok(201)
    body = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": host}}
    (await api.post(core(namespace, "pods", "p", "binding"), body)).ok(201)
    async with api.watch(
        core(namespace, "pods"), resourceVersion=start, fieldSelector=f"spec.nodeName={host}"
    ) as watch:
        assert seen([await watch.next()]) == [("ADDED", "p")]
    async with api.watch(core(namespace, "pods"), resourceVersion=start, fieldSelector="spec.nodeName=") as watch:
        assert seen(await watch.take(2)) == [("ADDED", "p"), ("DELETED", "p")]


async def test_an_old_version(api: Api, server: Server, namespace: str) -> None:
    start = await version(api, namespace)
    (await api.post(core(namespace, "configmaps"), configmap("a"))).ok(201)
    await expire(api, server)
    (await api.post(core(namespace, "configmaps"), configmap("b"))).ok(201)
    async with api.watch(core(namespace, "configmaps"), resourceVersion=start) as watch:
        assert watch.status == 200
        event = await watch.next()
        assert event["type"] == "ERROR"
        status = event["object"]
        assert (status["kind"], status["status"], status["reason"], status["code"]) == (
            "Status",
            "Failure",
            "Expired",
            410,
        )
        assert status["message"].startswith("too old resource version: ")
        assert await watch.rest() == []


async def test_a_future_version_is_silent(api: Api, namespace: str) -> None:
    async with api.watch(core(namespace, "configmaps"), resourceVersion=99999999) as watch:
        assert watch.status == 200
        assert await watch.silent(1.0)


async def test_a_bad_version(api: Api, namespace: str) -> None:
    answer = await api.get(core(namespace, "configmaps"), watch=True, resourceVersion="abc")
    assert answer.status == 500
    assert (
        answer.body["message"]
        == 'resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax'
    )


class TestWatchList:
    """sendInitialEvents: a listing that comes as events, with a bookmark at its end."""

    QUERY: ClassVar[Json] = {"sendInitialEvents": True, "resourceVersionMatch": "NotOlderThan"}

    async def test_initial_events_end_with_a_bookmark(self, api: Api, namespace: str) -> None:
        for name in "ab":
            (await api.post(core(namespace, "pods"), pod(name))).ok(201)
        newest = (await api.get(core(namespace, "pods"))).ok()["metadata"]["resourceVersion"]
        async with api.watch(core(namespace, "pods"), allowWatchBookmarks=True, **self.QUERY) as watch:
            events = await watch.until("BOOKMARK")
            assert seen(events[:-1]) == [("ADDED", "a"), ("ADDED", "b")]
            end = events[-1]["object"]
            assert int(end["metadata"].pop("resourceVersion")) >= int(newest)
            assert end == {
                "kind": "Pod",
                "apiVersion": "v1",
                "metadata": {"annotations": {"k8s.io/initial-events-end": "true"}},
                "spec": {"containers": None},
                "status": {},
            }
            (await api.post(core(namespace, "pods"), pod("c"))).ok(201)
            assert seen([await watch.next()]) == [("ADDED", "c")]

    async def test_an_empty_start(self, api: Api, namespace: str) -> None:
        async with api.watch(core(namespace, "configmaps"), allowWatchBookmarks=True, **self.QUERY) as watch:
            end = await watch.next()
        assert end["type"] == "BOOKMARK"
        assert end["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}

    @pytest.mark.parametrize("start", [{}, {"resourceVersion": 0}], ids=["from nowhere", "from 0"])
    async def test_a_watch_without_a_start_is_one_as_well(self, api: Api, namespace: str, start: Json) -> None:
        (await api.post(core(namespace, "configmaps"), configmap("a"))).ok(201)
        await version(api, namespace)  # a consistent read brings the server's cache up to date, where 0 begins
        async with api.watch(core(namespace, "configmaps"), allowWatchBookmarks=True, **start) as watch:
            assert (await watch.next())["type"] == "ADDED"
            end = await watch.next()
        assert (end["type"], end["object"]["metadata"]["annotations"]) == (
            "BOOKMARK",
            {"k8s.io/initial-events-end": "true"},
        )

    async def test_without_bookmarks_the_end_is_not_told(self, api: Api, namespace: str) -> None:
        (await api.post(core(namespace, "configmaps"), configmap("a"))).ok(201)
        async with api.watch(core(namespace, "configmaps"), **self.QUERY) as watch:
            assert seen([await watch.next()]) == [("ADDED", "a")]
            assert await watch.silent(1.0)

    async def test_a_bookmark_is_a_place_to_go_on(self, api: Api, namespace: str) -> None:
        async with api.watch(core(namespace, "configmaps"), allowWatchBookmarks=True, **self.QUERY) as watch:
            end = await watch.next()
        (await api.post(core(namespace, "configmaps"), configmap("a"))).ok(201)
        start = end["object"]["metadata"]["resourceVersion"]
        async with api.watch(core(namespace, "configmaps"), resourceVersion=start) as watch:
            assert seen([await watch.next()]) == [("ADDED", "a")]

    async def test_a_future_version(self, api: Api, namespace: str) -> None:
        async with api.watch(
            core(namespace, "configmaps"), allowWatchBookmarks=True, resourceVersion=99999999, **self.QUERY
        ) as watch:
            assert watch.status == 200
            event = await watch.next()
            assert event["type"] == "ERROR"
            assert event["object"].pop("message").startswith("Timeout: Too large resource version: 99999999, current: ")
            assert event["object"] == {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Failure",
                "reason": "Timeout",
                "details": {
                    "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
                    "retryAfterSeconds": 1,
                },
                "code": 504,
            }
            assert await watch.rest() == []

    async def test_it_needs_a_match(self, api: Api, namespace: str) -> None:
        answer = await api.get(core(namespace, "configmaps"), watch=True, sendInitialEvents=True)
        answer.refused(
            422,
            "Invalid",
            'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents '
            "requires setting "
            "resourceVersionMatch to NotOlderThan",
            ...,
        )

    async def test_it_is_for_watches_only(self, api: Api, namespace: str) -> None:
        answer = await api.get(core(namespace, "configmaps"), **self.QUERY)
        assert (answer.status, answer.body["reason"]) == (422, "Invalid")
        assert "sendInitialEvents is forbidden for list" in answer.body["message"]
