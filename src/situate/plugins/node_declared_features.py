"""NodeDeclaredFeatures: places Pods that need a feature where the kubelet declares it (KEP-5328).

The needed features are inferred from the Pod's spec (component-helpers nodedeclaredfeatures/features).
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
    """A Filter plugin that refuses nodes without a needed feature; unresolvable."""

    name = "NodeDeclaredFeatures"
    reads = Reads.NODE
    heeds_requests = False

    def pre_filter(self, pod: PodInfo, snapshot: Snapshot) -> PreFiltered:  # noqa: ARG002
        """Skip for a Pod that needs no feature, as nearly all Pods."""
        needed = needed_features(pod)
        return PreFiltered(state=needed) if needed else SKIPPED

    def filter(self, state: frozenset[str], pod: PodInfo, snapshot: Snapshot) -> Verdict:  # noqa: ARG002
        lacking = snapshot.static(
            (self.name, state), lambda nodes: nodes.where_features(lambda declared: not state <= declared)
        )
        return refuse(lacking, "node(s) didn't match Pod's required features", Code.UNRESOLVABLE)

    def events(self) -> tuple[EventHint, ...]:
        """Return the event of a new node, or of one that declares other features."""
        return (EventHint(Subject.NODE, Change.ADD | Change.FEATURES, _hint_after_node),)


def needed_features(pod: PodInfo) -> frozenset[str]:
    """Return the node features that the Pod's spec needs."""
    spec = pod.pod.spec
    needed = set()
    if any(map(_restarts_all, spec.containers)) or any(map(_restarts_all, spec.init_containers)):
        needed.add(RESTART_ALL)
    if spec.host_network and spec.host_users is False:
        needed.add(USER_NAMESPACES)
    return frozenset(needed)


def _restarts_all(container: Container) -> bool:
    return any(rule.action == "RestartAllContainers" for rule in container.restart_policy_rules)


def _hint_after_node(pod: PodInfo, old: Node | None, new: Node) -> Hint:
    needed = needed_features(pod)
    helps = needed.issubset(new.status.declared_features)
    before = old is not None and needed.issubset(old.status.declared_features)
    return Hint.QUEUE if helps and not before else Hint.SKIP
