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
from situate.sharding.executor.next_step import Local, Me, Release, Rest, Start, Stop, next_step
from situate.sharding.fencing.admit import Fence, Request, Role, Writer, admit
from situate.sharding.leases.membership import ExecutorWatch, LeaseTimes, Membership
from situate.sharding.model.actions import Archive, Delete, TellCompleted, write_of
from situate.sharding.model.decision_inputs import NEW, Decision, Memory, Situation
from situate.sharding.model.errors import NoHealthyExecutors
from situate.sharding.model.executors import Members
from situate.sharding.model.field_paths import Content, FieldPaths
from situate.sharding.model.object_view import Holder, ObjectView, Placement, placed, released, view_of
from situate.sharding.model.patches import fenced_patch
from situate.sharding.model.supervisor_config import SupervisorConfig
from situate.testing.sharding.exploring.pods import NAMESPACE, POOL_NAME, SELECTOR, lease_of, pod_of
from situate.testing.sharding.exploring.search import Broken, Guard

STEP_S: Final = 5.0
LEASE: Final = 3
"""Lease duration in steps: 15 s."""
DEADLINE: Final = 2
"""Steps until an executor that cannot renew begins to stop."""
LAST: Final = 6
"""One step more than needed to request a drain, to revoke, and to wait for a Lease."""
PATHS: Final = FieldPaths()
FENCE: Final = Fence(PATHS)
_BEGAN: Final = datetime(2026, 1, 1, tzinfo=UTC)
_CONFIG: Final = SupervisorConfig(drain_timeout=2 * STEP_S, scheduler_jitter=0, max_reassigns=100)
_SKEW_S: Final = 300.0


class Body(NamedTuple):
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


class World(NamedTuple):
    """One state of the world."""

    now: int
    stored: str
    """The object, as text."""
    bodies: tuple[Body, Body]
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


class Rules(NamedTuple):
    """Rules shared by all states of one exploration."""

    without: frozenset[Guard] = frozenset()
    policy: bool = False
    """Whether the server admits writes as the policy does. Executors then send no preconditions."""
    under_way: bool = True
    """Whether writes may be on their way for any time. If not, they arrive at once."""
    same_name: bool = False
    """Whether the second executor is another incarnation of the first."""

    def me(self, number: int) -> Me:
        return Me("a" if self.same_name or number == 0 else "b", f"u{number}")


def first(rules: Rules, **faults: int) -> World:
    """Return the world in which the first executor works on the object and should give it up.

    `faults` limits how often each fault may happen.
    """
    metadata = {"name": "r", "namespace": NAMESPACE, "uid": "o"}
    content: Content = {"apiVersion": "batch.example.com/v1", "kind": "Report", "metadata": metadata, "spec": {}}
    me = rules.me(0)
    placement = Placement(Holder(me.id, me.uid), 1, _BEGAN, "new", None)
    stored = _text(placed(view_of(content, PATHS), PATHS, placement), 1)
    return World(0, stored, (Body(active=1), Body()), (NEW, NEW), (stored, ""), ("", ""), **faults)


def moves(rules: Rules) -> Any:
    """Return the function that yields all possible next states, by name. It raises `Broken`."""

    def of(world: World) -> Iterator[tuple[str, World]]:
        faulty = world.now % 2 == 0
        for number in (0, 1):
            yield from _supervised(world, number, rules)
        for number, body in enumerate(world.bodies):
            yield from _executed(world, number, body, rules, faulty=faulty)
        if world.fail_overs and faulty:
            caches = (world.caches[0], world.stored)
            yield "s2 leads", world._replace(leader=1, caches=caches, fail_overs=world.fail_overs - 1)
        if world.now < LAST:
            yield "5 s", _passed(world)

    return of


def is_end(world: World) -> bool:
    return world.now == LAST


def unsettled(world: World, rules: Rules) -> str:
    """Play on with the leader alone and no further faults. Return the open problem at the end. Empty: none."""
    bare = Rules(policy=rules.policy, under_way=False, same_name=rules.same_name)
    world = world._replace(sent=("", ""))
    for _ in range(3 * LEASE):
        for number, body in enumerate(world.bodies):
            if body.state == "paused":
                world = _changed(world, number, _back(world, body))
        for _ in range(4):
            for number in (0, 1):
                for _, after in _worked(world, number, world.bodies[number], bare):
                    world = after
                    break
            for _, after in [*_supervised(world, world.leader, bare)]:
                world = after
        world = _passed(world)
    holder = read(world.stored).executor_uid
    settled = holder == "u1" or world.bodies[1].state == "crashed"
    return "" if settled else f"L2, L3: the object is assigned to {holder or 'no executor'}"


@cache
def read(text: str) -> ObjectView:
    return view_of(json.loads(text), PATHS)


@cache
def members(renewed: tuple[int, int], now: int, rules: Rules) -> Members:
    """Return the members by the shipped membership. Each Lease counts as changed at its renewal."""
    seconds = now * STEP_S
    found = Membership(ExecutorWatch(SELECTOR, NAMESPACE), LeaseTimes(), POOL_NAME)
    for number in (0, 1):
        me = rules.me(number)
        gone = rules.same_name and number == 0
        if not gone:
            found.saw_pod(pod_of(me, cordoned=number == 0))
        # the executor's own clock is off by minutes, and nobody cares
        wrong_s = -_SKEW_S if number == 0 else _SKEW_S
        seen_at = renewed[number] * STEP_S
        lease = lease_of(me, seen_at, wrong_s, held=True)
        found.saw_lease(lease, seen_at + (wrong_s if Guard.MONOTONIC in rules.without else 0.0))
    found.synced(0.0)
    for suspect in found.members(seconds, {}).suspects:
        found.checked(suspect, None, seconds, seconds)
    return found.members(seconds, {})


def _supervised(world: World, number: int, rules: Rules) -> Iterator[tuple[str, World]]:
    """Yield the acts of a supervisor: its watch advances, it decides by its cache, and its writes arrive.

    A supervisor waits until its term has begun.
    """
    if number > world.leader:
        return
    name, leads = f"s{number + 1}", number == world.leader
    if world.sent[number]:
        landed = _landed(world, number, world.sent[number], rules)
        yield f"{name}'s write arrives", _with_sent(landed, number, "")
        yield f"{name}'s write is lost", _with_sent(world, number, "")
    if number == 1:
        world = world._replace(caches=(world.caches[0], world.stored))  # to halve the number of worlds
    elif leads and world.caches[number] != world.stored:
        yield f"{name} sees", world._replace(caches=(world.stored, world.caches[1]))
    if world.sent[number]:
        return
    memory, operations = _decided(
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
        after = _landed(after, number, each, rules)
    if after != world:
        yield f"{name} acts", after


@cache
def _decided(
    text: str, memory: Memory, renewed: tuple[int, int], now: int, number: int, rules: Rules
) -> tuple[Memory, tuple[str, ...]]:
    """Return a supervisor's new memory and its writes."""
    view, found = read(text), members(renewed, now, rules)
    if Guard.ACK in rules.without and view.drain is not None:
        view = replace(view, executor="", executor_uid="")

    def choose(_view: ObjectView, _among: object, /) -> str:
        if not found.eligible:
            raise NoHealthyExecutors
        return min(found.eligible)

    seconds = now * STEP_S
    wall = _BEGAN + timedelta(seconds=seconds)
    decision: Decision = decide(view, memory, Situation(seconds, wall, found, choose, number + 1, _CONFIG, PATHS))
    orders = []
    for action in decision.actions:
        assert not isinstance(action, Archive | Delete | TellCompleted), "an open object without a finalizer"
        orders.append(json.dumps([dict(each) for each in write_of(action, read(text), PATHS).operations]))
    return decision.memory, tuple(orders)


def _landed(world: World, number: int, operations: str, rules: Rules) -> World:
    """Return the world after a supervisor's write has arrived, accepted or not."""
    stored = json.loads(world.stored)
    patched = json_patch(stored, json.loads(operations))
    if not isinstance(patched, dict) or patched["metadata"]["resourceVersion"] != stored["metadata"]["resourceVersion"]:
        return world
    if patched == stored:
        return world
    request = Request(Writer(Role.SUPERVISOR), patched, leader_term=world.leader + 1)
    if rules.policy and admit(stored, request, FENCE) is not None:
        return world
    before, after = read(world.stored), view_of(patched, PATHS)
    if after.epoch not in (before.epoch, before.epoch + 1):
        raise Broken(f"S3: epoch {after.epoch} after {before.epoch}")
    if after.epoch != before.epoch and after.term < before.term:
        raise Broken(f"S10: term {after.term} acts after {before.term}")
    if after.epoch != before.epoch and after.holder is not None:
        _judge_assignment(world, before, after, number)
    return world._replace(stored=_text(patched, int(before.resource_version) + 1))


def _judge_assignment(world: World, before: ObjectView, after: ObjectView, number: int) -> None:
    if before.completed:
        raise Broken("S6: a completed object is assigned")
    body = world.bodies[int(after.executor_uid[1:])]
    if world.now - body.renewed >= 2 * LEASE:
        raise Broken(f"S4: s{number + 1} assigns to {after.executor_uid}, which has ended long ago")
    if before.executor_uid not in ("", after.executor_uid):
        held = world.bodies[int(before.executor_uid[1:])]
        lost = world.now - held.renewed >= LEASE or held.expired >= before.epoch
        if not lost and held.state != "crashed":
            raise Broken(f"S5: {before.executor_uid} has neither released the object nor lost its lease")


def _executed(world: World, number: int, body: Body, rules: Rules, *, faulty: bool) -> Iterator[tuple[str, World]]:
    me = rules.me(number).uid
    if body.sent:  # whatever became of its sender
        yield f"{me}'s write arrives", _arrived(world, number, body, rules)
    if body.state == "well":
        yield from _worked(world, number, body, rules)
        if world.pauses and number == 0 and faulty:  # of the other one there is nothing to be taken
            yield (
                f"{me} pauses",
                _changed(world, number, body._replace(state="paused"))._replace(pauses=world.pauses - 1),
            )
    elif body.state == "paused":
        if body.active and world.now - min(body.renewed, body.looked) >= DEADLINE:
            yield f"{me} stops by itself", _changed(world, number, body._replace(active=0, over=True))
        yield f"{me} continues", _changed(world, number, _back(world, body))
    if body.state != "crashed" and world.crashes and faulty:
        dead = body._replace(state="crashed", active=0)
        yield f"{me} dies", _changed(world, number, dead)._replace(crashes=world.crashes - 1)


def _back(world: World, body: Body) -> Body:
    return body._replace(state="well", over=body.over or world.now - body.renewed >= DEADLINE)


def _worked(world: World, number: int, body: Body, rules: Rules) -> Iterator[tuple[str, World]]:
    """Yield the acts of a connected executor on the object."""
    if body.state != "well":
        return
    view, me = read(world.stored), rules.me(number)
    if Guard.INCARNATION in rules.without and view.executor == me.id:
        me = Me(me.id, view.executor_uid)
    if body.over and not body.active:
        ours = executing.owns(view, me)
        yield f"{me.uid} starts again", _changed(world, number, body._replace(over=False, forgone=view.epoch * ours))
        return
    local = Local(running=body.active or None, running_uid="o", forgone=body.forgone)
    match next_step(view, 1, local, executing.Situation(me, world.now * STEP_S, leased=not body.over)):
        case Stop():
            yield f"{me.uid} stops", _changed(world, number, body._replace(active=0))
        case Release():
            after = released(view.content, PATHS)
            yield f"{me.uid} releases", _wrote(world, number, after, view, rules)
        case Start(epoch):
            other = world.bodies[1 - number]
            if other.active:
                raise Broken(f"S1: {rules.me(number).uid} begins while {rules.me(1 - number).uid} works")
            if view.executor_uid != rules.me(number).uid:
                raise Broken(f"S11: {rules.me(number).uid} begins the object of {view.executor_uid}")
            yield f"{me.uid} begins", _changed(world, number, body._replace(active=epoch, looked=world.now))
        case Rest() if body.active:
            if body.looked != world.now:
                yield f"{me.uid} looks", _changed(world, number, body._replace(looked=world.now))
            if rules.under_way and number == 0 and not body.sent:
                yield f"{me.uid} sends", _changed(world, number, body._replace(sent=world.stored))


def _wrote(world: World, number: int, after: Content, view: ObjectView, rules: Rules) -> World:
    """Return the world after a release, which arrives at once. Late writes are explored with status writes."""
    request = Request(Writer(Role.EXECUTOR, rules.me(number).uid), after)
    if rules.policy and admit(view.content, request, FENCE) is not None:
        raise Broken("8.2: a holder's release is refused")
    return world._replace(stored=_text(after, int(view.resource_version) + 1))


def _arrived(world: World, number: int, body: Body, rules: Rules) -> World:
    """Return the world after a status write that was computed from an earlier version."""
    me, seen = rules.me(number), read(body.sent)
    world = _changed(world, number, body._replace(sent=""))
    after = {**seen.content, "status": {"by": me.uid}}
    operations = [dict(each) for each in fenced_patch(seen.content, after, seen.epoch, me.uid)]
    if rules.policy or Guard.EPOCH in rules.without:
        operations = operations[4:]  # without its tests, and without the version
    stored = json.loads(world.stored)
    patched = json_patch(stored, operations)
    if not isinstance(patched, dict) or patched["metadata"]["resourceVersion"] != stored["metadata"]["resourceVersion"]:
        return world
    if rules.policy and admit(stored, Request(Writer(Role.EXECUTOR, me.uid), patched, "status"), FENCE) is not None:
        return world
    now = read(world.stored)
    if now.executor_uid != me.uid or (now.epoch != seen.epoch and not rules.policy):
        raise Broken(
            f"S2: a write of {me.uid} under epoch {seen.epoch} is accepted, but {now.executor_uid} is the executor"
        )
    return world  # that somebody has written a status bears on nothing here


def _changed(world: World, number: int, body: Body) -> World:
    return world._replace(bodies=(body, world.bodies[1]) if number == 0 else (world.bodies[0], body))


def _with_sent(world: World, number: int, operations: str) -> World:
    return world._replace(sent=(operations, world.sent[1]) if number == 0 else (world.sent[0], operations))


def _passed(world: World) -> World:
    """Return the world five seconds later."""
    bodies = []
    for body in world.bodies:
        if body.state == "well" and not (body.over and body.active):
            body = body._replace(renewed=world.now + 1)
        if not body.active:
            body = body._replace(looked=world.now + 1)  # without work it does not matter
        if world.now + 1 - body.renewed >= LEASE:
            body = body._replace(expired=read(world.stored).epoch)
        if world.now + 1 - min(body.renewed, body.looked) >= LEASE:
            body = body._replace(active=0, over=True, looked=world.now + 1)  # it ended itself, if need be
        bodies.append(body)
    return world._replace(now=world.now + 1, bodies=(bodies[0], bodies[1]))


def _text(content: Content, version: int) -> str:
    metadata = {**content["metadata"], "resourceVersion": str(version)}
    return json.dumps({**content, "metadata": metadata}, sort_keys=True)
