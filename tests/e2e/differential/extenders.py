"""Extenders that both schedulers ask over HTTP: five characters, each for the pods that want its resource.

What they say of a pod and a node is drawn from the names of both, so that it is the same whoever asks, and whenever.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Any
from zlib import crc32

from situate.framework.plugin_api.configuration import Extender
from situate.framework.pod.pods import PodKey
from situate.framework.preemption.extenders import ExtenderQuestion, ExtenderReply
from situate.scheduler.extenders.client import Extenders
from tests.e2e.differential.api import Object
from tests.e2e.differential.objects import key_of

JUDGE, TASTER, SURVEYOR, ABSENT, BREAKING = (
    f"asks.example.com/{who}" for who in ("judge", "taster", "surveyor", "absent", "breaking")
)
"""The resources that they manage. Judge filters by name, and has a say in preemption; taster scores nodes that it is
shown whole; surveyor filters those, and passes one; absent never answers, and may be ignored; breaking answers with
errors, half of its pods already when it filters.
"""
ASKED = (JUDGE, TASTER, SURVEYOR, ABSENT, BREAKING)


def extenders_at(url: str) -> list[Object]:
    """As kube-scheduler's configuration has them."""
    verbs = {"filterVerb": "filter", "prioritizeVerb": "score", "preemptVerb": "preempt"}
    judging = {"filterVerb": "filter", "preemptVerb": "preempt"}
    scoring = {"filterVerb": "filter", "prioritizeVerb": "score", "weight": 2}
    return [
        _extender(url, ABSENT, **verbs, weight=1, ignorable=True),
        _extender(url, JUDGE, **judging, nodeCacheCapable=True),
        _extender(url, TASTER, prioritizeVerb="score", weight=4),
        _extender(url, SURVEYOR, filterVerb="filter"),
        _extender(url, BREAKING, **scoring, nodeCacheCapable=True),
    ]


def _extender(url: str, resource: str, **settings: Any) -> Object:
    return {
        "urlPrefix": f"{url}/{resource.partition('/')[2]}",
        "httpTimeout": "60s",
        "managedResources": [{"name": resource}],
        **settings,
    }


class ExtenderServer:
    """All of them on one port of 127.0.0.1, inside the `with` block."""

    def __init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = False  # closing waits for the answers that are being given
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> ExtenderServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@dataclass(frozen=True, slots=True)
class Whole:
    """Objects as extenders are shown them: JSON of pods by uid, of nodes by name."""

    pods: dict[str, bytes] = field(default_factory=dict)
    nodes: dict[str, bytes] = field(default_factory=dict)

    async def pod(self, key: PodKey, uid: str) -> bytes:  # as `Documents` has it
        return self.pods[uid]

    def node(self, name: str) -> bytes | None:
        return self.nodes.get(name)


def replies(extenders: Sequence[Extender], whole: Whole, questions: Sequence[ExtenderQuestion]) -> list[ExtenderReply]:
    """One for each question, as the shipped scheduler gets them, but that this waits."""

    async def asked() -> list[ExtenderReply]:
        carrier = Extenders.create(extenders, whole, {})
        try:
            return await carrier.ask(questions)
        finally:
            await carrier.close()

    return asyncio.run(asked())


# What they say


@dataclass(frozen=True, slots=True)
class _Asked:
    who: str
    pod: str
    """Namespace and name."""

    def draw(self, node: str = "") -> int:
        """Below 100, of the pod and the node."""
        return crc32(f"{self.who} {self.pod} {node}".encode()) % 100

    def passing(self, names: Sequence[str]) -> list[str]:
        """The nodes that will do."""
        if self.who == "surveyor":
            return [min(names, key=lambda name: (self.draw(name), name))]
        return [name for name in names if self.who != "judge" or self.draw(name) < 40]


def _names(arguments: Object) -> list[str]:
    nodes = arguments["Nodes"]
    names: list[str] = (
        arguments["NodeNames"] if nodes is None else [each["metadata"]["name"] for each in nodes["items"]]
    )
    return names


def _filter(asked: _Asked, arguments: Object) -> Object:
    """Some nodes are refused for two reasons at once, and some without one."""
    if asked.who == "breaking" and asked.draw() < 50:
        return {"Error": f"breaking knows nothing of {asked.pod}"}
    names, nodes = _names(arguments), arguments["Nodes"]
    passing = asked.passing(names)
    drawn = {name: asked.draw(name) for name in names if name not in passing}
    told = {
        "FailedNodes": {name: f"{asked.who}: not today" for name, number in drawn.items() if number < 75},
        "FailedAndUnresolvableNodes": {
            name: f"{asked.who}: never" for name, number in drawn.items() if 70 < number < 90
        },
    }
    if nodes is None:
        return {**told, "NodeNames": passing}
    return {**told, "Nodes": {"items": [node for node in nodes["items"] if node["metadata"]["name"] in passing]}}


def _score(asked: _Asked, arguments: Object) -> list[Object]:
    """It forgets some of the nodes."""
    drawn = {name: asked.draw(name) for name in _names(arguments)}
    return [{"Host": name, "Score": number % 11} for name, number in drawn.items() if number % 7]


def _preempt(asked: _Asked, arguments: Object) -> Object:
    """Not where it would refuse the pod afterwards, nor on some other nodes; and it knows budgets of its own."""
    left = {}
    for name, victims in arguments["NodeNameToMetaVictims"].items():
        number = asked.draw(name)
        if number >= 10 and asked.passing([name]):
            left[name] = {**victims, "NumPDBViolations": victims["NumPDBViolations"] + (number < 25)}
    return {"NodeNameToMetaVictims": left}


_VERBS: Mapping[str, Callable[[_Asked, Object], Any]] = {"filter": _filter, "score": _score, "preempt": _preempt}


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:  # the name is BaseHTTPRequestHandler's
        """`/WHO/VERB`."""
        _, who, verb = self.path.split("/")
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if who == "absent" or (who == "breaking" and verb == "score"):
            self.send_error(500)
            return
        arguments = json.loads(body)
        answer = json.dumps(_VERBS[verb](_Asked(who, key_of(arguments["Pod"])), arguments)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the name is BaseHTTPRequestHandler's
        """Says nothing."""
