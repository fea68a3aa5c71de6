"""Check that capacity freed by a migration goes first to the beneficiary of its claim (I4, N7, N11).

The check reads migrations, VMs and pods only. Growth of others is a breach only in one case. After a while the
beneficiary has got none of the capacity, still wants it, and not enough is left.
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
"""Seconds to wait. Processes may be killed and writes be late meanwhile."""


@dataclass(frozen=True, slots=True)
class BeneficiaryAmounts:
    """Amounts of the VM of a beneficiary, as they count on its node."""

    approved: Amounts
    wanted: Amounts
    unit: Amounts
    closed_claim: str


@dataclass(slots=True)
class _OpenClaim:
    node: str
    beneficiary: str
    amount: Amounts
    before: BeneficiaryAmounts
    others: Amounts
    since: float


class FreedCapacity:
    """Open claims on freed capacity. The watchdog checks them with its other invariants."""

    def __init__(self, breach: Callable[[str], None], happened: Counter[str]) -> None:
        self._breach = breach
        self._happened = happened
        self._open: dict[str, _OpenClaim] = {}
        self._known: set[str] = set()

    def record_freed(
        self,
        claim_text: str,
        stand: Callable[[str], BeneficiaryAmounts | None],
        booked: Callable[[str, str], Amounts],
        now: float,
    ) -> None:
        """Record that the source of a migration with this claim is gone.

        `booked` sums a node's pods without one of them.
        """
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
        self._open[claim["id"]] = _OpenClaim(claim["node"], uid, amount, before, others, now)

    def end_if_satisfied(self, claim_text: str, stand: Callable[[str], BeneficiaryAmounts | None]) -> None:
        """End the claim of a VM that wants no more than it has, even if it wants more later (B7, B22).

        The source is still present.
        """
        claim = json.loads(claim_text)
        there = stand(claim["beneficiary"]["uid"])
        if there is not None and there.wanted.fits_within(there.approved):
            self.drop_claim(claim["id"])

    def drop_claim(self, claim: str) -> None:
        """Drop the claim of a VM that gave up before any process of ours could know that the capacity was free."""
        self._known.add(claim)
        self._open.pop(claim, None)

    def check_claims(
        self,
        stand: Callable[[str], BeneficiaryAmounts | None],
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
            elif there.wanted.fits_within(there.approved):
                del self._open[claim]
            elif now - room.since > WAIT_S:
                del self._open[claim]
                others = booked(room.node, room.beneficiary)
                left = whole - others - there.approved
                if others.exceeds(room.others) and not there.unit.fits_within(left):
                    taken = (others - room.others).positive_part()
                    self._breach(
                        f"I4: {claim} freed capacity on {room.node}; others took {taken.values}, its beneficiary none"
                    )
