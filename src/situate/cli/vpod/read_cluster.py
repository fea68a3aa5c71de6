"""Read the state of one StatefulSet from a cluster or from files. Nothing is ever written.

The functions that read and decide are those of the controller, but work on one list instead of watches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import msgspec
import typer

from situate.cli.input.configuration import load_configuration, vpod_entries
from situate.cli.input.dumps import read_objects
from situate.cli.read_cluster.cluster_source import open_client, run_read
from situate.cli.terminal.failures import ExitCode, WrongInput
from situate.cli.terminal.progress import progress
from situate.cli.terminal.streams import print_error
from situate.cli.vpod.options import VpodOptions
from situate.kube.client import Client
from situate.kube.errors import Forbidden, NotFound
from situate.objects.decoding.codec import decode
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.unstructured import Unstructured
from situate.objects.resources import CONFIGMAPS, NODES, PODS, STATEFULSETS, ResourceType, unstructured
from situate.objects.selection.label_selectors import parse_selector
from situate.objects.settings.section import format_value
from situate.vpod.config.settings import SourceSettings, StatefulSetSettings
from situate.vpod.model.options import Options, PolicyName
from situate.vpod.model.pod_facts import node_facts, pod_facts
from situate.vpod.model.vpod import Key, PlainVPod
from situate.vpod.placement.shortage import missing_statefulset_message
from situate.vpod.policy.configmap import parse_policy
from situate.vpod.sources.adapters import NoSchedulerFoundError, foreign_object_message, read_vpod
from situate.vpod.state.ordered_ready import BlockingPod, find_blocking_pod
from situate.vpod.state.state import State

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StatefulSetState:
    """State of one StatefulSet and its vpods."""

    settings: StatefulSetSettings
    exists: bool
    """Whether the StatefulSet exists."""
    state: State
    vpods: tuple[PlainVPod, ...]
    skipped_sources: Mapping[Key, str]
    """Objects of the same kinds that are not vpods of this StatefulSet, with the reason."""
    blocked: BlockingPod | None = None
    """Pod that keeps an OrderedReady StatefulSet from growing."""

    @property
    def missing_message(self) -> str:
        """Message for a StatefulSet that does not exist; empty if it does."""
        return "" if self.exists else missing_statefulset_message(self.state.options.statefulset)

    @property
    def remarks(self) -> list[str]:
        """Sentences about the StatefulSet as a whole."""
        return [each for each in (self.missing_message, str(self.blocked or "")) if each]


def select_entries(where: VpodOptions) -> tuple[StatefulSetSettings, ...]:
    """Return the entries of the configuration, or the one of the named StatefulSet.

    Raises `WrongInput` and `BadConfiguration`.
    """
    file, name = where.file, where.statefulset
    entries = vpod_entries(load_configuration(file, where.assignments or ()))
    if not entries:
        raise WrongInput(f"{file}: no vpod section; add an entry for each StatefulSet")
    if name is None:
        return entries
    chosen = tuple(entry for entry in entries if entry.options().statefulset == name)
    if not chosen:
        known = ", ".join(entry.options().statefulset for entry in entries)
        raise WrongInput(f"--statefulset: found {format_value(name)}, allowed: an entry of {file}: {known}")
    return chosen


def require_statefulsets(observed: Iterable[StatefulSetState]) -> None:
    """Exit with 1 unless every StatefulSet exists. The missing ones have been reported."""
    if not all(each.exists for each in observed):
        raise typer.Exit(ExitCode.NO)


def observe(entries: Iterable[StatefulSetSettings], where: VpodOptions) -> list[StatefulSetState]:
    """Return the current state of a cluster or of files. Raises `KubeError` or `WrongInput`."""
    if where.objects:
        with progress(f"reading {', '.join(map(str, where.objects))}"):
            listing = _FileListing(where.objects)
            return [asyncio.run(_read_state(entry, listing)) for entry in entries]
    return run_read(where, _observe_cluster(entries, where))


async def _observe_cluster(entries: Iterable[StatefulSetSettings], where: VpodOptions) -> list[StatefulSetState]:
    async with open_client(where) as client:
        listing = _ClusterListing(client)
        return [await _read_state(entry, listing) for entry in entries]


class _ClusterListing:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def list(self, resource: ResourceType[T], namespace: str | None, labels: str = "") -> list[T]:
        return (await self._client.list_all(resource, namespace, label_selector=labels)).items


class _FileListing:
    """Objects of files. An unreadable object is reported with its position there."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._objects = list(read_objects(paths, "--objects"))

    async def list(self, resource: ResourceType[T], namespace: str | None, labels: str = "") -> list[T]:
        selector = parse_selector(labels)
        found: list[T] = []
        for each in self._objects:
            if (each.api_version, each.kind) != (resource.api_version, resource.kind):
                continue
            try:
                item = decode(resource, msgspec.json.encode(each.content))
            except (ValueError, TypeError, RecursionError) as problem:
                print_error(f"{each.position}: left out: {problem}")  # the other objects are still read
                continue
            meta: ObjectMeta = item.metadata  # type: ignore[attr-defined]  # every model has metadata
            if (namespace is None or meta.namespace == namespace) and selector.matches(meta.labels):
                found.append(item)
        return found


async def _read_state(entry: StatefulSetSettings, listing: _ClusterListing | _FileListing) -> StatefulSetState:
    namespace = entry.stateful_set_namespace
    sets = await listing.list(STATEFULSETS, namespace)
    found = next((each for each in sets if each.metadata.name == entry.stateful_set_name), None)
    try:
        nodes = [node_facts(node) for node in await listing.list(NODES, None)]
    except Forbidden:
        nodes = []
    pods = [pod_facts(pod) for pod in await listing.list(PODS, namespace)]
    vpods, others = await _read_vpods(entry, listing)
    # with an empty list no node would be trusted; None means that nodes are unknown, and trusted
    replicas = 0 if found is None else found.spec.replicas
    state = State.rebuild(await _read_options(entry, listing), replicas, pods, vpods, now=0.0, nodes=nodes or None)
    ordered = found is not None and found.spec.pod_management_policy != "Parallel"
    blocked = find_blocking_pod(state) if ordered else None
    return StatefulSetState(entry, found is not None, state, vpods, others, blocked)


async def _read_vpods(
    entry: StatefulSetSettings, listing: _ClusterListing | _FileListing
) -> tuple[tuple[PlainVPod, ...], dict[Key, str]]:
    read: list[PlainVPod] = []
    others: dict[Key, str] = {}
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
        for each in found:
            vpod = read_vpod(source, each, prefix)
            if vpod is not None:
                read.append(vpod)
            else:
                others[Key(each.metadata.namespace, prefix + each.metadata.name)] = _skip_reason(source, each)
    return tuple(read), others


def _skip_reason(source: SourceSettings, found: Unstructured) -> str:
    try:
        return foreign_object_message(source, found)
    except NoSchedulerFoundError as nobody:
        return str(nobody)


async def _read_options(entry: StatefulSetSettings, listing: _ClusterListing | _FileListing) -> Options:
    """Return the options with the predicates and priorities of the ConfigMaps. Invalid ConfigMaps are ignored."""
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
