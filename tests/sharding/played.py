"""Random histories of executors and supervisors in which only the decisions are ours: everything else is simulated.

Executors renew, watch with a lag, work, drain, are cut off, crash and come back under their name; their clocks differ
in speed by up to 5 %. Supervisors decide on caches that lag, lose answers, fail over, and go on for a while after their
term. Every write passes the fencing function. The log is judged by the public checker. The shipped shell's histories
are another thing: they play queues, watches and the election too.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from situate.cluster.patches import json_patch
from situate.sharding.actions import Archive, Delete, TellCompleted, write_of
from situate.sharding.adapter import FieldPaths
from situate.sharding.admitting import Fence, Request, Role, Writer, admit
from situate.sharding.assignment import ObjectView, released, view_of
from situate.sharding.configuration import SupervisorConfig
from situate.sharding.deciding import decide
from situate.sharding.draining import under_way
from situate.sharding.errors import NoHealthyExecutors
from situate.sharding.leases import ExecutorWatch, LeaseTimes, Membership
from situate.sharding.members import Executor, ExecutorStatus, Members
from situate.sharding.situation import NEW, Memory, MoveLimit, Situation
from situate.testing.sharding.events import (
    Ack,
    Assign,
    Complete,
    Create,
    Eligible,
    Event,
    Ineligible,
    LeaseLost,
    Revoke,
    Start,
    Stop,
    Write,
)
from tests.sharding import builders

TICK_S: Final = 0.25
FAULTS_UNTIL_S: Final = 120.0
END_S: Final = 220.0
EXECUTORS: Final = 5
OBJECTS: Final = 14
TIMES: Final = LeaseTimes()
ADAPTER: Final = FieldPaths()
FENCE: Final = Fence()


@dataclass
class Process:
    """One incarnation of an executor, by its own clock."""

    id: str
    uid: str
    speed: float
    lag_s: float
    stubborn: bool
    """It never acks."""
    renewed: float
    active: dict[str, int] = field(default_factory=dict)
    """Epochs by object."""
    stops: dict[str, float] = field(default_factory=dict)
    """When what was told to stop will have stopped."""
    done_at: dict[str, float] = field(default_factory=dict)
    forgone: set[tuple[str, int]] = field(default_factory=set)
    """What it was given under a lease that it has lost: it is released, not begun."""
    over: bool = False
    """It has lost its lease, and not begun anew."""
    cut_until: float = -1.0
    alive: bool = True
    there: bool = True
    """Its pod."""
    terminated: bool = False
    ready: bool = True
    cordoned: bool = False

    @property
    def pod(self) -> Any:
        return builders.pod(self.id, self.uid, ready=self.ready, cordoned=self.cordoned, terminated=self.terminated)


@dataclass
class Leader:
    """One supervisor process."""

    term: int
    membership: Membership = field(
        default_factory=lambda: Membership(ExecutorWatch("app=reports", builders.NAMESPACE), TIMES, "pool")
    )
    cache: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    memories: dict[str, Memory] = field(default_factory=dict)
    wakes: dict[str, float] = field(default_factory=dict)
    limit: MoveLimit = field(default_factory=lambda: MoveLimit(20.0))
    present: object = None


class History:
    """One seed, played to its end."""

    def __init__(self, seed: int, config: SupervisorConfig) -> None:
        self.rng = random.Random(seed)
        self.config = config
        self.t = 0.0
        self.log: list[Event] = []
        self.happened: Counter[str] = Counter()
        self.objects: dict[str, dict[str, Any]] = {}
        self.past: list[dict[str, dict[str, Any]]] = []
        """The objects at each tick."""
        self.version = 1
        self._views: dict[str, ObjectView] = {}
        self.processes: list[Process] = []
        self.leader: Leader | None = None
        self.zombie: Leader | None = None
        """The last one, that has not noticed yet."""
        self.zombie_until = 0.0
        self.term = 0
        self.told: dict[str, tuple[str, bool]] = {}
        """By uid, what the log says of executors: id, and whether it is eligible."""
        self.lost: set[str] = set()
        for number in range(EXECUTORS):
            self._begin(f"e{number}")
        self._lead()

    def play(self) -> None:
        births = sorted(self.rng.uniform(0, FAULTS_UNTIL_S) for _ in range(OBJECTS))
        while self.t < END_S:
            while births and births[0] <= self.t:
                births.pop(0)
                self._create()
            if self.t < FAULTS_UNTIL_S:
                self._fault()
            elif self.leader is None:
                self._lead()
            for process in self.processes:
                self._live(process)
            if self.zombie is not None and self.t < self.zombie_until:
                self._supervise(self.zombie, fresh=False)
            if self.leader is not None:
                self._supervise(self.leader, fresh=self.rng.random() < 0.7)
            self.past.append(dict(self.objects))
            self.t += TICK_S

    def view(self, uid: str) -> ObjectView:
        return self._read(self.objects[uid])

    def _read(self, content: Mapping[str, Any]) -> ObjectView:
        """Each version is read once: they are numbered over all objects."""
        version = content["metadata"]["resourceVersion"]
        if version not in self._views:
            self._views[version] = view_of(content, ADAPTER)
        return self._views[version]

    def _begin(self, id_: str) -> None:
        rng = self.rng
        number = sum(each.id == id_ for each in self.processes)
        process = Process(
            id_,
            f"uid-{id_}-{number}",
            speed=rng.uniform(0.95, 1.05),
            lag_s=rng.uniform(0, 1.5),
            stubborn=rng.random() < 0.2,
            renewed=self.t,
        )
        self.processes.append(process)

    def _create(self) -> None:
        uid = f"o{len(self.objects)}"
        self._put(uid, builders.report(uid))
        self.log.append(Create(self.t, uid, uid))

    def _put(self, uid: str, content: Mapping[str, Any]) -> None:
        self.version += 1
        metadata = {**content["metadata"], "resourceVersion": str(self.version)}
        self.objects[uid] = {**content, "metadata": metadata}

    def _fault(self) -> None:
        rng = self.rng
        fault = rng.choices(
            ["", "cut", "crash", "proof", "back", "unready", "cordon", "fail-over", "down", "edit"],
            [90, 1, 1, 6, 3, 1, 1, 0.5, 0.3, 0.5],
        )[0]
        process = rng.choice(self.processes)
        gone = not process.alive
        match fault:
            case "cut" if not gone:
                process.cut_until = self.t + rng.uniform(2, 40)
            case "crash" if not gone:
                process.alive = False
                process.there = rng.random() < 0.7
                for uid in process.active:  # for the checker no Crash: the supervisor cannot know of it yet
                    self.log.append(Stop(self.t, process.id, process.uid, uid))
                process.active.clear()
                process.stops.clear()
            case "proof" if gone and process.there:
                process.terminated = True
            case "back" if gone and self._latest(process):
                process.there = False
                self._begin(process.id)
            case "unready" if not gone:
                process.ready = not process.ready
            case "cordon" if not gone:
                process.cordoned = not process.cordoned
            case "fail-over":
                self.zombie, self.zombie_until = self.leader, self.t + rng.uniform(0, 15)
                self._lead()
            case "down":
                self.leader = None
            case "edit" if self.objects:
                self._edit(rng.choice(sorted(self.objects)))
            case _:
                return
        self.happened[fault] += 1

    def _edit(self, uid: str) -> None:
        """A user clears the assignment of an object; where there is a policy it would not get through."""
        view = self.view(uid)
        if view.executor and not view.completed:
            self._put(uid, ADAPTER.assign_to(view.content, None))

    def _latest(self, process: Process) -> bool:
        return [each for each in self.processes if each.id == process.id][-1] is process

    def _live(self, process: Process) -> None:
        """An executor, as the reference's section 6 has it."""
        if not process.alive:
            return
        connected = self.t >= process.cut_until
        if connected and self.t - process.renewed >= TIMES.renew_s:
            process.renewed = self.t
        silent_s = (self.t - process.renewed) * process.speed
        if silent_s >= TIMES.renew_deadline_s:
            process.over = True
            for uid in process.active:
                grace = self.rng.uniform(0, TIMES.cancel_grace_s) / process.speed
                process.stops.setdefault(uid, min(self.t + grace, process.renewed + 14.0 / process.speed))
        elif connected:
            self._watch(process)
        for uid, at in sorted(process.stops.items()):
            if self.t >= at or silent_s + TICK_S * process.speed >= 14.0:
                self._stop(process, uid)
        for uid, epoch in sorted(process.active.items()):
            if connected and uid not in process.stops and self.t >= process.done_at[uid]:
                self._complete(process, uid, epoch)

    def _watch(self, process: Process) -> None:
        if process.over and not process.active:
            held = [view for view in map(self.view, self.objects) if view.executor_uid == process.uid]
            process.forgone.update((view.uid, view.epoch) for view in held)
            process.over = False
        back = int(process.lag_s / TICK_S)
        seen = self.past[-1 - back] if len(self.past) > back else {}
        for uid, content in seen.items():
            view = self._read(content)
            mine = view.executor == process.id and view.executor_uid == process.uid and not view.completed
            if uid in process.active:
                if not mine or view.epoch > process.active[uid]:
                    process.stops.setdefault(uid, self.t + self.rng.uniform(0, 2))
                elif view.drain is not None and not process.stubborn:
                    process.stops.setdefault(uid, self.t + self.rng.uniform(0, 5))
            elif mine and ((uid, view.epoch) in process.forgone or (view.drain is not None and not process.stubborn)):
                self._release(process, uid)
            elif mine and not process.over and view.drain is None and self._holds(process, self.view(uid), view.epoch):
                process.active[uid] = view.epoch
                process.done_at[uid] = self.t + self.rng.uniform(20, 150)
                self.log.append(Start(self.t, process.id, process.uid, uid, view.epoch))

    def _holds(self, process: Process, view: ObjectView, epoch: int) -> bool:
        """What it reads before it begins."""
        return (view.executor, view.executor_uid, view.epoch) == (process.id, process.uid, epoch) and not view.completed

    def _stop(self, process: Process, uid: str) -> None:
        if self.rng.random() < 0.3:  # a write that was in flight
            self._complete(process, uid, process.active[uid])
        del process.stops[uid]
        del process.active[uid]
        self.log.append(Stop(self.t, process.id, process.uid, uid))
        if self.t >= process.cut_until and self.view(uid).drain is not None:
            self._release(process, uid)

    def _release(self, process: Process, uid: str) -> None:
        view = self.view(uid)
        after = released(view.content, ADAPTER)
        writer = Writer(Role.EXECUTOR, process.uid)
        if view.executor_uid == process.uid and not admit(view.content, Request(writer, after), FENCE):
            self._put(uid, after)
            self.happened["ack"] += 1
            self.log.append(Ack(self.t, process.id, process.uid, uid))

    def _complete(self, process: Process, uid: str, epoch: int) -> None:
        view = self.view(uid)
        after = ADAPTER.complete(view.content, builders.wall(self.t), True)
        request = Request(Writer(Role.EXECUTOR, process.uid), after, "status", epoch=epoch)
        accepted = admit(view.content, request, FENCE) is None
        self.log.append(Write(self.t, process.id, process.uid, uid, epoch, accepted))
        if accepted:
            self._put(uid, after)
            self.happened["complete"] += 1
            self.log.append(Complete(self.t, uid))
        else:
            self.happened["refused write"] += 1
        process.stops.setdefault(uid, self.t)

    def _lead(self) -> None:
        self.term += 1
        self.leader = Leader(self.term)

    def _supervise(self, leader: Leader, *, fresh: bool) -> None:
        """One turn; `fresh`: its watches bring what is new."""
        if fresh:
            leader.cache.update(self.objects)
            for process in self.processes:
                leader.membership.saw_lease(builders.lease(process.id, process.uid, process.renewed), self.t)
                if process.there:
                    leader.membership.saw_pod(process.pod)
                else:
                    leader.membership.pod_gone(builders.NAMESPACE, process.id, process.uid)
            leader.membership.synced(self.t)
        views = {uid: self._read(content) for uid, content in leader.cache.items()}
        counts = Counter(view.executor_uid for view in views.values() if view.executor_uid and not view.completed)
        for suspect in leader.membership.members(self.t, counts).suspects:
            process = next(each for each in self.processes if each.uid == suspect.uid)
            leader.membership.checked(suspect, builders.lease(process.id, process.uid, process.renewed), self.t, self.t)
        members = leader.membership.members(self.t, counts)
        if leader is self.leader:
            self._tell(members)
        present = {(each.uid, each.status) for each in members.living.values()}, frozenset(members.removed)
        due = set(views) if present != leader.present else set()
        leader.present = present
        due |= {uid for uid, at in leader.wakes.items() if at <= self.t}
        due |= {uid for uid, view in views.items() if self._is_news(leader, uid, view)}
        for uid in sorted(due):
            self._decide(leader, views[uid], members, under_way(views.values()))

    def _is_news(self, leader: Leader, uid: str, view: ObjectView) -> bool:
        memory = leader.memories.get(uid)
        return (
            memory is None
            or (memory.holder, memory.epoch) != (view.holder, view.epoch)
            or (view.completed and not memory.told)
        )

    def _decide(self, leader: Leader, view: ObjectView, members: Members, drains: int) -> None:
        def choose(_view: ObjectView, among: frozenset[str] | None, /) -> str:
            found = sorted(each for each in members.eligible if among is None or each in among)
            if not found:
                raise NoHealthyExecutors
            return self.rng.choice(found)

        wall = builders.wall(self.t)
        situation = Situation(
            self.t, wall, members, choose, leader.term, self.config, ADAPTER, drains=drains, limit=leader.limit
        )
        decision = decide(view, leader.memories.get(view.uid, NEW), situation)
        leader.memories[view.uid], leader.limit = decision.memory, decision.limit
        leader.wakes.pop(view.uid, None)
        if decision.wake_at is not None:
            leader.wakes[view.uid] = decision.wake_at
        for action in decision.actions:
            if not isinstance(action, Archive | Delete | TellCompleted):
                self._write(leader, view, write_of(action, view, ADAPTER).operations)

    def _write(self, leader: Leader, view: ObjectView, operations: tuple[Mapping[str, Any], ...]) -> None:
        stored = self.objects[view.uid]
        after = json_patch(stored, [dict(each) for each in operations])
        again = self.t + self.rng.uniform(0.5, 1.5)
        leader.wakes[view.uid] = min(again, leader.wakes.get(view.uid, again))
        if not isinstance(after, dict) or after["metadata"]["resourceVersion"] != stored["metadata"]["resourceVersion"]:
            self.happened["conflict"] += 1
            return
        request = Request(Writer(Role.SUPERVISOR), after, leader_term=self.term)
        if admit(stored, request, FENCE):
            self.happened["refused supervisor"] += 1
            return
        before = self._read(stored)
        self._put(view.uid, after)
        self._note(leader, before, self.view(view.uid))
        if self.rng.random() < 0.9:
            leader.cache[view.uid] = self.objects[view.uid]  # else the answer was lost

    def _note(self, leader: Leader, before: ObjectView, after: ObjectView) -> None:
        if after.epoch != before.epoch and after.holder is not None:
            self.happened["assign"] += 1
            holder = after.holder
            self.log.append(Assign(self.t, after.uid, holder.executor, holder.uid, after.epoch, leader.term))
        elif after.epoch != before.epoch:
            self.happened["revoke"] += 1
            self.log.append(Revoke(self.t, after.uid, after.epoch))
        elif after.drain is not None:
            self.happened["drain"] += 1
        if after.completed:
            self.happened[after.reason] += 1
            self.log.append(Complete(self.t, after.uid))

    def _tell(self, members: Members) -> None:
        """The log's executors are the leader's."""
        for uid, each in members.living.items():
            now = self._is_eligible(members, each)
            if uid in self.lost or self.told.get(uid) != (each.id, now):
                self.log.append((Eligible if now else Ineligible)(self.t, each.id, uid))
                self.told[uid] = (each.id, now)
                self.lost.discard(uid)
        for uid, gone in members.removed.items():
            if uid not in self.lost:
                self.lost.add(uid)
                self.happened[f"lost: {gone.ending}"] += 1
                self.log.append(LeaseLost(self.t, gone.id, uid))

    def _is_eligible(self, members: Members, executor: Executor) -> bool:
        return executor.status is ExecutorStatus.HEALTHY and members.current[executor.id].uid == executor.uid
