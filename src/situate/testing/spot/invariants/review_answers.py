"""Rules for every answer to a review: pods left alone (I8), and the nodes allowed after it (I9, P23 to P26).

This plain twin of kube-scheduler's node affinity and taints shares no code with the patching code.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from situate.cluster.errors.field_errors import Refused
from situate.cluster.patch.patches import json_patch
from situate.cluster.storage.effects import WebhookReply
from situate.testing.spot.invariants.object_rows import NodeRow

Obj = Mapping[str, Any]

_CONTROLLERS: Final = ("ReplicaSet", "StatefulSet", "CloneSet")
_CLASS: Final = "spot.situate.dev/class"
_MIX: Final = "spot.situate.dev/mix"


class ReviewChecker:
    """Checks reviews. `check_review` takes each review and its answer."""

    def __init__(
        self,
        nodes: Callable[[], Iterable[NodeRow]],
        breach: Callable[[str], None],
        happened: Counter[str],
    ) -> None:
        self._nodes = nodes
        self._breach = breach
        self._happened = happened

    def check_review(self, body: bytes, reply: WebhookReply) -> None:
        if reply.status != 200:
            return
        request = msgspec.json.decode(body)["request"]
        response = msgspec.json.decode(reply.body)["response"]
        if not response["allowed"]:
            self._breach(f"P27: a pod of {request['namespace']} is refused: {response}")
        encoded = response.get("patch")
        operations = msgspec.json.decode(base64.b64decode(encoded)) if encoded else []
        pod = request["object"]
        if not operations:
            return
        if not _is_eligible(pod):
            self._breach(f"I8: a Pod that spot does not manage is changed: {operations}")
        wrong = [
            each for each in operations if each["op"] != "add" and not each["path"].startswith("/spec/tolerations")
        ]
        if wrong:
            self._breach(f"P26: the patch does more than add: {wrong}")
        after: Any = json_patch(msgspec.json.decode(msgspec.json.encode(pod)), operations)
        if isinstance(after, Refused):
            self._breach(f"P2: the patch does not apply: {after.message}")
            return
        pod_class = after["metadata"]["labels"].get(_CLASS, "")
        self._happened[f"classed {pod_class}" if pod_class else "gated"] += 1
        self._check_allowed_nodes(pod, after, pod_class)

    def check_ungated_pod(self, before: Obj, after: Obj) -> None:
        """Check a pod that has left our gate, whichever client removed the gate (P8)."""
        pod_class = after["metadata"]["labels"].get(_CLASS, "")
        self._happened[f"gated pod classed {pod_class}" if pod_class else "gated pod let go without a class"] += 1
        self._check_allowed_nodes(before, after, pod_class)

    def _check_allowed_nodes(self, pod: Obj, after: Obj, pod_class: str) -> None:
        for node in self._nodes():
            before = is_feasible(pod["spec"], node)
            wanted = before and (pod_class != "on-demand" or node.capacity == "on-demand")
            if is_feasible(after["spec"], node) != wanted:
                name = pod["metadata"].get("name") or pod["metadata"].get("generateName")
                self._breach(
                    f"I9: {name}, classed {pod_class}, {'may not' if wanted else 'may'} run on {node.name} "
                    f"({node.capacity or 'no capacity'}), by {after['spec'].get('affinity')}"
                )


def _is_eligible(pod: Obj) -> bool:
    metadata = pod["metadata"]
    owners = metadata.get("ownerReferences") or ()
    controlled = any(each.get("controller") and each["kind"] in _CONTROLLERS for each in owners)
    disabled = (metadata.get("labels") or {}).get(_MIX) == "disabled"
    return controlled and not disabled and not pod["spec"].get("nodeName")


def is_feasible(spec: Obj, node: NodeRow) -> bool:
    """Return whether node selector, required node affinity and taints allow the node."""
    selector = spec.get("nodeSelector") or {}
    if any(node.labels.get(key) != value for key, value in selector.items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is not None and not any(_term_matches(term, node) for term in required["nodeSelectorTerms"]):
        return False
    tolerations = spec.get("tolerations") or ()
    return all(
        any(_tolerates(each, taint) for each in tolerations)
        for taint in node.taints
        if taint["effect"] in ("NoSchedule", "NoExecute")
    )


def _term_matches(term: Obj, node: NodeRow) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    by_label = all(_expression_matches(each, node.labels.get(each["key"])) for each in expressions)
    return by_label and all(_expression_matches(each, node.name) for each in fields)


def _expression_matches(expression: Obj, value: str | None) -> bool:
    values = expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case operator:
            raise ValueError(f"no history uses the operator {operator}")


def _tolerates(toleration: Obj, taint: Obj) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if not toleration.get("key"):
        return toleration.get("operator") == "Exists"
    same = toleration["key"] == taint["key"]
    return same and (toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", ""))
