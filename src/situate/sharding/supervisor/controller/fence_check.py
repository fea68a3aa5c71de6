"""Check with a dry run whether the API server itself enforces fencing.

The admission policy (`situate.sharding.fencing.admission_policy`) refuses a jump of an epoch to every client. No other
check refuses such a jump. The write is a dry run, so that nothing changes if the policy is missing. The check needs at
least one object.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

from situate.kube.client import Client
from situate.kube.errors import ApiError, Forbidden, KubeError
from situate.kube.patches import JsonPatch, MergePatch
from situate.objects.kinds.unstructured import Unstructured
from situate.objects.resources import ResourceType
from situate.sharding.fencing.admit import Refusal
from situate.sharding.fencing.refusals import fence_refusal
from situate.sharding.model.actions import Assign, write_of
from situate.sharding.model.field_paths import ObjectAdapter
from situate.sharding.model.names import EPOCH, Cause
from situate.sharding.model.object_view import Holder, ObjectView, Placement, view_of

_JUMP = 1_000_003
"""An increase of the epoch that no valid write makes."""
_MOST_LISTED = 500
"""Number of objects listed in the search for an open one."""


class FenceState(Enum):
    """The outcome of the fence check."""

    ENFORCED = "enforced"
    MISSING = "missing"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class FenceFinding:
    """The outcome of the fence check, and a sentence about it."""

    fence: FenceState
    message: str


async def check_fence(
    client: Client, resource: ResourceType[Unstructured], namespace: str | None = None
) -> FenceFinding:
    """Try a jump of an epoch as a dry run.

    Raises no error of the API server: if the check fails, the outcome is `UNKNOWN`, with the reason.
    """
    try:
        page = await client.list(resource, namespace, limit=1)
    except KubeError as problem:
        return FenceFinding(FenceState.UNKNOWN, str(problem))
    if not page.items:
        return FenceFinding(FenceState.UNKNOWN, f"no {resource.group_resource} exist yet for this check")
    found = page.items[0].metadata
    text = found.annotations.get(EPOCH, "0")
    epoch = int(text) if text.isascii() and text.isdigit() and len(text) < 18 else 0
    patch = MergePatch({"metadata": {"annotations": {EPOCH: str(epoch + _JUMP)}}})
    where = f"{found.namespace}/{found.name}" if found.namespace else found.name
    try:
        await client.patch(resource, found.name, patch, found.namespace or None, dry_run=True)
    except ApiError as problem:
        refusal = next(
            (each for each in (Refusal.STEP, Refusal.NOT_SUPERVISOR, Refusal.NOT_RELEASED) if each in str(problem)),
            None,
        )
        if refusal is None:
            return FenceFinding(FenceState.UNKNOWN, f"{where}: a dry run was refused for another reason: {problem}")
        return FenceFinding(FenceState.ENFORCED, f"{where}: a jump of the epoch is refused")
    except KubeError as problem:
        return FenceFinding(FenceState.UNKNOWN, f"{where}: {problem}")
    return FenceFinding(
        FenceState.MISSING,
        f"{where}: a jump of the epoch is accepted; apply the policy of `situate manifests sharding`",
    )


class WriteAccess(Enum):
    """The outcome of the write check: whether the fencing policy lets a supervisor write."""

    ALLOWED = "allowed"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class WriteFinding:
    """The outcome of one dry run, and a sentence about it."""

    access: WriteAccess
    message: str


async def check_write_access(
    supervisor: Client,
    resource: ResourceType[Unstructured],
    adapter: ObjectAdapter,
    term: int,
    ours: Callable[[ObjectView], bool],
    namespace: str | None = None,
) -> WriteFinding:
    """Try an assignment of an open object as a dry run.

    `supervisor`: a client with the supervisor's ServiceAccount. `term`: the term of its Lease. `ours`: whether an
    object belongs to its partition. If the object bears a later term, the check writes that term, like a supervisor.
    Raises no error of the API server.
    """
    try:
        listed = (await supervisor.list(resource, namespace, limit=_MOST_LISTED)).items
    except KubeError as problem:
        return WriteFinding(WriteAccess.UNKNOWN, str(problem))
    views = (view_of(each.content, adapter) for each in listed)
    view = next((each for each in views if not (each.completed or each.faults or each.deleting) and ours(each)), None)
    if view is None:
        return WriteFinding(WriteAccess.UNKNOWN, f"no open {resource.group_resource} exist yet for this check")
    holder = Holder("situate-check", "00000000-0000-0000-0000-000000000000")
    placement = Placement(holder, max(term, view.term), datetime.now(UTC), Cause.NEW, None)
    patch = JsonPatch(write_of(Assign(placement), view, adapter).operations)
    where = f"{view.namespace}/{view.name}" if view.namespace else view.name
    try:
        await supervisor.patch(resource, view.name, patch, view.namespace or None, dry_run=True)
    except KubeError as problem:
        return _refusal_finding(where, problem)
    return WriteFinding(WriteAccess.ALLOWED, f"{where}: a dry run of an assignment is accepted")


def _refusal_finding(where: str, problem: KubeError) -> WriteFinding:
    refusal = fence_refusal(str(problem))
    if refusal is not None:
        return WriteFinding(WriteAccess.REFUSED, f"{where}: {refusal}; {refusal.next_step}")
    by_rule = isinstance(problem, Forbidden) and not problem.permission_missing
    return WriteFinding(WriteAccess.REFUSED if by_rule else WriteAccess.UNKNOWN, f"{where}: {problem}")
