"""Whether an API server itself refuses what fencing forbids: tried with a write that changes nothing.

An epoch that jumps is refused to everybody by the policy (`situate.sharding.policy`), and by nothing else. The write is
a dry run, so that nothing happens where the policy is missing. Without an object there is nothing to try it on.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from situate.kube.client import Client
from situate.kube.errors import ApiError, KubeError
from situate.kube.patches import MergePatch
from situate.objects.resources import ResourceType
from situate.objects.unstructured import Unstructured
from situate.sharding.admitting import Refusal
from situate.sharding.names import EPOCH

_JUMP = 1_000_003
"""No epoch grows by so much at once."""


class Fence(Enum):
    """What was found."""

    ENFORCED = "enforced"
    MISSING = "missing"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class FenceFinding:
    """And how."""

    fence: Fence
    said: str


async def check_fence(
    client: Client, resource: ResourceType[Unstructured], namespace: str | None = None
) -> FenceFinding:
    """Raises nothing that the world does: what cannot be found out is unknown, with the reason."""
    try:
        page = await client.list(resource, namespace, limit=1)
    except KubeError as problem:
        return FenceFinding(Fence.UNKNOWN, str(problem))
    if not page.items:
        return FenceFinding(Fence.UNKNOWN, f"there are no {resource.group_resource} yet to try it on")
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
            return FenceFinding(Fence.UNKNOWN, f"{where}: a dry run was refused for another reason: {problem}")
        return FenceFinding(Fence.ENFORCED, f"{where}: a jump of the epoch is refused")
    except KubeError as problem:
        return FenceFinding(Fence.UNKNOWN, f"{where}: {problem}")
    return FenceFinding(
        Fence.MISSING, f"{where}: a jump of the epoch is accepted; `situate manifests shard` prints the policy"
    )
