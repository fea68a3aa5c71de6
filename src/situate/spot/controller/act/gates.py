"""Strict mode in the leader: each pod behind the gate is read, classified and released from the gate with one patch.

Pods are classified one after the other, and each counts the classes already written but not yet seen. Requests overlap.
If a pod cannot get a class, the gate is removed without one, because the pod would otherwise wait for ever. Rules: P7
to P9.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import structlog

from situate.kube.client import Client
from situate.kube.errors import BadRequest, Conflict, Invalid, KubeError, NotFound
from situate.kube.events import WARNING, RecordEvent
from situate.kube.patches import JsonPatch
from situate.kube.watch.store import Store
from situate.objects.kinds.events import ObjectReference
from situate.objects.kinds.pods import Pod
from situate.objects.kinds.unstructured import Unstructured
from situate.objects.resources import PODS, ResourceType
from situate.runtime.leadership.actuator import Actuator
from situate.runtime.reconcile.outcomes import Retriable
from situate.spot.admission.admit import UNREADABLE, AdmissionView, LiveRead, NeedsRead
from situate.spot.admission.ledger import Ledger
from situate.spot.admission.scheduling_gates import (
    GatedPodAnswer,
    classify_gated_pod,
    gate_removal_patch,
    gated_pods_in_order,
    overdue_gated_pods,
)
from situate.spot.model.pods_nodes_workloads import GATE, Capacity, PodFacts, PodKey
from situate.spot.server.metrics import AdmissionMetrics
from situate.spot.workloads.owners import pod_facts

WHOLE_PODS: Final = ResourceType("", "v1", "Pod", "pods", True, Unstructured)
"""Pods with every field, as a patch needs them."""
OVERDUE_S: Final = 15.0
_AT_ONCE: Final = 16
_TRIES: Final = 3
"""Reads of a pod that changes between read and write."""
_AGAIN_S: Final = 1.0
_CHECK_S: Final = 1.0


class Gates:
    """Gated pods; `run` is a task of the leader, `alert` a task of every replica."""

    def __init__(
        self,
        pods: Store[Pod],
        view: Callable[[LiveRead | None], AdmissionView],
        read: Callable[[NeedsRead], Awaitable[LiveRead]],
        record: RecordEvent,
        *,
        token: Callable[[], str],
        wall: Callable[[], float],
        metrics: AdmissionMetrics,
    ) -> None:
        """`token`: returns a new token at each call; `wall`: seconds since the epoch."""
        self._view = view
        self._read = read
        self._record = record
        self._token = token
        self._wall = wall
        self._metrics = metrics
        self._gated_pods: dict[PodKey, tuple[PodFacts, float]] = {}  # each with the time at which it became known
        self._sent_classes: dict[str, Capacity] = {}  # by uid, until the watch shows the class
        self._surges = Ledger.empty()  # of pods placed as spot in a rollout (B17)
        self._in_progress: set[str] = set()  # by uid, until the watch shows that the gate is gone
        self._reported: set[str] = set()
        self._wake_event = asyncio.Event()
        self._log = structlog.get_logger()
        pods.on_change(self._on_pod_change)

    async def run(self, client: Client, actuator: Actuator) -> None:
        """Classify waiting pods until the term ends. Writes of `client` raise a `Retriable` if this process does not
        lead."""
        self._sent_classes.clear()
        self._surges = Ledger.empty()
        self._in_progress.clear()
        lane = asyncio.Semaphore(_AT_ONCE)
        async with asyncio.TaskGroup() as group:
            while True:
                self._wake_event.clear()
                for pod in gated_pods_in_order(facts for facts, _ in self._gated_pods.values()):
                    if pod.uid not in self._in_progress:
                        self._in_progress.add(pod.uid)
                        group.create_task(self._process_pod(pod, client, actuator, lane), name=f"placing {pod.key}")
                await self._wake_event.wait()

    async def alert(self) -> None:
        """Report pods that have been gated for too long, also while no replica leads."""
        while True:
            now = self._wall()
            late = overdue_gated_pods((facts for facts, _ in self._gated_pods.values()), now, OVERDUE_S)
            self._metrics.gated.set(len(self._gated_pods))
            self._metrics.gated_overdue.set(len(late))
            for pod in late:
                if pod.uid not in self._reported:
                    self._report_overdue(pod, now - pod.created)
            self._reported = {pod.uid for pod in late}
            await asyncio.sleep(_CHECK_S)

    def _on_pod_change(self, old: Pod | None, new: Pod | None) -> None:
        if new is not None and any(gate.name == GATE for gate in new.spec.scheduling_gates):
            facts = pod_facts(new)
            _, since = self._gated_pods.get(facts.key, (facts, asyncio.get_running_loop().time()))
            self._gated_pods[facts.key] = facts, since
            self._wake_event.set()
            return
        last = new or old
        if last is None:
            return
        self._gated_pods.pop(PodKey(last.metadata.namespace, last.metadata.name), None)
        self._sent_classes.pop(last.metadata.uid, None)
        self._in_progress.discard(last.metadata.uid)

    async def _process_pod(self, pod: PodFacts, client: Client, actuator: Actuator, lane: asyncio.Semaphore) -> None:
        try:
            async with lane:
                done = await self._classify_and_ungate(pod, client, actuator)
        except (KubeError, Retriable) as problem:
            self._log.warning("gate of a pod not removed, retrying", pod=str(pod.key), error=str(problem))
            done = False
        except Exception as defect:
            # an unexpected exception delays this pod only
            self._log.error("unexpected error on a gated pod, retrying", pod=str(pod.key), exc_info=defect)
            done = False
        if not done:
            await asyncio.sleep(_AGAIN_S)
            self._in_progress.discard(pod.uid)
            self._wake_event.set()

    async def _classify_and_ungate(self, pod: PodFacts, client: Client, actuator: Actuator) -> bool:
        """Classify the pod and remove its gate; return whether nothing is left to do.

        Raises the errors of the client and the actuator.
        """
        refused = ""
        for _ in range(_TRIES):
            try:
                whole = (await client.get(WHOLE_PODS, pod.key.name, pod.key.namespace)).content
            except NotFound:
                return True
            if whole["metadata"]["uid"] != pod.uid or not _is_gated(whole):
                return True
            found = await self._decide(whole)
            if found is None:
                return False
            if found.answer.pod_class is not None:
                self._sent_classes[pod.uid] = found.answer.pod_class
            if found.answer.surge is not None:
                self._surges = self._surges.with_surge(*found.answer.surge)
            try:
                await self._write_patch(pod, found.operations, client, actuator)
            except (Invalid, BadRequest, Conflict) as problem:
                self._sent_classes.pop(pod.uid, None)
                refused = str(problem)
                continue
            self._log.info("gated pod classified", pod=str(pod.key), reason=found.answer.why)
            return True
        self._log.warning("gate removed without a class", pod=str(pod.key), error=refused)
        self._record(
            _pod_reference(pod),
            WARNING,
            "NotPlaced",
            f"spot removed the gate of the pod without a class, because the API server refused the class: {refused}",
        )
        await self._write_patch(pod, gate_removal_patch(whole), client, actuator)
        return True

    async def _decide(self, whole: Mapping[str, Any]) -> GatedPodAnswer | None:
        """Decide on the pod; None if its workload cannot be read now. The caller must not await before it records the
        result."""
        token, now = self._token(), self._wall()
        found = classify_gated_pod(whole, self._view(None), self._sent_classes, now, token, self._surges)
        if not isinstance(found, NeedsRead):
            return found
        live = await self._read(found)
        found = classify_gated_pod(whole, self._view(live), self._sent_classes, now, token, self._surges)
        if isinstance(found, NeedsRead) or (live is UNREADABLE and found.answer.pod_class is None):
            return None
        return found

    async def _write_patch(self, pod: PodFacts, operations: Any, client: Client, actuator: Actuator) -> None:
        name, namespace = pod.key.name, pod.key.namespace
        await actuator.write(client.patch(PODS, name, JsonPatch(operations), namespace))
        _, since = self._gated_pods.get(pod.key, (pod, asyncio.get_running_loop().time()))
        self._metrics.placement_seconds.observe(asyncio.get_running_loop().time() - since)

    def _report_overdue(self, pod: PodFacts, seconds: float) -> None:
        message = (
            f"the pod has waited {seconds:.0f} s for its class: spot has no leader, or the leader cannot write; "
            "`situate spot ungate -A` removes the gates without a class"
        )
        self._log.warning("pod gated for too long", pod=str(pod.key), seconds=round(seconds))
        self._record(_pod_reference(pod), WARNING, "GatedTooLong", message)


def _is_gated(whole: Mapping[str, Any]) -> bool:
    return any(gate["name"] == GATE for gate in whole["spec"].get("schedulingGates", ()))


def _pod_reference(pod: PodFacts) -> ObjectReference:
    return ObjectReference("v1", "Pod", pod.key.namespace, pod.key.name, pod.uid)
