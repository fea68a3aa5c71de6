"""The account grows with the machine: its runner pod requests what the machine counts for on its node (B47, N7, N8).

Up, the ledger comes first, then the pod, then the machine; down, the machine, the pod, the ledger: at every moment the
pod's requests, which stock schedulers and quotas see, are no less than what the machine may use. What the server or the
kubelet refuses leaves the pod as it is, and the grant as well.
"""

from __future__ import annotations

from typing import Final

from situate.vm.api.well_known import NOT_RESIZED
from situate.vm.model.actions import Condition, ResizePod
from situate.vm.model.pods_and_nodes import Pod
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import RESOURCES, Amounts
from situate.vm.model.state import Account

CPU_AND_MEMORY: Final = len(RESOURCES)


def grown(pod: Pod, amount: Amounts) -> ResizePod | None:
    """What has to be written to the pod before its machine may use so much; None: it requests that already."""
    return _resize(pod, pod.counted(amount).most(pod.account)) if pod.account is not None else None


def shrunk(pod: Pod, amount: Amounts) -> ResizePod | None:
    """What is written to the pod once its machine uses no more than that, before the ledger counts it as free."""
    return _resize(pod, pod.counted(amount).least(pod.account)) if pod.account is not None else None


def exact(pod: Pod, amount: Amounts) -> ResizePod | None:
    """Both at once, where nobody knows which of them an earlier leader did not come to."""
    return _resize(pod, pod.counted(amount)) if pod.account is not None else None


def _resize(pod: Pod, requests: Amounts) -> ResizePod | None:
    """Of CPU and memory, what it requests of; nothing else can be resized in place."""
    assert pod.account is not None
    rows = enumerate(zip(requests, pod.account, strict=True))
    own = Amounts(tuple(to if place < CPU_AND_MEMORY and has else has for place, (to, has) in rows))
    return None if own == pod.account or not all(own.values[:CPU_AND_MEMORY]) else ResizePod(pod.ref, own, own=own)


def condition(pod: Pod, before: Account | None, outcome: str, reason: str) -> Condition | None:
    """Said once when the pod stays as it is, and once when it does not any more; nothing of what is tried anew."""
    stands = pod.not_resized if before is None else before.told
    if outcome == "ok":
        return Condition(pod.ref, NOT_RESIZED, False, "Resized", "") if stands and pod.infeasible is None else None
    return None if outcome in _ANEW else Condition(pod.ref, NOT_RESIZED, True, outcome.capitalize(), reason)


def allocated(former: Pod | None, pod: Pod) -> Condition | None:
    """The same of what its kubelet said since; of a pod that was not known before a condition may be left."""
    told = None if former is None else former.infeasible
    if pod.account is None:
        return None
    if pod.infeasible is not None:
        said = Condition(pod.ref, NOT_RESIZED, True, pod.infeasible.reason, pod.infeasible.message)
        return None if pod.infeasible == told else said
    left = former is None and pod.not_resized and exact(pod, pod.reserved) is None
    return Condition(pod.ref, NOT_RESIZED, False, "Resized", "") if left or told is not None else None


_ANEW: Final = ("conflict", "unknown")


def after(before: Account | None, action: ResizePod, outcome: str, now: float, rules: Rules) -> Account | None:
    """What is left to remember of a resize that was answered; None: nothing."""
    if outcome == "ok":
        return None
    wait = {"denied": rules.denied_retry_s, "later": rules.retry_s}.get(outcome, rules.patch_retry_s)
    told = outcome not in _ANEW or (before is not None and before.told)
    return Account(action.amount, told=told, retry_at=None if outcome == "refused" else now + wait)
