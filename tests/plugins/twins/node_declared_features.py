from __future__ import annotations

from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod
from tests.plugins.twins.world import PASS, UNRESOLVABLE, Answer


def needed(pod: Pod) -> set[str]:
    found = set()
    rules = [rule for each in (*pod.spec.containers, *pod.spec.init_containers) for rule in each.restart_policy_rules]
    if any(rule.action == "RestartAllContainers" for rule in rules):
        found.add("RestartAllContainersOnContainerExits")
    if pod.spec.host_network and pod.spec.host_users is False:
        found.add("UserNamespacesHostNetworkSupport")
    return found


def filter_node(pod: Pod, node: Node) -> Answer:
    if needed(pod) <= set(node.status.declared_features):
        return PASS
    return Answer(UNRESOLVABLE, ("node(s) didn't match Pod's required features",))
