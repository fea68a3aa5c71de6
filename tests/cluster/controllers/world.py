"""A small API over the real store, for controllers alone: what they may count on, and nothing of what it refuses.

Virtual time; the whole server is used in `test_with_api.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from situate.cluster.controllers import Machinery, MachinerySettings, WriteAnswer
from situate.cluster.controllers.machinery.actions import Bind, Create, Delete, Finalize, Patch, Write
from situate.cluster.controllers.node.nodes import nodes
from situate.cluster.errors.times import timestamp
from situate.cluster.storage.builtin_resources import BUILT_IN
from situate.cluster.storage.names import NameGenerator
from situate.cluster.storage.resources import Catalog
from situate.cluster.storage.store import Event, Store

START = 1_760_000_000.0
Refuse = Callable[[Write], WriteAnswer | None]


def merged(before: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    after = dict(before) if isinstance(before, dict) else {}
    for name, value in patch.items():
        if value is None:
            after.pop(name, None)
        else:
            after[name] = merged(after.get(name), value)
    return after


class World:
    """A cluster with its controllers; `run` lets time pass."""

    def __init__(self, settings: MachinerySettings | None = None, *, node_count: int = 3, seed: int = 0) -> None:
        self.store = Store()
        self.now = START
        self.names = NameGenerator(Random(seed))
        self.log: list[tuple[str, str, str, str]] = []
        """Every write: verb, resource, name, user."""
        self.events: list[Event] = []
        self.refuse: Refuse = lambda _: None
        self.after_write: Callable[[], None] = lambda: None
        catalog = Catalog(BUILT_IN)
        self.machinery = Machinery(self, self.store, catalog, settings or MachinerySettings(), Random(seed))
        self.store.subscribe(self.machinery.observe)
        self.store.subscribe(self.events.append)
        for name in ("default", "kube-node-lease", "kube-system"):
            spec = {"finalizers": ["kubernetes"]}
            self.create(
                "namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "spec": spec}
            )
        for node in nodes(node_count):
            self.create("nodes", node)

    def run(self, seconds: float = 30.0) -> None:
        """Step whenever something is due, for so many seconds."""
        end = self.now + seconds
        while True:
            due = self.machinery.next_due()
            if due is None or due > end:
                break
            self.now = max(self.now, due)
            self.machinery.step(self.now)
        self.now = end

    def get(self, resource: str, name: str, namespace: str = "default") -> dict[str, Any] | None:
        stored = self.store.get(resource, namespace if resource not in ("nodes", "namespaces") else "", name)
        return None if stored is None else stored.object()

    def list(self, resource: str) -> list[dict[str, Any]]:
        return [stored.object() for stored in self.store.table(resource).sorted_objects()]

    def pods(self) -> Sequence[str]:
        return [pod["metadata"]["name"] for pod in self.list("pods")]

    def create(self, resource: str, obj: Mapping[str, Any]) -> dict[str, Any]:
        metadata = dict(obj["metadata"])
        if "name" not in metadata:
            metadata["name"] = metadata["generateName"] + self.names.suffix()
        if resource not in ("nodes", "namespaces"):
            metadata.setdefault("namespace", "default")
        metadata.update(uid=self.names.uid(), generation=1, creationTimestamp=timestamp(self.now))
        new = {**obj, "metadata": metadata}
        if resource == "pods":
            new["status"] = {"phase": "Pending", **obj.get("status", {})}
            new["spec"] = {"schedulerName": "default-scheduler", "terminationGracePeriodSeconds": 30, **obj["spec"]}
        self.store.put(resource, new)
        return new

    def patch(self, resource: str, name: str, body: Mapping[str, Any], namespace: str = "default") -> None:
        """A merge patch as a user would send it."""
        key = "" if resource in ("nodes", "namespaces") else namespace
        self._patch(Patch(resource, key, name, body))

    def delete(self, resource: str, name: str, propagation: Any = "", grace: int | None = None) -> None:
        obj = self.get(resource, name)
        assert obj is not None, name
        namespace = obj["metadata"].get("namespace", "")
        self._delete(Delete(resource, namespace, name, obj["metadata"]["uid"], propagation, grace))

    def perform(self, action: Write, user: str, manager: str, ticket: int) -> WriteAnswer | None:
        refusal = self.refuse(action)
        if refusal is not None:
            return refusal
        answer = self._perform(action, user)
        self.after_write()
        return answer

    def _perform(self, action: Write, user: str) -> WriteAnswer:
        match action:
            case Create():
                name = action.body["metadata"].get("name", "")
                if name and self.store.get(action.resource, action.namespace, name):
                    return WriteAnswer(409, "AlreadyExists", f'{action.resource} "{name}" already exists')
                made = self.create(action.resource, action.body)
                self.log.append(("create", action.resource, made["metadata"]["name"], user))
                return WriteAnswer(201, name=made["metadata"]["name"])
            case Patch():
                self.log.append(("patch " + action.subresource, action.resource, action.name, user))
                return self._patch(action)
            case Finalize():
                namespace = action.namespace
                self.store.put("namespaces", dict(namespace))
                if not namespace["spec"]["finalizers"]:
                    self.store.remove("namespaces", "", namespace["metadata"]["name"])
                return WriteAnswer(200)
            case Delete():
                self.log.append(("delete", action.resource, action.name, user))
                return self._delete(action)
            case Bind():
                self.log.append(("bind", "pods", action.name, user))
                pod = self.get("pods", action.name, action.namespace)
                if pod is None:
                    return WriteAnswer(404)
                pod["spec"]["nodeName"] = action.node
                scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": timestamp(self.now)}
                kept = [c for c in pod["status"].get("conditions", []) if c["type"] != "PodScheduled"]
                pod["status"]["conditions"] = [*kept, scheduled]
                self.store.put("pods", pod)
                return WriteAnswer(201)

    def _patch(self, action: Patch) -> WriteAnswer:
        obj = self.get(action.resource, action.name, action.namespace)
        if obj is None:
            return WriteAnswer(404, "NotFound")
        uid = action.body.get("metadata", {}).get("uid")
        if uid and uid != obj["metadata"]["uid"]:
            return WriteAnswer(409, "Conflict")
        after = merged(obj, action.body)
        if action.subresource == "status":
            after.pop("spec", None)
            after |= {"spec": obj["spec"]} if "spec" in obj else {}
        elif after.get("spec") != obj.get("spec"):
            after["metadata"]["generation"] += 1
        if after == obj:
            return WriteAnswer(200)
        self.store.put(action.resource, after)
        self._finish(action.resource, after)
        return WriteAnswer(200)

    def _delete(self, action: Delete) -> WriteAnswer:
        obj = self.get(action.resource, action.name, action.namespace)
        if obj is None:
            return WriteAnswer(404, "NotFound")
        metadata = obj["metadata"]
        if metadata["uid"] != action.uid:
            return WriteAnswer(409, "Conflict")
        grace = 0
        if action.resource == "pods" and obj["spec"].get("nodeName"):
            grace = (
                obj["spec"]["terminationGracePeriodSeconds"] if action.grace_seconds is None else action.grace_seconds
            )
        finalizers = [
            entry for entry in metadata.get("finalizers", []) if entry not in ("orphan", "foregroundDeletion")
        ]
        if action.propagation == "Foreground":
            finalizers.append("foregroundDeletion")
        if action.propagation == "Orphan":
            finalizers.append("orphan")
        if "deletionTimestamp" in metadata and grace and "deletionGracePeriodSeconds" in metadata:
            return WriteAnswer(200)
        metadata["finalizers"] = finalizers
        metadata["deletionTimestamp"] = timestamp(self.now + grace)
        metadata["deletionGracePeriodSeconds"] = grace
        self.store.put(action.resource, obj)
        self._finish(action.resource, obj)
        return WriteAnswer(200)

    def _finish(self, resource: str, obj: Mapping[str, Any]) -> None:
        metadata = obj["metadata"]
        if "deletionTimestamp" not in metadata or metadata.get("finalizers") or metadata["deletionGracePeriodSeconds"]:
            return
        if resource == "namespaces" and obj["spec"]["finalizers"]:
            return
        self.store.remove(resource, metadata.get("namespace", ""), metadata["name"])


def template(image: str = "app:1", **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"labels": labels or {"app": "web"}},
        "spec": {"containers": [{"name": "app", "image": image}]},
    }


def stateful_set(name: str = "web", replicas: int = 3, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "selector": {"matchLabels": {"app": name}},
            "template": template(app=name),
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "podManagementPolicy": "OrderedReady",
            "revisionHistoryLimit": 10,
            **spec,
        },
    }


def deployment(name: str = "web", replicas: int = 3, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template(app=name),
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "revisionHistoryLimit": 10,
            "progressDeadlineSeconds": 600,
            **spec,
        },
    }


def replica_set(name: str = "web", replicas: int = 3, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template(app=name),
            **spec,
        },
    }


def pod(name: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": template()["spec"]}
