"""Keep open claims no larger than the need of their beneficiary, nor than the amount that their migrations can free.

`situate.vm.ledger.grants.wait_queue` grants freed capacity, first to waiters with a freed claim. This module changes
the claims before and after that, and ends them (B3 to B8).
"""

from __future__ import annotations

from dataclasses import replace

from situate.vm.ledger.migrations.completion import close_claim, migration_of_claim
from situate.vm.ledger.transaction import Draft
from situate.vm.model.actions import ShrinkClaim
from situate.vm.model.migrations import BeneficiaryKind, Claim, ClaimOutcome, ClaimState, Stage
from situate.vm.model.pods_and_nodes import Pod
from situate.vm.model.resource_amounts import Amounts, total
from situate.vm.model.state import LedgerState

_ADVANCEMENT = (Stage.PLANNED, Stage.STARTING, Stage.COPYING, Stage.DONE)


def claims_on_node(state: LedgerState, node: str) -> list[Claim]:
    return [claim for claim in state.claims.values() if claim.node == node]


def claims_of_beneficiary(state: LedgerState, uid: str) -> list[Claim]:
    return [claim for claim in state.claims.values() if claim.beneficiary.ref.uid == uid]


def mark_freed(draft: Draft, source: str, left: Amounts) -> None:
    """Mark the claims of a source as freed: it is gone or ended with all its containers.

    `left` is the amount that the source had on its node. The part beyond the claim is held while the claim is open
    (B6).
    """
    for claim in [each for each in draft.state.claims.values() if each.source_uid == source]:
        if claim.beneficiary.kind is BeneficiaryKind.TARGET:
            # the reservation that the claim was made for already counts as incoming
            close_claim(draft, claim, ClaimOutcome.GRANTED)
        else:
            draft.put_claim(replace(claim, state=ClaimState.FREED, surplus=(left - claim.amount).positive_part()))
        draft.mark_changed(claim.node)


def shrink_claims(draft: Draft, node: str) -> None:
    """Reduce claims before capacity is granted.

    No claim is larger than the amount of its source (B5), nor than the need of its beneficiary (B7, B20).
    """
    _end_links(draft, node)
    for claim in claims_on_node(draft.state, node):
        if claim.state is ClaimState.FREED or claim.id not in draft.state.claims:
            continue
        source = draft.state.nodes[node].pods.get(claim.source_uid)
        if source is not None:
            _reduce(draft, claim, claim.amount.minimum(source.counted_amount(source.reserved)))
    for uid in dict.fromkeys(claim.beneficiary.ref.uid for claim in claims_on_node(draft.state, node)):
        _cap_to_need(draft, node, uid)


def _end_links(draft: Draft, node: str) -> None:
    """Withdraw claims whose beneficiary is a dropped migration: no migration needs their capacity.

    A new leader may not know the next migration of a chain. It plans with the capacity that becomes free (B43), and its
    new plan for the same VM may choose another node.
    """
    for claim in claims_on_node(draft.state, node):
        next_move = str(claim.beneficiary.ref)
        if claim.beneficiary.kind is BeneficiaryKind.TARGET and draft.dropped_targets.get(next_move) == node:
            close_claim(draft, claim, ClaimOutcome.WITHDRAWN)


def _cap_to_need(draft: Draft, node: str, uid: str) -> None:
    """Reduce the claims of one beneficiary to its need.

    Freed claims count first, then those of the migrations that are furthest on. The rest is not needed any more.
    """
    state = draft.state
    claims = [each for each in claims_of_beneficiary(state, uid) if each.beneficiary.kind is not BeneficiaryKind.TARGET]
    left = state.need(uid) if state.where.get(uid) == node else Amounts.zero(state.resources)
    for claim in sorted(claims, key=lambda each: _advancement(state, each), reverse=True):
        kept = claim.amount.minimum(left) if claim.node == node else Amounts.zero(state.resources)
        left = left - kept
        _reduce(draft, claim, kept)


def _advancement(state: LedgerState, claim: Claim) -> tuple[bool, int]:
    move = migration_of_claim(state, claim.id)
    stage = -1 if move is None or move.stage not in _ADVANCEMENT else _ADVANCEMENT.index(move.stage)
    return claim.state is ClaimState.FREED, stage


def _reduce(draft: Draft, claim: Claim, amount: Amounts) -> None:
    if amount == claim.amount and amount:
        return
    smaller = replace(claim, amount=amount)
    if amount:
        draft.put_claim(smaller)
        _write_claim(draft, smaller)
    else:
        beneficiary = claim.beneficiary.ref.uid
        used = claim.state is ClaimState.FREED and (
            draft.is_claim_used(beneficiary, claim.id) or _is_reserved(draft.state, claim)
        )
        used = used or _is_resized(draft.state.pod(beneficiary))
        close_claim(draft, claim, ClaimOutcome.GRANTED if used else ClaimOutcome.WITHDRAWN)


def _write_claim(draft: Draft, claim: Claim) -> None:
    move = migration_of_claim(draft.state, claim.id)
    if move is not None and (move.requested_at is not None or move.uid):
        draft.add_action(ShrinkClaim(claim, move.name, move.machine, move.uid))


def end_spent_claims(draft: Draft, node: str) -> None:
    """End freed claims after grants, if their beneficiary cannot use them. The capacity is then free.

    A claim stays open while another migration frees capacity for the same beneficiary, because several parts may add up
    to a unit. It also stays open while the beneficiary migrates and must not grow.
    """
    for claim in claims_on_node(draft.state, node):
        if claim.state is not ClaimState.FREED:
            continue
        pod = draft.state.pod(claim.beneficiary.ref.uid)
        more = [each for each in claims_of_beneficiary(draft.state, claim.beneficiary.ref.uid) if each.node == node]
        if pod is None or draft.state.where.get(pod.uid) != node:
            close_claim(draft, claim, ClaimOutcome.WITHDRAWN)
        elif not claim.amount:
            close_claim(draft, claim, ClaimOutcome.GRANTED)
        elif not draft.is_migrating(pod) and all(each.state is ClaimState.FREED for each in more):
            close_claim(draft, claim, ClaimOutcome.PARTIAL)


def mark_broken(draft: Draft, node: str) -> None:
    """Mark claims as broken if the node shrank or a fact that the scheduler cannot refuse took their capacity."""
    state = draft.state
    claims = _claims_to_grant(state, node)
    if not claims:
        return
    room = capacity_after_departures(state, node) + total((claim.amount for claim in claims), state.resources)
    for claim in sorted(claims, key=lambda each: (_advancement(state, each), each.id), reverse=True):
        there = room.positive_part().minimum(claim.amount)
        if there != claim.amount:
            _break_claim(draft, claim, there)
        room = room - there


def capacity_after_departures(state: LedgerState, node: str) -> Amounts:
    """Return the free and unclaimed amount after all sources of claims have left.

    Negative if the node is overcommitted. Sources that free capacity for the next migration of a chain count as gone:
    its reservation counts already.
    """
    entry = state.nodes[node]
    leaving = (entry.pods[each.source_uid] for each in claims_on_node(state, node) if each.source_uid in entry.pods)
    leave = total((pod.counted_amount(pod.reserved) for pod in leaving), state.resources)
    claimed = total((claim.amount for claim in _claims_to_grant(state, node)), state.resources)
    return entry.total - entry.reserved - state.incoming_amount(node, "") + leave - claimed


def _claims_to_grant(state: LedgerState, node: str) -> list[Claim]:
    """Return the claims whose amount no beneficiary has in the ledger yet."""
    claims = [each for each in claims_on_node(state, node) if each.beneficiary.kind is not BeneficiaryKind.TARGET]
    return [each for each in claims if not _is_reserved(state, each)]


def _is_reserved(state: LedgerState, claim: Claim) -> bool:
    """Return whether the claimed amount already counts for its beneficiary: its resize is written."""
    pod = state.pod(claim.beneficiary.ref.uid)
    return pod is not None and (pod.deferred or _is_resized(pod))


def _is_resized(pod: Pod | None) -> bool:
    """Return whether the Pod's spec has its whole requested size.

    A kubelet before 1.34 does not report a resize that it has not evaluated yet.
    """
    return (
        pod is not None and pod.resize is not None and pod.resize.done and pod.limited_request.fits_within(pod.reserved)
    )


def _break_claim(draft: Draft, claim: Claim, there: Amounts) -> None:
    broken = replace(claim, amount=there, broken=True)
    draft.notify(
        claim.beneficiary.ref,
        "ClaimBroken",
        f"Another Pod took part of the capacity that was reserved for this request on node {claim.node}",
        warning=True,
        claim=claim.id,
        node=claim.node,
    )
    if there:
        draft.put_claim(broken)
        _write_claim(draft, broken)
    else:
        close_claim(draft, broken, ClaimOutcome.FAILED)
