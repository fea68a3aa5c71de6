"""Who asks: tokens that are for others, and answers that are kept for a while and no longer."""

from __future__ import annotations

import asyncio
import json

import pytest

from situate.kube.client import Client
from situate.objects.messages import Request, Response
from situate.objects.reviews.authentication import UserInfo
from situate.objects.reviews.authorization import ResourceAttributes
from situate.runtime.serving import access
from situate.runtime.serving.access import TTL_S, Access
from situate.runtime.serving.status_answers import Declined
from tests.sharding.server.scene import Api

pytestmark = pytest.mark.rule("sharding:K11")


def reviewed(api: Api, **status: object) -> list[dict[str, object]]:
    """Has every review answered so; the specs that were asked."""
    asked: list[dict[str, object]] = []

    def intercept(request: Request) -> Response:
        asked.append(json.loads(request.body)["spec"])
        return Response(201, json.dumps({"status": status}).encode())

    api.intercept = intercept
    return asked


@pytest.mark.parametrize(
    ("audiences", "said", "known"),
    [
        ((), [], True),
        (("archive",), ["archive"], True),
        (("archive", "other"), ["other"], True),
        (("archive",), ["https://kubernetes.default.svc"], False),
        (("archive",), [], False),
    ],
)
async def test_a_token_for_somebody_else_is_none(audiences: tuple[str, ...], said: list[str], known: bool) -> None:
    api = Api()
    asked = reviewed(api, authenticated=True, user={"username": "alice"}, audiences=said)
    bearer = Access(Client(api), lambda: 0.0, audiences).authenticate("Bearer abc")
    if known:
        assert (await bearer).username == "alice"
    else:
        with pytest.raises(Declined, match="none of this server's audiences"):
            await bearer
    assert asked == [{"token": "abc"} | ({"audiences": [*audiences]} if audiences else {})]


async def test_a_review_that_names_nobody_lets_nobody_in() -> None:
    api = Api()
    reviewed(api, authenticated=True, user={})
    with pytest.raises(Declined):
        await Access(Client(api), lambda: 0.0).authenticate("Bearer abc")


async def test_a_yes_is_for_that_user_and_that_action_alone() -> None:
    api = Api()
    asked = reviewed(api, allowed=True)
    gate = Access(Client(api), lambda: 0.0)
    alice = UserInfo("alice", "1", ("a",), {"k": ("v",)})
    get = ResourceAttributes("ns1", "get", "x.io", "v1", "reports", "", "a")
    for user, action in (
        (alice, get),
        (alice, get),
        (UserInfo("alice", "2", ("a",), {"k": ("v",)}), get),
        (UserInfo("alice", "1", ("a", "b"), {"k": ("v",)}), get),
        (UserInfo("alice", "1", ("a",), {"k": ("w",)}), get),
        (alice, ResourceAttributes("ns2", "get", "x.io", "v1", "reports", "", "a")),
        (alice, ResourceAttributes("ns1", "list", "x.io", "v1", "reports")),
    ):
        await gate.check(user, action)
    assert len(asked) == 6, "only the second was known"


async def test_few_answers_are_remembered() -> None:
    api, now = Api(), [0.0]
    reviewed(api, authenticated=True, user={"username": "alice"})
    gate = Access(Client(api), lambda: now[0])
    for number in range(access._MOST_CACHED + 10):
        gate._bearers.put(str(number), UserInfo("u"))
    assert len(gate._bearers._values) == access._MOST_CACHED
    assert gate._bearers.get("9") is None
    assert gate._bearers.get("10") is not None
    now[0] = TTL_S
    assert gate._bearers.get("10") is None


async def test_many_who_come_at_once_with_one_token_are_one_question() -> None:
    api = Api()
    asked = reviewed(api, authenticated=True, user={"username": "alice"})
    gate = Access(Client(api), lambda: 0.0)
    users = await asyncio.gather(*(gate.authenticate("Bearer abc") for _ in range(20)))
    assert {user.username for user in users} == {"alice"}
    assert len(asked) == 1


async def test_a_no_is_told_to_all_who_wait_and_is_not_remembered() -> None:
    api = Api()
    asked = reviewed(api, authenticated=False)
    gate = Access(Client(api), lambda: 0.0)
    told = await asyncio.gather(*(gate.authenticate("Bearer abc") for _ in range(3)), return_exceptions=True)
    assert [type(each) for each in told] == [Declined] * 3
    with pytest.raises(Declined):
        await gate.authenticate("Bearer abc")
    assert len(asked) == 2


@pytest.mark.parametrize(("group", "what"), [("", "pods"), ("apps", "pods.apps")])
async def test_whoever_may_not_is_told_as_an_api_server_says_it(group: str, what: str) -> None:
    api = Api()
    reviewed(api, allowed=False)
    asked = ResourceAttributes(verb="list", group=group, resource="pods")
    with pytest.raises(Declined, match=f'^{what} is forbidden: User "alice" cannot list resource "pods"'):
        await Access(Client(api), lambda: 0.0).check(UserInfo(username="alice"), asked)


class Stuck(Api):
    """Answers about a good token alone."""

    async def send(self, request: Request, *, timeout_s: float = 30.0) -> Response:
        if json.loads(request.body)["spec"]["token"] != "good":
            await asyncio.get_running_loop().create_future()
        return await super().send(request, timeout_s=timeout_s)


async def test_wrong_tokens_hold_up_nobody_whose_own_was_good() -> None:
    """They stood in one line, and went on to when nobody waited any more: for as long as they came nobody was known."""
    now = [0.0]
    strangers, known = Stuck(), Api()
    asked = reviewed(known, authenticated=True, user={"username": "alice"})
    reviewed(strangers, authenticated=True, user={"username": "alice"})
    gate = Access(Client(strangers), lambda: now[0], for_known=Client(known))
    assert (await gate.authenticate("Bearer good")).username == "alice"
    assert asked == [], "nobody knew it yet"
    waiting = [
        asyncio.ensure_future(gate.authenticate(f"Bearer {number}")) for number in range(access.MOST_UNKNOWN_REVIEWS)
    ]
    await asyncio.sleep(0)
    with pytest.raises(Declined, match="too many") as declined:
        await gate.authenticate("Bearer one more")
    assert declined.value.code == 503
    now[0] = TTL_S + 1
    assert (await gate.authenticate("Bearer good")).username == "alice"
    assert [each["token"] for each in asked] == ["good"]
    for each in (*waiting, *gate._reviews.values()):
        each.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
