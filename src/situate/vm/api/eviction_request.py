"""Requests that a VM leaves its node, because its Pod was to be evicted (B48).

The request is an annotation of the VirtualMachine, so it survives a restart. Example:
`{"node":"n1","at":"2026-01-31T12:00:00.000000Z"}`: the node to leave, and the time of the last eviction attempt. A
client that drains a node repeats its evictions every few seconds. When the client gives up, the request expires.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from situate.objects.values.timestamps import BadTime, micro_time, parse_time
from situate.vm.api.parse_errors import ParseError, ParseFailure, Part, Place
from situate.vm.api.quantities import json_text
from situate.vm.model.pods_and_nodes import Evacuation, Pod

REQUEST_LIFETIME_S: Final = 600.0
"""Time from the last attempt until the request expires: more than a draining client waits between two attempts."""
RENEWAL_AGE_S: Final = REQUEST_LIFETIME_S / 2
"""A younger request is not written again."""


def must_leave(pod: Pod, node: str, now: float) -> bool:
    """Return whether the VM of the Pod must leave the node. A request for one node does not apply to the next node."""
    wish = None if pod.machine is None else pod.machine.evacuation
    return wish is not None and wish.node == node and abs(now - wish.at) < REQUEST_LIFETIME_S


def evacuation_text(wish: Evacuation) -> str:
    return json_text({"node": wish.node, "at": micro_time(datetime.fromtimestamp(wish.at, UTC))})


def read_evacuation(text: str, place: Place) -> Evacuation | ParseError:
    try:
        part = Part.parse_json(text, place)
        part.mapping()
        node, at = part["node"].text(), part["at"]
        try:
            return Evacuation(node, parse_time(at.text()).timestamp())
        except BadTime as problem:
            raise at.failure("a time such as 2024-01-31T12:00:00Z") from problem
    except ParseFailure as problem:
        return problem.error
