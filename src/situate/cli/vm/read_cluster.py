"""Read the state that vm would see, once. Nothing is ever written.

Objects pass through the same stores, readers and steps as in the controller, so that they count the same here. The
ledger is not told that it has seen everything, so it only takes in objects and decides nothing. Only the leader knows
waiting times and back-offs.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from situate.cli.input.configuration import product_settings
from situate.cli.read_cluster.cluster_source import open_client, run_read
from situate.cli.read_cluster.stores import ReadRemarks, fill_store, read_lease
from situate.cli.terminal.options import ClusterOptions
from situate.kube.client import Client
from situate.objects.kinds.leases import Lease
from situate.objects.kinds.meta import KubernetesObject
from situate.objects.kinds.pods import Pod
from situate.objects.resources import ResourceType
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


def read_settings(where: ClusterOptions) -> VmSettings:
    """Return the settings. Raises `WrongInput` and `BadConfiguration`."""
    return product_settings(where.file, where.assignments, "vm", VmSettings)


def observe(settings: VmSettings, where: ClusterOptions) -> VmClusterState:
    """Return the current state. Raises `KubeError`, `WrongInput`, `BadConfiguration` or `NotAllowed`."""
    configure_logging("warning")
    return run_read(where, _observe(settings, where))


async def _observe(settings: VmSettings, where: ClusterOptions) -> VmClusterState:
    remarks = _Remarks()
    async with open_client(where) as client:
        rules = Rules.of(settings)
        system = select_system(settings)
        backend = system.backend(rules)
        watched = VmInformers.create(client, random.Random(), system, backend)
        ledger = Ledger(rules, time.time, lambda: False)
        observing = Observer(watched, system, backend, ledger, remarks)
        for reflector in (watched.all.nodes, watched.all.pods, watched.machines, watched.migrations):
            await fill_store(client, reflector, remarks, _REQUIRED_RESOURCES, f": {system.install_hint}")
        remarks.raise_if_forbidden()
        observing.load_objects()
        _pair_targets(ledger)
        lease = await _read_lease(client, settings.lease_name, where, remarks)
        unplaced = sorted(_unplaced_objects(watched, system), key=lambda each: (each.namespace, each.machine, each.pod))
        state = _correct_claims(ledger.state)
        return VmClusterState(rules, state, time.time(), lease, tuple(unplaced), tuple(remarks.sentences))


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


class _Remarks(ReadRemarks):
    def forget(self, resource: ResourceType[Any], uid: str) -> None:
        """Do nothing: objects are read once."""

    def unreadable(self, resource: ResourceType[Any], each: KubernetesObject, wrong: Sequence[ParseError]) -> None:  # noqa: ARG002
        for problem in wrong:
            if str(problem) not in self.sentences:
                self.sentences.append(str(problem))


async def _read_lease(client: Client, name: str, where: ClusterOptions, remarks: ReadRemarks) -> Lease | None:
    namespace = where.installation
    absent = f"Lease {name} does not exist in namespace {namespace}, so no leader decides there"
    lease = await read_lease(client, where, name, remarks, absent=absent, unknown="the leader is not known")
    if lease is not None and not lease.spec.holder_identity:
        holder = f"no process holds Lease {name} in namespace {namespace}"
        remarks.sentences.append(f"{holder}, so nothing is granted or moved until a scheduler runs there")
    return lease
