"""Which machines are to leave their nodes because their pods were to be evicted (B48).

The wish is an annotation of the VirtualMachine, so that a restart loses none:
`{"node":"n1","at":"2026-01-31T12:00:00.000000Z"}`, the node that it is to leave, and when that was asked for last.
Whoever drains a node asks again every few seconds; whoever has given up asks no more, and the wish lapses.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from situate.objects.values.timestamps import BadTime, micro_time, parse_time
from situate.vm.api.parse_errors import Misread, Part, Place, Unreadable
from situate.vm.api.quantities import json_text
from situate.vm.model.pods_and_nodes import Evacuation, Pod

WISH_S: Final = 600.0
"""From when it was last asked for until it lapses: longer than whoever drains a node pauses between two attempts."""
RENEWED_S: Final = WISH_S / 2
"""A wish younger than this is not written again."""


def leaves(pod: Pod, node: str, now: float) -> bool:
    """Whether its machine is to leave the node. One that has left is not to leave the next one."""
    wish = None if pod.machine is None else pod.machine.evacuation
    return wish is not None and wish.node == node and abs(now - wish.at) < WISH_S


def evacuation_text(wish: Evacuation) -> str:
    return json_text({"node": wish.node, "at": micro_time(datetime.fromtimestamp(wish.at, UTC))})


def read_evacuation(text: str, place: Place) -> Evacuation | Unreadable:
    try:
        part = Part.of_text(text, place)
        part.mapping()
        node, at = part["node"].text(), part["at"]
        try:
            return Evacuation(node, parse_time(at.text()).timestamp())
        except BadTime as problem:
            raise at.misread("a time such as 2024-01-31T12:00:00Z") from problem
    except Misread as problem:
        return problem.unreadable
