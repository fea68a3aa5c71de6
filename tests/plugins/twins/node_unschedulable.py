from __future__ import annotations

from situate.objects.kinds.nodes import Node, Taint
from situate.objects.kinds.pods import Pod
from tests.plugins.twins.taint_toleration import tolerated
from tests.plugins.twins.world import PASS, UNRESOLVABLE, Answer


def filter_node(pod: Pod, node: Node) -> Answer:
    cordon = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
    if not node.spec.unschedulable or tolerated(cordon, pod.spec.tolerations):
        return PASS
    return Answer(UNRESOLVABLE, ("node(s) were unschedulable",))
