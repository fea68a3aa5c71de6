"""An API server in the hand: short calls for tests, on a clock that the test moves."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from situate.cluster.apiserver.api import ApiServer
from situate.cluster.storage.effects import ADMIN, CallWebhook, Identity, WebhookReply
from situate.cluster.storage.names import NameGenerator
from situate.cluster.storage.store import Store
from situate.cluster.storage.watch import Watch
from situate.objects.messages import Request, Response

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


@dataclass
class Said:
    """One answer."""

    code: int
    body: Any
    headers: dict[str, str]

    def ok(self, code: int = 200) -> Any:
        assert self.code == code, (self.code, self.body)
        return self.body


class Cluster:
    def __init__(self, *, window: int = 1000, seed: int = 1, store: Store | None = None) -> None:
        self.now = 1_700_000_000.0
        self.api = ApiServer(NameGenerator(random.Random(seed)), now=self.now, store=store or Store(window=window))
        self.webhooks: list[dict[str, Any]] = []
        """Reviews that were sent."""
        self.rounds: list[int] = []
        """How many of them went out together, each time that several did."""

    def request(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Request:
        path, _, query = path.partition("?")
        shown = {"user-agent": "test/1", "content-type": "application/json", **(headers or {})}
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        return Request(method, path, tuple(parse_qsl(query, keep_blank_values=True)), shown, raw)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        media: str = "application/json",
        accept: str = "",
        identity: Identity = ADMIN,
    ) -> Said:
        headers = {"content-type": media} | ({"accept": accept} if accept else {})
        answer = self.api.answer(self.request(method, path, body, headers), self.now, identity)
        assert isinstance(answer, Response)
        return said(answer)

    def get(self, path: str, accept: str = "") -> Said:
        return self.ask("GET", path, accept=accept)

    def post(self, path: str, body: Any) -> Said:
        return self.ask("POST", path, body)

    def put(self, path: str, body: Any) -> Said:
        return self.ask("PUT", path, body)

    def patch(self, path: str, body: Any, media: str = MERGE) -> Said:
        return self.ask("PATCH", path, body, media=media)

    def delete(self, path: str, body: Any = None) -> Said:
        return self.ask("DELETE", path, body)

    def watch(self, path: str, accept: str = "") -> Watch:
        joined = path + ("&" if "?" in path else "?") + "watch=true"
        headers = {"accept": accept} if accept else {}
        answer = self.api.answer(self.request("GET", joined, None, headers), self.now)
        assert isinstance(answer, Watch), answer
        return answer

    def ask_with_webhooks(self, request: Request, *replies: Any) -> Said:
        """Each reply is a WebhookReply, or a function from the review's request to the review's response."""
        handling = self.api.handle(request, self.now)
        waiting = list(replies)
        try:
            effect = next(handling)
            while True:
                if isinstance(effect, CallWebhook):
                    effect = handling.send(self._reply(effect, waiting.pop(0)))
                else:
                    self.rounds.append(len(effect.calls))
                    effect = handling.send(tuple(self._reply(call, waiting.pop(0)) for call in effect.calls))
        except StopIteration as done:
            assert not waiting, f"{len(waiting)} webhook calls were not made"
            return said(done.value)

    def _reply(self, effect: CallWebhook, reply: Any) -> WebhookReply:
        asked = json.loads(effect.body)["request"]
        self.webhooks.append(asked)
        if isinstance(reply, WebhookReply):
            return reply
        response = {"uid": asked["uid"], **reply(asked)}
        review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response}
        return WebhookReply(200, json.dumps(review).encode())


def said(answer: Any) -> Said:
    assert isinstance(answer, Response)
    body = json.loads(answer.body) if answer.body[:1] in (b"{", b"[") else answer.body
    return Said(answer.status, body, dict(answer.headers))


def events(watch: Watch) -> list[tuple[str, Any]]:
    """Everything that waits to be sent."""
    lines: list[bytes] = []
    while data := watch.take():
        lines.extend(data.splitlines())
    return [(line["type"], line["object"]) for line in map(json.loads, lines)]


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "a"}},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }


def config_map(name: str = "c", **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
