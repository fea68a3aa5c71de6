from __future__ import annotations

from collections.abc import Iterable, Sequence

from situate.objects.kinds.nodes import Node, Taint
from situate.objects.kinds.pods import Pod, Toleration
from tests.plugins.twins.normalizing import default_normalize
from tests.plugins.twins.world import PASS, UNRESOLVABLE, Answer


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value


def tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    return any(tolerates(toleration, taint) for toleration in tolerations)


def keeps_away(pod: Pod, node: Node) -> bool:
    return any(
        taint.effect in ("NoSchedule", "NoExecute") and not tolerated(taint, pod.spec.tolerations)
        for taint in node.spec.taints
    )


def filter_node(pod: Pod, node: Node) -> Answer:
    return Answer(UNRESOLVABLE, ("node(s) had untolerated taint(s)",)) if keeps_away(pod, node) else PASS


def score_nodes(pod: Pod, nodes: Sequence[Node]) -> list[int]:
    usable = [each for each in pod.spec.tolerations if each.effect in ("", "PreferNoSchedule")]
    raw = [
        sum(taint.effect == "PreferNoSchedule" and not tolerated(taint, usable) for taint in node.spec.taints)
        for node in nodes
    ]
    return default_normalize(raw, reverse=True)
