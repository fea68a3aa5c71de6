"""A small simulated world for ksched's cases: pods, leases and objects on a fake clock, and supervisors that decide.

Nothing is decided here. Members come from `Membership`, orders from `decide`; the world performs the orders on its
stored objects through the fencing function, remembers what was seen, and lets executors live and die as it is told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from situate.cluster.patch.patches import json_patch
from situate.sharding.assignment.decide import decide
from situate.sharding.assignment.drain import is_draining
from situate.sharding.fencing.admit import Fence, Role, Writer, WriteRequest, admit
from situate.sharding.leases.membership import ExecutorWatch, LeaseTimes, Membership
from situate.sharding.model.actions import Action, Archive, Delete, ReportCompleted, Write, write_of
from situate.sharding.model.decision_inputs import INITIAL_MEMORY, ClusterView, Decision, Memory, MoveLimit, Ownership
from situate.sharding.model.errors import NoHealthyExecutors
from situate.sharding.model.executors import Members
from situate.sharding.model.field_paths import FieldPaths
from situate.sharding.model.object_view import ObjectView, released_content, view_of
from situate.sharding.model.patches import guarded_patch
from situate.sharding.model.supervisor_config import SupervisorConfig
from tests.sharding import builders

ADAPTER = FieldPaths()
FENCE = Fence()


@dataclass
class Actor:
    """One incarnation of an executor."""

    id: str
    uid: str
    partition: int = 0
    pod: dict[str, Any] = field(default_factory=dict)
    """What is said of its pod; see `builders.pod`."""
    has_pod: bool = True
    renews: bool = True
    held: bool = True
    renewed: float = 0
    full: bool = False

    def said(self) -> tuple[object, ...]:
        """All that can be seen of it."""
        return self.has_pod, self.held, self.renewed, self.full, *self.pod.items()

    def lease(self) -> Any:
        text = '{"full": true}' if self.full else None
        return builders.lease(self.id, self.uid, self.renewed, held=self.held, report=text)


class RefusedWriteError(AssertionError):
    """A supervisor's write does not apply, or the fence does not let it through."""


@dataclass
class World:
    """The API server's state, and the executors."""

    times: LeaseTimes = field(default_factory=LeaseTimes)
    actors: dict[str, Actor] = field(default_factory=dict)
    """By uid."""
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    partitions: dict[str, int] = field(default_factory=dict)
    """Of objects, by uid."""
    version: int = 1

    def write(self, uid: str, write: Write, term: int) -> None:
        """As the supervisor of that term."""
        if not write.operations:
            return
        after = json_patch(self.objects[uid], [dict(operation) for operation in write.operations])
        if not isinstance(after, dict):
            raise RefusedWriteError(f"{uid}: {write} does not apply: {after}")
        request = WriteRequest(Writer(Role.SUPERVISOR), after, write.subresource, leader_term=term)
        if refusal := admit(self.objects[uid], request, FENCE):
            raise RefusedWriteError(f"{uid}: {write} is refused: {refusal}")
        self.put(uid, after)

    def put(self, uid: str, content: Mapping[str, Any]) -> None:
        self.version += 1
        metadata = {**content["metadata"], "resourceVersion": str(self.version)}
        self.objects[uid] = {**content, "metadata": metadata}

    def release(self, uid: str) -> None:
        """The holder acks."""
        view = self.view(uid)
        after = released_content(view.content, ADAPTER)
        request = WriteRequest(Writer(Role.EXECUTOR, view.executor_uid), after)
        if guarded_patch(view.content, after) and not admit(view.content, request, FENCE):
            self.put(uid, after)

    def view(self, uid: str) -> ObjectView:
        return view_of(self.objects[uid], ADAPTER)

    def holder(self, uid: str) -> Actor | None:
        """The living process that works on the object."""
        return self.actors.get(self.view(uid).executor_uid)


@dataclass
class Supervisor:
    """One process: what it has seen, and what it remembers."""

    world: World
    config: SupervisorConfig
    term: int
    partition: int | None = None
    """None: it has all."""
    has_archiver: bool = False
    script: Mapping[str, str] = field(default_factory=dict)
    """Whom the strategy chooses, for objects of which a case says so."""
    membership: Membership = field(init=False)
    memories: dict[str, Memory] = field(default_factory=dict)
    decisions: dict[str, Decision] = field(default_factory=dict)
    limit: MoveLimit = field(init=False)
    known: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """Objects as they were decided on last."""
    wakes: dict[str, float] = field(default_factory=dict)
    present: object = None
    seen: dict[str, tuple[object, ...]] = field(default_factory=dict)
    """What was last said of each executor, by uid."""

    def __post_init__(self) -> None:
        self.membership = Membership(ExecutorWatch("app=reports", builders.NAMESPACE), self.world.times, "pool")
        self.limit = MoveLimit(self.config.max_forced_moves_per_s)

    def observe(self, now: float) -> Members:
        """Everything as it is; what has not changed is no news."""
        for actor in self.world.actors.values():
            if self.partition not in (None, actor.partition) or self.seen.get(actor.uid) == actor.said():
                continue
            self.seen[actor.uid] = actor.said()
            self.membership.record_lease(actor.lease(), now)
            if actor.has_pod:
                self.membership.record_pod(builders.pod(actor.id, actor.uid, **actor.pod))
            else:
                self.membership.record_pod_deleted(builders.NAMESPACE, actor.id, actor.uid)
        self.membership.record_synced(now)
        views = [self.world.view(uid) for uid in self.world.objects]
        counts: dict[str, int] = {}
        for view in views:
            if view.executor_uid and not view.completed:
                counts[view.executor_uid] = counts.get(view.executor_uid, 0) + 1
        for suspect in self.membership.members(now, counts).suspects:
            self.membership.record_check(suspect, self.world.actors[suspect.uid].lease(), now, now)
        return self.membership.members(now, counts)

    def situation(self, now: float, members: Members) -> ClusterView:
        return ClusterView(
            now=now,
            wall=builders.wall(now),
            members=members,
            choose=self.chooser(members),
            term=self.term,
            config=self.config,
            has_archiver=self.has_archiver,
            ownership=self.ownership,
            drains=sum(is_draining(self.world.view(each)) for each in self.world.objects),
            limit=self.limit,
        )

    def ownership(self, view: ObjectView) -> Ownership:
        ours = self.partition in (None, self.world.partitions.get(view.uid, 0))
        return Ownership.OURS if ours else Ownership.FOREIGN

    def chooser(self, members: Members) -> Callable[[ObjectView, frozenset[str] | None], str]:
        """Fewest open objects, then id; the world needs no more of a strategy."""

        def choose(view: ObjectView, among: frozenset[str] | None) -> str:
            if view.uid in self.script and view.epoch == 0:
                return self.script[view.uid]
            found = [each for each in members.eligible.values() if among is None or each.id in among]
            if not found:
                raise NoHealthyExecutors
            return min(found, key=lambda each: (each.open, each.id)).id

        return choose

    def step(self, now: float) -> None:
        """Decides about each object that has changed, whose time has come, or whose executors have changed."""
        members = self.observe(now)
        present = ({(each.id, each.uid, each.status) for each in members.living.values()}, frozenset(members.removed))
        if present != self.present:
            self.present = present
            self.wakes.update(dict.fromkeys(self.world.objects, now))
        for uid in list(self.world.objects):
            while self.known.get(uid) is not self.world.objects[uid] or self.wakes.get(uid, now + 1) <= now:
                self.known[uid] = self.world.objects[uid]
                decision = self.decide(uid, now, members)
                self.wakes.pop(uid, None)
                if decision.wake_at is not None:
                    self.wakes[uid] = decision.wake_at
                for action in decision.actions:
                    self.perform(uid, action)
                members = self.observe(now)

    def decide(self, uid: str, now: float, members: Members) -> Decision:
        decision = decide(self.world.view(uid), self.memories.get(uid, INITIAL_MEMORY), self.situation(now, members))
        self.memories[uid], self.limit = decision.memory, decision.limit
        self.decisions[uid] = decision
        return decision

    def perform(self, uid: str, action: Action) -> None:
        match action:
            case Archive() | Delete() | ReportCompleted():
                pass  # not of this world; see ksched_supervisor
            case _:
                view = self.world.view(uid)
                self.world.write(uid, write_of(action, view, ADAPTER), self.term)
