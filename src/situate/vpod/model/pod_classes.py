"""The class of a Pod: whether it accepts new vreplicas, holds its own, or rejects all.

The class of a Pod follows from the Pod, its node and the time since it became unhealthy. `state` counts the vreplicas
on the Pods. The rules are in "Pod classes" of `docs/spec/vpod.md`.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from situate.vpod.model.options import Options

_GO_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})


class PodFacts(msgspec.Struct, frozen=True):
    """The facts about a Pod that the scheduler uses. A Pod without facts does not exist."""

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
    """The facts about a node that the scheduler uses."""

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
    """Receives vreplicas; its vreplicas stay."""
    HOLD = "hold"
    """Receives none; its vreplicas stay and count as placed."""
    REJECT = "reject"
    """Receives none; its vreplicas are placed elsewhere."""


class Cause(StrEnum):
    """Why a Pod does not accept; the texts of explanations and conditions."""

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
    """The class of a Pod and its cause. At `until` a hold becomes a reject if nothing changes (None: never)."""

    pod_class: PodClass
    cause: Cause = Cause.NONE
    until: float | None = None


ACCEPTED = Verdict(PodClass.ACCEPT)


def is_true(annotation: str | None) -> bool:
    """Read a boolean as Go does. A value that Go rejects counts as false."""
    return annotation in _GO_TRUE


def hold_cause(pod: PodFacts | None, node: NodeFacts | None, nodes_known: bool, options: Options) -> Cause:
    """Return the cause that holds a Pod and rejects it after `pod_grace`; NONE if there is none."""
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
