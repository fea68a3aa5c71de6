"""The state of one StatefulSet as a cluster, or a file of its objects, shows it. Nothing is ever written.

The same reading and deciding functions as in the controller, on one listing instead of watches.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import typer
import yaml

from situate.cli.configured import load, vpod_entries
from situate.cli.failures import WrongInput
from situate.kube.client import Client
from situate.kube.connect import connect, find_connection
from situate.kube.errors import Forbidden, NotFound
from situate.objects.codec import Malformed, decode
from situate.objects.label_selectors import parse_selector
from situate.objects.meta import ObjectMeta
from situate.objects.nodes import Node
from situate.objects.resources import NODES, PODS, STATEFULSETS, ResourceType, unstructured
from situate.objects.unstructured import Unstructured
from situate.vpod.adapters import read_vpod
from situate.vpod.configuration import SourceSettings, StatefulSetSettings
from situate.vpod.model import PlainVPod
from situate.vpod.observations import node_facts, pod_facts
from situate.vpod.state import State

T = TypeVar("T")

FileOption = Annotated[Path, typer.Option("--file", "-f", help="The configuration, as for `situate run`.")]
ObjectsOption = Annotated[
    Path | None,
    typer.Option("--objects", help="Read the objects from this YAML or JSON file instead of a cluster."),
]
KubeconfigOption = Annotated[Path | None, typer.Option(help="The kubeconfig; default as kubectl's.")]
ContextOption = Annotated[str | None, typer.Option(help="The context of the kubeconfig.")]
StatefulSetOption = Annotated[
    str | None, typer.Option("--statefulset", help="NAMESPACE/NAME of one entry, where the file has several.")
]


@dataclass(frozen=True, slots=True)
class Where:
    """Where the objects are read from."""

    kubeconfig: Path | None
    context: str | None
    objects: Path | None


@dataclass(frozen=True, slots=True)
class Observed:
    """One StatefulSet and everything that matters to it."""

    settings: StatefulSetSettings
    exists: bool
    """Whether the StatefulSet does."""
    state: State
    vpods: tuple[PlainVPod, ...]


def chosen_entries(file: Path, name: str | None) -> tuple[StatefulSetSettings, ...]:
    """The entries of the configuration, or the one of that name."""
    entries = vpod_entries(load(file))
    if not entries:
        raise WrongInput(f"{file}: there is no vpod section; add an entry for each StatefulSet")
    if name is None:
        return entries
    chosen = tuple(entry for entry in entries if entry.options().statefulset == name)
    if not chosen:
        known = ", ".join(entry.options().statefulset for entry in entries)
        raise WrongInput(f"--statefulset {name}: {file} has no such entry; it has {known}")
    return chosen


def observe(entries: Iterable[StatefulSetSettings], where: Where) -> list[Observed]:
    """What a cluster or a file shows now. Raises `KubeError` or `WrongInput`."""
    if where.objects is not None:
        listing = _FileListing(where.objects)
        return [_assembled(entry, *asyncio.run(_read(entry, listing))) for entry in entries]
    return asyncio.run(_observe_cluster(list(entries), where))


async def _observe_cluster(entries: list[StatefulSetSettings], where: Where) -> list[Observed]:
    client = connect(find_connection(where.kubeconfig, where.context), random.Random())
    try:
        listing = _ClusterListing(client)
        return [_assembled(entry, *await _read(entry, listing)) for entry in entries]
    finally:
        await client.close()


class _ClusterListing:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def list(self, resource: ResourceType[T], namespace: str | None, labels: str = "") -> list[T]:
        return (await self._client.list_all(resource, namespace, label_selector=labels)).items


class _FileListing:
    """The objects of a file: one document each, or lists of them, as `kubectl get -o yaml` prints them."""

    def __init__(self, path: Path) -> None:
        try:
            documents = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
        except OSError as problem:
            raise WrongInput(f"--objects {path}: cannot be read: {problem.strerror}") from None
        except (yaml.YAMLError, UnicodeDecodeError) as problem:
            raise WrongInput(f"--objects {path}: not YAML: {problem}") from None
        self._objects = list(_flattened(documents))
        self._path = path

    async def list(self, resource: ResourceType[T], namespace: str | None, labels: str = "") -> list[T]:
        selector = parse_selector(labels)
        found: list[T] = []
        for content in self._objects:
            if content.get("apiVersion") != resource.api_version or content.get("kind") != resource.kind:
                continue
            try:
                item = decode(resource, msgspec.json.encode(content))
            except Malformed as problem:
                raise WrongInput(f"--objects {self._path}: {problem}") from None
            meta: ObjectMeta = item.metadata  # type: ignore[attr-defined]  # every model has metadata
            if (namespace is None or meta.namespace == namespace) and selector.matches(meta.labels):
                found.append(item)
        return found


def _flattened(documents: Iterable[Any]) -> Iterator[Mapping[str, Any]]:
    for document in documents:
        if isinstance(document, Mapping) and isinstance(document.get("items"), list):
            yield from _flattened(document["items"])
        elif isinstance(document, Mapping):
            yield document


async def _read(
    entry: StatefulSetSettings, listing: _ClusterListing | _FileListing
) -> tuple[int | None, list[Any], list[Node] | None, list[tuple[SourceSettings, str, Unstructured]]]:
    """Replicas (None: no such StatefulSet), pods, nodes (None: they may not be listed), objects of the sources."""
    namespace = entry.stateful_set_namespace
    sets = await listing.list(STATEFULSETS, namespace)
    replicas = next((each.spec.replicas for each in sets if each.metadata.name == entry.stateful_set_name), None)
    try:
        nodes = await listing.list(NODES, None)
    except Forbidden:
        nodes = None
    sources = []
    for number, source in enumerate(entry.completed_sources()):
        resource = unstructured(source.group, source.version, source.kind, source.resource)
        prefix = f"{source.resource}/" if number else ""
        try:
            found = await listing.list(resource, source.namespace, source.label_selector)
        except NotFound as missing:
            raise WrongInput(
                f"the cluster does not serve {resource.group_resource}: {missing.message}; "
                "apply its definition (`situate crds` prints those of Knative's kinds)"
            ) from None
        sources += [(source, prefix, each) for each in found]
    return replicas, await listing.list(PODS, namespace), nodes, sources


def _assembled(
    entry: StatefulSetSettings,
    replicas: int | None,
    pods: list[Any],
    nodes: list[Node] | None,
    sources: list[tuple[SourceSettings, str, Unstructured]],
) -> Observed:
    read = (read_vpod(source, found, prefix) for source, prefix, found in sources)
    vpods = tuple(vpod for vpod in read if vpod is not None)
    known_nodes = None if not nodes else [node_facts(node) for node in nodes]
    state = State.rebuilt(
        entry.options(), replicas or 0, [pod_facts(pod) for pod in pods], vpods, now=0.0, nodes=known_nodes
    )
    return Observed(entry, replicas is not None, state, vpods)
