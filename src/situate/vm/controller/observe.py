"""Turns what the watches show into events of the ledger, before the scheduler's engine hears of it.

An object that cannot be read is told of by name and counts for what is known of it; the others go on. While this
process does not lead, nothing is told to the ledger: a term begins with all that there is.
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
from situate.vm.api.parse_errors import Read, Unreadable
from situate.vm.api.pods import ended
from situate.vm.backends.neonvm import Backend
from situate.vm.backends.systems import System
from situate.vm.controller.informers import VmWatched
from situate.vm.ledger.ledger import Ledger
from situate.vm.model import pods_and_nodes
from situate.vm.model.events import Listed, MigrationGone, MigrationSeen, NodeGone, NodeSeen, PodGone, PodSeen
from situate.vm.model.pods_and_nodes import Ref


class Complaints(Protocol):
    """Is told of objects that say something that cannot be acted on."""

    def unreadable(self, resource: ResourceType[Any], each: KubernetesObject, wrong: tuple[Unreadable, ...]) -> None:
        """Told again at each change of the object; empty: nothing is wrong with it any more."""
        ...

    def forget(self, resource: ResourceType[Any], uid: str) -> None:
        """The object is gone."""
        ...


_NOTHING: Final[Read[Any]] = Read(None)


class Observing:
    """Of one process. Make it before the scheduler, so that the stores tell it first."""

    def __init__(
        self,
        watched: VmWatched,
        system: System[Any],
        backend: Backend,
        ledger: Ledger,
        complaints: Complaints,
    ) -> None:
        self._watched = watched
        self._system = system
        self._backend = backend
        self._ledger = ledger
        self._complaints = complaints
        self._listening = False
        self._machines: dict[tuple[str, str], tuple[Unstructured, Read[Any]]] = {}
        """As they were read last: each of them is asked for with every change of its pods."""
        self._waiting: dict[str, tuple[Pod, Any, Read[pods_and_nodes.Pod]]] = {}
        """By uid the pods without a node, as they were read last: they are asked for whenever room appears."""
        watched.all.nodes.store.on_change(self._node)
        watched.machines.store.on_change(self._machine)
        watched.all.pods.store.on_change(self._pod)
        watched.migrations.store.on_change(self._migration)

    def take_in(self) -> None:
        """Tells all that is known, and from now on what changes: nodes, then pods, then migrations with their claims.

        Nothing follows from it before `listed`.
        """
        self._listening = True
        for node in self._watched.all.nodes.store.list():
            self._node(None, node)
        for pod in self._watched.all.pods.store.list():
            self._pod(None, pod)
        for migration in self._watched.migrations.store.list():
            self._migration(None, migration)

    def listed(self) -> None:
        """That was all: from now on room is granted (C30)."""
        self._ledger.apply(Listed())

    def end(self) -> None:
        """The ledger learns nothing more."""
        self._listening = False

    def read(self, pod: Pod) -> Read[pods_and_nodes.Pod]:
        """A pod with what its machine says."""
        seen = self._machine_of(pod)
        if pod.spec.node_name:
            return self._system.read_pod(pod, self._ledger.rules, seen)
        known = self._waiting.get(pod.metadata.uid)
        if known is None or known[0] is not pod or known[1] is not seen:
            known = self._waiting[pod.metadata.uid] = pod, seen, self._system.read_pod(pod, self._ledger.rules, seen)
        return known[2]

    def _machine_of(self, pod: Pod) -> Any:
        """As the system reads it; None if it runs none that is known and can be read."""
        ref = self._system.machine_of(pod)
        return None if ref is None else self._machine_seen(ref)

    def _machine_seen(self, ref: Ref) -> Any:
        """None if it cannot be read, or another one has the name by now."""
        found = self._watched.machines.store.get(ref.name, ref.namespace)
        if found is None or found.metadata.uid != ref.uid:
            return None
        return self._read_machine(found).value

    def _read_machine(self, found: Unstructured) -> Read[Any]:
        key = found.metadata.namespace, found.metadata.name
        known, read = self._machines.get(key, (None, _NOTHING))
        if known is not found:
            read = self._system.read_machine(found, self._ledger.rules)
            self._machines[key] = found, read
        return read

    def _left(self, resource: ResourceType[Any], old: KubernetesObject | None, new: KubernetesObject | None) -> None:
        """Nothing is kept of what was wrong with an object that is gone, or is another one by now."""
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._complaints.forget(resource, old.metadata.uid)

    def _node(self, old: Node | None, new: Node | None) -> None:
        self._left(NODES, old, new)
        if not self._listening:
            return
        if new is None:
            assert old is not None
            self._ledger.apply(NodeGone(old.metadata.name))
            return
        read = read_node(new, self._ledger.rules)
        self._complaints.unreadable(NODES, new, read.wrong)
        if read.value is not None:
            self._ledger.apply(NodeSeen(read.value))
        elif new.metadata.name in self._ledger.state.nodes:
            self._ledger.apply(NodeGone(new.metadata.name))  # what is there is kept aside until it says its size again

    def _pod(self, old: Pod | None, new: Pod | None) -> None:
        self._left(PODS, old, new)
        if old is not None and (new is None or new.spec.node_name):
            self._waiting.pop(old.metadata.uid, None)
        if not self._listening:
            return
        if old is not None and (new is None or old.metadata.uid != new.metadata.uid):
            self._ledger.apply(PodGone(old.metadata.uid))
        if new is not None:
            self._see_pod(new)

    def _see_pod(self, pod: Pod) -> None:
        rules = self._ledger.rules
        if pod.metadata.namespace in rules.ignored_namespaces:  # they never cause pressure (C28)
            return
        if ended(pod) and not rules.compat:
            self._ledger.apply(PodGone(pod.metadata.uid))
            return
        node = pod.spec.node_name
        if not node and pod.spec.scheduler_name != rules.scheduler_name:
            return
        read = self.read(pod)
        self._complaints.unreadable(PODS, pod, read.wrong)
        if node:
            self._ledger.apply(PodSeen(read.value or self._unread(pod), node))
        self._see_its_migration(pod)

    def _unread(self, pod: Pod) -> pods_and_nodes.Pod:
        """What a pod that cannot be read counts for."""
        state, rules, machine = self._ledger.state, self._ledger.rules, self._machine_of(pod)
        known = state.pod(pod.metadata.uid) or state.apart.get(pod.metadata.uid)
        if known is None or known.machine is None:
            return self._system.by_requests(pod, rules, machine)
        return self._system.kept(known, pod, rules, machine)

    def _see_its_migration(self, pod: Pod) -> None:
        """A migration names its target before the pod is there: only now its uid is known."""
        made_for = self._system.migration_of(pod)
        if made_for is not None:
            found = self._watched.migrations.store.get(made_for.name, made_for.namespace)
            if found is not None and found.metadata.uid == made_for.uid:
                self._migration(found, found)

    def _machine(self, old: Unstructured | None, new: Unstructured | None) -> None:
        self._left(self._system.machines, old, new)
        gone = old if new is None else None
        if gone is not None:
            self._machines.pop((gone.metadata.namespace, gone.metadata.name), None)
        if not self._listening:
            return
        if new is not None:
            self._complaints.unreadable(self._system.machines, new, self._read_machine(new).wrong)
        meta = (new or old).metadata  # type: ignore[union-attr]  # one of them is there
        for pod in self._watched.pods_of(meta.namespace, meta.name):
            self._see_pod(pod)

    def _migration(self, old: Unstructured | None, new: Unstructured | None) -> None:
        self._left(self._backend.resource, old, new)
        if not self._listening:
            return
        if old is not None and (new is None or old.metadata.uid != new.metadata.uid):
            read = self._backend.observe(old, self._ledger.clock())
            if read.value is not None:
                self._ledger.apply(MigrationGone(self._known(read.value).machine, old.metadata.name))
        if new is not None:
            read = self._backend.observe(new, self._ledger.clock())
            self._complaints.unreadable(self._backend.resource, new, read.wrong)
            if read.value is not None:
                self._ledger.apply(self._known(read.value))

    def _known(self, seen: MigrationSeen) -> MigrationSeen:
        """With the uids, and the source's node, that the object does not say."""
        machine = self._watched.machines.store.get(seen.machine.name, seen.machine.namespace)
        if machine is not None:
            seen = replace(seen, machine=replace(seen.machine, uid=machine.metadata.uid))
            read = self._read_machine(machine).value
            if seen.source is None and read is not None and not _over(seen):
                of_machine = self._watched.pods_of(seen.machine.namespace, seen.machine.name)
                if runs_in := self._system.runner(read, of_machine):
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


def _over(seen: MigrationSeen) -> bool:
    """Whether the machine may run in the target by now."""
    return seen.phase.succeeded or seen.phase.failed
