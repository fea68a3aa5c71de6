"""Place virtual replicas of event sources on the Pods of a StatefulSet, and size that StatefulSet.

This module exports the public API: Knative's names, and the pure deciding functions. `StatefulSetScheduler` and
`ScaleCache` do I/O, so they are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from situate.vpod.model.options import Options
from situate.vpod.model.pod_classes import NodeFacts, PodFacts
from situate.vpod.model.vpod import (
    POD_ANNOTATION_KEY,
    UNKNOWN_ZONE,
    ZONE_LABEL,
    Evictor,
    Key,
    NotEnoughReplicas,
    Placement,
    PlainVPod,
    Scale,
    ScaleClient,
    Scheduler,
    SchedulerFunc,
    VPod,
    VPodLister,
    ordinal_of,
    placement_for_pod,
    pod_count,
    pod_name,
    total_vreplicas,
)
from situate.vpod.placement.decide import Decision, commit, decide, schedule_all
from situate.vpod.policy.registry import MAX_WEIGHT, MIN_WEIGHT
from situate.vpod.policy.registry import Policy as PolicyConfig
from situate.vpod.scaling.scale_cache import ScaleCacheConfig
from situate.vpod.state.state import State

if TYPE_CHECKING:
    from situate.vpod.controller.facade import SchedulerConfig, StatefulSetScheduler, as_scheduler
    from situate.vpod.controller.scale_cache import ScaleCache

__all__ = [
    "MAX_WEIGHT",
    "MIN_WEIGHT",
    "POD_ANNOTATION_KEY",
    "UNKNOWN_ZONE",
    "ZONE_LABEL",
    "Decision",
    "Evictor",
    "Key",
    "NodeFacts",
    "NotEnoughReplicas",
    "Options",
    "Placement",
    "PlainVPod",
    "PodFacts",
    "PolicyConfig",
    "Scale",
    "ScaleCache",
    "ScaleCacheConfig",
    "ScaleClient",
    "Scheduler",
    "SchedulerConfig",
    "SchedulerFunc",
    "State",
    "StatefulSetScheduler",
    "VPod",
    "VPodLister",
    "as_scheduler",
    "commit",
    "decide",
    "ordinal_of",
    "placement_for_pod",
    "pod_count",
    "pod_name",
    "schedule_all",
    "total_vreplicas",
]


def __getattr__(name: str) -> Any:
    """Import the names that do I/O on first use (PEP 562)."""
    if name in ("SchedulerConfig", "StatefulSetScheduler", "as_scheduler"):
        from situate.vpod.controller import facade

        return getattr(facade, name)
    if name == "ScaleCache":
        from situate.vpod.controller.scale_cache import ScaleCache

        return ScaleCache
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
