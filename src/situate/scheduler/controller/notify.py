"""Reports the scheduler's actions in kube-scheduler's words: Events on objects, metrics, log lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import structlog

from situate.framework.engine.decisions import Placed, Refused
from situate.framework.engine.messages import refusal
from situate.framework.pod.pods import PodInfo, PodKey
from situate.kube.events import NORMAL, WARNING, RecordActionEvent, reference
from situate.objects.kinds.meta import KubernetesObject
from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod
from situate.objects.resources import NODES, PODS, ResourceType
from situate.scheduler.metrics import metrics as results
from situate.scheduler.metrics.metrics import SchedulerMetrics

BINDING: Final = "Binding"
SCHEDULING: Final = "Scheduling"
PREEMPTING: Final = "Preempting"
_NOT_UNDERSTOOD: Final = "NotUnderstood"


class Notifier:
    """The reporter of one process."""

    def __init__(
        self, metrics: SchedulerMetrics, record: RecordActionEvent, name: str, clock: Callable[[], float]
    ) -> None:
        """`name` is the first profile's, used as the reporter of Events on nodes."""
        self.metrics = metrics
        self._record = record
        self._name = name
        self._clock = clock
        self._unusable: dict[str, dict[str, str]] = {"pods": {}, "nodes": {}}
        """By resource and uid: why an object cannot be used."""
        self.unplaceable: dict[str, tuple[PodKey, str]] = {}
        """By uid: the unusable pods that wait, and why."""
        self._log = structlog.get_logger()

    def report_scheduled(self, placed: Placed, began: float) -> None:
        """Report that a pod was bound; `began` is the start of its cycle."""
        info, now = placed.pod.info, self._clock()
        self._record_event(info, NORMAL, "Scheduled", BINDING, f"Successfully assigned {info} to {placed.node}")
        self.metrics.record_attempt(info.pod.spec.scheduler_name, results.SCHEDULED, now - began)
        self.metrics.record_binding(placed.pod.attempts, now - placed.pod.first_queued_at, flushed=placed.pod.flushed)

    def report_refused(self, refused: Refused, seconds: float) -> str:
        """Report that no node fits; return the message."""
        info = refused.pod.info
        message = refusal(refused)
        self._record_event(info, WARNING, "FailedScheduling", SCHEDULING, message)
        self.metrics.record_attempt(info.pod.spec.scheduler_name, results.UNSCHEDULABLE, seconds)
        if refused.post_filter is not None:
            self.metrics.record_preemption_attempt()
        return message

    def report_failed(self, info: PodInfo, error: str, seconds: float, cause: Exception | None) -> None:
        """Report an error; the pod is retried. `cause` is an exception that may be a defect of this program."""
        self._log.error("scheduling of a pod failed", pod=str(info), error=error, exc_info=cause)
        self._record_event(info, WARNING, "FailedScheduling", SCHEDULING, error)
        self.metrics.record_attempt(info.pod.spec.scheduler_name, results.ERROR, seconds)

    def report_preempted(self, victim: Pod, preemptor: PodInfo, node: str) -> None:
        """Report that a pod was evicted to free capacity."""
        message = f"Preempted by pod {preemptor.uid} on node {node}"
        reporter = preemptor.pod.spec.scheduler_name
        related = reference(PODS, preemptor.pod)
        self._record(reference(PODS, victim), NORMAL, "Preempted", message, PREEMPTING, related, reporter)

    def bad_object(self, each: Pod | Node, problem: str) -> None:
        """Report an object whose fields cannot be used; once until the problem changes."""
        resource = PODS if isinstance(each, Pod) else NODES
        known = self._unusable[resource.plural]
        if known.get(each.metadata.uid) == problem:
            return
        known[each.metadata.uid] = problem
        if isinstance(each, Pod) and not each.spec.node_name:
            self.unplaceable[each.metadata.uid] = (each.metadata.namespace, each.metadata.name), problem
        self.metrics.set_refused_objects(resource.plural, len(known))
        self._log.warning(
            "unusable object or value ignored", object=f"{resource.plural} {_object_name(each)}", error=problem
        )
        reporter = each.spec.scheduler_name if isinstance(each, Pod) else self._name
        reason = "FailedScheduling" if isinstance(each, Pod) and not each.spec.node_name else _NOT_UNDERSTOOD
        self._record(reference(resource, each), WARNING, reason, problem, SCHEDULING, None, reporter or self._name)

    def report_unreadable(self, resource: ResourceType[Any], each: KubernetesObject, problem: str) -> None:
        """Report an object that cannot be decoded: the watch has its last readable state, if any."""
        self._record(reference(resource, each), WARNING, _NOT_UNDERSTOOD, problem, SCHEDULING, None, self._name)

    def bad_selector(self, resource: ResourceType[Any], each: KubernetesObject, problem: str) -> None:
        """Report an object other than a pod or node that plugins do not see."""
        self._log.warning(
            "unusable object or value ignored", object=f"{resource.plural} {_object_name(each)}", error=problem
        )
        self._record(reference(resource, each), WARNING, _NOT_UNDERSTOOD, problem, SCHEDULING, None, self._name)

    def good_object(self, resource: str, uid: str) -> None:
        """Note that an object can be used, or is gone."""
        known = self._unusable[resource]
        if known and known.pop(uid, None) is not None:
            self.unplaceable.pop(uid, None)
            self.metrics.set_refused_objects(resource, len(known))

    def _record_event(self, info: PodInfo, type_: str, reason: str, action: str, message: str) -> None:
        self._record(reference(PODS, info.pod), type_, reason, message, action, None, info.pod.spec.scheduler_name)


def _object_name(each: KubernetesObject) -> str:
    meta = each.metadata
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
