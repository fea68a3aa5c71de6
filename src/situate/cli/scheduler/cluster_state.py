"""Cluster of a command: as an API server lists it now, or as a dump holds it. Nothing is ever written.

Objects pass through the same intake as in the live scheduler, so that they have the same meaning here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from situate.cli.input.dumps import read_objects
from situate.cli.read_cluster.cluster_source import open_client, run_read
from situate.cli.scheduler.profiles import Profiles
from situate.cli.terminal.failures import WrongInput
from situate.cli.terminal.options import SourceOptions
from situate.cli.terminal.progress import progress
from situate.framework.engine.engine import Engine
from situate.kube.client import Client
from situate.kube.errors import Forbidden, NotFound
from situate.objects.decoding.codec import Malformed, decode
from situate.objects.kinds.config_maps import PriorityClass
from situate.objects.kinds.meta import KubernetesObject
from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod
from situate.objects.resources import NODES, PODS, PRIORITYCLASSES, ResourceType
from situate.scheduler.controller.engine_feed import EngineFeed
from situate.scheduler.controller.informers import NOT_ENDED, Stores
from situate.scheduler.controller.unreadable_objects import readable_part
from situate.scheduler.extenders.client import WHOLE_NODES, WHOLE_PODS

T = TypeVar("T", bound=KubernetesObject)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class Remarks:
    """Sentences about input that could not be used."""

    sentences: list[str] = field(default_factory=list)

    def bad_object(self, each: Pod | Node, problem: str) -> None:  # noqa: ARG002 - the signature is `ProblemReporter`'
        self.add(f"left out: {problem}")

    def bad_selector(self, resource: ResourceType[Any], each: KubernetesObject, problem: str) -> None:
        name = "/".join(part for part in (each.metadata.namespace, each.metadata.name) if part)
        self.add(f"left out: {resource.group_resource} {name}: {problem}")

    def good_object(self, resource: str, uid: str) -> None:
        pass

    def add(self, sentence: str) -> None:
        if sentence not in self.sentences:
            self.sentences.append(sentence)


@dataclass(frozen=True, slots=True)
class UnreadablePod:
    """Pod that does not decode."""

    namespace: str
    name: str
    problem: str
    """Sentence that names the Pod, the field and the value."""
    is_pending: bool
    """Whether the Pod has no node yet."""

    @classmethod
    def from_content(cls, content: Mapping[str, Any], problem: Malformed) -> UnreadablePod:
        namespace, name = name_of_problem(problem)
        part = readable_part(content)
        return cls(namespace, name, str(problem), is_pending=part is None or not (part.spec.node_name or part.finished))


@dataclass(frozen=True, slots=True)
class SchedulerClusterState:
    """Known state of the cluster."""

    stores: Stores
    priority_classes: tuple[PriorityClass, ...]
    remarks: Remarks
    unreadable_pods: tuple[UnreadablePod, ...] = ()
    """Pods that do not decode. They count nowhere else."""
    ended_pods: frozenset[tuple[str, str]] | None = None
    """Namespace and name of Pods that have ended; None for an API server, which lists only the others."""
    complete_json: Mapping[tuple[str, str, str], bytes] = field(default_factory=dict)
    """JSON of Pods and nodes for extenders, by plural, namespace and name."""

    @property
    def pending_pods(self) -> list[Pod]:
        """Pods that wait for a node, the oldest first."""
        waiting = [each for each in self.stores.pods.list() if not each.spec.node_name and not each.finished]
        return sorted(waiting, key=lambda pod: pod.metadata.creation_timestamp or _EPOCH)

    def pod(self, namespace: str, name: str) -> Pod | None:
        return self.stores.pods.get(name, namespace)

    @property
    def unreadable_pending_pods(self) -> list[UnreadablePod]:
        """Pods that wait for a node and will get none, because they do not decode."""
        return [each for each in self.unreadable_pods if each.is_pending]

    def add_objects(self, objects: Iterable[tuple[ResourceType[Any], Any]]) -> None:
        """Add objects as if they had been applied."""
        for resource, found in objects:
            _add_object(self.stores, resource, found)

    def engine(self, profiles: Profiles, asked: Iterable[Pod]) -> Engine:
        """Return an engine with the whole state, and with profiles and extenders for the Pods in `asked`."""
        chosen = profiles.for_names(each.spec.scheduler_name for each in asked)
        for remark in chosen.remarks:
            self.remarks.add(remark)
        engine = chosen.extended_engine()
        EngineFeed(self.stores, self.remarks, lambda: 0.0).begin(engine, lambda: None)
        return engine


def observe(where: SourceOptions, *, whole: bool = False) -> SchedulerClusterState:
    """Read a cluster or a dump; with `complete_json` also the complete JSON of Pods and nodes.

    Raises `KubeError` or `WrongInput`.
    """
    if where.objects:
        with progress(f"reading {', '.join(map(str, where.objects))}"):
            return _read_files(where.objects, whole=whole)
    return run_read(where, _read_cluster(where, whole=whole))


def _read_files(paths: Sequence[Path], *, whole: bool) -> SchedulerClusterState:
    stores, remarks = Stores.create_empty(), Remarks()
    classes: list[PriorityClass] = []
    read: tuple[ResourceType[Any], ...] = (NODES, PODS, PRIORITYCLASSES, *stores.others)
    known = {(each.api_version, each.kind): each for each in read}
    pods: list[Pod] = []
    unread: list[UnreadablePod] = []
    documents: dict[tuple[str, str, str], bytes] = {}
    seen = 0
    for each in read_objects(paths, "--objects"):
        resource = known.get((each.api_version, each.kind))
        if resource is None:
            continue
        seen += 1
        try:
            content = msgspec.json.encode(_with_namespace(each.content, resource))
            found = decode(resource, content)
        except Malformed as problem:
            remarks.add(f"left out: {each.position}: {problem}")
            if resource is PODS:
                unread.append(UnreadablePod.from_content(each.content, problem))
            continue
        if not found.metadata.name:
            remarks.add(f"left out: {each.position}: {each.kind}: metadata.name: missing, allowed: a name")
            continue
        if whole and resource in (NODES, PODS):
            documents[resource.plural, found.metadata.namespace, found.metadata.name] = content
        if resource is PRIORITYCLASSES:
            classes.append(found)
        elif resource is PODS:
            pods.append(found)
        else:
            _add_object(stores, resource, found)
    if not seen:
        raise WrongInput(
            f"--objects {', '.join(map(str, paths))}: no nodes, Pods or other objects that a scheduler reads; "
            "write a file with `kubectl get nodes,pods,namespaces,services -A -o json > cluster.json`"
        )
    _add_pods(stores, pods)
    ended = frozenset((pod.metadata.namespace, pod.metadata.name) for pod in pods if pod.finished)
    return SchedulerClusterState(stores, tuple(classes), remarks, tuple(unread), ended, documents)


def _with_namespace(content: Mapping[str, Any], resource: ResourceType[Any]) -> Mapping[str, Any]:
    """Return the object with a namespace. As for kubectl, a namespaced object without one is in `default`."""
    metadata = content.get("metadata")
    if not resource.namespaced or not isinstance(metadata, Mapping) or metadata.get("namespace"):
        return content
    return {**content, "metadata": {**metadata, "namespace": "default"}}


async def _read_cluster(where: SourceOptions, *, whole: bool) -> SchedulerClusterState:
    stores, remarks = Stores.create_empty(), Remarks()
    classes: list[PriorityClass] = []
    unread: list[UnreadablePod] = []
    async with open_client(where) as client:
        read: tuple[ResourceType[Any], ...] = (NODES, PODS, *stores.others, PRIORITYCLASSES)
        for resource in read:
            fields = NOT_ENDED if resource is PODS else ""
            try:
                page = await client.list_all(resource, field_selector=fields)
            except (Forbidden, NotFound) as problem:
                if resource in (NODES, PODS):
                    raise
                remarks.add(f"{resource.group_resource} cannot be read, so they count as none: {problem}")
                continue
            for malformed in page.malformed:
                remarks.add(f"left out: {malformed}")
            if resource is PRIORITYCLASSES:
                classes += page.items
            elif resource is PODS:
                _add_pods(stores, page.items)
                unread = [await _read_unreadable_pod(client, each) for each in page.malformed]
            else:
                for found in page.items:
                    _add_object(stores, resource, found)
        documents = await _read_complete_json(client) if whole else {}
    return SchedulerClusterState(stores, tuple(classes), remarks, tuple(unread), complete_json=documents)


async def _read_unreadable_pod(client: Client, problem: Malformed) -> UnreadablePod:
    """Read the Pod again: a decoding error does not say whether the Pod has a node."""
    namespace, name = name_of_problem(problem)
    try:
        found = await client.get(WHOLE_PODS, name, namespace)
    except NotFound:  # the Pod has been deleted meanwhile
        return UnreadablePod.from_content({}, problem)
    return UnreadablePod.from_content(found.content, problem)


def name_of_problem(problem: Malformed) -> tuple[str, str]:
    """Return namespace and name of an object that does not decode: `pods default/web-0` names default and web-0."""
    namespace, _, name = problem.object.rpartition(" ")[2].rpartition("/")
    return namespace, name


async def _read_complete_json(client: Client) -> dict[tuple[str, str, str], bytes]:
    found = {}
    for resource in (WHOLE_NODES, WHOLE_PODS):
        page = await client.list_all(resource, field_selector=NOT_ENDED if resource is WHOLE_PODS else "")
        for each in page.items:
            found[resource.plural, each.metadata.namespace, each.metadata.name] = each.raw
    return found


def _add_object(stores: Stores, resource: ResourceType[Any], found: Any) -> None:
    store = stores.store_of(resource)
    assert store is not None
    store.put(found)


def _add_pods(stores: Stores, pods: Iterable[Pod]) -> None:
    """Add Pods, the oldest first, which is their queue order. Pods that have ended are left out."""
    for pod in sorted(pods, key=lambda each: each.metadata.creation_timestamp or _EPOCH):
        if not pod.finished:
            stores.pods.put(_with_uid(pod))


def _with_uid(pod: Pod) -> Pod:
    """Return the Pod with a uid, which a hand-written Pod may lack."""
    meta = pod.metadata
    if meta.uid:
        return pod
    uid = f"{meta.namespace}/{meta.name}"
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(meta, uid=uid))
