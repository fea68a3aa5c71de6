"""Names that must occur in a block of histories of spot, so that the histories cover their claims."""

from __future__ import annotations

from typing import Final

FAULTS: Final[dict[str, tuple[str, ...]]] = {
    "F1 watch delay, gap, 410": ("event delayed", "watch cut", "CutWatches", "compacted"),
    "F2 response lost, review repeated, reordered": (
        "review lost",
        "review's answer lost",
        "review repeated",
        "review timed out",
        "reviews reordered",
    ),
    "F3 kill, pause and resume the leader anywhere": (
        "KillLeader",
        "KillStandby",
        "StopLeader",
        "PauseLeader",
        "stale leader woke up",
        "leader killed before its review left",
        "leader killed before the answer to its review",
        "leader paused before the answer to its review",
        "leader killed before its eviction left",
        "leader killed before the answer to its eviction",
        "leader killed before its mark left",
    ),
    "F4 both replicas down": ("BothDown", "review refused"),
    "F5 quota, refusing, slow and meddling webhooks": (
        "creation refused",
        "Meddle affinity",
        "Meddle slow",
        "affinity meddled with",
    ),
    "F6 API 409, 429, 500, timeouts applied and not": (
        "request lost",
        "answer lost",
        "request refused",
        "write in conflict",
        "ServerDown",
    ),
    "F7 eviction refused by a budget": ("Guard", "eviction answered 429"),
    "F8 all spot gone, deleted and silent": ("Wave deleted", "Wave silent", "Wave with notice"),
    "F9 second wave during recovery": ("Wave", "second wave"),
    "F10 notice without end, end without notice, wrong deadline": (
        "Notice taint",
        "Notice short taint",
        "Notice condition",
        "Notice past condition",
        "notice without end",
        "end before the deadline",
        "EndNode",
    ),
    "F11 on demand full, spot full, both": ("Fill on-demand", "Fill spot", "Fill both"),
    "F12 labels of nodes change or vanish": ("LoseLabel", "LoseLabel swapped"),
    "F13 an autoscaler moves R": ("Scale",),
    "F14 user deletes, pauses, recreates, opts out": (
        "DeletePod",
        "Pause",
        "Recreate",
        "OptOut",
        "RollOut",
        "rollback",
    ),
    "F15 certificate expires, clock jumps": ("SetClock", "LoseSecret", "short certificates"),
    "F16 pod stuck terminating": ("StickPod",),
    "F17 two spot systems": ("Rival on-demand", "Rival spot", "Rival prefers", "rival's affinity"),
    "B14 read-only": ("ReadOnly", "read-only on", "Event ReadOnly"),
    "B45 leaders": ("Elect", "led by a label", "led by a Lease"),
    "P1 hand-over to a newer revision": ("Upgrade", "lease handed over"),
    "P7 pods behind a gate": ("gated", "gated pod classed on-demand", "gated pod classed spot", "Ungate"),
    "others that evict": ("Evict", "evicted by others"),
    "actions": (
        "classed on-demand",
        "classed spot",
        "evicted by policy",
        "evacuated",
        "released",
        "released pod ended",
        "cost set",
    ),
    "further kinds": ("Rollout", "CloneSet"),
    "settings": (
        "degrade",
        "no make-before-break",
        "short certificates",
        "events",
        "strict by webhook",
        "strict by policy",
        "windows",
        "further kinds",
    ),
}
"""Rows of the spec's list of faults, with the names that must occur for each in a block of seeds.

The last rows hold each kind of action, and each setting that changes the allowed decisions.
"""
