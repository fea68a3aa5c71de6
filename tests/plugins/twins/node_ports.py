from __future__ import annotations

from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod
from tests.plugins.twins.world import PASS, UNSCHEDULABLE, Answer, World


def host_ports(pod: Pod) -> list[tuple[str, str, int]]:
    sidecars = [each for each in pod.spec.init_containers if each.restart_policy == "Always"]
    return [
        (port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port)
        for container in (*sidecars, *pod.spec.containers)
        for port in container.ports
        if port.host_port > 0
    ]


def filter_node(pod: Pod, node: Node, world: World) -> Answer:
    for address, protocol, number in host_ports(pod):
        for other in world.on(node):
            for taken in host_ports(other):
                same_port = taken[1:] == (protocol, number)
                if same_port and (taken[0] == address or "0.0.0.0" in (taken[0], address)):
                    return Answer(UNSCHEDULABLE, ("node(s) didn't have free ports for the requested pod ports",))
    return PASS
