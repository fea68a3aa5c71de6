"""Update the requests of a runner Pod together with its VM.

Up, the order is ledger, Pod, VM. Down, it is VM, Pod, ledger. So the Pod's requests, which stock schedulers and quotas
see, are never below the amount that the VM may use. If the server or the kubelet refuses a resize, the Pod stays as it
is and the grant stays too (B47, N7, N8).
"""

from __future__ import annotations

from typing import Final

from situate.vm.api.well_known import NOT_RESIZED
from situate.vm.model.actions import Condition, ResizePod
from situate.vm.model.pods_and_nodes import Pod
from situate.vm.model.policy import DENIED_RETRY_S, Rules
from situate.vm.model.resource_amounts import RESOURCES, Amounts
from situate.vm.model.state import RunnerResize

CPU_AND_MEMORY: Final = len(RESOURCES)


def resize_before_growth(pod: Pod, amount: Amounts) -> ResizePod | None:
    """Return the resize that is due before the VM may use the amount. None: the Pod requests it already."""
    return _resize(pod, pod.counted_amount(amount).maximum(pod.account)) if pod.account is not None else None


def resize_after_shrink(pod: Pod, amount: Amounts) -> ResizePod | None:
    """Return the resize that is due once the VM uses no more than the amount, before the ledger frees the rest."""
    return _resize(pod, pod.counted_amount(amount).minimum(pod.account)) if pod.account is not None else None


def resize_to_amount(pod: Pod, amount: Amounts) -> ResizePod | None:
    """Return the resize to exactly this amount, if it is unknown which write an earlier leader left out."""
    return _resize(pod, pod.counted_amount(amount)) if pod.account is not None else None


def _resize(pod: Pod, requests: Amounts) -> ResizePod | None:
    """Return a resize of the CPU and memory that the Pod requests. Nothing else can be resized in place."""
    assert pod.account is not None
    rows = enumerate(zip(requests, pod.account, strict=True))
    own = Amounts(tuple(to if place < CPU_AND_MEMORY and has else has for place, (to, has) in rows))
    return None if own == pod.account or not all(own.values[:CPU_AND_MEMORY]) else ResizePod(pod.ref, own, own=own)


def condition_after_answer(pod: Pod, before: RunnerResize | None, outcome: str, reason: str) -> Condition | None:
    """Return the condition to set or clear after an answer, once for each change.

    Answers that lead to an immediate retry change nothing.
    """
    stands = pod.not_resized if before is None else before.condition_set
    if outcome == "ok":
        return Condition(pod.ref, NOT_RESIZED, False, "Resized", "") if stands and pod.infeasible is None else None
    return None if outcome in _RETRIED_OUTCOMES else Condition(pod.ref, NOT_RESIZED, True, outcome.capitalize(), reason)


def condition_after_allocation(former: Pod | None, pod: Pod) -> Condition | None:
    """Return the condition to set or clear after a report of the kubelet.

    A Pod that the ledger did not know before may still have a condition from an earlier term.
    """
    told = None if former is None else former.infeasible
    if pod.account is None:
        return None
    if pod.infeasible is not None:
        said = Condition(pod.ref, NOT_RESIZED, True, pod.infeasible.reason, pod.infeasible.message)
        return None if pod.infeasible == told else said
    left = former is None and pod.not_resized and resize_to_amount(pod, pod.reserved) is None
    return Condition(pod.ref, NOT_RESIZED, False, "Resized", "") if left or told is not None else None


_RETRIED_OUTCOMES: Final = ("conflict", "unknown")


def runner_resize_after_answer(
    before: RunnerResize | None, action: ResizePod, outcome: str, now: float, rules: Rules
) -> RunnerResize | None:
    """Return the entry to store after an answer to a resize. None: nothing is left to do."""
    if outcome == "ok":
        return None
    wait = {"denied": DENIED_RETRY_S, "later": rules.retry_s}.get(outcome, rules.patch_retry_s)
    told = outcome not in _RETRIED_OUTCOMES or (before is not None and before.condition_set)
    return RunnerResize(action.amount, condition_set=told, retry_at=None if outcome == "refused" else now + wait)
