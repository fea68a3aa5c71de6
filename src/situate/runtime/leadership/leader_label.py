"""Keeps a label on the leading Pod and removes it from all others, so that a Service selects only the leader.

For products whose replicas are all Ready while only the leader may answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import structlog

from situate.kube.client import Client
from situate.kube.errors import KubeError, NotFound
from situate.kube.patches import MergePatch
from situate.objects.resources import PODS
from situate.runtime.reconcile.outcomes import Retriable

_CHECK_S: Final = 15.0
_RETRY_S: Final = 1.0
"""Delay after the first failure; it doubles up to `_CHECK_S`."""

Write: TypeAlias = Callable[[str, MergePatch], Awaitable[object]]
"""Patches a Pod of the namespace by name. Raises a `Retriable` if this process does not lead."""


@dataclass(frozen=True, slots=True)
class LeaderLabel:
    """The label of one process's Pod."""

    namespace: str
    pod: str
    """The Pod of this process; empty outside a cluster, where no Pod is labelled."""
    label: str
    value: str


async def maintain_leader_label(mark: LeaderLabel, client: Client, write: Write) -> None:
    """Keep the label on this Pod alone. A task of the leader, until cancelled. `client` only reads."""
    log = structlog.get_logger()
    told, retry_s = "", _RETRY_S
    while mark.pod:
        try:
            if await _label_pod(mark, client, write):
                log.info("pod labelled as request target", pod=mark.pod)
            rest_s, told, retry_s = _CHECK_S, "", _RETRY_S
        except (KubeError, Retriable) as problem:
            if str(problem) != told:
                told = str(problem)
                log.warning("labelling of the request target failed", error=told)
            rest_s, retry_s = retry_s, min(2 * retry_s, _CHECK_S)
        await asyncio.sleep(rest_s)


async def _label_pod(mark: LeaderLabel, client: Client, write: Write) -> bool:
    """Label this Pod and no other; return whether it had no label before."""
    page = await client.list_all(PODS, mark.namespace, label_selector=f"{mark.label}={mark.value}")
    marked = {pod.metadata.name for pod in page.items}
    if mark.pod not in marked:
        await write(mark.pod, _label_patch(mark, mark.value))
    for other in sorted(marked - {mark.pod}):
        try:
            await write(other, _label_patch(mark, None))
        except NotFound:
            continue  # the Pod was deleted meanwhile
    return mark.pod not in marked


def _label_patch(mark: LeaderLabel, value: str | None) -> MergePatch:
    return MergePatch({"metadata": {"labels": {mark.label: value}}})
