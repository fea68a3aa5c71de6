"""A small cluster in plain values for histories of the deciding functions: workloads, scheduler, kubelets and nodes.

It moves in whole seconds. Pods are created through `admit` on what a watch with a delay shows, moves are those of
`decide`, checked against the world once more as the shell does. Controllers behave as kubernetes.md says: ReplicaSets
ignore terminating pods, StatefulSets wait until the old pod is gone, pods of a deleted Node go after a while.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from situate.spot.admission.admit import UNREADABLE, AdmissionView, LiveRead, NeedsRead, PodRequest, admit
from situate.spot.admission.ledger import Ledger
from situate.spot.capacity.free_capacity import PlanningCapacity
from situate.spot.config.settings import SpotSettings
from situate.spot.model.actions import POLICY_REASONS, Action, Delete, Evict, Release, SetCost, ShortenTolerations
from situate.spot.model.counts import counted_pods, effective_capacity, effective_on_demand_count
from situate.spot.model.misplaced_pods import Workload
from situate.spot.model.pods_nodes_workloads import Capacity, NodeFacts, NodeState, Owner, PodFacts, PodKey
from situate.spot.rebalance.decide import ClusterView, Decision, Notice, State, decide
from situate.spot.rebalance.node_termination import MoveConstraints, nodes_to_avoid
from situate.spot.workloads.cluster_objects import Cluster
from situate.spot.workloads.deletion_cost import removal_order
from situate.spot.workloads.on_demand_target import Namespace
from situate.spot.workloads.owners import Controller, ReplicaSetFacts

SHOP = Namespace("shop")


@dataclass(frozen=True)
class Times:
    """Seconds."""

    start: float = 5.0
    """From binding until ready."""
    grace: float = 2.0
    gone: float = 45.0
    """Until the pods of a deleted Node are removed."""
    watch: float = 0.0
    """What a watch shows is so old."""
    decide_every: float = 5.0


@dataclass
class Moved:
    """A move that was carried out, and what the workload was like before."""

    at: float
    action: Evict | Delete | Release
    stood: Capacity | None
    """On what the pod stood, effectively."""
    ready: int
    whole: bool


@dataclass
class SimPod:
    facts: PodFacts
    must: bool = False
    """Only on-demand nodes will do."""
    gone_at: float | None = None
    """When it is removed."""
    ready_at: float | None = None


@dataclass
class SimNode:
    facts: NodeFacts
    slots: int


@dataclass
class World:
    settings: SpotSettings = field(default_factory=SpotSettings)
    times: Times = field(default_factory=Times)
    now: float = 1_000_000.0
    around: MoveConstraints = field(default_factory=MoveConstraints)
    refuse: Callable[[int], bool] = lambda number: False
    """Whether a quota refuses the n-th creation."""
    installed: bool = True

    owners: dict[str, Owner] = field(default_factory=dict)
    sets: dict[str, ReplicaSetFacts] = field(default_factory=dict)
    surge: dict[str, int] = field(default_factory=dict)
    pods: dict[str, SimPod] = field(default_factory=dict)
    nodes: dict[str, SimNode] = field(default_factory=dict)
    state: State = field(default_factory=State)
    ledger: Ledger = field(default_factory=Ledger.empty)
    decision: Decision | None = None
    moved: list[Moved] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    made_nodes: int = 0
    created: int = 0
    attempts: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    history: deque[tuple[float, Cluster]] = field(default_factory=deque)
    checks: list[Callable[[World], None]] = field(default_factory=list)

    # what the world is made of

    def add_nodes(
        self, prefix: str, count: int, capacity: Capacity, slots: int = 10, zone: str = "a", age: float = 3600
    ) -> None:
        for _ in range(count):
            self.made_nodes += 1
            name = f"{prefix}-{self.made_nodes}"
            facts = NodeFacts(name, capacity, pool=f"{prefix}/{zone}", zone=zone, created=self.now - age)
            self.nodes[name] = SimNode(facts, slots)

    def add(self, kind: str, name: str, replicas: int, on_demand: str = "", *, surge: int = 1, **more: Any) -> Owner:
        annotations = {"spot.situate.dev/on-demand": on_demand} if on_demand else {}
        owner = Owner(
            kind,
            SHOP.name,
            name,
            f"uid-{name}-{self.created}",
            replicas,
            stateful=kind == "StatefulSet",
            releasable=kind == "Deployment",
            revision="r1",
            annotations=annotations,
            **more,
        )
        self.owners[owner.uid] = owner
        self.surge[owner.uid] = surge
        if not owner.stateful:
            self._replica_set(owner, replicas)
        return owner

    def _replica_set(self, owner: Owner, replicas: int) -> None:
        uid = f"{owner.uid}-{owner.revision}"
        of = Controller("apps/v1", owner.kind, owner.name, owner.uid)
        self.sets[uid] = ReplicaSetFacts(uid, of, SHOP.name, f"{owner.name}-{owner.revision}", replicas, owner.revision)

    def scale(self, uid: str, replicas: int) -> None:
        owner = self.owners[uid]
        self.owners[uid] = replace(owner, replicas=replicas)
        current = f"{uid}-{owner.revision}"
        if current in self.sets:
            self.sets[current] = replace(self.sets[current], replicas=replicas)

    def annotate(self, uid: str, **annotations: str) -> None:
        keys = {"on_demand": "spot.situate.dev/on-demand", "mix": "spot.situate.dev/mix"}
        given = {keys[key]: value for key, value in annotations.items()}
        self.owners[uid] = replace(self.owners[uid], annotations={**self.owners[uid].annotations, **given})

    def roll_out(self, uid: str, revision: str) -> None:
        """A new template."""
        owner = replace(self.owners[uid], revision=revision, rolling=True)
        self.owners[uid] = owner
        if f"{uid}-{revision}" not in self.sets:
            self._replica_set(owner, 0)

    def remove(self, uid: str) -> None:
        """The workload is deleted; its pods follow, those that were released do not."""
        del self.owners[uid]
        for pod in self._of(uid):
            if not pod.facts.released:
                self._end(pod)
        self.sets = {
            key: each for key, each in self.sets.items() if each.controller is None or each.controller.uid != uid
        }

    def notice(self, name: str, seconds: float | None) -> None:
        deadline = None if seconds is None else self.now + seconds
        node = self.nodes[name]
        node.facts = replace(node.facts, state=NodeState.DOOMED, deadline=deadline, why="notice")

    def kill(self, name: str) -> None:
        """The Node object is deleted with the machine; nothing on it serves any more."""
        del self.nodes[name]
        for pod in self.pods.values():
            if pod.facts.node == name:
                pod.facts = replace(pod.facts, ready=False, ready_since=None)
                pod.ready_at = None
                pod.gone_at = self.now + self.times.gone

    def silence(self, name: str) -> None:
        """The node says nothing any more and its object stays."""
        node = self.nodes[name]
        node.facts = replace(node.facts, state=NodeState.DEAD, deadline=self.now)
        for pod in self.pods.values():
            if pod.facts.node == name:
                pod.facts = replace(pod.facts, ready=False, ready_since=None)
                pod.ready_at = None

    def names(self, capacity: Capacity) -> list[str]:
        return [name for name, node in self.nodes.items() if node.facts.capacity is capacity]

    # what is to be seen

    def cluster(self) -> Cluster:
        pods: dict[str, list[PodFacts]] = {uid: [] for uid in self.owners}
        for pod in self.pods.values():
            pods.setdefault(self._owner_uid(pod.facts), []).append(pod.facts)
        return Cluster(
            dict(self.owners),
            dict(self.sets),
            {uid: tuple(each) for uid, each in pods.items()},
            {name: node.facts for name, node in self.nodes.items()},
            {SHOP.name: SHOP},
        )

    def seen(self) -> Cluster:
        """What the watch shows."""
        if not self.times.watch:
            return self.cluster()
        while len(self.history) > 1 and self.history[1][0] <= self.now - self.times.watch:
            self.history.popleft()
        if self.history and self.history[0][0] <= self.now - self.times.watch:
            return self.history[0][1]
        nodes = {name: node.facts for name, node in self.nodes.items()}  # these were there before
        return Cluster(nodes=nodes, namespaces={SHOP.name: SHOP})

    def workload(self, uid: str) -> Workload:
        decision = self.decision
        report = decision.reports.get(uid) if decision is not None else None
        return Workload(
            self.owners[uid], report.effective_target if report else 0, [pod.facts for pod in self._of(uid)]
        )

    def live(self, uid: str) -> list[PodFacts]:
        return counted_pods(pod.facts for pod in self._of(uid))

    def ready(self, uid: str) -> int:
        """Pods that serve, those released among them."""
        return sum(pod.facts.ready for pod in self._of(uid))

    def on_demand(self, uid: str) -> int:
        return effective_on_demand_count(self.live(uid), {name: node.facts for name, node in self.nodes.items()})

    def _of(self, uid: str) -> list[SimPod]:
        return [pod for pod in self.pods.values() if self._owner_uid(pod.facts) == uid]

    def _owner_uid(self, pod: PodFacts) -> str:
        if pod.former_owner:
            return pod.former_owner
        between = self.sets.get(pod.controller)
        return between.controller.uid if between is not None and between.controller is not None else pod.controller

    # what happens

    def run(self, seconds: float) -> None:
        for _ in range(int(seconds)):
            self.step()

    def settle(self, limit: float = 3600, quiet: float = 75) -> None:
        """Until nothing has changed for a while."""
        since, before = self.now, self._picture()
        end = self.now + limit
        while self.now < end:
            self.step()
            picture = self._picture()
            if picture != before:
                since, before = self.now, picture
            elif self.now - since >= quiet:
                return

    def _picture(self) -> object:
        pods = sorted((uid, pod.facts.node, pod.facts.ready, pod.facts.terminating) for uid, pod in self.pods.items())
        return pods, sorted(self.nodes)

    def step(self) -> None:
        self.now += 1
        self._kubelets()
        for uid in sorted(self.owners):
            self._controller(uid)
        self._schedule()
        if self.times.watch:
            self.history.append((self.now, self.cluster()))
        if self.installed and self.now % self.times.decide_every == 0:
            self._decide()
        for check in self.checks:
            check(self)

    def _kubelets(self) -> None:
        for uid, pod in list(self.pods.items()):
            if pod.gone_at is not None and self.now >= pod.gone_at:
                del self.pods[uid]
            elif pod.ready_at is not None and self.now >= pod.ready_at and not pod.facts.ready:
                pod.facts = replace(pod.facts, ready=True, ready_since=self.now, phase="Running")

    def _controller(self, uid: str) -> None:
        owner = self.owners[uid]
        if owner.stateful:
            self._stateful_set(owner)
            return
        self._deployment(owner)
        for each in [each for each in self.sets.values() if each.controller and each.controller.uid == uid]:
            own = [pod for pod in self._of(uid) if pod.facts.controller == each.uid and pod.facts.active]
            for _ in range(each.replicas - len(own)):
                if not self._create(owner, each, ""):
                    break
            surplus = len(own) - each.replicas
            if surplus > 0:
                related = [pod.facts for pod in self._of(uid) if pod.facts.active]
                for victim in removal_order([pod.facts for pod in own], related, self.now)[:surplus]:
                    self._end(self.pods[victim.uid])

    def _deployment(self, owner: Owner) -> None:
        """A rolling update with maxUnavailable 0 (1 where there is no surge)."""
        if not owner.rolling or owner.paused:
            return
        new = f"{owner.uid}-{owner.revision}"
        old = [
            key
            for key, each in self.sets.items()
            if each.controller and each.controller.uid == owner.uid and key != new
        ]
        surge = self.surge[owner.uid]
        ready = dict.fromkeys((new, *old), 0)
        for pod in self._of(owner.uid):
            if pod.facts.controller in ready and pod.facts.active and pod.facts.ready:
                ready[pod.facts.controller] += 1
        least = owner.replicas - (0 if surge else 1)
        may_go = max(0, sum(ready.values()) - least)
        for key in old:
            size = self.sets[key].replicas
            unready = max(0, size - ready[key])
            going = min(size, unready + may_go)
            may_go -= max(0, going - unready)
            self.sets[key] = replace(self.sets[key], replicas=size - going)
        total = sum(self.sets[key].replicas for key in (new, *old))
        room = owner.replicas + surge - total
        size = self.sets[new].replicas
        self.sets[new] = replace(self.sets[new], replicas=min(owner.replicas, size + max(0, room)))
        left = sum(self.sets[key].replicas for key in old)
        live = [pod for pod in self._of(owner.uid) if pod.facts.controller in old and pod.facts.active]
        if not left and not live and self.sets[new].replicas == owner.replicas:
            self.owners[owner.uid] = replace(owner, rolling=False)

    def _stateful_set(self, owner: Owner) -> None:
        present = {pod.facts.key.name: pod for pod in self._of(owner.uid)}
        wanted = [f"{owner.name}-{owner.ordinals_start + number}" for number in range(owner.replicas)]
        for name, pod in sorted(present.items(), key=lambda each: -(owner.ordinal(each[0]) or 0)):
            if name not in wanted and not pod.facts.terminating:
                self._end(pod)
                break
        for name in wanted:
            if name not in present:
                self._create(owner, None, name)
                break
            if not present[name].facts.ready or present[name].facts.terminating:
                break
        else:
            self._roll(owner, [present[name] for name in wanted])

    def _roll(self, owner: Owner, whole: list[SimPod]) -> None:
        """One pod of an old revision goes while all are ready, from the highest ordinal down."""
        if not owner.rolling or owner.paused:
            return
        old = [pod for pod in whole if pod.facts.revision != owner.revision]
        if old:
            self._end(old[-1])
        else:
            self.owners[owner.uid] = replace(owner, rolling=False)

    def _create(self, owner: Owner, between: ReplicaSetFacts | None, name: str) -> bool:
        self.attempts += 1
        controller = (
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": between.name, "uid": between.uid}
            if between is not None
            else {"apiVersion": "apps/v1", "kind": owner.kind, "name": owner.name, "uid": owner.uid}
        )
        revision = between.revision if between is not None else owner.revision
        metadata: dict[str, Any] = {
            "ownerReferences": [{**controller, "controller": True}],
            "labels": {owner.revision_label: revision, **owner.template_labels},
        }
        if name:
            metadata["name"] = name
        template = {"metadata": metadata, "spec": {"containers": [{"name": "main", "image": "example.com/app:1"}]}}
        pod_class, token, must = self._admitted(owner, between, template)
        if self.refuse(self.attempts):
            return False
        self.created += 1
        uid = f"pod-{self.created:05d}"
        facts = PodFacts(
            PodKey(SHOP.name, name or f"{owner.name}-{self.created:05d}"),
            uid,
            controller=controller["uid"],
            revision=revision,
            pod_class=pod_class,
            token=token,
            created=self.now,
            cost={Capacity.ON_DEMAND: 200, Capacity.SPOT: 100}.get(pod_class) if pod_class else None,
            labels=metadata["labels"],
            grace_s=self.times.grace,
        )
        self.pods[uid] = SimPod(facts, must)
        return True

    def _admitted(
        self, owner: Owner, between: ReplicaSetFacts | None, template: dict[str, Any]
    ) -> tuple[Capacity | None, str, bool]:
        if not self.installed:
            return None, "", False
        settings = self.settings.admission_settings(avoided=nodes_to_avoid(node.facts for node in self.nodes.values()))
        request = PodRequest(SHOP.name, template)
        token = f"token-{self.attempts}"
        seen = self.seen()
        found = admit(request, AdmissionView(seen, settings, self.state.memories), self.ledger, self.now, token)
        if isinstance(found, NeedsRead):
            self.answers["live read"] += 1
            actual = self.cluster()
            key = between.uid if between is not None else owner.uid
            pods = tuple(pod for pod in actual.pods.get(owner.uid, ()) if pod.controller == key)
            live = LiveRead(self.owners[owner.uid], self.sets.get(key), pods)
            found = admit(
                request, AdmissionView(seen, settings, self.state.memories, live), self.ledger, self.now, token
            )
        if isinstance(found, NeedsRead):
            found = admit(
                request, AdmissionView(seen, settings, self.state.memories, UNREADABLE), self.ledger, self.now, token
            )
        assert not isinstance(found, NeedsRead)
        answer, self.ledger = found
        self.answers[str(answer.pod_class)] += 1
        return answer.pod_class, token if answer.pod_class else "", "required" in json.dumps(answer.operations)

    def _end(self, pod: SimPod) -> None:
        if pod.facts.terminating:
            return
        pod.facts = replace(pod.facts, terminating=True)
        on_live_node = not pod.facts.node or pod.facts.node in self.nodes
        if on_live_node and not self._is_dead(pod.facts.node):
            pod.gone_at = self.now + (self.times.grace if pod.facts.node else 0)
            pod.facts = replace(pod.facts, ready=False, ready_since=None)
            pod.ready_at = None

    def _is_dead(self, name: str) -> bool:
        return name in self.nodes and self.nodes[name].facts.state is NodeState.DEAD

    def _schedule(self) -> None:
        load = Counter(pod.facts.node for pod in self.pods.values())
        for pod in sorted(self.pods.values(), key=lambda each: (each.facts.created, each.facts.uid)):
            if pod.facts.node or pod.facts.terminating:
                continue
            place = self._place(pod, load)
            if place is not None:
                load[place] += 1
                pod.facts = replace(pod.facts, node=place, started=self.now)
                pod.ready_at = self.now + self.times.start

    def _place(self, pod: SimPod, load: Counter[str]) -> str | None:
        def wish(node: SimNode) -> tuple[bool, bool, int, str]:
            spot = node.facts.capacity is Capacity.SPOT
            wants = pod.facts.pod_class is Capacity.SPOT
            return node.facts.state is not NodeState.OK, wants != spot, load[node.facts.name], node.facts.name

        free = [
            node
            for name, node in self.nodes.items()
            if load[name] < node.slots
            and node.facts.state is not NodeState.DEAD
            and not (pod.must and node.facts.capacity is not Capacity.ON_DEMAND)
        ]
        return min(free, key=wish).facts.name if free else None

    def _decide(self) -> None:
        seen = self.seen()
        room = SlotRoom(self)
        situation = ClusterView(seen, room, self.settings.rules(), self.settings.limits(), self.around)
        self.decision = decide(self.state, situation, self.now)
        self.state = self.decision.state
        self.notices += self.decision.notices
        for action in self.decision.actions:
            self._act(action)
        for slot in list(self.ledger.reservations.keys() | self.ledger.releases.keys()):
            pods = [pod for pod in seen.pods.get(slot.owner, ()) if pod.revision == slot.revision]
            self.ledger = self.ledger.without_settled_entries(slot, pods, self.now)

    def _act(self, action: Action) -> None:
        pod = self.pods.get(action.uid)
        if pod is None:
            return
        match action:
            case SetCost():
                pod.facts = replace(pod.facts, cost=action.cost)
            case ShortenTolerations():
                pod.facts = replace(pod.facts, evicting=tuple((key, action.seconds) for key in action.keys))
            case Release():
                self._note(action)
                pod.facts = replace(
                    pod.facts, released=True, controller="", deadline=action.deadline, former_owner=action.owner
                )
            case Evict() | Delete():
                if pod.facts.terminating or (action.reason in POLICY_REASONS and not self._still_whole(action.owner)):
                    return
                self._note(action)
                self._end(pod)

    def _still_whole(self, uid: str) -> bool:
        """The shell looks at the live objects once more."""
        owner = self.owners.get(uid)
        return owner is not None and len(self.live(uid)) == owner.replicas and all(p.ready for p in self.live(uid))

    def _note(self, action: Evict | Delete | Release) -> None:
        owner = self.owners.get(action.owner)
        live = self.live(action.owner) if owner is not None else []
        whole = owner is not None and len(live) == owner.replicas and all(pod.ready for pod in live)
        nodes = {name: node.facts for name, node in self.nodes.items()}
        stood = effective_capacity(self.pods[action.uid].facts, nodes)
        self.moved.append(Moved(self.now, action, stood, sum(pod.ready for pod in live), whole))

    def by_policy(self) -> list[Moved]:
        return [each for each in self.moved if each.action.reason in POLICY_REASONS]


class SlotRoom(PlanningCapacity):
    """Room by free slots; nodes that end or may end have none."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._load = Counter(pod.facts.node for pod in world.pods.values())

    def fits(
        self,
        pod: PodFacts,
        capacity: Capacity,
        *,
        without: PodFacts | None = None,
        pools: Collection[str] | None = None,
    ) -> bool:
        return any(self._free(node, without) > 0 for node in self._asked(capacity, pools))

    def after_move(self, pod: PodFacts, uid: str, capacity: Capacity) -> tuple[SlotRoom, str]:
        after = SlotRoom(self._world)
        after._load = Counter(self._load)
        after._load[pod.node] -= 1
        free = [node.facts.name for node in after._asked(capacity, None) if after._free(node, None) > 0]
        if not free:
            return after, ""
        after._load[free[0]] += 1
        return after, free[0]

    def _asked(self, capacity: Capacity, pools: Any) -> Iterator[SimNode]:
        for node in self._world.nodes.values():
            facts = node.facts
            if facts.capacity is capacity and facts.state is NodeState.OK and (pools is None or facts.pool in pools):
                yield node

    def _free(self, node: SimNode, without: PodFacts | None) -> int:
        freed = without is not None and without.node == node.facts.name
        return node.slots - self._load[node.facts.name] + freed


def placement(world: World, uid: str) -> Counter[str]:
    """Live pods of a workload, by what they are effectively on."""
    nodes = {name: node.facts for name, node in world.nodes.items()}
    return Counter(str(effective_capacity(pod, nodes)) for pod in world.live(uid))
