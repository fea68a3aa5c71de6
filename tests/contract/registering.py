"""Webhook configurations that tests write, and take away again."""

from __future__ import annotations

import itertools
from typing import Any

from tests.contract.api import Api
from tests.contract.things import core
from tests.contract.waiting import eventually
from tests.contract.webhooks import Hook, Webhooks, allow, deny, patch

GROUP = "/apis/admissionregistration.k8s.io/v1"
PODS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
CONFIGMAPS = {**PODS, "resources": ["configmaps"]}


class Registered:
    """Writes webhook configurations that concern one namespace only, and removes them at the end."""

    def __init__(self, api: Api, namespace: str, hooks: Webhooks) -> None:
        self.hooks = hooks
        self._api = api
        self._namespace = namespace
        self._written: list[str] = []
        self._numbers = itertools.count()

    async def mutating(self, *webhooks: dict[str, Any]) -> None:
        await self._write("MutatingWebhookConfiguration", webhooks)

    async def validating(self, *webhooks: dict[str, Any]) -> None:
        await self._write("ValidatingWebhookConfiguration", webhooks)

    async def refused(self, kind: str, webhook: dict[str, Any]) -> Any:
        return await self._api.post(self._path(kind), self._body(kind, "refused-" + self._namespace, (webhook,)))

    def webhook(self, name: str, config: dict[str, Any], **more: Any) -> dict[str, Any]:
        mine = {"matchLabels": {"kubernetes.io/metadata.name": self._namespace}}
        return {
            "name": f"{name}.situate.dev",
            "clientConfig": config,
            "rules": [PODS],
            "namespaceSelector": mine,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 30,
            **more,
        }

    async def _write(self, kind: str, webhooks: tuple[dict[str, Any], ...]) -> None:
        name = f"{self._namespace}-{next(self._numbers)}"
        (await self._api.post(self._path(kind), self._body(kind, name, webhooks))).ok(201)
        self._written.append(f"{self._path(kind)}/{name}")
        await self._effective(kind)

    async def _effective(self, kind: str) -> None:
        """The server reads configurations through a watch: one more of the same kind, seen at work, came later."""
        path = f"/probe-{len(self._written)}"
        config = self.hooks.at(path, deny("probe"))
        probe = self.webhook("probe", config, rules=[{**PODS, "resources": ["serviceaccounts"]}])
        name = f"{self._namespace}-probe-{len(self._written)}"
        (await self._api.post(self._path(kind), self._body(kind, name, (probe,)))).ok(201)
        account = core(self._namespace, "serviceaccounts")
        await eventually(
            lambda: self._api.post(account, {"metadata": {"generateName": "probe-"}}, dryRun="All"),
            lambda answer: answer.status == 400,
        )
        (await self._api.delete(f"{self._path(kind)}/{name}")).ok()

    async def remove(self) -> None:
        for path in self._written:
            await self._api.delete(path)

    def _path(self, kind: str) -> str:
        return f"{GROUP}/{kind.lower()}s"

    @staticmethod
    def _body(kind: str, name: str, webhooks: tuple[dict[str, Any], ...]) -> dict[str, Any]:
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": name},
            "webhooks": list(webhooks),
        }


def add_label(name: str, value: str = "x") -> Hook:
    def hook(request: dict[str, Any]) -> Any:
        metadata = request["object"]["metadata"]
        if name in metadata.get("labels", {}):
            return allow(request)
        if "labels" in metadata:
            return patch({"op": "add", "path": f"/metadata/labels/{name}", "value": value})(request)
        return patch({"op": "add", "path": "/metadata/labels", "value": {name: value}})(request)

    return hook
