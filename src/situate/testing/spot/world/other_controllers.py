"""The controllers of an Argo Rollout and an OpenKruise CloneSet, as far as histories need them (B42).

A Rollout brings one pod of the new revision at a time, through ReplicaSets that Kubernetes' own controller fills. A
CloneSet creates its pods itself and removes an old one when all are ready. Neither knows anything of spot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from situate.cluster.storage.store import Event
from situate.spot.workloads.owners import KINDS
from situate.testing.spot.world.world import SHOP, SpotWorld

Obj = Mapping[str, Any]

_REACTION_S: Final = 0.05
_RETRY_S: Final = 2.0
"""Seconds until a retry after a pod could not be created."""
_PODS: Final = f"/api/v1/namespaces/{SHOP}/pods"
_SETS: Final = f"/apis/apps/v1/namespaces/{SHOP}/replicasets"
_RESOURCES: Final = {f"{KINDS[kind].plural}.{KINDS[kind].group}": kind for kind in ("Rollout", "CloneSet")}
_HASH: Final = KINDS["Rollout"].revision_label
_REVISION: Final = KINDS["CloneSet"].revision_label


class ThirdPartyControllers:
    """Controllers that act on every workload of their kinds soon after a change."""

    def __init__(self, world: SpotWorld) -> None:
        self._world = world
        self._store = world.cluster.api.store
        self._creating: Counter[str] = Counter()
        """By UID of a CloneSet: pods requested and not answered yet."""
        self._planned = False
        self._store.subscribe(self._observe)

    def _observe(self, event: Event) -> None:
        if event.resource in _RESOURCES or (
            event.resource in ("pods", "replicasets.apps") and self._is_relevant(event)
        ):
            self._plan_action(_REACTION_S)

    def _is_relevant(self, event: Event) -> bool:
        labels = event.last.object()["metadata"].get("labels") or {}
        return _HASH in labels or _REVISION in labels

    def _plan_action(self, after_s: float) -> None:
        if not self._planned:
            self._planned = True
            self._world.timeline.call_after(after_s, self._reconcile_all)

    def _reconcile_all(self) -> None:
        self._planned = False
        for resource, kind in _RESOURCES.items():
            for stored in tuple(self._store.table(resource).sorted_objects()):
                workload = stored.object()
                if "deletionTimestamp" not in workload["metadata"]:
                    (self._reconcile_rollout if kind == "Rollout" else self._reconcile_clone_set)(workload)

    def _reconcile_rollout(self, workload: Obj) -> None:
        uid, wanted = workload["metadata"]["uid"], workload["spec"].get("replicas", 1)
        revision = _revision_of(workload)
        owned = [each for each in self._objects_of("replicasets.apps") if _controller_uid(each) == uid]
        present = next((each for each in owned if each["metadata"]["labels"][_HASH] == revision), None)
        if present is None:
            self._create_replica_set(workload, revision)
            return
        others = [each for each in owned if each is not present and each["spec"]["replicas"]]
        new, old = present["spec"]["replicas"], sum(each["spec"]["replicas"] for each in others)
        ready = (present.get("status") or {}).get("readyReplicas", 0)
        if new + old < wanted or (old and new + old == wanted and new < wanted):
            self._scale(present, new + max(1, wanted - new - old))
        elif others and (new + old > wanted + 1 or ready == new):
            self._scale(others[0], others[0]["spec"]["replicas"] - 1)
        elif not others and new > wanted:
            self._scale(present, wanted)
        pods = [each for each in self._active_pods() if _controller_uid(each) in {_uid(one) for one in owned}]
        updated = sum(_controller_uid(each) == _uid(present) for each in pods)
        generation = str(workload["metadata"].get("generation", 0))  # text, as in Argo
        self._write_status(
            workload,
            {
                "observedGeneration": generation,
                "replicas": len(pods),
                "updatedReplicas": updated,
                "currentPodHash": revision,
            },
        )

    def _create_replica_set(self, workload: Obj, revision: str) -> None:
        template = workload["spec"]["template"]
        labels = {**template["metadata"]["labels"], _HASH: revision}
        metadata = {"name": f"{workload['metadata']['name']}-{revision}", "labels": labels}
        spec = {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
        }
        self._world.call("POST", _SETS, {"metadata": {**metadata, **_owner_reference(workload)}, "spec": spec})

    def _scale(self, replica_set: Obj, replicas: int) -> None:
        path = f"{_SETS}/{replica_set['metadata']['name']}"
        self._world.call("PATCH", path, {"spec": {"replicas": replicas}}, patch=True)

    def _reconcile_clone_set(self, workload: Obj) -> None:
        uid, wanted = workload["metadata"]["uid"], workload["spec"].get("replicas", 1)
        revision = f"{workload['metadata']['name']}-{_revision_of(workload)}"
        pods = [each for each in self._active_pods() if _controller_uid(each) == uid]
        updated = [each for each in pods if each["metadata"]["labels"][_REVISION] == revision]
        lacking = wanted - len(pods) - self._creating[uid]
        for _ in range(lacking):
            self._create_pod(workload, revision)
        surplus = sorted(pods, key=_deletion_order)[: max(0, len(pods) - wanted)]
        if not surplus and len(pods) == wanted and all(map(_is_ready, pods)):
            surplus = [each for each in pods if each not in updated][:1]
        for pod in surplus:
            self._world.call("DELETE", f"{_PODS}/{pod['metadata']['name']}")
        self._write_status(
            workload,
            {
                "observedGeneration": workload["metadata"].get("generation", 0),
                "replicas": len(pods),
                "updatedReplicas": len(updated),
                "updateRevision": revision,
                "currentRevision": revision if len(updated) == len(pods) else "another",
            },
        )

    def _create_pod(self, workload: Obj, revision: str) -> None:
        template, metadata = workload["spec"]["template"], workload["metadata"]
        labels = {**template["metadata"]["labels"], _REVISION: revision}
        made = {"generateName": f"{metadata['name']}-", "labels": labels, **_owner_reference(workload)}
        self._creating[metadata["uid"]] += 1
        self._world.create_through_webhooks(
            _PODS, {"metadata": made, "spec": template["spec"]}, partial(self._on_created, metadata["uid"])
        )

    def _on_created(self, uid: str, well: bool) -> None:
        self._creating[uid] -= 1
        self._plan_action(_REACTION_S if well else _RETRY_S)

    def _write_status(self, workload: Obj, status: Mapping[str, Any]) -> None:
        if workload.get("status") == status:
            return
        kind, metadata = KINDS[workload["kind"]], workload["metadata"]
        path = f"/apis/{kind.group}/{kind.version}/namespaces/{SHOP}/{kind.plural}/{metadata['name']}/status"
        self._world.call("PATCH", path, {"status": dict(status)}, patch=True)

    def _objects_of(self, resource: str) -> list[dict[str, Any]]:
        found = [dict(each.object()) for each in self._store.table(resource).sorted_objects()]
        return [each for each in found if each["metadata"]["namespace"] == SHOP]

    def _active_pods(self) -> list[dict[str, Any]]:
        return [
            each
            for each in self._objects_of("pods")
            if "deletionTimestamp" not in each["metadata"]
            and (each.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
        ]


def _revision_of(workload: Obj) -> str:
    annotations = workload["spec"]["template"]["metadata"].get("annotations") or {}
    return f"v{annotations.get('version', '0')}"


def _owner_reference(workload: Obj) -> dict[str, Any]:
    kind, metadata = KINDS[workload["kind"]], workload["metadata"]
    reference = {
        "apiVersion": f"{kind.group}/{kind.version}",
        "kind": kind.kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }
    return {"ownerReferences": [reference]}


def _controller_uid(obj: Obj) -> str:
    references = obj["metadata"].get("ownerReferences") or ()
    return next((str(each["uid"]) for each in references if each.get("controller")), "")


def _uid(obj: Obj) -> str:
    return str(obj["metadata"]["uid"])


def _is_ready(pod: Obj) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _deletion_order(pod: Obj) -> tuple[bool, bool, int, str]:
    """Return the sort key of CloneSets: no node first, then not ready, then low deletion cost."""
    annotations = pod["metadata"].get("annotations") or {}
    cost = int(annotations.get("controller.kubernetes.io/pod-deletion-cost", "0"))
    return bool(pod["spec"].get("nodeName")), _is_ready(pod), cost, pod["metadata"]["name"]
