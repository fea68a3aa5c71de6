"""Pods that manifests would create: those in the files, and those that a controller would create from a template.

Each Pod is admitted by the API server of `situate.cluster`, as if it had been created: it is validated field by field,
gets defaults, and the priority of its class. Nothing leaves this process.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from situate.cli.input.dumps import DumpedObject, read_objects
from situate.cli.terminal.failures import WrongInput
from situate.cluster.apiserver.api import ApiServer
from situate.cluster.controllers.workloads.templates import pod_from_template
from situate.cluster.storage.names import NameGenerator
from situate.objects.decoding.codec import Malformed, decode
from situate.objects.kinds.config_maps import PriorityClass
from situate.objects.kinds.pods import Pod
from situate.objects.messages import Request, Response
from situate.objects.resources import (
    NODES,
    PODS,
    PRIORITYCLASSES,
    REPLICASETS,
    REPLICATIONCONTROLLERS,
    STATEFULSETS,
    ResourceType,
)
from situate.objects.settings.section import format_value

T = TypeVar("T")

_REPLICA_FIELDS: Final = {
    ("apps/v1", "Deployment"): "replicas",
    ("apps/v1", "ReplicaSet"): "replicas",
    ("apps/v1", "StatefulSet"): "replicas",
    ("v1", "ReplicationController"): "replicas",
    ("batch/v1", "Job"): "parallelism",
}
"""Field of each workload that holds the number of Pods."""
_OWNERS: Final[Mapping[str, ResourceType[Any]]] = {
    "Deployment": REPLICASETS,
    "ReplicaSet": REPLICASETS,
    "StatefulSet": STATEFULSETS,
    "ReplicationController": REPLICATIONCONTROLLERS,
}
_MAX_PODS: Final = 1_000_000
"""Largest number of Pods, of one workload and of all: they take 2 GB of memory."""
_JSON: Final[Mapping[str, str]] = {"content-type": "application/json", "accept": "application/json"}


@dataclass(frozen=True, slots=True)
class ManifestPods:
    """Objects that manifests would create."""

    pods: tuple[Pod, ...] = ()
    other_objects: tuple[tuple[ResourceType[Any], Any], ...] = ()
    """Nodes, and objects that plugins read: Services, PodDisruptionBudgets, the owners of the Pods."""
    ignored: tuple[str, ...] = ()
    """Objects that no scheduler reads: `ConfigMap shop/web`."""


def read_pods(
    files: Iterable[Path],
    namespace: str,
    classes: Iterable[PriorityClass],
    known: Iterable[ResourceType[Any]],
) -> ManifestPods:
    """Return the Pods of files, in order. Raises `WrongInput` with file, object and field.

    `namespace` is the namespace of objects that name none. `known` are resources whose objects count as if they had
    been applied.
    """
    objects = list(read_objects(files, ""))
    kinds = {(each.api_version, each.kind): each for each in known if each is not PODS}
    own = [_decode_object(PRIORITYCLASSES, each) for each in objects if _has_type(PRIORITYCLASSES, each)]
    admission = _Admission([*classes, *own])
    pods: list[Pod] = []
    others: list[tuple[ResourceType[Any], Any]] = []
    ignored: list[str] = []
    for each in objects:
        resource = kinds.get((each.api_version, each.kind))
        if _has_type(PODS, each):
            content = {**each.content, "metadata": {"namespace": namespace, **_metadata(each)}}
            pods.append(_rename_pod(admission.admit(content, each), ""))
        elif (each.api_version, each.kind) in _REPLICA_FIELDS:
            pods += _pods_of_workload(each, namespace, admission, _MAX_PODS - len(pods))
            others += _pod_owner(each, namespace)
        elif resource is not None:
            within = {"namespace": namespace} if resource.namespaced else {}
            content = {**each.content, "metadata": {**within, **_metadata(each)}}
            others.append((resource, _decode_object(resource, DumpedObject(each.position, content))))
        elif not _has_type(PRIORITYCLASSES, each):
            ignored.append(_describe_unused(each))
    if not pods and not any(resource is NODES for resource, _ in others):
        allowed = ", ".join(kind for _, kind in _REPLICA_FIELDS)
        found = f"; found {', '.join(ignored[:5])}" if ignored else ""
        raise WrongInput(f"what-if {', '.join(map(str, files))}: no Pods, allowed: Pod, {allowed}{found}")
    return ManifestPods(tuple(pods), tuple(others), tuple(ignored))


def _describe_unused(each: DumpedObject) -> str:
    """Return `ConfigMap shop/web (web.yaml: line 9)`, with the version if the kind is known in another one."""
    told = f"{each.kind} of {each.api_version}" if each.kind in {kind for _, kind in _REPLICA_FIELDS} else each.kind
    return f"{told} {each.name}".strip() + f" ({each.position})"


def _has_type(resource: ResourceType[Any], each: DumpedObject) -> bool:
    return (each.api_version, each.kind) == (resource.api_version, resource.kind)


def _decode_object(resource: ResourceType[T], each: DumpedObject) -> T:
    try:
        return decode(resource, msgspec.json.encode(each.content))
    except Malformed as problem:
        raise WrongInput(f"{each.position}: {problem}") from None


def _pod_owner(each: DumpedObject, namespace: str) -> Iterator[tuple[ResourceType[Any], Any]]:
    """Return the owner of the Pods, whose selector spreads them by default; for a Deployment its ReplicaSet."""
    resource = _OWNERS.get(each.kind)
    if resource is not None:
        kept = {key: value for key, value in each.content.items() if key != "status"}
        metadata = {"namespace": namespace, **_metadata(each)}
        yield resource, _decode_object(resource, DumpedObject(each.position, {**kept, "metadata": metadata}))


def _pods_of_workload(each: DumpedObject, namespace: str, admission: _Admission, most: int) -> Iterator[Pod]:
    metadata = {"namespace": namespace, **_metadata(each)}
    name = str(metadata.get("name", ""))
    if not name:
        raise WrongInput(f"{each.position}: {each.kind}: metadata.name: missing, allowed: a name")
    spec = each.content.get("spec")
    template = spec.get("template") if isinstance(spec, Mapping) else None
    if not isinstance(spec, Mapping) or not isinstance(template, Mapping):
        raise WrongInput(
            f"{each.position}: {each.kind} {name}: spec.template: found {format_value(template)}, allowed: a template"
        )
    count = _pod_count(each, spec, name)
    if count > most:
        raise WrongInput(f"{each.position}: {each.kind} {name}: found {count} Pods, allowed: {_MAX_PODS} in all files")
    owner = {**each.content, "metadata": {"uid": f"{each.kind} {namespace}/{name}", **metadata}}
    if each.kind == "Deployment":  # its Pods belong to a ReplicaSet, which has the same selector
        owner = {**owner, "apiVersion": "apps/v1", "kind": "ReplicaSet"}
    content = pod_from_template(dict(template), owner)
    content["metadata"] = {**content["metadata"], "name": f"{name}-0"}
    if not count:
        return
    pod = admission.admit(content, each)
    for number in range(count):
        yield _rename_pod(pod, f"{name}-{number}")


def _pod_count(each: DumpedObject, spec: Mapping[str, Any], name: str) -> int:
    field = _REPLICA_FIELDS[each.api_version, each.kind]
    found = spec.get(field, 1)
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found <= _MAX_PODS:
        raise WrongInput(
            f"{each.position}: {each.kind} {name}: spec.{field}: found {format_value(found)}, allowed: 0 to {_MAX_PODS}"
        )
    completions = spec.get("completions")
    return min(found, completions) if each.kind == "Job" and isinstance(completions, int) else found


def _metadata(each: DumpedObject) -> dict[str, Any]:
    found = each.content.get("metadata")
    if found is not None and not isinstance(found, Mapping):
        raise WrongInput(
            f"{each.position}: {each.kind}: metadata: found {format_value(found)}, allowed: a mapping with a name"
        )
    return dict(found or {})


def _rename_pod(pod: Pod, name: str) -> Pod:
    """Return the Pod with another name and with a unique uid."""
    meta = pod.metadata
    name = name or meta.name
    uid = f"what if {meta.namespace}/{name}"
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(meta, name=name, uid=uid))


class _Admission:
    """API server that holds only namespaces and priority classes."""

    def __init__(self, classes: Iterable[PriorityClass]) -> None:
        self._api = ApiServer(NameGenerator(random.Random(0)), now=0.0, tracks_managers=False)
        for each in classes:
            body = {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": each.metadata.name},
                "value": each.value,
                "globalDefault": each.global_default,
                "preemptionPolicy": each.preemption_policy or "PreemptLowerPriority",
            }
            self._post("/apis/scheduling.k8s.io/v1/priorityclasses", body)

    def admit(self, content: Mapping[str, Any], source: DumpedObject) -> Pod:
        """Return the Pod as the server would store it."""
        namespace = content["metadata"]["namespace"]
        self._post("/api/v1/namespaces", {"metadata": {"name": namespace}})
        kept = {key: value for key, value in content.items() if key != "status"}
        metadata = {
            key: value
            for key, value in content["metadata"].items()
            if key not in ("uid", "resourceVersion", "managedFields")
        }
        spec = content.get("spec")
        priority = None
        if isinstance(spec, Mapping):
            priority = spec.get("priority") if not spec.get("priorityClassName") else None
            kept["spec"] = {key: value for key, value in spec.items() if key not in ("nodeName", "priority")}
        query = (("dryRun", "All"), ("fieldValidation", "Strict"))
        answer = self._post(f"/api/v1/namespaces/{namespace}/pods", {**kept, "metadata": metadata}, query)
        if answer.status >= 400:
            message = msgspec.json.decode(answer.body).get("message", "")
            raise WrongInput(f"{source.position}: {' '.join(filter(None, (source.kind, source.name)))}: {message}")
        pod = decode(PODS, answer.body)
        if isinstance(priority, int):  # the server accepts it only from a class; here the file's value counts
            return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, priority=priority))
        return pod

    def _post(self, path: str, body: Mapping[str, Any], query: tuple[tuple[str, str], ...] = ()) -> Response:
        answer = self._api.answer(Request("POST", path, query, _JSON, msgspec.json.encode(body)), 0.0)
        assert isinstance(answer, Response)
        return answer
