"""Read the state that vm would see, once. Nothing is ever written.

Objects pass through the same stores, readers and steps as in the controller, so that they count the same here. The
ledger is not told that it has seen everything, so it only takes in objects and decides nothing. Only the leader knows
waiting times and back-offs.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from situate.cli.input.configuration import configuration_without_file, load_configuration, vm_settings
from situate.cli.read_cluster.installation_options import InstallationOptions
from situate.cli.terminal.failures import NotAllowed, WrongInput
from situate.cli.terminal.progress import progress
from situate.kube.client import Client
from situate.kube.errors import Forbidden, KubeError, NotFound
from situate.kube.watch.reflector import Reflector
from situate.objects.kinds.leases import Lease
from situate.objects.kinds.meta import KubernetesObject
from situate.objects.kinds.pods import Pod
from situate.objects.resources import LEASES, ResourceType
from situate.runtime.process.logs import configure_logging
from situate.vm.api.parse_errors import ParseError
from situate.vm.backends.systems import System, select_system
from situate.vm.config.settings import VmSettings
from situate.vm.controller.informers import VmInformers
from situate.vm.controller.observe import Observer
from situate.vm.ledger.ledger import Ledger
from situate.vm.model.events import PodObserved
from situate.vm.model.migrations import ClaimState
from situate.vm.model.pods_and_nodes import Role
from situate.vm.model.policy import Rules
from situate.vm.model.state import LedgerState

_REQUIRED_RESOURCES: Final = frozenset(("pods", "nodes"))
"""Resources without which nothing can be counted."""


@dataclass(frozen=True, slots=True)
class UnplacedObject:
    """VM without a node, or a Pod of no VM without one."""

    namespace: str
    machine: str
    """Empty if the Pod runs no VM."""
    pod: str
    """Empty if the VM has no Pod."""
    reason: str

    def as_data(self) -> dict[str, Any]:
        return {
            "namespace": self.namespace,
            "machine": self.machine or None,
            "pod": self.pod or None,
            "node": None,
            "why": self.reason,
        }


@dataclass(frozen=True, slots=True)
class VmClusterState:
    """State of the cluster at one moment."""

    rules: Rules
    state: LedgerState
    now: float
    """Seconds of the epoch."""
    lease: Lease | None
    """None if it does not exist or may not be read."""
    unplaced_objects: tuple[UnplacedObject, ...]
    """By namespace and name."""
    remarks: tuple[str, ...]
    """Sentences about unreadable input and its consequences."""


class VmOptions(InstallationOptions):
    """Options of a command."""

    __slots__ = ()

    def check(self) -> None:
        """Check the settings before the cluster is read. Raises `WrongInput` and `BadConfiguration`."""
        read_settings(self.file, self.assignments)

    def observe(self) -> VmClusterState:
        """Return the current state, read with the settings of the file and of `--set`, or the defaults.

        Raises `KubeError`, `WrongInput`, `BadConfiguration` or `NotAllowed`.
        """
        settings = read_settings(self.file, self.assignments)
        configure_logging("warning")
        with progress(self.progress_text):
            return asyncio.run(_observe(settings, self))


def read_settings(file: Path | None, assignments: Iterable[str]) -> VmSettings:
    """Return the settings. Raises `WrongInput` and `BadConfiguration`."""
    given = tuple(assignments)
    settings = vm_settings(configuration_without_file(given) if file is None else load_configuration(file, given))
    if settings is None and file is not None:
        raise WrongInput(f"{file}: no vm section; add `vm: {{}}` with the settings that differ from the defaults")
    return settings or VmSettings()


async def _observe(settings: VmSettings, asked: VmOptions) -> VmClusterState:
    client = asked.source.client()
    remarks = _Remarks()
    try:
        rules = settings.rules()
        system = select_system(settings)
        backend = system.backend(rules)
        watched = VmInformers.create(client, random.Random(), system, backend)
        ledger = Ledger(rules, time.time, lambda: False)
        observing = Observer(watched, system, backend, ledger, remarks)
        for reflector in (watched.all.nodes, watched.all.pods, watched.machines, watched.migrations):
            await _fill_store(client, reflector, system, remarks)
        if remarks.missing_permissions:
            raise NotAllowed("\n".join(remarks.missing_permissions))
        observing.load_objects()
        _pair_targets(ledger)
        lease = await _read_lease(client, settings.lease_name, asked, remarks)
        unplaced = sorted(_unplaced_objects(watched, system), key=lambda each: (each.namespace, each.machine, each.pod))
        state = _correct_claims(ledger.state)
        return VmClusterState(rules, state, time.time(), lease, tuple(unplaced), tuple(remarks.sentences))
    finally:
        await client.close()


def _pair_targets(ledger: Ledger) -> None:
    """Pair targets with their moves, so that each reservation counts once.

    A starting leader does the same when the first lists are complete.
    """
    for node in list(ledger.state.nodes.values()):
        for pod in node.pods.values():
            if pod.machine is not None and pod.machine.role is Role.TARGET:
                ledger.apply(PodObserved(pod, node.name))


def _correct_claims(state: LedgerState) -> LedgerState:
    """Correct claims whose source still exists: their capacity is not held yet (B3).

    The ledger takes a claim in as freed if the target is listed before its source.
    """
    early = [
        each for each in state.claims.values() if each.state is ClaimState.FREED and each.source_uid in state.where
    ]
    return replace(
        state, claims={**state.claims, **{each.id: replace(each, state=ClaimState.MOVING) for each in early}}
    )


def _unplaced_objects(watched: VmInformers, system: System[Any]) -> Iterator[UnplacedObject]:
    """Return VMs whose Pods have no node, then Pods of no VM without a node."""
    runners: dict[str, list[Pod]] = defaultdict(list)
    alone: list[Pod] = []
    for pod in watched.all.pods.store.list():
        ref = system.machine_of(pod)
        if ref is not None and not pod.finished:
            runners[ref.uid].append(pod)
        elif not pod.finished and not pod.spec.node_name:
            alone.append(pod)
    for machine in watched.machines.store.list():
        pods, of = runners[machine.metadata.uid], (machine.metadata.namespace, machine.metadata.name)
        if not pods:
            yield UnplacedObject(*of, "", "it has no Pod yet: the VM controller creates one")
        elif not any(each.spec.node_name for each in pods):
            yield UnplacedObject(*of, pods[0].metadata.name, _pending_reason(pods[0]))
    for pod in alone:
        yield UnplacedObject(pod.metadata.namespace, "", pod.metadata.name, _pending_reason(pod))


def _pending_reason(pod: Pod) -> str:
    said = pod.condition("PodScheduled")
    if said is not None and said.message:
        return said.message
    return f"no scheduler has said why; its schedulerName is {pod.spec.scheduler_name}"


def as_started(state: LedgerState) -> LedgerState:
    """Return the state as started, so that its explanation is the same as the leader's."""
    return replace(state, started=True)


@dataclass(slots=True)
class _Remarks:
    sentences: list[str] = field(default_factory=list)
    missing_permissions: list[str] = field(default_factory=list)

    def forget(self, resource: ResourceType[Any], uid: str) -> None:
        """Do nothing: objects are read once."""

    def unreadable(self, resource: ResourceType[Any], each: KubernetesObject, wrong: Sequence[ParseError]) -> None:  # noqa: ARG002
        for problem in wrong:
            if str(problem) not in self.sentences:
                self.sentences.append(str(problem))


async def _fill_store(client: Client, reflector: Reflector[Any], system: System[Any], remarks: _Remarks) -> None:
    """Fill the store as a first list would."""
    scope = reflector.scope
    resource = scope.resource.group_resource
    try:
        page = await client.list_all(scope.resource, scope.namespace)
    except Forbidden as problem:
        needed = resource in _REQUIRED_RESOURCES
        said = f"no permission to list {resource}{', so nothing can be counted' if needed else ''}: {problem}"
        (remarks.missing_permissions if needed else remarks.sentences).append(said)
        return
    except NotFound:
        remarks.sentences.append(f"the cluster does not serve {resource}: {system.install_hint}")
        return
    for malformed in page.malformed:
        remarks.sentences.append(f"left out: {malformed}")
    for each in page.items:
        reflector.store.put(each)


async def _read_lease(client: Client, name: str, asked: VmOptions, remarks: _Remarks) -> Lease | None:
    namespace = asked.installation
    try:
        lease = await client.get(LEASES, name, namespace)
    except NotFound:
        absent = f"Lease {name} does not exist in namespace {namespace}, so no leader decides there"
        if asked.source.objects:
            absent = f"the files have no Lease {namespace}/{name}, so the leader is not known"
        remarks.sentences.append(f"{absent}; --installation-namespace selects another namespace")
    except KubeError as problem:
        remarks.sentences.append(f"the leader is not known: {problem}")
    else:
        if not lease.spec.holder_identity:
            holder = f"no process holds Lease {name} in namespace {namespace}"
            remarks.sentences.append(f"{holder}, so nothing is granted or moved until a scheduler runs there")
        return lease
    return None
