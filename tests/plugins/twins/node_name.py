from __future__ import annotations

from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod
from tests.plugins.twins.world import PASS, UNRESOLVABLE, Answer


def filter_node(pod: Pod, node: Node) -> Answer:
    if pod.spec.node_name in ("", node.metadata.name):
        return PASS
    return Answer(UNRESOLVABLE, ("node(s) didn't match the requested node name",))
