"""Plain Pods of the demo, which no workload owns."""

from __future__ import annotations

from dataclasses import dataclass

from situate.objects.kinds.pods import Pod


@dataclass(frozen=True, slots=True)
class DemoPlainPod:
    name: str
    node: str
    """Empty while it waits."""
    reason: str
    """Message of the PodScheduled condition while it waits."""

    @classmethod
    def from_pod(cls, pod: Pod) -> DemoPlainPod:
        why = next((each.message for each in pod.status.conditions if each.type == "PodScheduled"), "")
        return cls(pod.metadata.name, pod.spec.node_name, "" if pod.spec.node_name else why)
