"""Events of the ledger, from the watches, before the scheduler's engine receives the change.

An unreadable object is reported by name and counts with its last known values. Other objects are not affected. While
this process does not lead, the ledger receives nothing: a term begins with all objects.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, Protocol

from situate.objects.kinds.meta import KubernetesObject
from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod
from situate.objects.kinds.unstructured import Unstructured
from situate.objects.resources import NODES, PODS, ResourceType
from situate.vm.api.nodes import read_node
from situate.vm.api.parse_errors import ParseError, ParseResult
from situate.vm.api.pods import has_ended
from situate.vm.backends.neonvm import Backend
from situate.vm.backends.systems import System
from situate.vm.controller.informers import VmInformers
from situate.vm.ledger.ledger import Ledger
from situate.vm.model import pods_and_nodes
from situate.vm.model.events import (
    InitialListCompleted,
    MigrationObserved,
    MigrationRemoved,
    NodeObserved,
    NodeRemoved,
    PodObserved,
    PodRemoved,
)
from situate.vm.model.pods_and_nodes import Ref


class ErrorReporter(Protocol):
    """Receiver of errors in objects."""

    def unreadable(self, resource: ResourceType[Any], each: KubernetesObject, wrong: tuple[ParseError, ...]) -> None:
        """Report the errors of an object, at each of its changes; empty: it has none now."""
        ...

    def forget(self, resource: ResourceType[Any], uid: str) -> None:
        """Forget a deleted object."""
        ...


_NOT_READ: Final[ParseResult[Any]] = ParseResult(None)


class Observer:
    """Observer of one process. Create it before the scheduler, so that the stores notify it first."""

    def __init__(
        self,
        watched: VmInformers,
        system: System[Any],
        backend: Backend,
        ledger: Ledger,
        complaints: ErrorReporter,
    ) -> None:
        self._watched = watched
        self._system = system
        self._backend = backend
        self._ledger = ledger
        self._reporter = complaints
        self._listening = False
        self._machines: dict[tuple[str, str], tuple[Unstructured, ParseResult[Any]]] = {}
        """Parsed VMs, because each change of their Pods needs them again."""
        self._waiting: dict[str, tuple[Pod, Any, ParseResult[pods_and_nodes.Pod]]] = {}
        """Parsed Pods without a node, by UID, because they are needed again whenever capacity appears."""
        watched.all.nodes.store.on_change(self._on_node_change)
        watched.machines.store.on_change(self._on_machine_change)
        watched.all.pods.store.on_change(self._on_pod_change)
        watched.migrations.store.on_change(self._on_migration_change)

    def load_objects(self) -> None:
        """Pass all known objects to the ledger (nodes, Pods, then migrations with their claims), and later all changes.

        No action follows before `complete_listing`.
        """
        self._listening = True
        for node in self._watched.all.nodes.store.list():
            self._on_node_change(None, node)
        for pod in self._watched.all.pods.store.list():
            self._on_pod_change(None, pod)
        for migration in self._watched.migrations.store.list():
            self._on_migration_change(None, migration)

    def complete_listing(self) -> None:
        """Mark the lists as complete: grants begin (C30)."""
        self._ledger.apply(InitialListCompleted())

    def end(self) -> None:
        """Pass nothing more to the ledger."""
        self._listening = False

    def read_pod(self, pod: Pod) -> ParseResult[pods_and_nodes.Pod]:
        """Parse a Pod together with its VM."""
        seen = self._machine_of(pod)
        if pod.spec.node_name:
            return self._system.read_pod(pod, self._ledger.rules, seen)
        known = self._waiting.get(pod.metadata.uid)
        if known is None or known[0] is not pod or known[1] is not seen:
            known = self._waiting[pod.metadata.uid] = pod, seen, self._system.read_pod(pod, self._ledger.rules, seen)
        return known[2]

    def _machine_of(self, pod: Pod) -> Any:
        """Return the parsed VM of a Pod; None if it has none, or an unknown or unreadable one."""
        ref = self._system.machine_of(pod)
        return None if ref is None else self._parsed_machine(ref)

    def _parsed_machine(self, ref: Ref) -> Any:
        """Return the parsed VM; None if it is unreadable, or another VM has the name now."""
        found = self._watched.machines.store.get(ref.name, ref.namespace)
        if found is None or found.metadata.uid != ref.uid:
            return None
        return self._read_machine(found).value

    def _read_machine(self, found: Unstructured) -> ParseResult[Any]:
        key = found.metadata.namespace, found.metadata.name
        known, read = self._machines.get(key, (None, _NOT_READ))
        if known is not found:
            read = self._system.read_machine(found, self._ledger.rules)
            self._machines[key] = found, read
        return read

    def _forget_if_gone(
        self, resource: ResourceType[Any], old: KubernetesObject | None, new: KubernetesObject | None
    ) -> None:
        """Forget the errors of an object that was deleted or replaced."""
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._reporter.forget(resource, old.metadata.uid)

    def _on_node_change(self, old: Node | None, new: Node | None) -> None:
        self._forget_if_gone(NODES, old, new)
        if not self._listening:
            return
        if new is None:
            assert old is not None
            self._ledger.apply(NodeRemoved(old.metadata.name))
            return
        read = read_node(new, self._ledger.rules)
        self._reporter.unreadable(NODES, new, read.errors)
        if read.value is not None:
            self._ledger.apply(NodeObserved(read.value))
        elif new.metadata.name in self._ledger.state.nodes:
            self._ledger.apply(NodeRemoved(new.metadata.name))  # its Pods are set apart until its size is known

    def _on_pod_change(self, old: Pod | None, new: Pod | None) -> None:
        self._forget_if_gone(PODS, old, new)
        if old is not None and (new is None or new.spec.node_name):
            self._waiting.pop(old.metadata.uid, None)
        if not self._listening:
            return
        if old is not None and (new is None or old.metadata.uid != new.metadata.uid):
            self._ledger.apply(PodRemoved(old.metadata.uid))
        if new is not None:
            self._observe_pod(new)

    def _observe_pod(self, pod: Pod) -> None:
        rules = self._ledger.rules
        if pod.metadata.namespace in rules.ignored_namespaces:  # they never cause pressure (C28)
            return
        if has_ended(pod) and not rules.compat:
            self._ledger.apply(PodRemoved(pod.metadata.uid))
            return
        node = pod.spec.node_name
        if not node and pod.spec.scheduler_name != rules.scheduler_name:
            return
        read = self.read_pod(pod)
        self._reporter.unreadable(PODS, pod, read.errors)
        if node:
            self._ledger.apply(PodObserved(read.value or self._unreadable_pod(pod), node))
        self._observe_migration_of(pod)

    def _unreadable_pod(self, pod: Pod) -> pods_and_nodes.Pod:
        """Return the amounts of an unreadable Pod."""
        state, rules, machine = self._ledger.state, self._ledger.rules, self._machine_of(pod)
        known = state.pod(pod.metadata.uid) or state.apart.get(pod.metadata.uid)
        if known is None or known.machine is None:
            return self._system.pod_from_requests(pod, rules, machine)
        return self._system.pod_with_known_reservation(known, pod, rules, machine)

    def _observe_migration_of(self, pod: Pod) -> None:
        """Read the migration of a new target Pod again: its UID was unknown when the migration named it."""
        made_for = self._system.migration_of(pod)
        if made_for is not None:
            found = self._watched.migrations.store.get(made_for.name, made_for.namespace)
            if found is not None and found.metadata.uid == made_for.uid:
                self._on_migration_change(found, found)

    def _on_machine_change(self, old: Unstructured | None, new: Unstructured | None) -> None:
        self._forget_if_gone(self._system.machines, old, new)
        gone = old if new is None else None
        if gone is not None:
            self._machines.pop((gone.metadata.namespace, gone.metadata.name), None)
        if not self._listening:
            return
        if new is not None:
            self._reporter.unreadable(self._system.machines, new, self._read_machine(new).errors)
        meta = (new or old).metadata  # type: ignore[union-attr]  # one of them is there
        for pod in self._watched.pods_of(meta.namespace, meta.name):
            self._observe_pod(pod)

    def _on_migration_change(self, old: Unstructured | None, new: Unstructured | None) -> None:
        self._forget_if_gone(self._backend.resource, old, new)
        if not self._listening:
            return
        if old is not None and (new is None or old.metadata.uid != new.metadata.uid):
            read = self._backend.observe(old, self._ledger.clock())
            if read.value is not None:
                self._ledger.apply(MigrationRemoved(self._with_known_uids(read.value).machine, old.metadata.name))
        if new is not None:
            read = self._backend.observe(new, self._ledger.clock())
            self._reporter.unreadable(self._backend.resource, new, read.errors)
            if read.value is not None:
                self._ledger.apply(self._with_known_uids(read.value))

    def _with_known_uids(self, seen: MigrationObserved) -> MigrationObserved:
        """Add the UIDs, and the node of the source, that the object does not contain."""
        machine = self._watched.machines.store.get(seen.machine.name, seen.machine.namespace)
        if machine is not None:
            seen = replace(seen, machine=replace(seen.machine, uid=machine.metadata.uid))
            read = self._read_machine(machine).value
            if seen.source is None and read is not None and not _is_over(seen):
                of_machine = self._watched.pods_of(seen.machine.namespace, seen.machine.name)
                if runs_in := self._system.running_pod_name(read, of_machine):
                    seen = replace(seen, source=Ref(seen.machine.namespace, runs_in))
        pods = self._watched.all.pods.store
        source = pods.get(seen.source.name, seen.source.namespace) if seen.source is not None else None
        if seen.source is not None and source is not None and seen.source.uid in ("", source.metadata.uid):
            named, node = replace(seen.source, uid=source.metadata.uid), seen.source_node or source.spec.node_name
            seen = replace(seen, source=named, source_node=node)
        for pod in self._watched.pods_of(seen.machine.namespace, seen.machine.name):
            made_for = self._system.migration_of(pod)
            if made_for is not None and made_for.uid == seen.uid:
                seen = replace(seen, target=Ref(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid))
        return seen


def _is_over(seen: MigrationObserved) -> bool:
    """Return whether the VM may run in the target now."""
    return seen.phase.succeeded or seen.phase.failed
