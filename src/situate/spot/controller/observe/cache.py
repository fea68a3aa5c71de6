"""Facts of every object, updated from the stores, so that a decision finds them ready.

Admission uses `cluster`, which holds these maps without a copy. The decision loop runs in steps, on the copy from
`snapshot`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from situate.kube.watch.reflector import Reflector
from situate.objects.kinds.config_maps import Namespace as NamespaceObject
from situate.objects.kinds.events import CoreEvent
from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod
from situate.spot.controller.observe.informers import Informers
from situate.spot.controller.observe.trimmed_objects import SlimReplicaSet, WorkloadObject, to_plain_json
from situate.spot.model.pods_nodes_workloads import NodeFacts, Owner, PodFacts, PodKey
from situate.spot.nodes.node_signals import Signal, node_facts, occurrences
from situate.spot.workloads.cluster_objects import NO_MEMORY, Cluster, WorkloadMemory
from situate.spot.workloads.constraints import named_nodes
from situate.spot.workloads.on_demand_policy import Policy
from situate.spot.workloads.on_demand_target import Namespace, TargetRules, resolve_target, stricter_policy
from situate.spot.workloads.owners import (
    KINDS,
    Controller,
    OwnerKind,
    ReplicaSetFacts,
    kind_of,
    owner_facts,
    pod_facts,
    replica_set_facts,
    template_spec,
)


class FactsCache:
    """Facts for decisions: `cluster` and `memories` change with the stores."""

    def __init__(
        self,
        watched: Informers,
        table: Sequence[Signal],
        rules: TargetRules,
        *,
        wall: Callable[[], float],
        nodes_changed: Callable[[], None] = lambda: None,
        policies_changed: Callable[[], None] = lambda: None,
    ) -> None:
        """`wall`: seconds since the epoch; `nodes_changed`: called when the facts of a node change.

        `policies_changed`: called when `policies` has changed.
        """
        self._table = table
        self._rules = rules
        self._wall = wall
        self._on_nodes_change = nodes_changed
        self._on_policies_change = policies_changed
        self._informers = watched
        self._pods: dict[PodKey, PodFacts] = {}
        self._replica_sets: dict[str, ReplicaSetFacts] = {}
        self._owners: dict[str, Owner] = {}
        self._nodes: dict[str, NodeFacts] = {}
        self._ending_since: dict[str, float] = {}  # when each ending node was first seen to end
        self._events: dict[str, dict[str, CoreEvent]] = {}  # that match a signal, by node and by their own name
        self._namespaces: dict[str, Namespace] = {}
        self._workloads_naming_nodes: dict[
            str, tuple[frozenset[str], WorkloadObject, OwnerKind]
        ] = {}  # nodes that workloads name, by uid
        self._sets_of: dict[str, set[str]] = defaultdict(set)  # uids of ReplicaSets, by uid of the workload
        self._by_owner = _PodsByOwner(self._sets_of)
        self.memories: dict[str, WorkloadMemory] = {}
        self.policies: dict[str, Policy] = {}
        """Valid policies that must outlive this process, by uid of the workload."""
        self._recorded_policies: Mapping[str, Policy] = {}
        self.cluster = Cluster(self._owners, self._replica_sets, self._by_owner, self._nodes, self._namespaces)
        watched.namespaces.store.on_change(self._on_namespace_change)
        watched.nodes.store.on_change(self._on_node_change)
        watched.node_events.store.on_change(self._on_node_event)
        watched.replica_sets.store.on_change(self._on_replica_set_change)
        for kind, reflector in watched.workloads.items():
            reflector.store.on_change(self._workload_change_handler(KINDS[kind]))
        watched.pods.store.on_change(self._on_pod_change)

    def snapshot(self) -> Cluster:
        """Return a copy of `cluster` that later changes do not affect."""
        return Cluster(
            dict(self._owners),
            dict(self._replica_sets),
            self._by_owner.snapshot(),
            dict(self._nodes),
            dict(self._namespaces),
        )

    def reconfigure(self, table: Sequence[Signal], rules: TargetRules) -> None:
        """Apply new settings and recompute all facts that depend on them."""
        self._table, self._rules = table, rules
        for event in self._informers.node_events.store.list():
            self._on_node_event(None, event)
        for node in self._informers.nodes.store.list():
            self._on_node_change(node, node)
        for kind, reflector in self._workload_kinds():
            for workload in reflector.store.list():
                self._put_owner(workload, kind)

    def recall_policies(self, recorded: Mapping[str, Policy]) -> None:
        """Take the last valid policies recorded by any leader: they apply where a value cannot be read."""
        before, self._recorded_policies = self._recorded_policies, recorded
        for uid in recorded.keys() | before.keys():
            owner = self._owners.get(uid)
            if owner is not None and recorded.get(uid) != before.get(uid):
                self._remember_policy(owner)

    def node_facts(self, node: Node) -> NodeFacts:
        """Return the current facts of a node, from the node and its Events."""
        name = node.metadata.name
        told = [each for event in self._events.get(name, {}).values() for each in occurrences(event)]
        return node_facts(node, self._table, self._wall(), self._ending_since.get(name), told)

    def _on_pod_change(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None:
            known = self._pods.pop(PodKey(old.metadata.namespace, old.metadata.name), None)
            if known is not None:
                self._by_owner.remove(known)
        if new is not None:
            facts = pod_facts(new)
            self._pods[facts.key] = facts
            self._by_owner.add(facts)

    def _on_replica_set_change(self, old: SlimReplicaSet | None, new: SlimReplicaSet | None) -> None:
        before = self._replica_sets.pop(old.metadata.uid, None) if old is not None else None
        if before is not None and before.controller is not None:
            self._sets_of[before.controller.uid].discard(before.uid)
        after = None
        if new is not None:
            after = self._replica_sets[new.metadata.uid] = replica_set_facts(to_plain_json(new))
            if after.controller is not None:
                self._sets_of[after.controller.uid].add(after.uid)
        for facts in (before, after):
            if facts is not None and facts.controller is not None:
                self._forget_empty_owner(facts.controller.uid)
                self._by_owner.invalidate(facts.controller.uid)
        if before is not None and after is None:
            self._by_owner.forget(before.uid)
        if after is not None and after.controller is not None:
            self._refresh_workload(after.controller, after.namespace)

    def _refresh_workload(self, controller: Controller, namespace: str) -> None:
        """Recompute the workload of a changed ReplicaSet."""
        kind = kind_of(controller, KINDS.values())
        reflector = self._informers.workloads.get(kind.kind) if kind is not None else None
        if kind is None or reflector is None:
            return
        workload = reflector.store.get(controller.name, namespace)
        if workload is not None and workload.metadata.uid == controller.uid:
            self._put_owner(workload, kind)

    def _forget_empty_owner(self, owner: str) -> None:
        if not self._sets_of.get(owner, True):
            del self._sets_of[owner]

    def _workload_change_handler(
        self, kind: OwnerKind
    ) -> Callable[[WorkloadObject | None, WorkloadObject | None], None]:
        def changed(old: WorkloadObject | None, new: WorkloadObject | None) -> None:
            if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
                self._owners.pop(old.metadata.uid, None)
                self._workloads_naming_nodes.pop(old.metadata.uid, None)
                self.memories.pop(old.metadata.uid, None)
                self._store_policy(old.metadata.uid, None)
                self._by_owner.invalidate(old.metadata.uid)
            if new is not None:
                self._put_owner(new, kind)

        return changed

    def _put_owner(self, workload: WorkloadObject, kind: OwnerKind) -> None:
        uid = workload.metadata.uid
        owned = [self._replica_sets[each] for each in sorted(self._sets_of.get(uid, ()))]
        content = to_plain_json(workload)
        owner = self._owners[uid] = owner_facts(content, kind, self._table, owned, self._nodes)
        names = named_nodes(template_spec(content))
        if names:
            self._workloads_naming_nodes[uid] = (names, workload, kind)
        else:
            self._workloads_naming_nodes.pop(uid, None)
        self._remember_policy(owner)

    def _remember_policy(self, owner: Owner) -> None:
        """Keep the last readable policy in force while the current value cannot be read.

        Of the policy of this process and the recorded one, the stricter applies: each may miss a change that the other
        has. Rule: P11.
        """
        namespace = self._namespaces.get(owner.namespace)
        found = resolve_target(owner, namespace or Namespace(owner.namespace), self._rules)
        memory = self.memories.get(owner.uid, NO_MEMORY)
        if found.faults:
            policy = stricter_policy(memory.policy, self._recorded_policies.get(owner.uid), owner, self._rules)
        elif namespace is None and not found.annotated:
            return  # the namespace is not known yet and may set a policy
        else:
            policy = found.policy
        if policy != memory.policy:
            self.memories[owner.uid] = replace(memory, policy=policy)
        self._store_policy(owner.uid, policy if found.faults or found.annotated else None)

    def _store_policy(self, uid: str, policy: Policy | None) -> None:
        if self.policies.get(uid) == policy:
            return
        if policy is None:
            del self.policies[uid]
        else:
            self.policies[uid] = policy
        self._on_policies_change()

    def _on_node_change(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            assert old is not None
            self._nodes.pop(old.metadata.name, None)
            self._ending_since.pop(old.metadata.name, None)
            self._refresh_workloads_naming(old.metadata.name)
            self._on_nodes_change()
            return
        name, facts = new.metadata.name, self.node_facts(new)
        if facts.ending:
            self._ending_since.setdefault(name, self._wall())
        else:
            self._ending_since.pop(name, None)
        before = self._nodes.get(name)
        if before != facts:
            self._nodes[name] = facts
            if before is None or before.capacity is not facts.capacity:
                self._refresh_workloads_naming(name)
            self._on_nodes_change()

    def _refresh_workloads_naming(self, node: str) -> None:
        """Recompute workloads that name the node: it came, went or changed its capacity, which may pin them."""
        for names, workload, kind in tuple(self._workloads_naming_nodes.values()):
            if node in names:
                self._put_owner(workload, kind)

    def _on_node_event(self, old: CoreEvent | None, new: CoreEvent | None) -> None:
        event = new or old
        assert event is not None
        name = event.involved_object.name
        if not any(signal.source == "event" and signal.key == event.reason for signal in self._table):
            return
        of_node = self._events.setdefault(name, {})
        key = f"{event.metadata.namespace}/{event.metadata.name}"
        if new is not None:
            of_node[key] = new
        else:
            of_node.pop(key, None)
        if not of_node:
            del self._events[name]
        node = self._informers.nodes.store.get(name)
        if node is not None:
            self._on_node_change(node, node)

    def _on_namespace_change(self, old: NamespaceObject | None, new: NamespaceObject | None) -> None:
        if new is None:
            assert old is not None
            self._namespaces.pop(old.metadata.name, None)
            return
        name = new.metadata.name
        facts = Namespace(name, new.metadata.labels, new.metadata.annotations)
        if self._namespaces.get(name) == facts:
            return
        self._namespaces[name] = facts
        for _, reflector in self._workload_kinds():
            for workload in reflector.store.list(name):
                owner = self._owners.get(workload.metadata.uid)
                if owner is not None:
                    self._remember_policy(owner)

    def _workload_kinds(self) -> Iterator[tuple[OwnerKind, Reflector[WorkloadObject]]]:
        for kind, reflector in self._informers.workloads.items():
            yield KINDS[kind], reflector


class _PodsByOwner(Mapping[str, Sequence[PodFacts]]):
    """Pods by the uid of their workload: assembled on request, and cached until one of them changes."""

    def __init__(self, sets_of: Mapping[str, set[str]]) -> None:
        self._sets_of = sets_of
        self._by_controller: dict[str, dict[PodKey, PodFacts]] = {}
        self._whole: dict[str, tuple[PodFacts, ...]] = {}
        self._owner_of: dict[str, str] = {}  # of each ReplicaSet with cached pods

    def add(self, pod: PodFacts) -> None:
        controller = pod.controller or pod.former_owner
        if controller:
            self._by_controller.setdefault(controller, {})[pod.key] = pod
            self.invalidate(controller)

    def remove(self, pod: PodFacts) -> None:
        controller = pod.controller or pod.former_owner
        of_controller = self._by_controller.get(controller)
        if of_controller is None:
            return
        of_controller.pop(pod.key, None)
        if not of_controller:
            del self._by_controller[controller]
        self.invalidate(controller)

    def invalidate(self, uid: str) -> None:
        """Drop the cached pods of the workload, or of the ReplicaSet's workload."""
        self._whole.pop(self._owner_of.get(uid, uid), None)

    def forget(self, replica_set: str) -> None:
        """Forget a deleted ReplicaSet; pods that it leaves behind have no workload."""
        self._owner_of.pop(replica_set, None)

    def snapshot(self) -> dict[str, tuple[PodFacts, ...]]:
        """Return all pods as of this moment."""
        return {owner: self[owner] for owner in self}

    def __getitem__(self, owner: str) -> tuple[PodFacts, ...]:
        known = self._whole.get(owner)
        if known is not None:
            return known
        sets = sorted(self._sets_of.get(owner, ()))
        self._owner_of.update(dict.fromkeys(sets, owner))
        parts = [self._by_controller[each] for each in (owner, *sets) if each in self._by_controller]
        if not parts:
            raise KeyError(owner)
        whole = self._whole[owner] = tuple(pod for part in parts for pod in part.values())
        return whole

    def __iter__(self) -> Iterator[str]:
        owners = {*self._sets_of, *self._by_controller} - {each for sets in self._sets_of.values() for each in sets}
        return (owner for owner in sorted(owners) if owner in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)
