"""Names that must occur in a block of histories of vm, so that the histories cover their claims."""

from __future__ import annotations

from typing import Final

FAULTS: Final[dict[str, tuple[str, ...]]] = {
    "F1 write lost, applied but not answered, 409, 422, 429": (
        "request lost",
        "answer lost",
        "write in conflict",
        "write answered 422",
        "write answered 429",
        "request refused",
        "write late",
    ),
    "F2 watch delayed, repeated, cut, 410": ("event delayed", "event repeated", "watch cut", "compacted"),
    "F3 kill at any write": (
        "KillLeader",
        "StopLeader",
        "leader killed before its migration left",
        "leader killed before the answer to its migration",
        "leader killed before its approval left",
        "leader killed before the answer to its approval",
        "leader killed before its hand-over left",
        "leader killed before the answer to its hand-over",
    ),
    "F4 two leaders": ("stale leader woke up",),
    "F5 agents repeat, reorder, lie": (
        "Misask repeat",
        "Misask reorder",
        "Misask huge last permit",
        "Misask zero unit",
        "Misask other pod",
        "Misask no JSON",
        "answer not heard",
    ),
    "F6 target unschedulable, crashed, cordoned": ("target crash", "target delete", "target cordon"),
    "F7 start refused, stalls, slow, fails": (
        "Hypervise refuse",
        "Hypervise stall",
        "Hypervise slow",
        "Hypervise fail",
    ),
    "F8 node lost while copying": ("source lost", "target lost"),
    "F9 deleted mid-move, recreated": ("recreated moving", "recreated beneficiary"),
    "F10 another scheduler binds": ("Intrude", "intruded into claimed room"),
    "F11 node shrinks": ("ShrinkNode",),
    "F12 migrations deleted and made by hand": ("made by hand", "migration dropped", "migration dropped by force"),
    "F13 others resize pods": ("deferred", "admitted first"),
    "F14 clock jump": ("SetClock",),
    "F15 label or overcommit changed mid-move": ("relabelled mid-move",),
    "B48 machines evicted": ("eviction asked for",),
    "F16 500 ask within a second": ("500 at once",),
    "what is done": (
        "granted",
        "moved",
        "claimed",
        "claim closed",
        "cancelled",
        "denied",
        "Event ClaimClosed",
        "Event MoveCancelled",
    ),
}
"""Rows of the spec's list of faults, with the names that must occur for each in a block of seeds.

The last row names events of histories with any activity.
"""
