"""The reference's step for the resources of one machine (C26), as it is without claims, waiters or joint grants.

Whatever it says to write is tested against unit and request by the write itself (`situate.vm.writes`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from situate.vm.amounts import Amounts
from situate.vm.booking import with_pod
from situate.vm.granting import granted
from situate.vm.model import Node, Pod
from situate.vm.rules import Rules


@dataclass(frozen=True, slots=True)
class ResourceStep:
    """What to do about one pod now."""

    node: Node
    """With what is booked: a decrease counts only once the pod shows it."""
    approve: Amounts | None = None
    """To be written to the machine; None: nothing is."""
    short: bool = False
    """It did not get all that it wants: reported as a failure."""
    retry_after_s: float | None = None
    after_start: bool = False
    """It is to be looked at again once everything that was listed is taken in (C30)."""


def resource_step(node: Node, pod: Pod, patched_s_ago: float | None, rules: Rules, *, started: bool) -> ResourceStep:
    """`pod` is on the node. `patched_s_ago`: since its machine was last written to; None: never."""
    if not started:
        return ResourceStep(node, after_start=True)
    tried = granted(node, pod)
    retry = None if tried.done else rules.retry_s
    if tried.pod.reserved == pod.reserved and pod.approved:
        return ResourceStep(node, short=not tried.done, retry_after_s=retry)
    if patched_s_ago is not None and patched_s_ago < rules.patch_retry_s:
        return ResourceStep(node, retry_after_s=rules.patch_retry_s - patched_s_ago)
    booked = with_pod(node, replace(pod, reserved=pod.reserved.most(tried.pod.reserved)))
    return ResourceStep(booked, tried.pod.reserved, not tried.done, retry)
