"""Listing: pages, resourceVersions, selectors."""

from __future__ import annotations

import asyncio

import pytest

from tests.contract.api import Api, Json
from tests.contract.servers import Server, expire
from tests.contract.things import configmap, core, pod


async def filled(api: Api, namespace: str, count: int) -> list[str]:
    names = [f"c{number}" for number in range(count)]
    for name in names:
        (await api.post(core(namespace, "configmaps"), configmap(name, labels={"odd": str(int(name[1:]) % 2)}))).ok(201)
    return names


def names(listing: Json) -> list[str]:
    return [item["metadata"]["name"] for item in listing["items"]]


async def test_list(api: Api, namespace: str) -> None:
    expected = await filled(api, namespace, 3)
    listing = (await api.get(core(namespace, "configmaps"))).ok()
    assert (listing["kind"], listing["apiVersion"]) == ("ConfigMapList", "v1")
    assert names(listing) == expected
    assert set(listing["metadata"]) == {"resourceVersion"}
    # Items of a list carry neither kind nor apiVersion.
    assert all("kind" not in item and "apiVersion" not in item for item in listing["items"])


async def test_an_empty_list_is_a_list(api: Api, namespace: str) -> None:
    assert (await api.get(core(namespace, "configmaps"))).ok()["items"] == []


async def test_list_of_all_namespaces(api: Api, namespace: str) -> None:
    await filled(api, namespace, 2)
    listing = (await api.get("/api/v1/configmaps")).ok()
    assert [item["metadata"]["name"] for item in listing["items"] if item["metadata"]["namespace"] == namespace] == [
        "c0",
        "c1",
    ]


async def test_list_is_at_least_as_new_as_the_last_write(api: Api, namespace: str) -> None:
    for number in range(20):
        made = (await api.post(core(namespace, "configmaps"), configmap(f"c{number:02}"))).ok(201)
        listing = (await api.get(core(namespace, "configmaps"))).ok()
        assert len(listing["items"]) == number + 1
        assert int(listing["metadata"]["resourceVersion"]) >= int(made["metadata"]["resourceVersion"])


class TestPages:
    async def test_pages(self, api: Api, namespace: str) -> None:
        expected = await filled(api, namespace, 5)
        first = (await api.get(core(namespace, "configmaps"), limit=2)).ok()
        assert first["metadata"]["remainingItemCount"] == 3
        token = first["metadata"]["continue"]
        second = (await api.get(core(namespace, "configmaps"), limit=2, **{"continue": token})).ok()
        assert second["metadata"]["remainingItemCount"] == 1
        third = (
            await api.get(core(namespace, "configmaps"), limit=2, **{"continue": second["metadata"]["continue"]})
        ).ok()
        assert "continue" not in third["metadata"]
        assert "remainingItemCount" not in third["metadata"]
        assert names(first) + names(second) + names(third) == expected
        assert {page["metadata"]["resourceVersion"] for page in (first, second, third)} == {
            first["metadata"]["resourceVersion"]
        }

    async def test_later_pages_are_of_the_first_ones_time(self, api: Api, namespace: str) -> None:
        await filled(api, namespace, 4)
        first = (await api.get(core(namespace, "configmaps"), limit=2)).ok()
        (await api.post(core(namespace, "configmaps"), configmap("c9"))).ok(201)
        (await api.delete(core(namespace, "configmaps", "c3"))).ok()
        rest = (await api.get(core(namespace, "configmaps"), **{"continue": first["metadata"]["continue"]})).ok()
        assert names(rest) == ["c2", "c3"]

    async def test_an_exact_page_is_the_last(self, api: Api, namespace: str) -> None:
        await filled(api, namespace, 2)
        only = (await api.get(core(namespace, "configmaps"), limit=2)).ok()
        assert "continue" not in only["metadata"]

    async def test_version_zero_ignores_the_limit(self, api: Api, namespace: str) -> None:
        expected = await filled(api, namespace, 3)
        (await api.get(core(namespace, "configmaps"))).ok()  # a consistent read brings the server's cache up to date
        listing = (await api.get(core(namespace, "configmaps"), limit=1, resourceVersion=0)).ok()
        assert names(listing) == expected
        assert "continue" not in listing["metadata"]

    async def test_continue_with_a_version(self, api: Api, namespace: str) -> None:
        await filled(api, namespace, 3)
        first = (await api.get(core(namespace, "configmaps"), limit=2)).ok()
        answer = await api.get(
            core(namespace, "configmaps"),
            limit=2,
            resourceVersion=first["metadata"]["resourceVersion"],
            **{"continue": first["metadata"]["continue"]},
        )
        answer.refused(400, "BadRequest", "specifying resource version is not allowed when using continue", None)

    async def test_a_token_that_is_none(self, api: Api, namespace: str) -> None:
        answer = await api.get(core(namespace, "configmaps"), limit=2, **{"continue": "nonsense"})
        answer.refused(400, "BadRequest", "invalid continue token: continue key is not valid: …", ...)

    async def test_remaining_items_with_a_label_selector(self, api: Api, namespace: str) -> None:
        await filled(api, namespace, 6)
        page = (await api.get(core(namespace, "configmaps"), limit=1, labelSelector="odd=1")).ok()
        assert "continue" in page["metadata"]
        assert "remainingItemCount" not in page["metadata"]

    async def test_remaining_items_with_a_field_selector(self, api: Api, namespace: str) -> None:
        for name in "abc":
            (await api.post(core(namespace, "pods"), pod(name))).ok(201)
        page = (await api.get(core(namespace, "pods"), limit=1, fieldSelector="status.phase=Pending")).ok()
        assert "continue" in page["metadata"]
        assert "remainingItemCount" not in page["metadata"]

    async def test_tokens_outlive_a_compaction(self, api: Api, server: Server, namespace: str) -> None:
        await filled(api, namespace, 4)
        first = (await api.get(core(namespace, "configmaps"), limit=2)).ok()
        await asyncio.to_thread(server.compact_history)
        rest = (await api.get(core(namespace, "configmaps"), **{"continue": first["metadata"]["continue"]})).ok()
        assert names(rest) == ["c2", "c3"]

    async def test_an_expired_token(self, api: Api, server: Server, namespace: str) -> None:
        await filled(api, namespace, 5)
        first = (await api.get(core(namespace, "configmaps"), limit=2)).ok()
        await expire(api, server)
        answer = await api.get(core(namespace, "configmaps"), limit=2, **{"continue": first["metadata"]["continue"]})
        body = answer.refused(
            410,
            "Expired",
            "The provided continue parameter is too old to display a consistent list result. You can start a new list "
            "without the continue parameter, or use the continue token in this response to retrieve the remainder of "
            "the results. Continuing with the provided token results in an inconsistent list - objects that were "
            "created, modified, or deleted between the time the first chunk was returned and now may show up "
            "in the list.",
        )
        rest = (await api.get(core(namespace, "configmaps"), **{"continue": body["metadata"]["continue"]})).ok()
        assert names(rest) == ["c2", "c3", "c4"]


class TestVersions:
    async def test_not_older_than(self, api: Api, namespace: str) -> None:
        made = (await api.post(core(namespace, "configmaps"), configmap("c"))).ok(201)["metadata"]
        listing = (await api.get(core(namespace, "configmaps"), resourceVersion=made["resourceVersion"])).ok()
        assert names(listing) == ["c"]

    async def test_exact(self, api: Api, namespace: str) -> None:
        made = (await api.post(core(namespace, "configmaps"), configmap("c"))).ok(201)["metadata"]
        (await api.post(core(namespace, "configmaps"), configmap("d"))).ok(201)
        listing = (
            await api.get(
                core(namespace, "configmaps"),
                resourceVersion=made["resourceVersion"],
                resourceVersionMatch="Exact",
            )
        ).ok()
        assert names(listing) == ["c"]
        assert listing["metadata"]["resourceVersion"] == made["resourceVersion"]

    async def test_exact_of_zero(self, api: Api, namespace: str) -> None:
        answer = await api.get(core(namespace, "configmaps"), resourceVersion=0, resourceVersionMatch="Exact")
        answer.refused(
            422,
            "Invalid",
            'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is '
            'forbidden for resourceVersion "0"',
            ...,
        )

    async def test_match_without_a_version(self, api: Api, namespace: str) -> None:
        answer = await api.get(core(namespace, "configmaps"), resourceVersionMatch="Exact")
        answer.refused(
            422,
            "Invalid",
            'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden '
            "unless resourceVersion is provided",
            ...,
        )

    async def test_bad(self, api: Api, namespace: str) -> None:
        answer = await api.get(core(namespace, "configmaps"), resourceVersion="abc")
        answer.refused(
            400,
            "BadRequest",
            'invalid resource version: resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing '
            '"abc": invalid syntax',
            None,
        )

    async def test_out_of_range(self, api: Api, namespace: str) -> None:
        many = "9" * 5000
        answer = await api.get(core(namespace, "configmaps"), resourceVersion=many)
        answer.refused(
            400,
            "BadRequest",
            f'invalid resource version: resourceVersion: Invalid value: "{many}": strconv.ParseUint: parsing '
            f'"{many}": value out of range',
            None,
        )

    async def test_future(self, api: Api, namespace: str) -> None:
        answer = await api.get(core(namespace, "configmaps"), resourceVersion=99999999)
        answer.refused(504, "Timeout", "Timeout: Too large resource version: 99999999, current: …", ...)
        assert answer.headers["Retry-After"] == "1"
        details = answer.body["details"]
        assert details["retryAfterSeconds"] == 1
        assert [cause["reason"] for cause in details["causes"]] == ["ResourceVersionTooLarge"]

    async def test_exact_and_expired(self, api: Api, server: Server, namespace: str) -> None:
        made = (await api.post(core(namespace, "configmaps"), configmap("c"))).ok(201)["metadata"]
        (await api.post(core(namespace, "configmaps"), configmap("d"))).ok(201)
        await expire(api, server)
        answer = await api.get(
            core(namespace, "configmaps"), resourceVersion=made["resourceVersion"], resourceVersionMatch="Exact"
        )
        answer.refused(410, "Expired", "The resourceVersion for the provided list is too old.")


class TestSelectors:
    @pytest.mark.parametrize(
        ("selector", "want"),
        [
            ("app=a", ["p1"]),
            ("app==a", ["p1"]),
            ("app!=a", ["p2", "p3"]),
            ("app in (a,b)", ["p1", "p2"]),
            ("app notin (a)", ["p2", "p3"]),
            ("app", ["p1", "p2"]),
            ("!app", ["p3"]),
            ("app,tier=x", ["p2"]),
            ("size>3", ["p2"]),
            ("size<3", ["p1"]),
            ("", ["p1", "p2", "p3"]),
        ],
    )
    async def test_labels(self, api: Api, namespace: str, selector: str, want: list[str]) -> None:
        for name, labels in {
            "p1": {"app": "a", "size": "2"},
            "p2": {"app": "b", "tier": "x", "size": "5"},
            "p3": {},
        }.items():
            (await api.post(core(namespace, "configmaps"), configmap(name, labels=labels))).ok(201)
        assert names((await api.get(core(namespace, "configmaps"), labelSelector=selector)).ok()) == want

    async def test_bad_labels(self, api: Api, namespace: str) -> None:
        answer = await api.get(core(namespace, "configmaps"), labelSelector="a in b")
        answer.refused(400, "BadRequest", "unable to parse requirement: found 'b' expected: '('")

    @pytest.mark.parametrize(
        ("selector", "want"),
        [
            ("metadata.name=p1", ["p1"]),
            ("metadata.name!=p1", ["p2"]),
            ("spec.nodeName=n", ["p2"]),
            ("spec.nodeName=", ["p1"]),
            ("status.phase=Pending", ["p1", "p2"]),
            ("spec.schedulerName=other", []),
            ("spec.nodeName=n,status.phase=Pending", ["p2"]),
        ],
    )
    async def test_fields(self, api: Api, namespace: str, selector: str, want: list[str]) -> None:
        (await api.post(core(namespace, "pods"), pod("p1"))).ok(201)
        (await api.post(core(namespace, "pods"), pod("p2", nodeName="n"))).ok(201)
        assert names((await api.get(core(namespace, "pods"), fieldSelector=selector)).ok()) == want

    async def test_an_unknown_field(self, api: Api, namespace: str) -> None:
        answer = await api.get(core(namespace, "pods"), fieldSelector="spec.colour=red")
        answer.refused(
            400,
            "BadRequest",
            "field label not supported: spec.colour",
        )
