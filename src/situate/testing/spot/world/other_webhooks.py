"""Webhooks of other tools, besides ours, and the effect of an admission policy.

One refuses like a quota, one narrows a pod's nodes or is slow, and one is a second spot system. The policy sets our
gate.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from situate.spot.model.pods_nodes_workloads import CAPACITY_LABEL, GATE
from situate.testing.spot.invariants.object_rows import RIVAL_CLASS
from situate.testing.spot.world.world import CONFIGURATIONS, SHOP, SpotWorld

_VALIDATING: Final = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
_QUOTA, _MEDDLER = "https://quota.example.com", "https://meddler.example.com"
_RIVAL, _POLICY = "https://rival.example.com", "https://policy.example.com"


class OtherWebhooks:
    """The other webhooks. At first there are none."""

    def __init__(self, world: SpotWorld) -> None:
        self._world = world
        self._happened = world.happened
        self._creations = 0
        self._reviews = 0

    def refuse_creations(self, every: int) -> None:
        """Refuse one of every `every` creations. 0 ends it."""
        self._world.call("DELETE", f"{_VALIDATING}/quota")
        if not every:
            return

        def quota(_: Mapping[str, Any]) -> tuple[float, bytes]:
            self._creations += 1
            if self._creations % every:
                return 0.001, b'{"allowed":true}'
            self._happened["creation refused"] += 1
            return 0.001, b'{"allowed":false,"status":{"code":403,"message":"exceeded quota"}}'

        self._world.webhook_calls.third_parties[_QUOTA] = quota
        self._world.create_object(_VALIDATING, _webhook_configuration("quota", _QUOTA))

    def start_meddler(self, how: str) -> None:
        """Start the webhook of `steps.Meddle`."""
        self._world.call("DELETE", f"{CONFIGURATIONS}/zz-meddler")
        if not how:
            return
        self._happened[f"Meddle {how}"] += 1

        def meddler(review: Mapping[str, Any]) -> tuple[float, bytes]:
            if how == "slow":
                return 1.5, b'{"allowed":true}'
            operations = _narrowing_operations(review["request"]["object"])
            if not operations:
                return 0.002, b'{"allowed":true}'
            self._happened["affinity meddled with"] += 1
            return 0.002, _patch_response(operations)

        self._world.webhook_calls.third_parties[_MEDDLER] = meddler
        self._world.create_object(CONFIGURATIONS, _webhook_configuration("zz-meddler", _MEDDLER))

    def start_rival(self, how: str, *, first: bool) -> None:
        """Start the second spot system of `steps.Rival`. It changes every other pod, before or after our webhook."""
        for name in ("aa-rival", "zz-rival"):
            self._world.call("DELETE", f"{CONFIGURATIONS}/{name}")
        if not how:
            return
        self._happened[f"Rival {how}"] += 1

        def rival(review: Mapping[str, Any]) -> tuple[float, bytes]:
            self._reviews += 1
            pod = review["request"]["object"]
            if self._reviews % 2 or RIVAL_CLASS in (pod["metadata"].get("annotations") or {}):
                return 0.002, b'{"allowed":true}'
            self._happened["rival's affinity"] += 1
            return 0.002, _patch_response(_rival_operations(pod, how))

        self._world.webhook_calls.third_parties[_RIVAL] = rival
        self._world.create_object(CONFIGURATIONS, _webhook_configuration("aa-rival" if first else "zz-rival", _RIVAL))

    def gate_by_policy(self) -> None:
        """Set our gate on pods before all webhooks, as the MutatingAdmissionPolicy of the manifest does."""

        def policy(review: Mapping[str, Any]) -> tuple[float, bytes]:
            pod = review["request"]["object"]
            gates = pod["spec"].get("schedulingGates")
            owned = any(each.get("controller") for each in pod["metadata"].get("ownerReferences") or ())
            if not owned or pod["spec"].get("nodeName") or any(each["name"] == GATE for each in gates or ()):
                return 0.0, b'{"allowed":true}'
            path = "/spec/schedulingGates" + ("/-" if gates else "")
            return 0.0, _patch_response(
                [{"op": "add", "path": path, "value": {"name": GATE} if gates else [{"name": GATE}]}]
            )

        self._world.webhook_calls.third_parties[_POLICY] = policy
        self._world.create_object(CONFIGURATIONS, _webhook_configuration("0-gating-policy", _POLICY))


def _patch_response(operations: Sequence[Mapping[str, Any]]) -> bytes:
    patch = base64.b64encode(msgspec.json.encode(operations)).decode()
    return msgspec.json.encode({"allowed": True, "patchType": "JSONPatch", "patch": patch})


def _rival_operations(pod: Mapping[str, Any], how: str) -> list[Mapping[str, Any]]:
    """Return operations that set the pod's node affinity as the rival does."""
    wanted = {"key": CAPACITY_LABEL, "operator": "In", "values": ["spot" if how == "prefers" else how]}
    affinity = dict(pod["spec"].get("affinity") or {})
    of_nodes = dict(affinity.get("nodeAffinity") or {})
    if how == "prefers":
        preferred = "preferredDuringSchedulingIgnoredDuringExecution"
        term = {"weight": 50, "preference": {"matchExpressions": [wanted]}}
        of_nodes[preferred] = [*(of_nodes.get(preferred) or ()), term]
    else:
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        terms = (of_nodes.get(required) or {}).get("nodeSelectorTerms") or [{}]
        narrowed = [{**each, "matchExpressions": [*(each.get("matchExpressions") or ()), wanted]} for each in terms]
        of_nodes[required] = {"nodeSelectorTerms": narrowed}
    affinity["nodeAffinity"] = of_nodes
    annotations = {**(pod["metadata"].get("annotations") or {}), RIVAL_CLASS: how}
    return [
        {"op": "add", "path": "/spec/affinity", "value": affinity},
        {"op": "add", "path": "/metadata/annotations", "value": annotations},
    ]


def _narrowing_operations(pod: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return operations that narrow every required term to nodes with a host name, which all nodes have."""
    node_affinity = ((pod.get("spec") or {}).get("affinity") or {}).get("nodeAffinity") or {}
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    base = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms"
    wanted = {"key": "kubernetes.io/hostname", "operator": "Exists"}
    return [
        {"op": "add", "path": f"{base}/{number}/matchExpressions/-", "value": wanted}
        for number, term in enumerate(required.get("nodeSelectorTerms") or ())
        if wanted not in (term.get("matchExpressions") or (wanted,))
    ]


def _webhook_configuration(name: str, url: str) -> dict[str, Any]:
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
