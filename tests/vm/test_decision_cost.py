"""What a decision costs at 2,000 machines on 100 nodes, in calls of functions, which no other load sways."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from situate.sim.vm.world import VirtualMachine, VMWorld
from situate.vm.ledger.step import step
from situate.vm.model.actions import Approve
from situate.vm.model.events import InitialListCompleted, ResourcesRequested, WriteResult
from situate.vm.model.node_accounting import recount
from situate.vm.model.policy import Rules
from situate.vm.model.state import LedgerState
from situate.vm.protocol.permit import PermitReason, decide_permit
from tests.vm.town import START, both, only

RULES = Rules()
MOST_CALLS = 4_000
"""Of some microsecond each at most: 5 ms (B32) on a machine that is slow."""
A_NODE = 20
"""Machines, of one unit each, and as many units are free."""


def ledger(nodes: int, waiting: int) -> LedgerState:
    """So many machines each, on the last nodes, wait for more than there is."""
    world, found, where = VMWorld(), {}, {}
    for place in range(nodes):
        name = f"n{place}"
        world.add_node(name, both(2 * A_NODE))
        for number in range(place * A_NODE, (place + 1) * A_NODE):
            asks = 100 if number >= nodes * A_NODE - waiting else 1
            world.add_machine(VirtualMachine(f"v{number}", both(1), both(1), both(asks), both(1), True, number), name)
            where[f"v{number}"] = name
        pods = {uid: world.pod(uid) for uid, on in where.items() if on == name}
        found[name] = recount(replace(world.nodes[name], pods=pods))
    return step(LedgerState(nodes=found, where=where), InitialListCompleted(), START, RULES).state


def calls(do: Callable[[], Any]) -> tuple[Any, int]:
    made = 0

    def count(_frame: Any, what: str, _arg: Any) -> None:
        nonlocal made
        made += what == "call"

    former = sys.getprofile()
    sys.setprofile(count)
    try:
        return do(), made
    finally:
        sys.setprofile(former)


@pytest.mark.rule("vm:B32")
def test_a_grant_from_free_room_costs_as_much_whatever_else_there_is() -> None:
    asked = ResourcesRequested("v0", both(1), both(3), both(1))
    decision, at_few = calls(partial(step, ledger(2, 0), asked, START, RULES))
    assert [each.amount for each in only(decision.actions, Approve)] == [both(3)]

    many = ledger(100, 100)
    assert len(many.waiters) == 100
    decision, at_many = calls(partial(step, many, asked, START, RULES))

    (approve,) = only(decision.actions, Approve)
    assert at_many <= MOST_CALLS
    assert at_many <= at_few + 10 * len(many.waiters), "of others only those are looked at who wait"
    landed, at_answer = calls(partial(step, decision.state, WriteResult(approve, "ok"), START, RULES))
    told = decide_permit(landed.state, asked, RULES)
    assert at_answer <= MOST_CALLS
    assert told is not None
    assert (told.permit, told.reason) == (both(3), PermitReason.GRANTED)
