from __future__ import annotations

import re
from collections.abc import Sequence

from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import NodeAffinity, NodeSelectorRequirement, NodeSelectorTerm, Pod
from situate.objects.selection.label_selectors import BadSelector
from tests.plugins.twins.normalizing import default_normalize
from tests.plugins.twins.world import PASS, UNRESOLVABLE, Answer


def integer(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[+-]?[0-9]+", text) and abs(int(text)) < 2**63 else None


def readable(wanted: NodeSelectorRequirement) -> bool:
    """A value that no label can have makes a requirement that nobody can read."""
    return all(re.fullmatch(r"([A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?)?", each) for each in wanted.values)


def label_holds(wanted: NodeSelectorRequirement, node: Node) -> bool:
    """Whether the node's label is as wanted; a requirement that cannot be read holds nowhere."""
    if not readable(wanted):
        return False
    value = node.metadata.labels.get(wanted.key)
    if wanted.operator == "In":
        return value in wanted.values
    if wanted.operator == "NotIn":
        return bool(wanted.values) and value not in wanted.values
    if wanted.operator == "Exists":
        return not wanted.values and value is not None
    if wanted.operator == "DoesNotExist":
        return not wanted.values and value is None
    if wanted.operator in ("Gt", "Lt") and len(wanted.values) == 1 and value is not None:
        left, right = integer(value), integer(wanted.values[0])
        if left is None or right is None:
            return False
        return left > right if wanted.operator == "Gt" else left < right
    return False


def field_holds(wanted: NodeSelectorRequirement, node: Node) -> bool:
    if wanted.key != "metadata.name" or len(wanted.values) != 1:
        return False
    same = node.metadata.name == wanted.values[0]
    return {"In": same, "NotIn": not same}.get(wanted.operator, False)


def term_matches(term: NodeSelectorTerm, node: Node) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    return all(label_holds(each, node) for each in term.match_expressions) and all(
        field_holds(each, node) for each in term.match_fields
    )


def required_match(affinity: NodeAffinity | None, node: Node) -> bool:
    if affinity is None or affinity.required is None:
        return True
    return any(term_matches(term, node) for term in affinity.required.node_selector_terms)


def wants(pod: Pod, node: Node) -> bool:
    """The selector and the required terms."""
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return False
    return required_match(pod.spec.affinity.node_affinity, node)


def filter_node(pod: Pod, node: Node, added: NodeAffinity | None = None) -> Answer:
    if not required_match(added, node):
        return Answer(UNRESOLVABLE, ("node(s) didn't match scheduler-enforced node affinity",))
    if not wants(pod, node):
        return Answer(UNRESOLVABLE, ("node(s) didn't match Pod's node affinity/selector",))
    return PASS


def score_nodes(pod: Pod, nodes: Sequence[Node], added: NodeAffinity | None = None) -> list[int] | None:
    """None is Skip. `BadSelector` where one of the pod's own wishes cannot be read."""
    own = pod.spec.affinity.node_affinity
    for wish in own.preferred if own else ():
        for wanted in wish.preference.match_expressions:
            numbers = wanted.operator not in ("Gt", "Lt") or all(integer(each) is not None for each in wanted.values)
            if not (readable(wanted) and numbers):
                raise BadSelector(f"preference for {wanted.key} has a value that cannot be read")
    wishes = [*(added.preferred if added else ()), *(own.preferred if own else ())]
    if not wishes:
        return None
    raw = [sum(wish.weight for wish in wishes if term_matches(wish.preference, node)) for node in nodes]
    return default_normalize(raw)
