"""Hand-over of one object: every order of the possible acts of two executors and two supervisors.

The shipped `decide`, `next_step` and `Membership` decide, and the shipped patches are sent. The server checks UIDs,
resourceVersions and the policy, if there is one. Every write may be on its way for long, and every answer may be lost.
Time passes in steps of five seconds. Within a step, each process may act in any order, any number of times. Two things
are sure: a connected process renews its Lease, and a process that is cut off stops by itself in time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from situate.cluster.patch.patches import json_patch
from situate.sharding.assignment.decide import decide
from situate.sharding.executor import next_step as executing
from situate.sharding.executor.next_step import Incarnation, LocalState, Release, Start, Stop, Wait, next_step
from situate.sharding.fencing.admit import Fence, Role, Writer, WriteRequest, admit
from situate.sharding.leases.membership import ExecutorWatch, LeaseTimes, Membership
from situate.sharding.model.actions import Archive, Delete, ReportCompleted, write_of
from situate.sharding.model.decision_inputs import INITIAL_MEMORY, ClusterView, Decision, Memory
from situate.sharding.model.errors import NoHealthyExecutors
from situate.sharding.model.executors import Members
from situate.sharding.model.field_paths import Content, FieldPaths
from situate.sharding.model.object_view import (
    Holder,
    ObjectView,
    Placement,
    assigned_content,
    released_content,
    view_of,
)
from situate.sharding.model.patches import fenced_patch
from situate.sharding.model.supervisor_config import SupervisorConfig
from situate.testing.sharding.exploration.pods import NAMESPACE, POOL_NAME, SELECTOR, lease_of, pod_of
from situate.testing.sharding.exploration.search import InvariantBroken, SafetyGuard

STEP_S: Final = 5.0
LEASE: Final = 3
"""Lease duration in steps: 15 s."""
DEADLINE: Final = 2
"""Steps until an executor that cannot renew begins to stop."""
LAST_TICK: Final = 6
"""One step more than needed to request a drain, to revoke, and to wait for a Lease."""
PATHS: Final = FieldPaths()
FENCE: Final = Fence(PATHS)
_START_TIME: Final = datetime(2026, 1, 1, tzinfo=UTC)
_CONFIG: Final = SupervisorConfig(drain_timeout=2 * STEP_S, scheduler_jitter=0, max_reassigns=100)
_SKEW_S: Final = 300.0


class ExecutorProcessState(NamedTuple):
    """An executor's process."""

    state: str = "well"
    """`well`, `paused` (cut off from everything) or `crashed`."""
    renewed: int = 0
    looked: int = 0
    """When it last knew the present object. It works only on recent knowledge."""
    active: int = 0
    """The epoch of its work. 0: no work."""
    over: bool = False
    """Whether its tenure is over and it has not begun another one."""
    forgone: int = 0
    expired: int = 0
    """The epoch of the object when its Lease last expired."""
    sent: str = ""
    """The version, as text, from which a write on its way was computed. Empty: none."""


class HandOverWorld(NamedTuple):
    """One state of the world."""

    now: int
    stored: str
    """The object, as text."""
    bodies: tuple[ExecutorProcessState, ExecutorProcessState]
    memories: tuple[Memory, Memory]
    """Memories of the two supervisors."""
    caches: tuple[str, str]
    sent: tuple[str, str]
    """The write of each supervisor that is on its way: operations, as text. Empty: none."""
    leader: int = 0
    """The supervisor of the present term. The other one may go on for a while."""
    crashes: int = 0
    pauses: int = 0
    fail_overs: int = 0


class HandOverRules(NamedTuple):
    """Rules shared by all states of one exploration."""

    without: frozenset[SafetyGuard] = frozenset()
    policy: bool = False
    """Whether the server admits writes as the policy does. Executors then send no preconditions."""
    under_way: bool = True
    """Whether writes may be on their way for any time. If not, they arrive at once."""
    same_name: bool = False
    """Whether the second executor is another incarnation of the first."""

    def incarnation_of(self, number: int) -> Incarnation:
        return Incarnation("a" if self.same_name or number == 0 else "b", f"u{number}")


def first_world(rules: HandOverRules, **faults: int) -> HandOverWorld:
    """Return the world in which the first executor works on the object and should give it up.

    `faults` limits how often each fault may happen.
    """
    metadata = {"name": "r", "namespace": NAMESPACE, "uid": "o"}
    content: Content = {"apiVersion": "batch.example.com/v1", "kind": "Report", "metadata": metadata, "spec": {}}
    me = rules.incarnation_of(0)
    placement = Placement(Holder(me.id, me.uid), 1, _START_TIME, "new", None)
    stored = _encode_content(assigned_content(view_of(content, PATHS), PATHS, placement), 1)
    return HandOverWorld(
        0,
        stored,
        (ExecutorProcessState(active=1), ExecutorProcessState()),
        (INITIAL_MEMORY, INITIAL_MEMORY),
        (stored, ""),
        ("", ""),
        **faults,
    )


def next_worlds(rules: HandOverRules) -> Any:
    """Return the function that yields all possible next states, by name. It raises `InvariantBroken`."""

    def of(world: HandOverWorld) -> Iterator[tuple[str, HandOverWorld]]:
        faulty = world.now % 2 == 0
        for number in (0, 1):
            yield from _supervisor_worlds(world, number, rules)
        for number, body in enumerate(world.bodies):
            yield from _executor_worlds(world, number, body, rules, faulty=faulty)
        if world.fail_overs and faulty:
            caches = (world.caches[0], world.stored)
            yield "s2 leads", world._replace(leader=1, caches=caches, fail_overs=world.fail_overs - 1)
        if world.now < LAST_TICK:
            yield "5 s", _advance_time(world)

    return of


def is_end(world: HandOverWorld) -> bool:
    return world.now == LAST_TICK


def open_problem(world: HandOverWorld, rules: HandOverRules) -> str:
    """Play on with the leader alone and no further faults. Return the open problem at the end. Empty: none."""
    bare = HandOverRules(policy=rules.policy, under_way=False, same_name=rules.same_name)
    world = world._replace(sent=("", ""))
    for _ in range(3 * LEASE):
        for number, body in enumerate(world.bodies):
            if body.state == "paused":
                world = _with_body(world, number, _reconnect(world, body))
        for _ in range(4):
            for number in (0, 1):
                for _, after in _work_worlds(world, number, world.bodies[number], bare):
                    world = after
                    break
            for _, after in [*_supervisor_worlds(world, world.leader, bare)]:
                world = after
        world = _advance_time(world)
    holder = parse_view(world.stored).executor_uid
    settled = holder == "u1" or world.bodies[1].state == "crashed"
    return "" if settled else f"L2, L3: the object is assigned to {holder or 'no executor'}"


@cache
def parse_view(text: str) -> ObjectView:
    return view_of(json.loads(text), PATHS)


@cache
def members(renewed: tuple[int, int], now: int, rules: HandOverRules) -> Members:
    """Return the members by the shipped membership. Each Lease counts as changed at its renewal."""
    seconds = now * STEP_S
    found = Membership(ExecutorWatch(SELECTOR, NAMESPACE), LeaseTimes(), POOL_NAME)
    for number in (0, 1):
        me = rules.incarnation_of(number)
        gone = rules.same_name and number == 0
        if not gone:
            found.record_pod(pod_of(me, cordoned=number == 0))
        # the executor's own clock is off by minutes, and nobody cares
        wrong_s = -_SKEW_S if number == 0 else _SKEW_S
        seen_at = renewed[number] * STEP_S
        lease = lease_of(me, seen_at, wrong_s, held=True)
        found.record_lease(lease, seen_at + (wrong_s if SafetyGuard.MONOTONIC in rules.without else 0.0))
    found.record_synced(0.0)
    for suspect in found.members(seconds, {}).suspects:
        found.record_check(suspect, None, seconds, seconds)
    return found.members(seconds, {})


def _supervisor_worlds(world: HandOverWorld, number: int, rules: HandOverRules) -> Iterator[tuple[str, HandOverWorld]]:
    """Yield the acts of a supervisor: its watch advances, it decides by its cache, and its writes arrive.

    A supervisor waits until its term has begun.
    """
    if number > world.leader:
        return
    name, leads = f"s{number + 1}", number == world.leader
    if world.sent[number]:
        landed = _land_write(world, number, world.sent[number], rules)
        yield f"{name}'s write arrives", _with_sent(landed, number, "")
        yield f"{name}'s write is lost", _with_sent(world, number, "")
    if number == 1:
        world = world._replace(caches=(world.caches[0], world.stored))  # to halve the number of worlds
    elif leads and world.caches[number] != world.stored:
        yield f"{name} sees", world._replace(caches=(world.stored, world.caches[1]))
    if world.sent[number]:
        return
    memory, operations = _decide_writes(
        world.caches[number],
        world.memories[number],
        tuple(body.renewed for body in world.bodies),
        world.now,
        number,
        rules,
    )
    after = world
    if leads:
        after = world._replace(memories=(memory, world.memories[1]) if number == 0 else (world.memories[0], memory))
    for each in operations:
        if rules.under_way and number == 0:
            yield f"{name} sends", _with_sent(after, number, each)
        after = _land_write(after, number, each, rules)
    if after != world:
        yield f"{name} acts", after


@cache
def _decide_writes(
    text: str, memory: Memory, renewed: tuple[int, int], now: int, number: int, rules: HandOverRules
) -> tuple[Memory, tuple[str, ...]]:
    """Return a supervisor's new memory and its writes."""
    view, found = parse_view(text), members(renewed, now, rules)
    if SafetyGuard.ACK in rules.without and view.drain is not None:
        view = replace(view, executor="", executor_uid="")

    def choose(_view: ObjectView, _among: object, /) -> str:
        if not found.eligible:
            raise NoHealthyExecutors
        return min(found.eligible)

    seconds = now * STEP_S
    wall = _START_TIME + timedelta(seconds=seconds)
    decision: Decision = decide(view, memory, ClusterView(seconds, wall, found, choose, number + 1, _CONFIG, PATHS))
    orders = []
    for action in decision.actions:
        assert not isinstance(action, Archive | Delete | ReportCompleted), "an open object without a finalizer"
        orders.append(json.dumps([dict(each) for each in write_of(action, parse_view(text), PATHS).operations]))
    return decision.memory, tuple(orders)


def _land_write(world: HandOverWorld, number: int, operations: str, rules: HandOverRules) -> HandOverWorld:
    """Return the world after a supervisor's write has arrived, accepted or not."""
    stored = json.loads(world.stored)
    patched = json_patch(stored, json.loads(operations))
    if not isinstance(patched, dict) or patched["metadata"]["resourceVersion"] != stored["metadata"]["resourceVersion"]:
        return world
    if patched == stored:
        return world
    request = WriteRequest(Writer(Role.SUPERVISOR), patched, leader_term=world.leader + 1)
    if rules.policy and admit(stored, request, FENCE) is not None:
        return world
    before, after = parse_view(world.stored), view_of(patched, PATHS)
    if after.epoch not in (before.epoch, before.epoch + 1):
        raise InvariantBroken(f"S3: epoch {after.epoch} after {before.epoch}")
    if after.epoch != before.epoch and after.term < before.term:
        raise InvariantBroken(f"S10: term {after.term} acts after {before.term}")
    if after.epoch != before.epoch and after.holder is not None:
        _check_assignment(world, before, after, number)
    return world._replace(stored=_encode_content(patched, int(before.resource_version) + 1))


def _check_assignment(world: HandOverWorld, before: ObjectView, after: ObjectView, number: int) -> None:
    if before.completed:
        raise InvariantBroken("S6: a completed object is assigned")
    body = world.bodies[int(after.executor_uid[1:])]
    if world.now - body.renewed >= 2 * LEASE:
        raise InvariantBroken(f"S4: s{number + 1} assigns to {after.executor_uid}, which has ended long ago")
    if before.executor_uid not in ("", after.executor_uid):
        held = world.bodies[int(before.executor_uid[1:])]
        lost = world.now - held.renewed >= LEASE or held.expired >= before.epoch
        if not lost and held.state != "crashed":
            raise InvariantBroken(f"S5: {before.executor_uid} has neither released the object nor lost its lease")


def _executor_worlds(
    world: HandOverWorld, number: int, body: ExecutorProcessState, rules: HandOverRules, *, faulty: bool
) -> Iterator[tuple[str, HandOverWorld]]:
    me = rules.incarnation_of(number).uid
    if body.sent:  # whatever became of its sender
        yield f"{me}'s write arrives", _land_status(world, number, body, rules)
    if body.state == "well":
        yield from _work_worlds(world, number, body, rules)
        if world.pauses and number == 0 and faulty:  # of the other one there is nothing to be taken
            yield (
                f"{me} pauses",
                _with_body(world, number, body._replace(state="paused"))._replace(pauses=world.pauses - 1),
            )
    elif body.state == "paused":
        if body.active and world.now - min(body.renewed, body.looked) >= DEADLINE:
            yield f"{me} stops by itself", _with_body(world, number, body._replace(active=0, over=True))
        yield f"{me} continues", _with_body(world, number, _reconnect(world, body))
    if body.state != "crashed" and world.crashes and faulty:
        dead = body._replace(state="crashed", active=0)
        yield f"{me} dies", _with_body(world, number, dead)._replace(crashes=world.crashes - 1)


def _reconnect(world: HandOverWorld, body: ExecutorProcessState) -> ExecutorProcessState:
    return body._replace(state="well", over=body.over or world.now - body.renewed >= DEADLINE)


def _work_worlds(
    world: HandOverWorld, number: int, body: ExecutorProcessState, rules: HandOverRules
) -> Iterator[tuple[str, HandOverWorld]]:
    """Yield the acts of a connected executor on the object."""
    if body.state != "well":
        return
    view, me = parse_view(world.stored), rules.incarnation_of(number)
    if SafetyGuard.INCARNATION in rules.without and view.executor == me.id:
        me = Incarnation(me.id, view.executor_uid)
    if body.over and not body.active:
        ours = executing.owns(view, me)
        yield f"{me.uid} starts again", _with_body(world, number, body._replace(over=False, forgone=view.epoch * ours))
        return
    local = LocalState(running=body.active or None, running_uid="o", forgone=body.forgone)
    match next_step(view, 1, local, executing.ExecutorState(me, world.now * STEP_S, leased=not body.over)):
        case Stop():
            yield f"{me.uid} stops", _with_body(world, number, body._replace(active=0))
        case Release():
            after = released_content(view.content, PATHS)
            yield f"{me.uid} releases", _land_release(world, number, after, view, rules)
        case Start(epoch):
            other = world.bodies[1 - number]
            if other.active:
                raise InvariantBroken(
                    f"S1: {rules.incarnation_of(number).uid} begins while {rules.incarnation_of(1 - number).uid} works"
                )
            if view.executor_uid != rules.incarnation_of(number).uid:
                raise InvariantBroken(
                    f"S11: {rules.incarnation_of(number).uid} begins the object of {view.executor_uid}"
                )
            yield f"{me.uid} begins", _with_body(world, number, body._replace(active=epoch, looked=world.now))
        case Wait() if body.active:
            if body.looked != world.now:
                yield f"{me.uid} looks", _with_body(world, number, body._replace(looked=world.now))
            if rules.under_way and number == 0 and not body.sent:
                yield f"{me.uid} sends", _with_body(world, number, body._replace(sent=world.stored))


def _land_release(
    world: HandOverWorld, number: int, after: Content, view: ObjectView, rules: HandOverRules
) -> HandOverWorld:
    """Return the world after a release, which arrives at once. Late writes are explored with status writes."""
    request = WriteRequest(Writer(Role.EXECUTOR, rules.incarnation_of(number).uid), after)
    if rules.policy and admit(view.content, request, FENCE) is not None:
        raise InvariantBroken("8.2: a holder's release is refused")
    return world._replace(stored=_encode_content(after, int(view.resource_version) + 1))


def _land_status(world: HandOverWorld, number: int, body: ExecutorProcessState, rules: HandOverRules) -> HandOverWorld:
    """Return the world after a status write that was computed from an earlier version."""
    me, seen = rules.incarnation_of(number), parse_view(body.sent)
    world = _with_body(world, number, body._replace(sent=""))
    after = {**seen.content, "status": {"by": me.uid}}
    operations = [dict(each) for each in fenced_patch(seen.content, after, seen.epoch, me.uid)]
    if rules.policy or SafetyGuard.EPOCH in rules.without:
        operations = operations[4:]  # without its tests, and without the version
    stored = json.loads(world.stored)
    patched = json_patch(stored, operations)
    if not isinstance(patched, dict) or patched["metadata"]["resourceVersion"] != stored["metadata"]["resourceVersion"]:
        return world
    if (
        rules.policy
        and admit(stored, WriteRequest(Writer(Role.EXECUTOR, me.uid), patched, "status"), FENCE) is not None
    ):
        return world
    now = parse_view(world.stored)
    if now.executor_uid != me.uid or (now.epoch != seen.epoch and not rules.policy):
        raise InvariantBroken(
            f"S2: a write of {me.uid} under epoch {seen.epoch} is accepted, but {now.executor_uid} is the executor"
        )
    return world  # that somebody has written a status bears on nothing here


def _with_body(world: HandOverWorld, number: int, body: ExecutorProcessState) -> HandOverWorld:
    return world._replace(bodies=(body, world.bodies[1]) if number == 0 else (world.bodies[0], body))


def _with_sent(world: HandOverWorld, number: int, operations: str) -> HandOverWorld:
    return world._replace(sent=(operations, world.sent[1]) if number == 0 else (world.sent[0], operations))


def _advance_time(world: HandOverWorld) -> HandOverWorld:
    """Return the world five seconds later."""
    bodies = []
    for body in world.bodies:
        if body.state == "well" and not (body.over and body.active):
            body = body._replace(renewed=world.now + 1)
        if not body.active:
            body = body._replace(looked=world.now + 1)  # without work it does not matter
        if world.now + 1 - body.renewed >= LEASE:
            body = body._replace(expired=parse_view(world.stored).epoch)
        if world.now + 1 - min(body.renewed, body.looked) >= LEASE:
            body = body._replace(active=0, over=True, looked=world.now + 1)  # it ended itself, if need be
        bodies.append(body)
    return world._replace(now=world.now + 1, bodies=(bodies[0], bodies[1]))


def _encode_content(content: Content, version: int) -> str:
    metadata = {**content["metadata"], "resourceVersion": str(version)}
    return json.dumps({**content, "metadata": metadata}, sort_keys=True)
