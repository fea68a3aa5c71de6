"""The state of one StatefulSet as a cluster, or a file of its objects, shows it. Nothing is ever written.

The same reading and deciding functions as in the controller, on one listing instead of watches.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import typer
import yaml

from situate.cli.configured import load, vpod_entries
from situate.cli.failures import WrongInput
from situate.cli.progress import progress
from situate.kube.client import Client
from situate.kube.connect import connect, find_connection
from situate.kube.errors import Forbidden, NotFound
from situate.objects.codec import Malformed, decode
from situate.objects.label_selectors import parse_selector
from situate.objects.meta import ObjectMeta
from situate.objects.resources import CONFIGMAPS, NODES, PODS, STATEFULSETS, ResourceType, unstructured
from situate.vpod.adapters import read_vpod
from situate.vpod.configuration import StatefulSetSettings
from situate.vpod.model import PlainVPod
from situate.vpod.observations import node_facts, pod_facts
from situate.vpod.options import Options, PolicyName
from situate.vpod.policy.configmap import parse_policy
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


def chosen_entries(file: Path, name: str | None, assignments: Iterable[str] | None) -> tuple[StatefulSetSettings, ...]:
    """The entries of the configuration with the assignments of `--set`, or the one of that name."""
    entries = vpod_entries(load(file, assignments or ()))
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
        with progress(f"reading {where.objects}"):
            listing = _FileListing(where.objects)
            return [asyncio.run(_observed(entry, listing)) for entry in entries]
    with progress("reading the cluster"):
        return asyncio.run(_observe_cluster(list(entries), where))


async def _observe_cluster(entries: list[StatefulSetSettings], where: Where) -> list[Observed]:
    client = connect(find_connection(where.kubeconfig, where.context), random.Random())
    try:
        listing = _ClusterListing(client)
        return [await _observed(entry, listing) for entry in entries]
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


async def _observed(entry: StatefulSetSettings, listing: _ClusterListing | _FileListing) -> Observed:
    namespace = entry.stateful_set_namespace
    sets = await listing.list(STATEFULSETS, namespace)
    replicas = next((each.spec.replicas for each in sets if each.metadata.name == entry.stateful_set_name), None)
    try:
        nodes = [node_facts(node) for node in await listing.list(NODES, None)]
    except Forbidden:
        nodes = []
    pods = [pod_facts(pod) for pod in await listing.list(PODS, namespace)]
    vpods = await _vpods(entry, listing)
    # a state that is given no nodes would trust none of them; None says that they cannot be known
    state = State.rebuilt(await _options(entry, listing), replicas or 0, pods, vpods, now=0.0, nodes=nodes or None)
    return Observed(entry, replicas is not None, state, vpods)


async def _vpods(entry: StatefulSetSettings, listing: _ClusterListing | _FileListing) -> tuple[PlainVPod, ...]:
    read: list[PlainVPod | None] = []
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
        read += [read_vpod(source, each, prefix) for each in found]
    return tuple(vpod for vpod in read if vpod is not None)


async def _options(entry: StatefulSetSettings, listing: _ClusterListing | _FileListing) -> Options:
    """With the predicates and priorities of the ConfigMaps; one that is missing or wrong counts as not there."""
    options = entry.options()
    if options.policy is not PolicyName.POLICY:
        return options
    configmaps = await listing.list(CONFIGMAPS, entry.stateful_set_namespace)
    policies = {each.metadata.name: parse_policy(each.data).policy for each in configmaps}
    return replace(
        options,
        placing=policies.get(entry.scheduler_config or "") or options.placing,
        removing=policies.get(entry.descheduler_config or "") or options.removing,
    )
