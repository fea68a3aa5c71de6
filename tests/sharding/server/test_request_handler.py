"""The read-through server as its clients see it: who may ask, what is found, and every no as a Status."""

from __future__ import annotations

import json
from typing import Any

import pytest
from structlog.testing import capture_logs

from situate.archive.protocol import ArchiveRefused, ArchiveUnavailable
from situate.archive.records.query import Page, Query
from situate.archive.records.record import ByName, ByUid, Record
from situate.archive.stores.memory import MemoryArchiver
from situate.kube.errors import Unreachable
from situate.objects.messages import Request, Response
from situate.runtime.serving.access import TTL_S
from situate.testing.sharding.world.reports import GROUP
from tests.sharding.server.scene import EVERYWHERE, REPORTS, Scene, archived, scene_of

pytestmark = [pytest.mark.rule("sharding:K11"), pytest.mark.rule("sharding:X18")]
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def names(told: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in told["items"]]


def verdicts(scene: Scene, *answers: bool) -> list[dict[str, Any]]:
    """Has the API server's next reviews of access answer so, the last one for ever; what it was asked."""
    asked: list[dict[str, Any]] = []

    def intercept(request: Request) -> Response | None:
        if request.path != REVIEWS:
            return None
        asked.append(json.loads(request.body)["spec"])
        allowed = answers[min(len(asked), len(answers)) - 1]
        status = {"allowed": allowed, "reason": "" if allowed else "no rule allows it"}
        body = {"kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "status": status}
        return Response(201, json.dumps(body).encode(), {})

    scene.api.intercept = intercept
    return asked


async def test_a_live_object_wins_and_an_archived_one_is_found_where_it_is_not_live() -> None:
    scene = await scene_of(archived("live-1", "old"), archived("gone", "g", ago_s=9), archived("gone", "h", ago_s=90))
    assert (await scene.told(f"{REPORTS}/live-1"))["metadata"]["uid"] == scene.live["live-1"]["metadata"]["uid"]
    assert await scene.told(f"{REPORTS}/gone") == archived("gone", "g").object
    assert (await scene.told(f"{REPORTS}/gone", {"uid": "h"}))["metadata"]["uid"] == "h"
    assert (await scene.told(f"{REPORTS}/live-1", {"uid": "old"}))["metadata"]["uid"] == "old"


async def test_what_is_nowhere_is_not_found_and_head_says_so_too() -> None:
    scene = await scene_of(archived("gone", "g"))
    status = await scene.refused(404, f"{REPORTS}/nobody")
    assert status["message"] == 'reports.batch.example.com "nobody" not found'
    assert status["details"] == {"name": "nobody", "group": GROUP, "kind": "reports"}
    for name, code in (("nobody", 404), ("gone", 200), ("live-1", 200)):
        assert (await scene.ask(f"{REPORTS}/{name}", method="HEAD")).status == code
    assert (await scene.ask(f"{REPORTS}/gone", method="HEAD", token="stranger")).status == 401


@pytest.mark.parametrize("limit", ["", "1", "2", "3", "500"])
async def test_a_list_is_the_union_with_selectors_and_paging_over_both(limit: str) -> None:
    scene = await scene_of(
        archived("gone", "g", team="red"),
        archived("gone-2", "g2", team="blue", ago_s=70),
        archived("far", "f", namespace="ns2", team="red", ago_s=80),
    )
    live = scene.live["live-1"]
    await scene.archiver.put(replace_uid(archived("live-1", "x", team="red"), live))  # type: ignore[union-attr]  # there is one
    wanted = {
        (REPORTS, ""): ["live-1", "live-2", "gone", "gone-2"],
        (EVERYWHERE, ""): ["live-1", "live-2", "other", "gone", "gone-2", "far"],
        (EVERYWHERE, "labelSelector=team in (red)"): ["live-1", "other", "gone", "far"],
        (REPORTS, "fieldSelector=spec.assignedTo=ex-blue"): ["live-2", "gone-2"],
        (EVERYWHERE, "fieldSelector=metadata.name!=live-1,metadata.namespace=ns1"): ["live-2", "gone", "gone-2"],
        (REPORTS, "fieldSelector=metadata.name=gone"): ["gone"],
    }
    for (path, selector), want in wanted.items():
        key, _, value = selector.partition("=")
        query = {key: value} if key else {}
        if limit:
            query["limit"] = limit
        found: list[str] = []
        page: dict[str, Any] = {"metadata": {"continue": ""}}
        while True:
            page = await scene.told(path, query | {"continue": page["metadata"].get("continue", "")})
            assert (page["kind"], page["apiVersion"]) == ("ReportList", f"{GROUP}/v1")
            assert not limit or len(page["items"]) <= int(limit)
            found += names(page)
            if "continue" not in page["metadata"]:
                break
        assert found == want


def replace_uid(record: Record, live: dict[str, Any]) -> Record:
    """The record of the live object, which is archived and not yet deleted."""
    uid = live["metadata"]["uid"]
    return archived(record.subject.name, uid, team="red") if uid else record


@pytest.mark.parametrize(
    ("query", "code", "said"),
    [
        ({"limit": "-1"}, 400, "limit: found '-1'"),
        ({"limit": "1" * 30}, 400, "limit: found"),
        ({"continue": "nonsense"}, 400, "continue: found"),
        ({"labelSelector": "a==b==c"}, 400, "label selector"),
        ({"fieldSelector": "status.unknown=1"}, 400, "field label not supported"),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "7"}, 400, "keeps no past states"),
        ({"includeObject": "Everything"}, 400, "includeObject"),
        ({"watch": "true"}, 405, "does not support watch"),
        ({"watch": "1", "limit": "5"}, 405, "does not support watch"),
    ],
)
async def test_what_cannot_be_asked_is_refused_by_name(query: dict[str, str], code: int, said: str) -> None:
    scene = await scene_of(archived("gone", "g"))
    assert said in (await scene.refused(code, REPORTS, query))["message"]
    assert (await scene.ask(REPORTS, query, method="HEAD")).status == code


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (f"/apis/{GROUP}/v1/watch/reports", 405),
        (f"{REPORTS}/gone/status", 404),
        (f"{REPORTS}/gone/status/more", 404),
        (f"/apis/{GROUP}/v1/namespaces/ns1/others", 404),
        (f"/apis/{GROUP}/v2/namespaces/ns1/reports", 404),
        ("/api/v1/namespaces/ns1/secrets", 404),
        ("/api/v1/namespaces/ns1/secrets/s", 404),
        (f"{EVERYWHERE}/gone", 404),
        (f"{REPORTS}/..", 404),
        (f"{REPORTS}/../../../../api/v1/secrets", 404),
        (f"{REPORTS}/%2e%2e", 404),
        (f"{REPORTS}/", 404),
        ("/openapi/v3", 404),
        ("/metrics", 404),
        pytest.param("/api/v1/namespaces/ns1", 403, id="kubectl takes a 404 for the answer to what it asked before"),
    ],
)
async def test_nothing_else_is_served(path: str, code: int) -> None:
    scene = await scene_of(archived("gone", "g"))
    await scene.refused(code, path)
    assert not any(scene.api.asked(part) for part in ("secrets", "..", "%")), "nothing is asked that may lead elsewhere"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_nothing_is_written(method: str) -> None:
    scene = await scene_of(archived("gone", "g"))
    assert "is read-only" in (await scene.refused(405, f"{REPORTS}/gone", method=method))["message"]


@pytest.mark.parametrize("authorization", ["", "Bearer ", "Bearer stranger", "Basic YTpi", "Bearer " + "x" * 100_000])
async def test_who_is_not_known_is_told_nothing(authorization: str) -> None:
    scene = await scene_of(archived("gone", "g"))
    headers = {"authorization": authorization} if authorization else {}
    for path in (f"{REPORTS}/gone", REPORTS, "/apis", "/version", "/api/v1/secrets"):
        answer = await scene.answering.answer(Request("GET", path, (), headers))
        assert answer.status == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")
    assert not scene.api.asked("namespaces/ns1/reports")
    assert (await scene.ask("/healthz", token="")).body == b"ok"


async def test_the_api_server_is_asked_about_that_user_and_that_action() -> None:
    scene = await scene_of(archived("gone", "g"))
    asked = verdicts(scene, False)
    attributes = {"verb": "get", "group": GROUP, "version": "v1", "resource": "reports", "namespace": "ns1"}
    for path, query, want in (
        (f"{REPORTS}/gone", {}, attributes | {"name": "gone"}),
        (REPORTS, {}, attributes | {"verb": "list"}),
        (REPORTS, {"fieldSelector": "metadata.name=gone"}, attributes | {"verb": "list", "name": "gone"}),
        (EVERYWHERE, {}, {key: value for key, value in attributes.items() if key != "namespace"} | {"verb": "list"}),
    ):
        status = await scene.refused(403, path, query)
        assert 'User "alice" cannot' in status["message"]
        assert "no rule allows it" in status["message"]
        assert asked[-1]["resourceAttributes"] == want
        who = {key: value for key, value in asked[-1].items() if key != "resourceAttributes"}
        extra = {"example.com/team": ["red"]}
        assert who == {"user": "alice", "uid": "a1", "groups": ["system:authenticated"], "extra": extra}
    await scene.refused(403, f"/apis/{GROUP}/v1")
    assert asked[-1]["nonResourceAttributes"] == {"path": f"/apis/{GROUP}/v1", "verb": "get"}
    assert not scene.api.asked("namespaces/ns1/reports"), "nothing is read for who may not"


async def test_a_no_is_asked_anew_and_a_yes_after_some_seconds() -> None:
    scene = await scene_of(archived("gone", "g"))
    asked = verdicts(scene, False, True)
    await scene.refused(403, f"{REPORTS}/gone")
    await scene.told(f"{REPORTS}/gone")
    scene.now += TTL_S - 1
    await scene.told(f"{REPORTS}/gone")
    assert len(asked) == 2, "a yes is remembered"
    verdicts(scene, False)
    await scene.told(f"{REPORTS}/gone")
    scene.now += 1
    await scene.refused(403, f"{REPORTS}/gone")
    reviews = scene.api.asked("tokenreviews")
    scene.now += 1
    await scene.refused(403, f"{REPORTS}/gone")
    assert scene.api.asked("tokenreviews") == reviews, "whose a token is, too"


async def test_nobody_is_impersonated() -> None:
    scene = await scene_of(archived("gone", "g"))
    await scene.refused(403, f"{REPORTS}/gone", impersonate_user="root")


async def test_an_api_server_that_cannot_be_asked_lets_nobody_in() -> None:
    scene = await scene_of(archived("gone", "g"))
    scene.api.intercept = lambda request: Unreachable("no route", outcome_unknown=False)
    assert (await scene.ask(f"{REPORTS}/gone")).headers["retry-after"] == "5"
    await scene.refused(503, f"{REPORTS}/gone")


@pytest.mark.parametrize(
    ("status", "reason", "want"),
    [
        (403, "Forbidden", 500),
        (401, "Unauthorized", 500),
        (429, "TooManyRequests", 429),
        (410, "Expired", 410),
        (500, "", 503),
    ],
)
async def test_a_failure_to_read_what_is_live_is_no_missing_object(status: int, reason: str, want: int) -> None:
    scene = await scene_of(archived("gone", "g"))
    await scene.told(f"{REPORTS}/gone")
    body = {"kind": "Status", "reason": reason, "code": status, "message": "no"}
    said = Response(status, json.dumps(body).encode(), {})
    scene.api.intercept = lambda request: said if request.path.startswith(REPORTS) else None
    await scene.refused(want, f"{REPORTS}/gone")
    await scene.refused(want, REPORTS)


@pytest.mark.parametrize("code", [200, 404])
async def test_a_proxys_page_is_no_answer(code: int) -> None:
    scene = await scene_of(archived("gone", "g"))
    page = Response(code, b"<html>welcome</html>", {})
    scene.api.intercept = lambda request: page if request.path.startswith(REPORTS) else None
    await scene.refused(503, f"{REPORTS}/gone")
    await scene.refused(503, REPORTS)


async def test_what_is_archived_is_found_after_its_kind_has_gone() -> None:
    scene = await scene_of(archived("gone", "g"))
    gone = Response(404, b"404 page not found\n", {})
    scene.api.intercept = lambda request: gone if request.path.startswith(REPORTS) else None
    assert (await scene.told(f"{REPORTS}/gone"))["metadata"]["uid"] == "g"
    assert names(await scene.told(REPORTS)) == ["gone"]


class Broken(MemoryArchiver):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    async def get(self, key: ByUid | ByName) -> Record:
        raise self.error

    async def search(self, query: Query) -> Page:
        raise self.error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ArchiveUnavailable("postgresql://user:hunter2@host is away"), 503),
        (ArchiveRefused("no rights for user:hunter2"), 500),
        (RuntimeError("a defect of the store with hunter2"), 500),
    ],
)
async def test_an_archive_that_fails_is_no_empty_list_and_tells_no_secret(error: Exception, code: int) -> None:
    scene = Scene(Broken(error))
    await scene.begin()
    for path in (f"{REPORTS}/gone", REPORTS):
        with capture_logs():
            assert "hunter2" not in json.dumps(await scene.refused(code, path))
    assert (await scene.told(f"{REPORTS}/live-1"))["metadata"]["name"] == "live-1", "what is live needs no archive"


async def test_without_an_archive_only_what_is_live_is_there() -> None:
    scene = Scene(None)
    await scene.begin()
    assert names(await scene.told(REPORTS)) == ["live-1", "live-2"]
    await scene.refused(404, f"{REPORTS}/gone")


async def test_a_spoilt_record_is_told_beside_the_others() -> None:
    scene = await scene_of(archived("gone", "g"), archived("fine", "f"))
    archiver = scene.archiver
    assert isinstance(archiver, MemoryArchiver)
    key = archived("gone", "g").subject.key
    archiver._records[key] = archiver._records[key].replace(b"ex-", b"xx-")
    answer = await scene.ask(REPORTS)
    assert names(json.loads(answer.body)) == ["live-1", "live-2", "fine"]
    assert answer.headers["warning"] == '299 - "unreadable records of the archive, left out: 1"'
    assert "cannot be used: digest" in (await scene.refused(500, f"{REPORTS}/gone"))["message"]


async def test_columns_say_where_each_object_is() -> None:
    scene = await scene_of(archived("gone", "g", ago_s=300))
    told = await scene.told(REPORTS, {"limit": "500"}, accept=TABLE)
    assert (told["kind"], [each["name"] for each in told["columnDefinitions"]][:4]) == (
        "Table",
        ["Name", "Archived", "Successful", "Age"],
    )
    assert [row["cells"][:4] for row in told["rows"]] == [
        ["live-1", "<live>", "", "0s"],
        ["live-2", "<live>", "", "0s"],
        ["gone", "5m", "true", "15d"],
    ]
    assert told["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    whole = await scene.told(f"{REPORTS}/gone", {"includeObject": "Object"}, accept=TABLE)
    assert whole["rows"][0]["object"] == archived("gone", "g").object
    bare = await scene.told(f"{REPORTS}/gone", {"includeObject": "None"}, accept=TABLE)
    assert [*bare["rows"][0]] == ["cells"]
    await scene.refused(406, REPORTS, accept="application/vnd.kubernetes.protobuf")


async def test_clients_discover_what_is_served_and_that_it_is_read_only() -> None:
    scene = await scene_of()
    assert [each["name"] for each in (await scene.told("/apis"))["groups"]] == [GROUP]
    assert (await scene.told(f"/apis/{GROUP}"))["preferredVersion"]["version"] == "v1"
    (entry,) = (await scene.told(f"/apis/{GROUP}/v1"))["resources"]
    assert (entry["name"], entry["kind"], entry["verbs"]) == ("reports", "Report", ["get", "list"])
    assert (await scene.told("/api"))["versions"] == []
    assert (await scene.told("/version"))["major"] == "1"
