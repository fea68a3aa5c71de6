"""Names that must occur in every block of histories: rows of the spec's fault table, actions, promises and settings.

A name counts a fault that took effect: a lost request while its sender waited, or the deletion of an existing pod. Pods
are missing after each deletion, but too shortly to be seen between two steps. So that case is not required.
"""

from __future__ import annotations

from situate.testing.vpod.history import INVALID_STATUSES

FAULTS = {
    "leader killed between decide and write, and between write and response": (
        "KillLeader",
        "leader killed before its status left",
        "leader killed before its scale left",
        "leader killed before the answer to its status",
        "leader killed before the answer to its scale",
    ),
    "two leaders for a moment; stale leader wakes up": ("PauseLeader", "stale leader woke up"),
    "vpod lister or pod cache stale by 30 s, events reordered or lost": (
        "decided on an old sight",
        "event delayed",
        "event lost",
        "event repeated",
        "events swapped",
        "watch cut",
        "CutWatches",
        "server down",
    ),
    "scale read or write fails, conflicts, times out after success": (
        "scale read failed",
        "scale write failed",
        "scale write in conflict",
        "answer of the scale write lost",
        "request lost",
        "answer lost",
        "request refused",
        "write in conflict",
    ),
    "pods flap missing/Pending/terminating inside and beyond podGrace; node unreachable; zone lost": (
        "DeletePod",
        "pending inside podGrace",
        "pending beyond podGrace",
        "terminating inside podGrace",
        "terminating beyond podGrace",
        "node unreachable inside podGrace",
        "node unreachable beyond podGrace",
        "LoseNode",
        "LoseZone",
        "CordonNode",
        "RestoreNodes",
    ),
    "annotation on and off, also in the middle of the ordinal range": (
        "AnnotatePod",
        "AnnotatePod off",
        "AnnotatePod in mid-range",
    ),
    "outside change of replicas, status or capacity": ("ResetReplicas", "SpoilStatus", "ChangeCapacity"),
    "cluster full: pods Pending for an hour": ("HoldPods", "pods Pending for an hour"),
    "evictor or status write fails for one vpod": ("write of one vpod failed", "eviction failed"),
    "drain met by new demand, by a crash, by a pod that never empties": (
        "drain met demand",
        "drain met crash",
        "drain met stuck",
    ),
    "absurd statuses": tuple(f"SpoilStatus {kind}" for kind in INVALID_STATUSES),
    "actions": ("status written", "scale raised", "scale cut", "worker written", "placement evicted"),
    "cut met by statuses that cannot be written": ("cut met",),
    "promises that were timed": ("L1 kept", "L2 kept", "L3 kept", "L4 kept", "L5 kept"),
    "settings": (
        "quota",
        "fairness",
        "weights",
        "priorities",
        "surge",
        "rebalance",
        "no drain",
        "topologyRequired",
        "requireReady",
        "maxReplicas",
        "maxScaleUpStep",
        "rescale",
        "pack.order",
        "predicates",
    ),
}
