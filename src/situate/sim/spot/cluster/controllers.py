"""Deployments, ReplicaSets and StatefulSets in a simulated cluster (K1, K5, P32).

ReplicaSets ignore terminating pods and replace them at once. StatefulSets preserve their order and wait until the old
pod object is gone. A workload is reconciled shortly after a change of its pods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from situate.sim.spot.cluster.shapes import NAMESPACE, pod_document
from situate.sim.spot.cluster.world import PodCreation, SpotWorld
from situate.sim.spot.results.account import EndCause
from situate.sim.timeline import ScheduledCall
from situate.spot.model.pods_nodes_workloads import ON_DEMAND, Owner, PodFacts
from situate.spot.workloads.deletion_cost import removal_order
from situate.spot.workloads.owners import Controller, ReplicaSetFacts


@dataclass(frozen=True, slots=True)
class Template:
    """The constant parts of a workload's pods."""

    app: str
    spec: Mapping[str, Any]
    grace_s: float
    surge: int
    """Maximum number of pods beyond the replicas in a rollout."""
    unavailable: int
    """Maximum number of missing pods in a rollout."""


@dataclass(slots=True)
class Controllers:
    world: SpotWorld
    templates: dict[str, Template] = field(default_factory=dict)
    """Templates by UID of the workload."""
    _due: dict[str, ScheduledCall] = field(default_factory=dict)
    _documents: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.world.on_pods = self.queue_reconcile

    def fork(self, world: SpotWorld) -> Controllers:
        return Controllers(world, self.templates, {}, self._documents)

    def add(self, kind: str, name: str, replicas: int, on_demand: str | None, template: Template) -> None:
        """Create a workload. Its pods follow."""
        stateful = kind == "StatefulSet"
        owner = Owner(
            kind,
            NAMESPACE,
            name,
            f"uid-{name}",
            replicas,
            stateful=stateful,
            releasable=not stateful,
            revision="r1",
            annotations={} if on_demand is None else {ON_DEMAND: on_demand},
        )
        self.world.owners[owner.uid] = owner
        self.templates[owner.uid] = template
        self.world.account.change_replicas(self.world.now, template.app, replicas)
        if not stateful:
            self._put_replica_set(owner, replicas)
        self.queue_reconcile(owner.uid)

    def scale(self, uid: str, replicas: int) -> None:
        world, owner = self.world, self.world.owners[uid]
        world.account.change_replicas(world.now, self.templates[uid].app, replicas - owner.replicas)
        world.owners[uid] = replace(owner, replicas=replicas)
        current = _replica_set_uid(owner)
        if current in world.replica_sets:
            world.replica_sets[current] = replace(world.replica_sets[current], replicas=replicas)
        self.queue_reconcile(uid)
        world.on_change()

    def roll_out(self, uid: str) -> None:
        """Give a workload a new template."""
        owner = self.world.owners[uid]
        number = int(owner.revision.removeprefix("r")) + 1
        owner = replace(owner, revision=f"r{number}", rolling=True)
        self.world.owners[uid] = owner
        if not owner.stateful:
            self._put_replica_set(owner, 0)
        self.queue_reconcile(uid)
        self.world.on_change()

    def queue_reconcile(self, uid: str) -> None:
        """Reconcile the workload soon."""
        if uid not in self._due:
            self._due[uid] = self.world.timeline.call_after(self.world.delays.create_s, partial(self._reconcile, uid))

    def _put_replica_set(self, owner: Owner, replicas: int) -> None:
        uid = _replica_set_uid(owner)
        of = Controller("apps/v1", owner.kind, owner.name, owner.uid)
        number = int(owner.revision.removeprefix("r"))
        facts = ReplicaSetFacts(uid, of, NAMESPACE, f"{owner.name}-{owner.revision}", replicas, owner.revision, number)
        self.world.replica_sets[uid] = facts

    def _reconcile(self, uid: str) -> None:
        del self._due[uid]
        owner = self.world.owners[uid]
        if owner.stateful:
            self._reconcile_stateful_set(owner)
            return
        self._reconcile_deployment(owner)
        for each in [
            each for each in self.world.replica_sets.values() if each.controller and each.controller.uid == uid
        ]:
            self._fill_replica_set(self.world.owners[uid], each)

    def _fill_replica_set(self, owner: Owner, replica_set: ReplicaSetFacts) -> None:
        world = self.world
        active = [pod for pod in world.pods_of(owner.uid) if pod.active]
        own = [pod for pod in active if pod.controller == replica_set.uid]
        for _ in range(replica_set.replicas - len(own)):
            world.create(
                self._pod_creation(owner, "ReplicaSet", replica_set.name, replica_set.uid, replica_set.revision)
            )
        surplus = len(own) - replica_set.replicas
        if surplus > 0:
            cause = EndCause.SCALED if replica_set.revision == owner.revision else EndCause.ROLLOUT
            for victim in removal_order(own, active, world.now)[:surplus]:
                world.delete(victim.uid, cause)

    def _pod_creation(self, owner: Owner, kind: str, name: str, uid: str, revision: str, pod: str = "") -> PodCreation:
        template = self.templates[owner.uid]
        key = f"{uid}/{revision}/{pod}"
        if key not in self._documents:
            label = owner.revision_label if not owner.stateful else "controller-revision-hash"
            labels = {"app": template.app, label: revision}
            reference = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": True}
            document = pod_document(reference, labels, template.spec, template.grace_s)
            document["metadata"].update({"name": pod} if pod else {"generateName": f"{name}-"})
            self._documents[key] = document
        return PodCreation(owner, template.app, uid, self._documents[key], f"{uid}/{revision}", pod)

    def _reconcile_deployment(self, owner: Owner) -> None:
        """Advance a rolling update within its surge and its maximum of missing pods."""
        if not owner.rolling:
            return
        world, template = self.world, self.templates[owner.uid]
        sets = {
            key: each
            for key, each in world.replica_sets.items()
            if each.controller and each.controller.uid == owner.uid
        }
        new = _replica_set_uid(owner)
        old = [key for key in sets if key != new]
        pods = [pod for pod in world.pods_of(owner.uid) if pod.active and pod.controller in sets]
        ready = dict.fromkeys(sets, 0)
        for pod in pods:
            ready[pod.controller] += pod.ready
        may_go = max(0, sum(ready.values()) - (owner.replicas - template.unavailable))
        for key in old:
            size = sets[key].replicas
            unready = max(0, size - ready[key])
            going = min(size, unready + may_go)
            may_go -= max(0, going - unready)
            sets[key] = replace(sets[key], replicas=size - going)
        room = owner.replicas + template.surge - sum(each.replicas for each in sets.values())
        sets[new] = replace(sets[new], replicas=min(owner.replicas, sets[new].replicas + max(0, room)))
        world.replica_sets.update(sets)
        if not any(sets[key].replicas for key in old) and not any(pod.controller in old for pod in pods):
            world.owners[owner.uid] = replace(owner, rolling=False)
            for key in old:
                del world.replica_sets[key]

    def _reconcile_stateful_set(self, owner: Owner) -> None:
        """Create the lowest missing ordinal once the lower ones serve. Delete the highest surplus one first."""
        world = self.world
        present = {owner.ordinal(pod.key.name): pod for pod in world.pods_of(owner.uid)}
        for ordinal in range(owner.replicas):
            pod = present.get(ordinal)
            if pod is None:
                name = f"{owner.name}-{ordinal}"
                world.create(self._pod_creation(owner, owner.kind, owner.name, owner.uid, owner.revision, name))
                return
            if pod.terminating or not pod.ready:
                return
        over = [pod for ordinal, pod in present.items() if ordinal is not None and ordinal >= owner.replicas]
        if over:
            world.delete(max(over, key=lambda pod: owner.ordinal(pod.key.name) or 0).uid, EndCause.SCALED)
            return
        self._delete_old_ordinal(owner, list(present.values()))

    def _delete_old_ordinal(self, owner: Owner, pods: Sequence[PodFacts]) -> None:
        """Delete the highest ordinal of an old revision in a rollout, one at a time."""
        if not owner.rolling:
            return
        stale = [pod for pod in pods if pod.revision != owner.revision]
        if stale:
            highest = max(stale, key=lambda pod: owner.ordinal(pod.key.name) or 0)
            self.world.delete(highest.uid, EndCause.ROLLOUT)
        else:
            self.world.owners[owner.uid] = replace(owner, rolling=False)


def _replica_set_uid(owner: Owner) -> str:
    return f"{owner.uid}-{owner.revision}"
