"""Convert Kubernetes Pods and Nodes to the facts that vpod reads."""

from __future__ import annotations

from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod
from situate.vpod.model.pod_classes import NodeFacts, PodFacts
from situate.vpod.model.vpod import DRAINED_BY_ANNOTATION_KEY, POD_ANNOTATION_KEY, ZONE_LABEL

UNREACHABLE_TAINT = "node.kubernetes.io/unreachable"
_REPELLING_EFFECTS = frozenset({"NoExecute", "NoSchedule"})


def pod_facts(pod: Pod) -> PodFacts:
    """Return the facts about a Pod that the deciding functions use."""
    annotations = pod.metadata.annotations
    ready = pod.condition("Ready")
    return PodFacts(
        name=pod.metadata.name,
        node=pod.spec.node_name,
        annotation=annotations.get(POD_ANNOTATION_KEY),
        phase=pod.status.phase,
        ready=None if ready is None or ready.status == "Unknown" else ready.status == "True",
        deleting=pod.metadata.deletion_timestamp is not None,
        uid=pod.metadata.uid,
        drained_by=annotations.get(DRAINED_BY_ANNOTATION_KEY),
    )


def node_facts(node: Node) -> NodeFacts:
    """Return the facts about a node that the deciding functions use. A node that has not reported yet is not ready."""
    return NodeFacts(
        name=node.metadata.name,
        zone=node.metadata.labels.get(ZONE_LABEL),
        unschedulable=node.spec.unschedulable,
        ready=node.ready,
        unreachable=any(
            taint.key == UNREACHABLE_TAINT and taint.effect in _REPELLING_EFFECTS for taint in node.spec.taints
        ),
    )
