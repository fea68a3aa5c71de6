"""Node selectors and node affinity: where a pod may go, and where it would rather go.

After component-helpers `scheduling/corev1/nodeaffinity`. A node is a map with metadata.name and metadata.labels.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from situate.cluster.controllers.tables import Obj

_NUMBER = re.compile(r"[+-]?[0-9]+")


def required_affinity(pod: Obj, node: Obj) -> bool:
    """Whether the node has what the pod's selector and its required affinity ask for."""
    labels = node["metadata"]["labels"]
    if any(labels.get(name) != value for name, value in (pod["spec"].get("nodeSelector") or {}).items()):
        return False
    required = _node_affinity(pod).get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    return any(_term(term, node) for term in required.get("nodeSelectorTerms") or ())


def preference(pod: Obj, node: Obj) -> int:
    """Sum of the weights of the preferred terms that the node fulfils."""
    preferred = _node_affinity(pod).get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    return sum(each["weight"] for each in preferred if _term(each["preference"], node))


def _node_affinity(pod: Obj) -> Obj:
    found: Obj = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    return found


def _term(term: Obj, node: Obj) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    name = {"metadata.name": node["metadata"]["name"]}
    labels = node["metadata"]["labels"]
    return all(_holds(entry, labels) for entry in expressions) and all(_holds(entry, name) for entry in fields)


def _holds(expression: Obj, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(expression["key"]), expression.get("values") or ()
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
            # Gt and Lt have exactly one value.
            return any(_compares(operator, value or "", bound) for bound in values)


def _compares(operator: str, value: str, bound: str) -> bool:
    """`Gt` or `Lt` between whole numbers; false if either is none."""
    if not _NUMBER.fullmatch(value) or not _NUMBER.fullmatch(bound):
        return False
    return int(value) > int(bound) if operator == "Gt" else int(value) < int(bound)
