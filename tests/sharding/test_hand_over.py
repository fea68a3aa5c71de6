"""Every order of events in a small world: two executors, two supervisors, one object, one crash, one pause (B12).

Time goes in steps of five seconds; within a step everybody may act in any order, any number of times or not at all.
What goes wrong begins in every second step, which keeps the worlds to some ten thousand; a pause ends in any.
Only two things are sure: a process that is not cut off renews, and one that is cut off stops by itself in time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

import pytest

from situate.cluster.patches import json_patch
from situate.sharding.actions import Archive, Delete, TellCompleted, write_of
from situate.sharding.adapter import FieldPaths
from situate.sharding.admitting import Fence, Request, Role, Writer, admit
from situate.sharding.assignment import Holder, ObjectView, Placement, placed, released, view_of
from situate.sharding.configuration import SupervisorConfig
from situate.sharding.deciding import decide
from situate.sharding.members import Ending, Executor, ExecutorStatus, Members, Removed
from situate.sharding.situation import NEW, Decision, Memory, Situation
from tests.sharding import builders

STEP_S: Final = 5.0
LEASE: Final = 3
"""Steps: a lease of 15 s."""
DEADLINE: Final = 2
"""Steps until an executor that cannot renew begins to stop."""
LAST: Final = 6
"""One step more than it takes to ask, to revoke, and to wait for a lease."""
ADAPTER: Final = FieldPaths()
FENCE: Final = Fence()
CONFIG: Final = SupervisorConfig(drain_timeout=2 * STEP_S, scheduler_jitter=0, max_reassigns=100)


@dataclass(frozen=True)
class Body:
    """An executor's process."""

    state: str = "well"
    """`well`, `paused` (cut off from everything) or `crashed`."""
    renewed: int = 0
    looked: int = 0
    """When it last knew the object as it was: only what is known lately is worked on."""
    active: int = 0
    """The epoch that it works under; 0: none."""
    over: bool = False
    forgone: int = 0


@dataclass(frozen=True)
class World:
    now: int
    stored: str
    """The object, as text."""
    bodies: tuple[Body, Body]
    memories: tuple[Memory, Memory]
    """Of the two supervisors."""
    caches: tuple[str, str]
    leader: int = 0
    """Whose term is the present one; the other may go on for a while."""
    crashes: int = 0
    pauses: int = 0
    fail_overs: int = 0


def name(executor: int) -> str:
    return "ab"[executor]


def first(**faults: int) -> World:
    """`a` works on the object, and is cordoned. `faults`: how often each of them may happen."""
    seen = view_of(builders.report(), ADAPTER)
    holder = Placement(Holder("a", "ua"), 1, builders.wall(0), "new", None)
    stored = text(placed(seen, ADAPTER, holder), 1)
    return World(0, stored, (Body(active=1), Body()), (NEW, NEW), (stored, ""), **faults)


def text(content: Mapping[str, Any], version: int) -> str:
    metadata = {**content["metadata"], "resourceVersion": str(version)}
    return json.dumps({**content, "metadata": metadata}, sort_keys=True)


@cache
def read(stored: str) -> ObjectView:
    return view_of(json.loads(stored), ADAPTER)


def after_write(world: World, content: Mapping[str, Any]) -> World:
    return replace(world, stored=text(content, int(read(world.stored).resource_version) + 1))


def members(world: World) -> Members:
    living, removed = {}, {}
    for number, body in enumerate(world.bodies):
        id_, uid = name(number), f"u{name(number)}"
        if world.now - body.renewed >= LEASE:
            removed[uid] = Removed(id_, uid, Ending.EXPIRED)
        else:
            status = ExecutorStatus.DRAINING if number == 0 else ExecutorStatus.HEALTHY
            living[uid] = Executor(id_, uid, status, expires_at=(body.renewed + LEASE) * STEP_S)
    return Members(LEASE * STEP_S, living, removed, synced_at=0.0, changed_at=0.0)


def moves(world: World) -> Iterator[World]:
    faulty = world.now % 2 == 0
    for supervisor in (0, 1):
        yield from supervised(world, supervisor)
    for number, body in enumerate(world.bodies):
        if body.state == "well":
            yield from worked(world, number, body)
            if world.pauses and number == 0 and faulty:  # of the other one there is nothing to be taken
                yield replace(changed(world, number, replace(body, state="paused")), pauses=world.pauses - 1)
        elif body.state == "paused":
            if body.active and world.now - min(body.renewed, body.looked) >= DEADLINE:
                yield changed(world, number, replace(body, active=0, over=True))
            back = replace(body, state="well", over=body.over or world.now - body.renewed >= DEADLINE)
            yield changed(world, number, back)
        if body.state != "crashed" and world.crashes and faulty:
            yield replace(changed(world, number, replace(body, state="crashed", active=0)), crashes=world.crashes - 1)
    if world.fail_overs and faulty:
        caches = (world.caches[0], world.stored)
        yield replace(world, leader=1, caches=caches, fail_overs=world.fail_overs - 1)
    if world.now < LAST:
        yield passed(world)


def changed(world: World, number: int, body: Body) -> World:
    return replace(world, bodies=(body, world.bodies[1]) if number == 0 else (world.bodies[0], body))


def passed(world: World) -> World:
    """Five seconds later."""
    bodies = []
    for body in world.bodies:
        if body.state == "well" and not (body.over and body.active):
            body = replace(body, renewed=world.now + 1)
        if not body.active:
            body = replace(body, looked=world.now + 1)  # without work it does not matter
        if world.now + 1 - min(body.renewed, body.looked) >= LEASE:
            body = replace(body, active=0, over=True, looked=world.now + 1)  # it ended itself, if need be
        bodies.append(body)
    return replace(world, now=world.now + 1, bodies=(bodies[0], bodies[1]))


def supervised(world: World, number: int) -> Iterator[World]:
    """A supervisor's watch moves on, or it decides on what it knows. One that leads no longer does not even look."""
    if number > world.leader:
        return
    leads = number == world.leader
    if number == 1:
        world = replace(world, caches=(world.caches[0], world.stored))  # to halve the number of worlds
    elif leads and world.caches[number] != world.stored:
        yield replace(world, caches=(world.stored, world.caches[1]))
    decision = decided(world, number)
    memories = (decision.memory, world.memories[1]) if number == 0 else (world.memories[0], decision.memory)
    after = replace(world, memories=memories) if leads else world
    for action in decision.actions:
        assert not isinstance(action, Archive | Delete | TellCompleted)
        operations = [dict(each) for each in write_of(action, read(world.caches[number]), ADAPTER).operations]
        stored = json.loads(world.stored)
        patched = json_patch(stored, operations)
        if not isinstance(patched, dict) or patched["metadata"] == stored["metadata"]:
            continue
        if patched["metadata"]["resourceVersion"] != stored["metadata"]["resourceVersion"]:
            continue  # a conflict
        request = Request(Writer(Role.SUPERVISOR), patched, leader_term=world.leader + 1)
        if admit(stored, request, FENCE) is None:
            before, now = read(world.stored), view_of(patched, ADAPTER)
            assert now.epoch in (before.epoch, before.epoch + 1), "S3"
            assert number == world.leader or now.epoch == before.epoch, "S10"
            after = after_write(after, patched)
    if after != world:
        yield after


def decided(world: World, number: int) -> Decision:
    seconds = world.now * STEP_S
    found = members(world)

    def choose(_view: ObjectView, _among: object, /) -> str:
        return min(found.eligible)

    situation = Situation(seconds, builders.wall(seconds), found, choose, number + 1, CONFIG, ADAPTER)
    return decide(read(world.caches[number]), world.memories[number], situation)


def worked(world: World, number: int, body: Body) -> Iterator[World]:
    """What an executor that is connected does about the object, as its half of the protocol says."""
    view = read(world.stored)
    mine = view.executor_uid == f"u{name(number)}"
    if body.active and (not mine or view.epoch != body.active or view.drain is not None or body.over):
        yield changed(world, number, replace(body, active=0))
    elif body.over:
        yield changed(world, number, replace(body, over=False, forgone=view.epoch if mine else 0))
    elif mine and not body.active and (view.drain is not None or view.epoch == body.forgone):
        after = released(view.content, ADAPTER)
        assert admit(view.content, Request(Writer(Role.EXECUTOR, view.executor_uid), after), FENCE) is None
        yield after_write(world, after)
    elif mine and not body.active:
        other = world.bodies[1 - number]
        assert not other.active, f"S1: {name(number)} begins while the other one is at work: {world}"
        yield changed(world, number, replace(body, active=view.epoch, looked=world.now))
    elif body.active and body.looked != world.now:
        yield changed(world, number, replace(body, looked=world.now))


def calm(world: World) -> World:
    """Long afterwards, with the leader alone, everybody doing what he can, and nothing going wrong any more."""
    for _ in range(3 * LEASE):
        for number, body in enumerate(world.bodies):
            if body.state == "paused":
                back = replace(body, state="well", over=body.over or world.now - body.renewed >= DEADLINE)
                world = changed(world, number, back)
        for _ in range(4):
            for number in (0, 1):
                if world.bodies[number].state == "well":
                    world = next(worked(world, number, world.bodies[number]), world)
            for after in list(supervised(world, world.leader))[:1]:
                world = after
            for after in supervised(world, world.leader):
                world = after
        world = passed(world)
    return world


@pytest.mark.rule(
    "sharding:B12", "sharding:S1", "sharding:S3", "sharding:S5", "sharding:S10", "sharding:L2", "sharding:L3"
)
@pytest.mark.parametrize(
    "faults",
    [
        {},
        {"crashes": 1},
        pytest.param({"pauses": 1}, marks=pytest.mark.slow),
        pytest.param({"fail_overs": 1}, marks=pytest.mark.slow),
    ],
    ids=lambda faults: " and ".join(faults) or "none",
)
def test_every_order_of_a_hand_over(faults: dict[str, int]) -> None:
    """The moves assert what must hold; here: nobody is left without an executor, whatever has happened."""
    seen, todo = {first(**faults)}, [first(**faults)]
    ends: set[World] = set()
    while todo:
        world = todo.pop()
        if world.now == LAST:
            ends.add(world)
        for after in moves(world):
            if after not in seen:
                seen.add(after)
                todo.append(after)
    assert len(ends) > 100, "the world has shrunk"
    for world in sorted(ends, key=repr)[:: max(1, len(ends) // 300)]:
        settled = calm(world)
        assert read(settled.stored).executor == "b" or settled.bodies[1].state == "crashed", world
