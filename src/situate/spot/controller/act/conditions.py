"""Condition on pods that wait without progress because on-demand nodes are full or moves have stopped.

The condition explains a pending pod next to the condition of kube-scheduler. It is written at the start and the end of
the wait, and only on pods. Rules: B11, B18.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

import structlog

from situate.kube.client import Client
from situate.kube.errors import Conflict, KubeError, NotFound
from situate.kube.patches import StrategicMergePatch
from situate.kube.watch.store import Store
from situate.objects.kinds.meta import Condition
from situate.objects.kinds.pods import Pod
from situate.objects.resources import PODS
from situate.objects.values.timestamps import rfc3339
from situate.runtime.leadership.actuator import Actuator
from situate.runtime.reconcile.outcomes import Retriable
from situate.spot.model.misplaced_pods import BlockReason
from situate.spot.model.pods_nodes_workloads import PREFIX, PodKey
from situate.spot.rebalance.decide import Decision, Notice
from situate.spot.workloads.cluster_objects import Cluster

CONDITION: Final = PREFIX + "Placed"
"""`False` while a pod waits for the reason that spot reports; `True` after the wait."""
_CONDITION_REASONS: Final = (str(BlockReason.NO_ON_DEMAND_ROOM), "MovesStopped")
_PLACED: Final = "Placed"
MOST_AT_ONCE: Final = 50
"""Writes after one decision; the remaining ones follow after the next decision."""


class ConditionWriter:
    """Conditions written in one term."""

    def __init__(
        self, client: Client, actuator: Actuator, pods: Store[Pod], cluster: Cluster, wall: Callable[[], datetime]
    ) -> None:
        """`client`: its writes raise a `Retriable` if this process does not lead."""
        self._client = client
        self._actuator = actuator
        self._pods = pods
        self._cluster = cluster
        self._wall = wall
        self._stop_notices: dict[str, Notice] = {}  # a stop is noticed once and holds until the pods have nodes
        self._pods_with_condition = {_pod_key(pod) for pod in pods.list() if _own_condition(pod, "False") is not None}
        self._writing = False
        self._log = structlog.get_logger()

    async def write(self, decision: Decision) -> None:
        """Write the conditions that changed with this decision; nothing while earlier writes are still in progress.

        An unexpected exception costs a pod its condition, and admission keeps its leader.
        """
        try:
            wanted = self._wanted_notices(decision)
            if not self._writing:
                await self._write_changes(
                    [*self._conditions_to_set(wanted), *self._conditions_to_clear(wanted)][:MOST_AT_ONCE]
                )
        except Exception as defect:
            self._log.error("unexpected error of the conditions of pods", exc_info=defect)

    async def _write_changes(self, changes: Sequence[tuple[Pod, str, str, str]]) -> None:
        self._writing = True
        try:
            for pod, status, reason, message in changes:
                try:
                    well = await self._write_condition(pod, status, reason, message)
                except Exception as defect:
                    self._log.error("unexpected error of a pod's condition", pod=str(_pod_key(pod)), exc_info=defect)
                    continue
                if not well:
                    return
        finally:
            self._writing = False

    def _wanted_notices(self, decision: Decision) -> dict[PodKey, Notice]:
        """Return the waiting pods of workloads with such a notice, each with the notice."""
        notices = {notice.owner: notice for notice in decision.notices if notice.reason in _CONDITION_REASONS}
        self._stop_notices |= {uid: notice for uid, notice in notices.items() if notice.reason == "MovesStopped"}
        found = {}
        for uid, notice in (self._stop_notices | notices).items():
            waiting = [pod for pod in self._cluster.pods.get(uid, ()) if pod.live and not pod.node]
            if not waiting:
                self._stop_notices.pop(uid, None)
            found.update({pod.key: notice for pod in waiting})
        return found

    def _conditions_to_set(self, wanted: Mapping[PodKey, Notice]) -> Iterator[tuple[Pod, str, str, str]]:
        for key, notice in wanted.items():
            pod = self._pods.get(key.name, key.namespace)
            known = _own_condition(pod, "False") if pod is not None else None
            if pod is not None and (known is None or known.reason != notice.reason):
                yield pod, "False", notice.reason, notice.message

    def _conditions_to_clear(self, wanted: Mapping[PodKey, Notice]) -> Iterator[tuple[Pod, str, str, str]]:
        for key in sorted(self._pods_with_condition - wanted.keys()):
            pod = self._pods.get(key.name, key.namespace)
            if pod is not None and not pod.spec.node_name:
                continue
            if pod is None or _own_condition(pod, "True") is not None:
                self._pods_with_condition.discard(key)
            else:
                yield pod, "True", _PLACED, f"the pod has the node {pod.spec.node_name}"

    async def _write_condition(self, pod: Pod, status: str, reason: str, message: str) -> bool:
        """Write one condition; return whether to go on with the next pods."""
        meta, key = pod.metadata, _pod_key(pod)
        condition = {
            "type": CONDITION,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": rfc3339(self._wall()),
        }
        patch = StrategicMergePatch({"metadata": {"uid": meta.uid}, "status": {"conditions": [condition]}})
        try:
            await self._actuator.write(self._client.patch_status(PODS, meta.name, patch, meta.namespace))
        except (NotFound, Conflict):
            return True  # another pod has the name now, or the pod is gone
        except (KubeError, Retriable) as problem:
            self._log.warning("write of a pod's condition failed", pod=str(key), error=str(problem))
            return False
        if status == "False":
            self._pods_with_condition.add(key)
        return True


def _pod_key(pod: Pod) -> PodKey:
    return PodKey(pod.metadata.namespace, pod.metadata.name)


def _own_condition(pod: Pod, status: str) -> Condition | None:
    """Return the condition of spot, if it has this status."""
    found = pod.condition(CONDITION)
    return found if found is not None and found.status == status else None
