from __future__ import annotations

from situate.objects.nodes import Node
from situate.objects.pods import Pod
from tests.plugins.twins.world import PASS, UNRESOLVABLE, Answer


def filter_node(pod: Pod, node: Node) -> Answer:
    if pod.spec.node_name in ("", node.metadata.name):
        return PASS
    return Answer(UNRESOLVABLE, ("node(s) didn't match the requested node name",))
