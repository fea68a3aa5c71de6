"""Reports of decisions: one structured log line and one Event on the VM or Pod (B41)."""

from __future__ import annotations

from typing import Any, Final

import structlog

from situate.kube.events import NORMAL, WARNING, RecordEvent, reference
from situate.objects.kinds.events import ObjectReference
from situate.objects.kinds.meta import KubernetesObject
from situate.objects.resources import PODS, ResourceType
from situate.vm.api.parse_errors import ParseError
from situate.vm.controller.informers import VmInformers
from situate.vm.model.actions import Notify
from situate.vm.model.pods_and_nodes import Ref

_NOT_UNDERSTOOD: Final = "NotUnderstood"


class Notifier:
    """Reports of one process."""

    def __init__(self, watched: VmInformers, record: RecordEvent) -> None:
        self._watched = watched
        self._record = record
        self._reported_errors: dict[tuple[str, str], tuple[ParseError, ...]] = {}
        """By resource and UID: the errors reported last."""
        self._log = structlog.get_logger()

    def notify(self, told: Notify) -> None:
        """Log a decision and record its Event. A deleted object gets only the log line."""
        details = {key: _log_value(value) for key, value in told.fields.items()}
        log = self._log.bind(object=str(told.about), reason=told.reason, note=told.message, details=details)
        if told.warning:
            log.warning("decision made")
        else:
            log.info("decision made")
        about = self._event_subject(told.about)
        if about is not None:
            self._record(about, WARNING if told.warning else NORMAL, told.reason, told.message)

    def unreadable(self, resource: ResourceType[Any], each: KubernetesObject, wrong: tuple[ParseError, ...]) -> None:
        """Report the errors of an object, once while they stay the same."""
        key = resource.group_resource, each.metadata.uid
        if wrong == self._reported_errors.get(key, ()):
            return
        if not wrong:
            del self._reported_errors[key]
            return
        self._reported_errors[key] = wrong
        for problem in wrong:
            self._log.warning("object unreadable", object=problem.about, error=str(problem))
        self._record(reference(resource, each), WARNING, _NOT_UNDERSTOOD, "; ".join(map(str, wrong)))

    @property
    def unreadable_objects(self) -> int:
        """Number of objects with errors now."""
        return len(self._reported_errors)

    def forget(self, resource: ResourceType[Any], uid: str) -> None:
        """Forget the errors of a deleted object."""
        self._reported_errors.pop((resource.group_resource, uid), None)

    def _event_subject(self, ref: Ref) -> ObjectReference | None:
        """Return the VM or Pod with this UID. If the UID is empty, a VM with this name comes before a Pod."""
        machine = self._watched.machines.store.get(ref.name, ref.namespace)
        if machine is not None and ref.uid in ("", machine.metadata.uid):
            return reference(self._watched.machines.scope.resource, machine)
        pod = self._watched.all.pods.store.get(ref.name, ref.namespace)
        if pod is not None and ref.uid in ("", pod.metadata.uid):
            return reference(PODS, pod)
        return None


def _log_value(value: object) -> object:
    """Return a value that a log line can contain."""
    if isinstance(value, str | int | float | bool | None):
        return value
    return [_log_value(each) for each in value] if isinstance(value, list | tuple) else str(value)
