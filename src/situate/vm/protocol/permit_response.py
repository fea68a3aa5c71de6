"""Time and content of answers to agents, from the Pod's annotations (`compat`) or from the ledger (C16, B28, D13).

The server asks at each change of the Pod or the ledger, and at the end of the wait, until there is an answer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from situate.vm.api.parse_errors import ParseError, ParseFailure, Place
from situate.vm.api.quantities import read_amounts, read_guest
from situate.vm.api.well_known import APPROVED, REQUESTED
from situate.vm.api.well_known import RESOURCES as GUEST
from situate.vm.model.events import ResourcesRequested
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import LedgerState
from situate.vm.protocol.permit import PermitReason, decide_permit, is_settled
from situate.vm.protocol.permit_request import HttpAnswer, ObservedPod, PermitRequest, unknown_pod_answer

WAIT_S: Final = 1.0
_TIMED_OUT: Final = "timed out waiting for updates to be processed"


def answer_from_annotations(
    request: PermitRequest, shown: ObservedPod | None, elapsed_s: float, wait_s: float = WAIT_S, *, changed: bool = True
) -> HttpAnswer | None:
    """Return the answer that the Pod's annotations allow after the elapsed time; None: wait (C16).

    `changed`: the Pod has changed since the request arrived. An earlier approval answers no request for more.
    """
    if shown is None:
        return unknown_pod_answer(request)
    if not request.increases:
        return HttpAnswer(200, request.resources)
    if not changed and elapsed_s < wait_s:
        return None
    over = elapsed_s >= wait_s
    try:
        requested, approved = (_annotated_amounts(request, shown, key) for key in (REQUESTED, APPROVED))
        if requested != request.resources:
            return _error_answer(request, f"{_TIMED_OUT}: the pod does not show the request yet") if over else None
        if approved is None:
            return HttpAnswer(200, _amount_in_use(request, shown)) if over else None
    except ParseFailure as problem:
        return HttpAnswer(500, text=f"failed to extract state from pod {request.pod}: {problem.error}")
    if over or request.last_permit is None or approved.exceeds(request.last_permit):
        return HttpAnswer(200, approved)
    return None


def _annotated_amounts(request: PermitRequest, shown: ObservedPod, key: str) -> Amounts | None:
    """Return the amounts in an annotation. Raises `ParseFailure`."""
    text = shown.annotations.get(key)
    read = None if text is None else read_amounts(text, Place.annotation(f"pod {request.pod}", key))
    if isinstance(read, ParseError):
        raise ParseFailure(read)
    return read


def _amount_in_use(request: PermitRequest, shown: ObservedPod) -> Amounts:
    """Return the VM's use: it counts as approved until there is an approved amount (C8). Raises `ParseFailure`."""
    place = Place.annotation(f"pod {request.pod}", GUEST)
    read = read_guest(shown.annotations.get(GUEST, ""), place)
    if isinstance(read, ParseError):
        raise ParseFailure(read)
    return read.use


def unreadable_pod_answer(request: PermitRequest) -> HttpAnswer:
    """Answer for a Pod that was not readable in this leader's term: its maximum is reserved and its VM is unknown."""
    return HttpAnswer(500, text=f"failed to extract state from pod {request.pod}: see its Event NotUnderstood")


def request_event(request: PermitRequest, uid: str, state: LedgerState) -> ResourcesRequested:
    """Return the request as an event of the ledger; `uid` is the Pod's.

    Agents know only CPU and memory. Of further resources, the Pod keeps its reserved amounts (B45).
    """
    pod, nothing = state.pod(uid), Amounts.zero(state.resources)
    held = nothing if pod is None else pod.reserved
    return ResourcesRequested(
        uid=uid,
        unit=request.unit.with_others_from(nothing),
        requested=request.resources.with_others_from(held),
        last_permit=None if request.last_permit is None else request.last_permit.with_others_from(held),
        lowers_at_once=request.lowers_at_once,
        sequence=request.sequence,
        run=request.run,
        load1=request.load1,
    )


def answer_from_ledger(
    request: PermitRequest, uid: str, state: LedgerState, elapsed_s: float, rules: Rules, wait_s: float = WAIT_S
) -> HttpAnswer | None:
    """Return the answer that the ledger allows after the elapsed time; None: wait (B28, D13).

    An increase is sent only after its write is stored (I2). A permit never exceeds the request (I11), even if more is
    reserved.
    """
    told = decide_permit(state, request_event(request, uid, state), rules)
    if told is None:
        return unknown_pod_answer(request)
    permit, over = told.permit.compute_resources.minimum(request.resources), elapsed_s >= wait_s
    if told.reason is PermitReason.FROZEN or (not request.increases and _is_approved(state, uid)):
        return HttpAnswer(200, permit, decision=told)
    if told.reason is PermitReason.STARTING or not is_settled(state, uid):
        return late_answer(request, uid, state, rules) if over else None
    if over or request.last_permit is None or permit.exceeds(request.last_permit):
        return HttpAnswer(200, permit, decision=told)
    return None


def late_answer(request: PermitRequest, uid: str, state: LedgerState, rules: Rules) -> HttpAnswer:
    """Answer with the agent's current permit, because the writes for the request are not all stored (F16, I2).

    If nothing was ever approved for the VM, the answer is an error. The VM then reserves only its use, which may still
    fall. At first contact, the permit is the VM's use.
    """
    told, pod = decide_permit(state, request_event(request, uid, state), rules), state.pod(uid)
    if told is None or pod is None:
        return unknown_pod_answer(request)
    if told.reason is not PermitReason.FROZEN and not _is_approved(state, uid):
        return _error_answer(request, "no amount is approved yet, and the approval could not be written in time")
    if told.reason not in (PermitReason.FROZEN, PermitReason.STARTING):
        told = replace(told, reason=PermitReason.BUSY, retry_after_s=rules.retry_s, expires=None)
    held = (
        pod.used.compute_resources
        if request.last_permit is None
        else told.permit.compute_resources.minimum(request.last_permit)
    )
    return HttpAnswer(200, held.minimum(request.resources), decision=told)


def _is_approved(state: LedgerState, uid: str) -> bool:
    """Return whether the agent's amount is approved in writing. If not, it would follow a falling use (I2)."""
    pod = state.pod(uid)
    return pod is not None and (pod.approved or (uid in state.permits and is_settled(state, uid)))


def _error_answer(request: PermitRequest, why: str) -> HttpAnswer:
    return HttpAnswer(500, text=f"pod {request.pod}: {why}; ask again")
