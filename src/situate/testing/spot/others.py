"""Webhooks of others beside ours: one refuses as a quota does, one asks for more of a pod's nodes or is slow."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from situate.testing.spot.world import CONFIGURATIONS, SHOP, SpotWorld

_VALIDATING: Final = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
_QUOTA, _MEDDLER = "https://quota.example.com", "https://meddler.example.com"


class OtherWebhooks:
    """None is there at first."""

    def __init__(self, world: SpotWorld, happened: Counter[str]) -> None:
        self._world = world
        self._happened = happened
        self._creations = 0

    def refuse_creations(self, every: int) -> None:
        """Every so manyth; 0 ends it."""
        self._world.call("DELETE", f"{_VALIDATING}/quota")
        if not every:
            return

        def quota(_: Mapping[str, Any]) -> tuple[float, bytes]:
            self._creations += 1
            if self._creations % every:
                return 0.001, b'{"allowed":true}'
            self._happened["creation refused"] += 1
            return 0.001, b'{"allowed":false,"status":{"code":403,"message":"exceeded quota"}}'

        self._world.calls.third[_QUOTA] = quota
        self._world.make(_VALIDATING, _third("quota", _QUOTA))

    def meddle(self, how: str) -> None:
        """As of `history.Meddle`."""
        self._world.call("DELETE", f"{CONFIGURATIONS}/zz-meddler")
        if not how:
            return
        self._happened[f"Meddle {how}"] += 1

        def meddler(review: Mapping[str, Any]) -> tuple[float, bytes]:
            if how == "slow":
                return 1.5, b'{"allowed":true}'
            operations = _meddled(review["request"]["object"])
            if not operations:
                return 0.002, b'{"allowed":true}'
            self._happened["affinity meddled with"] += 1
            patch = base64.b64encode(msgspec.json.encode(operations)).decode()
            return 0.002, msgspec.json.encode({"allowed": True, "patchType": "JSONPatch", "patch": patch})

        self._world.calls.third[_MEDDLER] = meddler
        self._world.make(CONFIGURATIONS, _third("zz-meddler", _MEDDLER))


def _meddled(pod: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Every required term is narrowed to nodes that have a name, which all have; an operation for each."""
    node_affinity = ((pod.get("spec") or {}).get("affinity") or {}).get("nodeAffinity") or {}
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    base = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms"
    wanted = {"key": "kubernetes.io/hostname", "operator": "Exists"}
    return [
        {"op": "add", "path": f"{base}/{number}/matchExpressions/-", "value": wanted}
        for number, term in enumerate(required.get("nodeSelectorTerms") or ())
        if wanted not in (term.get("matchExpressions") or (wanted,))
    ]


def _third(name: str, url: str) -> dict[str, Any]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    hook = {
        "name": f"{name}.example.com",
        "clientConfig": {"url": url},
        "rules": [rule],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": SHOP}},
    }
    return {"metadata": {"name": name}, "webhooks": [hook]}
