"""Who gets the room that a move has freed: the one for whom it was claimed, before anybody else (I4, N7, N11).

Read off migrations, machines and pods alone. Somebody else's growth counts only if he for whom the room is has got
nothing of it after a while, still wants it, and there is not enough left.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from situate.vm.model.resource_amounts import Amounts

Obj = Mapping[str, Any]
WAIT_S: Final = 40.0
"""Processes may be killed, and writes be late, in between."""


@dataclass(frozen=True, slots=True)
class Stand:
    """Of the machine that a claim is for, as it counts on its node."""

    approved: Amounts
    wanted: Amounts
    unit: Amounts
    closed_claim: str


@dataclass(slots=True)
class _Room:
    node: str
    beneficiary: str
    amount: Amounts
    before: Stand
    others: Amounts
    since: float


class FreedRoom:
    """Looked at with the watchdog's other invariants."""

    def __init__(self, breach: Callable[[str], None], happened: Counter[str]) -> None:
        self._breach = breach
        self._happened = happened
        self._open: dict[str, _Room] = {}
        self._known: set[str] = set()

    def seen(
        self, claim_text: str, stand: Callable[[str], Stand | None], booked: Callable[[str, str], Amounts], now: float
    ) -> None:
        """The source of a move with this claim is gone. `booked`: of a node's pods but this one."""
        claim = json.loads(claim_text)
        if claim["id"] in self._known:
            return
        self._known.add(claim["id"])
        if claim["beneficiary"]["kind"] != "VM":
            return
        uid = claim["beneficiary"]["uid"]
        before = stand(uid)
        if before is None or before.closed_claim == claim["id"] or not before.wanted.exceeds(before.approved):
            return
        others = booked(claim["node"], uid)
        amount = before.wanted - before.approved
        self._open[claim["id"]] = _Room(claim["node"], uid, amount, before, others, now)

    def awaited(self, claim_text: str, stand: Callable[[str], Stand | None]) -> None:
        """The source is there. Who wants no more than he has ends his claim, also if he wants more again (B7, B22)."""
        claim = json.loads(claim_text)
        there = stand(claim["beneficiary"]["uid"])
        if there is not None and there.wanted.within(there.approved):
            self.given_up(claim["id"])

    def given_up(self, claim: str) -> None:
        """Before anybody of us could know that the room was free."""
        self._known.add(claim)
        self._open.pop(claim, None)

    def look(
        self,
        stand: Callable[[str], Stand | None],
        booked: Callable[[str, str], Amounts],
        total: Callable[[str], Amounts | None],
        disturbed_at: Callable[[str], float],
        now: float,
    ) -> None:
        for claim, room in list(self._open.items()):
            there, whole = stand(room.beneficiary), total(room.node)
            if there is None or whole is None or disturbed_at(room.node) > room.since - WAIT_S:
                del self._open[claim]
            elif there.approved.exceeds(room.before.approved) or there.closed_claim == claim:
                self._happened["freed room used by its beneficiary"] += 1
                del self._open[claim]
            elif there.wanted.within(there.approved):
                del self._open[claim]
            elif now - room.since > WAIT_S:
                del self._open[claim]
                others = booked(room.node, room.beneficiary)
                left = whole - others - there.approved
                if others.exceeds(room.others) and not there.unit.within(left):
                    taken = (others - room.others).positive()
                    self._breach(
                        f"I4: {claim} freed room on {room.node}; others took {taken.values} of it, and it none"
                    )
