"""Which pods receive vreplicas, which keep what they hold, and which give it up: the classes of section 3.

A pod of the StatefulSet is judged from what is known of it, of its node, and from how long it has been out of
order. Counting what is on the pods is left to `state`.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from situate.vpod.model.options import Options

_GO_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})


class PodFacts(msgspec.Struct, frozen=True):
    """What the scheduler needs to know of a pod. A pod that is not known does not exist."""

    name: str
    node: str = ""
    """spec.nodeName; empty while the pod is Pending."""
    annotation: str | None = None
    """Value of POD_ANNOTATION_KEY."""
    phase: str = "Running"
    ready: bool | None = None
    """Condition Ready; None when unknown or absent."""
    deleting: bool = False
    uid: str = ""
    drained_by: str | None = None
    """Value of DRAINED_BY_ANNOTATION_KEY."""


class NodeFacts(msgspec.Struct, frozen=True):
    """What the scheduler needs to know of a node."""

    name: str
    zone: str | None = None
    """Label topology.kubernetes.io/zone; None counts as zone `unknown`."""
    unschedulable: bool = False
    """Cordoned."""
    ready: bool = True
    """Condition Ready is True."""
    unreachable: bool = False
    """Tainted node.kubernetes.io/unreachable with NoExecute or NoSchedule."""


class PodClass(StrEnum):
    ACCEPT = "accept"
    """Receives vreplicas, keeps what it holds."""
    HOLD = "hold"
    """Receives none; what it holds stays and counts as placed."""
    REJECT = "reject"
    """Receives none; what it holds is placed elsewhere."""


class Cause(StrEnum):
    """Why a pod is not simply accepting; the words of explanations and conditions."""

    NONE = "ok"
    UNSCHEDULABLE = "unschedulable"
    BEYOND_REPLICAS = "beyond replicas"
    REPLICAS_RESET = "replicas reset"
    MISSING = "missing"
    PENDING = "pending"
    TERMINATING = "terminating"
    FAILED = "failed"
    NOT_READY = "not ready"
    NODE_GONE = "node gone"
    NODE_UNREACHABLE = "node unreachable"
    CORDONED = "cordoned"
    DRAINING = "draining"


class Verdict(msgspec.Struct, frozen=True):
    """A pod's class, with its cause; `until` is when a hold becomes a reject if nothing changes (None: never)."""

    pod_class: PodClass
    cause: Cause = Cause.NONE
    until: float | None = None


ACCEPTED = Verdict(PodClass.ACCEPT)


def is_true(annotation: str | None) -> bool:
    """Reads a boolean as Go does; what Go would not read counts as false."""
    return annotation in _GO_TRUE


def trouble(pod: PodFacts | None, node: NodeFacts | None, nodes_known: bool, options: Options) -> Cause:
    """What keeps the pod from receiving vreplicas and ends in rejection after `pod_grace`; NONE if nothing does."""
    if pod is None:
        return Cause.MISSING
    if pod.deleting:
        return Cause.TERMINATING
    if pod.phase in ("Failed", "Succeeded"):
        return Cause.FAILED
    if not pod.node:
        return Cause.PENDING
    if nodes_known and node is None:
        return Cause.NODE_GONE
    if node is not None and (node.unreachable or not node.ready):
        return Cause.NODE_UNREACHABLE
    if options.require_ready and pod.ready is not True:
        return Cause.NOT_READY
    return Cause.NONE
