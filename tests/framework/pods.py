"""Pods for the tests of the framework, of one reader."""

from __future__ import annotations

from collections.abc import Mapping

from situate.framework.pod.pods import PodInfo, PodReader
from situate.framework.snapshot.node_table import Vocabulary
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.pods import Container, Pod, PodSchedulingGate, PodSpec, ResourceRequirements
from situate.objects.values.quantity import parse_quantity

VOCABULARY = Vocabulary.create()
READER = PodReader(VOCABULARY.resources)
SCHEDULER = "here"


def pod_info(
    name: str,
    *,
    priority: int = 0,
    requests: Mapping[str, str] | None = None,
    gates: tuple[str, ...] = (),
    labels: Mapping[str, str] | None = None,
) -> PodInfo:
    """A pod of scheduler `here` in namespace `default`; its uid is its name."""
    amounts = {key: parse_quantity(value) for key, value in (requests or {}).items()}
    spec = PodSpec(
        scheduler_name=SCHEDULER,
        priority=priority,
        containers=(Container(resources=ResourceRequirements(requests=amounts)),),
        scheduling_gates=tuple(map(PodSchedulingGate, gates)),
    )
    return READER.read(Pod(ObjectMeta(name=name, namespace="default", uid=name, labels=labels or {}), spec))
