"""Extenders over real HTTP: what they are sent, what is made of what they say, and every way in which they fail."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from situate.framework.engine.decisions import Asked, Decision, Failed, Placed, Refused
from situate.framework.engine.engine import Engine
from situate.framework.engine.messages import refusal
from situate.framework.plugin_api.actions import Bind, BindByExtender
from situate.framework.plugin_api.configuration import Extender, ExtenderTLS
from situate.framework.pod.pods import PodKey, PodReader
from situate.framework.preemption.extenders import (
    ExtenderQuestion,
    ExtenderReply,
    FilterNodes,
    FilterReply,
    NoReply,
    PreemptionReply,
    PrioritizeNodes,
    PrioritizeReply,
    ProcessPreemption,
    Victims,
)
from situate.framework.profile.profile import profile_of
from situate.framework.snapshot.node_table import Vocabulary
from situate.kube.errors import KubeError
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.nodes import Node, NodeStatus
from situate.objects.kinds.pods import Container, Pod, PodSpec
from situate.objects.values.quantity import parse_quantity
from situate.plugins.default_binder import DefaultBinder
from situate.plugins.node_resources_fit import NodeResourcesFit
from situate.plugins.priority_sort import PrioritySort
from situate.scheduler.extenders.client import BindingFailed, Extenders, wants_whole_nodes
from tests.kube.servers import Authority, Handler, server_tls, serving

READER = PodReader(Vocabulary.create().resources)


class Whole:
    """Objects with fields that no value of the framework has."""

    async def pod(self, key: PodKey, uid: str) -> bytes:
        if uid == "gone":
            raise KubeError("pod default/gone: there is none")
        return json.dumps({"metadata": {"name": key[1], "uid": uid}, "spec": {"dnsPolicy": "Default"}}).encode()

    def node(self, name: str) -> bytes | None:
        return None if name == "gone" else json.dumps({"metadata": {"name": name}, "status": {"seen": 1}}).encode()


def pod(name: str) -> Pod:
    spec = PodSpec(scheduler_name="here", containers=(Container(),))
    return Pod(ObjectMeta(name=name, namespace="default", uid=name), spec)


INFO = READER.read(pod("p"))


def extender(url: str, **settings: Any) -> Extender:
    return Extender(url, **{"http_timeout": 60.0, "filter_verb": "filter", **settings})


def asked(kind: type[FilterNodes] | type[PrioritizeNodes], extender: Extender, *nodes: str) -> ExtenderQuestion:
    return kind(extender, INFO, nodes)


def answering(body: object, *, status: int = 200, seen: list[tuple[str, Any]] | None = None) -> Handler:
    """A server that says the same to everybody, and keeps what it was asked."""

    async def handle(request: web.Request) -> web.Response:
        if seen is not None:
            seen.append((request.path, json.loads(await request.read())))
        text = body if isinstance(body, str) else json.dumps(body)
        return web.Response(text=text, status=status, content_type="application/json")

    return handle


@asynccontextmanager
async def reaching(handler: Handler, tls: Any = None, **settings: Any) -> AsyncIterator[tuple[Extender, Extenders]]:
    async with serving(handler, tls) as port:
        scheme = "http" if tls is None else "https"
        one = extender(f"{scheme}://127.0.0.1:{port}/prefix/", **settings)
        extenders = Extenders.create([one], Whole(), {})
        try:
            yield one, extenders
        finally:
            await extenders.close()


async def reply(handler: Handler, kind: type[FilterNodes] | type[PrioritizeNodes], **settings: Any) -> ExtenderReply:
    async with reaching(handler, **settings) as (one, extenders):
        (said,) = await extenders.ask([asked(kind, one, "a", "b")])
        return said


async def test_a_filter_is_sent_whole_objects_and_what_it_says_is_read() -> None:
    seen: list[tuple[str, Any]] = []
    said = {
        "Nodes": {"items": [{"metadata": {"name": "b"}}]},
        "NodeNames": ["not looked at"],
        "FailedNodes": {"a": "full"},
        "FailedAndUnresolvableNodes": None,
        "Error": "",
    }
    assert await reply(answering(said, seen=seen), FilterNodes) == FilterReply(("b",), {"a": "full"}, {})
    ((path, arguments),) = seen
    assert path == "/prefix/filter"
    assert arguments["Pod"]["spec"] == {"dnsPolicy": "Default"}
    assert [node["status"] for node in arguments["Nodes"]["items"]] == [{"seen": 1}] * 2
    assert arguments["NodeNames"] is None


async def test_one_that_keeps_nodes_itself_is_sent_names() -> None:
    seen: list[tuple[str, Any]] = []
    said = {"nodenames": ["b"], "failedAndUnresolvableNodes": {"a": "wrong site"}}
    found = await reply(answering(said, seen=seen), FilterNodes, node_cache_capable=True)
    assert found == FilterReply(("b",), {}, {"a": "wrong site"})
    assert seen[0][1]["NodeNames"] == ["a", "b"]
    assert seen[0][1]["Nodes"] is None


async def test_names_are_not_read_of_one_that_keeps_no_nodes() -> None:
    assert await reply(answering({"NodeNames": ["a"]}), FilterNodes) == FilterReply((), {}, {})


async def test_scores() -> None:
    seen: list[tuple[str, Any]] = []
    said = [{"Host": "a", "Score": 3}, {"host": "b"}]
    handler = answering(said, seen=seen)
    assert await reply(handler, PrioritizeNodes, prioritize_verb="v1/score") == PrioritizeReply((("a", 3), ("b", 0)))
    assert seen[0][0] == "/prefix/v1/score"


@pytest.mark.parametrize("capable", [True, False])
async def test_preemption(capable: bool) -> None:
    seen: list[tuple[str, Any]] = []
    said = {"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "v"}], "NumPDBViolations": 1}, "b": None}}
    handler = answering(said, seen=seen)
    async with reaching(handler, preempt_verb="preempt", node_cache_capable=capable) as (one, extenders):
        victims = {"a": Victims((READER.read(pod("v")), READER.read(pod("w"))), 2)}
        (found,) = await extenders.ask([ProcessPreemption(one, INFO, victims)])
    assert found == PreemptionReply({"a": (("v",), 1), "b": ((), 0)})
    shown, hidden = seen[0][1]["NodeNameToMetaVictims"], seen[0][1]["NodeNameToVictims"]
    if capable:
        assert shown == {"a": {"Pods": [{"UID": "v"}, {"UID": "w"}], "NumPDBViolations": 2}}
        assert hidden is None
    else:
        assert shown is None
        assert [each["metadata"]["name"] for each in hidden["a"]["Pods"]] == ["v", "w"]
        assert hidden["a"]["Pods"][0]["spec"] == {"dnsPolicy": "Default"}


@pytest.mark.parametrize(
    ("handler", "problem"),
    [
        pytest.param(answering("boom", status=500), "answered 500: boom", id="500"),
        pytest.param(answering("", status=204), "answered 204", id="204"),
        pytest.param(answering("<html>"), "answered with invalid JSON: ", id="html"),
        pytest.param(answering(""), "answered with invalid JSON: ", id="empty"),
        pytest.param(answering("[" * 100_000), "answered with invalid JSON: ", id="deep"),
        pytest.param(answering([]), "reply: found [], allowed: an object", id="list"),
        pytest.param(answering({"Error": "no licence server"}), "no licence server", id="error"),
        pytest.param(answering({"Error": 5}), "Error: found 5, allowed: a string", id="error of another type"),
        pytest.param(answering({"Nodes": ["a"]}), 'Nodes: found ["a"], allowed: an object', id="nodes"),
        pytest.param(
            answering({"Nodes": {"items": [{"metadata": {"name": 1}}]}}),
            "Nodes.items.metadata.name: found 1, allowed: a string",
            id="name",
        ),
        pytest.param(answering({"FailedNodes": ["a"]}), 'FailedNodes: found ["a"], allowed: an object', id="failed"),
    ],
)
async def test_what_a_filter_must_not_say_is_no_reply(handler: Handler, problem: str) -> None:
    found = await reply(handler, FilterNodes)
    assert isinstance(found, NoReply)
    assert found.problem.startswith(problem)


@pytest.mark.parametrize("score", [5.5, "5", True, 2**63])
async def test_a_score_that_is_no_whole_number_is_no_reply(score: object) -> None:
    found = await reply(answering([{"Host": "a", "Score": score}]), PrioritizeNodes, prioritize_verb="score")
    assert isinstance(found, NoReply)
    assert "allowed: a 64-bit integer" in found.problem


async def test_one_that_takes_too_long_is_not_waited_for() -> None:
    never = asyncio.Event()

    async def handle(request: web.Request) -> web.Response:
        await never.wait()
        return web.Response()

    found = await reply(handle, FilterNodes, http_timeout=0.05)
    assert isinstance(found, NoReply)
    assert "no answer within 0.05 s" in found.problem


async def test_one_that_is_not_there_is_no_reply() -> None:
    async with serving(answering({})) as port:
        pass
    extenders = Extenders.create([one := extender(f"http://127.0.0.1:{port}")], Whole(), {})
    (found,) = await extenders.ask([asked(FilterNodes, one, "a")])
    await extenders.close()
    assert isinstance(found, NoReply)
    assert "connection refused" in found.problem


async def test_objects_that_are_gone_are_not_asked_about() -> None:
    async with reaching(answering({})) as (one, extenders):
        gone = FilterNodes(one, READER.read(pod("gone")), ("a",))
        without_pod, without_node = await extenders.ask([gone, asked(FilterNodes, one, "a", "gone")])
    assert without_pod == NoReply("pod default/gone: there is none")
    assert without_node == NoReply("no request was sent because node gone no longer exists")


async def test_all_are_asked_at_the_same_time() -> None:
    both = asyncio.Barrier(2)

    async def handle(request: web.Request) -> web.Response:
        await both.wait()
        return web.Response(text="[]")

    async with serving(handle) as port:
        urls = (f"http://127.0.0.1:{port}", f"http://127.0.0.1:{port}/other")
        two = [extender(url, prioritize_verb="score") for url in urls]
        extenders = Extenders.create(two, Whole(), {})
        replies = await extenders.ask([asked(PrioritizeNodes, each, "a") for each in two])
        await extenders.close()
    assert replies == [PrioritizeReply(()), PrioritizeReply(())]


def test_whole_nodes_are_watched_only_for_those_who_want_to_see_them() -> None:
    names = extender("http://a", node_cache_capable=True)
    binds = Extender("http://b", bind_verb="bind")
    assert not wants_whole_nodes([names, binds])
    assert wants_whole_nodes([names, extender("http://c")])


# TLS


async def over_tls(tls: Any, **settings: Any) -> ExtenderReply:
    async with reaching(answering({}), tls, **settings) as (one, extenders):
        (found,) = await extenders.ask([asked(FilterNodes, one, "a")])
        return found


async def test_tls_with_an_authority_and_a_client_certificate(tmp_path: Path) -> None:
    authority = Authority("extenders")
    tls = server_tls(tmp_path, authority.issue("extender", "127.0.0.1"), client_authority=authority)
    client = authority.issue("scheduler")
    (tmp_path / "client.pem").write_bytes(client.certificate)
    (tmp_path / "client.key").write_bytes(client.key)
    files = ExtenderTLS(cert_file=str(tmp_path / "client.pem"), key_file=str(tmp_path / "client.key"))
    inline = ExtenderTLS(
        ca_data=base64.b64encode(authority.certificate).decode(),
        cert_data=base64.b64encode(client.certificate).decode(),
        key_data=base64.b64encode(client.key).decode(),
    )
    assert await over_tls(tls, tls_config=inline) == FilterReply((), {}, {})
    assert await over_tls(tls, enable_https=True, tls_config=files) == FilterReply((), {}, {})
    refused = await over_tls(tls, tls_config=ExtenderTLS(insecure=True))
    assert isinstance(refused, NoReply)


async def test_a_server_that_nobody_vouches_for_is_not_asked_unless_that_is_wanted(tmp_path: Path) -> None:
    tls = server_tls(tmp_path, Authority("unknown").issue("extender", "127.0.0.1"))
    refused = await over_tls(tls)
    assert isinstance(refused, NoReply)
    assert "certificate" in refused.problem
    assert await over_tls(tls, tls_config=ExtenderTLS(insecure=True)) == FilterReply((), {}, {})
    assert await over_tls(tls, enable_https=True) == FilterReply((), {}, {})


async def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    tls = server_tls(tmp_path, Authority("unknown").issue("extender", "127.0.0.1"))
    missing = tmp_path / "ca.pem"
    found = await over_tls(tls, tls_config=ExtenderTLS(ca_file=str(missing)))
    assert isinstance(found, NoReply)
    assert str(missing) in found.problem


# Binding


async def bound(handler: Handler, **settings: Any) -> None:
    async with reaching(handler, bind_verb="bind", **settings) as (one, extenders):
        await extenders.bind(BindByExtender(("default", "p"), "u", "a", one))


async def test_binding() -> None:
    seen: list[tuple[str, Any]] = []
    await bound(answering({"Error": ""}, seen=seen))
    arguments = {"PodName": "p", "PodNamespace": "default", "PodUID": "u", "Node": "a"}
    assert seen == [("/prefix/bind", arguments)]


@pytest.mark.parametrize(
    ("handler", "problem", "unknown"),
    [
        pytest.param(answering({"Error": "no such node"}), "no such node", False, id="no"),
        pytest.param(answering("boom", status=500), "answered 500: boom", True, id="500"),
        pytest.param(answering("<html>"), "answered with invalid JSON: ", True, id="html"),
    ],
)
async def test_a_binding_that_fails_says_whether_it_may_have_happened(
    handler: Handler, problem: str, unknown: bool
) -> None:
    with pytest.raises(BindingFailed, match=f"/prefix/ at bind: {problem}") as caught:
        await bound(handler)
    assert caught.value.outcome_unknown is unknown


async def test_a_binding_without_an_answer_may_have_happened() -> None:
    never = asyncio.Event()

    async def handle(request: web.Request) -> web.Response:
        await never.wait()
        return web.Response()

    with pytest.raises(BindingFailed) as caught:
        await bound(handle, http_timeout=0.05)
    assert caught.value.outcome_unknown


# With the engine


def engine_of(*extenders: Extender) -> Engine:
    plugins = (PrioritySort(), NodeResourcesFit(), DefaultBinder())
    engine = Engine([profile_of("here", [(each, 1) for each in plugins])], extenders=extenders)
    for name in ("a", "b", "c"):
        room = {"cpu": parse_quantity("1"), "memory": parse_quantity("1Gi"), "pods": parse_quantity("10")}
        engine.set_node(Node(ObjectMeta(name=name), status=NodeStatus(allocatable=room)), 0)
    engine.set_pod(pod("p"), 0)
    return engine


async def decided(handler: Handler, **settings: Any) -> tuple[Engine, Decision | None]:
    async with reaching(handler, **settings) as (one, extenders):
        engine = engine_of(one)
        decision = engine.schedule(0)
        while isinstance(decision, Asked):
            decision = engine.resume(await extenders.ask(decision.questions), 0)
        return engine, decision


async def test_an_extender_decides_where_a_pod_goes() -> None:
    async def handle(request: web.Request) -> web.Response:
        arguments = json.loads(await request.read())
        names = arguments["NodeNames"]
        if request.path.endswith("filter"):
            return web.json_response({"NodeNames": names[1:], "FailedNodes": {names[0]: "the first never will do"}})
        return web.json_response([{"Host": name, "Score": place} for place, name in enumerate(names)])

    settings = {"prioritize_verb": "prioritize", "weight": 1, "bind_verb": "bind", "node_cache_capable": True}
    engine, placed = await decided(handle, **settings)
    assert isinstance(placed, Placed)
    assert placed.node == "c"
    (action,) = engine.binding(placed).bind
    assert isinstance(action, BindByExtender)


async def test_an_extender_says_why_a_pod_goes_nowhere() -> None:
    _, refused = await decided(answering({"FailedNodes": dict.fromkeys("abc", "no licence")}))
    assert isinstance(refused, Refused)
    assert refusal(refused) == "0/3 nodes are available: 3 no licence."


async def test_an_extender_that_breaks_fails_the_pod_and_not_the_scheduler() -> None:
    engine, failed = await decided(answering("boom", status=500))
    assert isinstance(failed, Failed)
    assert failed.error.endswith("/prefix/ at filter: answered 500: boom")
    engine.set_pod(pod("next"), 1)
    assert isinstance(engine.schedule(1), Asked)


async def test_one_that_may_be_ignored_is(tmp_path: Path) -> None:
    engine, placed = await decided(answering("boom", status=500), ignorable=True)
    assert isinstance(placed, Placed)
    assert engine.binding(placed).bind == (Bind(("default", "p"), "p", placed.node),)
