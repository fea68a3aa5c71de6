"""NodeDeclaredFeatures: pods that need a feature go where the kubelet declares it (KEP-5328).

Which pods need what is inferred from their specs (component-helpers nodedeclaredfeatures/features).
"""

from __future__ import annotations

from typing import Final

from situate.framework.plugin_api.events import Change, EventHint, Hint, Subject
from situate.framework.plugin_api.plugin import SKIPPED, PreFiltered, Reads
from situate.framework.pod.pods import PodInfo
from situate.framework.results.status import Code
from situate.framework.results.verdict import Verdict, refuse
from situate.framework.snapshot.snapshot import Snapshot
from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Container

RESTART_ALL: Final = "RestartAllContainersOnContainerExits"
USER_NAMESPACES: Final = "UserNamespacesHostNetworkSupport"


class NodeDeclaredFeatures:
    """Refuses nodes that lack a feature which the pod needs; unresolvable."""

    name = "NodeDeclaredFeatures"
    reads = Reads.NODE
    heeds_requests = False

    def pre_filter(self, pod: PodInfo, snapshot: Snapshot) -> PreFiltered:  # noqa: ARG002
        """Skipped for a pod that needs none, as nearly all."""
        needed = needed_features(pod)
        return PreFiltered(state=needed) if needed else SKIPPED

    def filter(self, state: frozenset[str], pod: PodInfo, snapshot: Snapshot) -> Verdict:  # noqa: ARG002
        lacking = snapshot.static(
            (self.name, state), lambda nodes: nodes.where_features(lambda declared: not state <= declared)
        )
        return refuse(lacking, "node(s) didn't match Pod's required features", Code.UNRESOLVABLE)

    def events(self) -> tuple[EventHint, ...]:
        """A node that is new or declares other features."""
        return (EventHint(Subject.NODE, Change.ADD | Change.FEATURES, _after_node),)


def needed_features(pod: PodInfo) -> frozenset[str]:
    """What the pod's spec needs of a node."""
    spec = pod.pod.spec
    needed = set()
    if any(map(_restarts_all, spec.containers)) or any(map(_restarts_all, spec.init_containers)):
        needed.add(RESTART_ALL)
    if spec.host_network and spec.host_users is False:
        needed.add(USER_NAMESPACES)
    return frozenset(needed)


def _restarts_all(container: Container) -> bool:
    return any(rule.action == "RestartAllContainers" for rule in container.restart_policy_rules)


def _after_node(pod: PodInfo, old: Node | None, new: Node) -> Hint:
    needed = needed_features(pod)
    helps = needed.issubset(new.status.declared_features)
    before = old is not None and needed.issubset(old.status.declared_features)
    return Hint.QUEUE if helps and not before else Hint.SKIP
