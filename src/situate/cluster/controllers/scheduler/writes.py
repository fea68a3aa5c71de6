"""Writes of the simulated scheduler: bindings, conditions, nominations and evictions, worded like kube-scheduler's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from situate.cluster.controllers.machinery.actions import Action, Bind, Delete, EventTemplate, uid_patch
from situate.cluster.controllers.machinery.controllers import ControllerContext
from situate.cluster.controllers.machinery.tables import PODS, Obj
from situate.cluster.controllers.node.pods import condition, conditions_with, disruption_target
from situate.cluster.errors.times import timestamp
from situate.framework.engine.decisions import Refused
from situate.framework.plugin_api.actions import Evict, Nominate
from situate.framework.pod.pods import PodInfo, PodKey


def binding(info: PodInfo, node: str) -> Bind:
    told = EventTemplate(
        _reference(info.key, info.uid, info.pod.metadata.resource_version),
        "Scheduled",
        f"Successfully assigned {info} to {node}",
    )
    return Bind(*info.key, info.uid, node, done=told)


def unschedulable_patches(pod: Obj, reason: str, sentence: str, promised: str | None, now: float) -> Iterator[Action]:
    """Set the condition PodScheduled, with an Event for each new sentence, and the nominated node.

    `promised` is the nominated node: empty removes it, None keeps it.
    """
    before = condition(pod, "PodScheduled")
    said = before is not None and (before.get("reason"), before.get("message")) == (reason, sentence)
    status: dict[str, Any] = {}
    if not said:
        new = {
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": sentence,
            "lastTransitionTime": timestamp(now),
        }
        status["conditions"] = conditions_with(pod, new)
    if promised is not None and promised != (pod.get("status") or {}).get("nominatedNodeName", ""):
        status["nominatedNodeName"] = promised or None
    if status:
        told = None if said else EventTemplate(pod, "FailedScheduling", sentence, "Warning")
        yield uid_patch(PODS, pod, {"status": status}, "status", told)


def preemption_patches(cluster: ControllerContext, refused: Refused, now: float) -> Iterator[Action]:
    """Write the condition of the victims and the withdrawn nominations, before the victims are deleted."""
    for action in refused.actions:
        match action:
            case Evict(key, uid, reason, message):
                pod = _current_pod(cluster, key, uid)
                if pod is not None:
                    new = disruption_target(reason, message, now)
                    new["observedGeneration"] = pod["metadata"].get("generation", 0)
                    yield uid_patch(PODS, pod, {"status": {"conditions": conditions_with(pod, new)}}, "status")
            case Nominate(key, uid):
                pod = _current_pod(cluster, key, uid)
                if pod is not None:
                    yield uid_patch(PODS, pod, {"status": {"nominatedNodeName": action.node or None}}, "status")
            case _:
                raise AssertionError(f"no plugin of the default profile asks for {action}")


def victim_deletions(refused: Refused) -> Iterator[Delete]:
    """Delete the victims, with an Event that names the preempting pod."""
    node = refused.nominate
    for action in refused.actions:
        if isinstance(action, Evict):
            told = EventTemplate(
                _reference(action.pod, action.uid),
                "Preempted",
                f"Preempted by pod {refused.pod.info.uid} on node {node}",
            )
            yield Delete(PODS, *action.pod, action.uid, done=told)


def _current_pod(cluster: ControllerContext, key: PodKey, uid: str) -> Obj | None:
    """Return the pod, or None if it was deleted or replaced under the same name."""
    pod = cluster.get(PODS, *key)
    return pod if pod is not None and pod["metadata"].get("uid") == uid else None


def _reference(key: PodKey, uid: str, version: str = "") -> Obj:
    """Return the reference to a pod for an Event."""
    namespace, name = key
    metadata = {"namespace": namespace, "name": name, "uid": uid, "resourceVersion": version}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
