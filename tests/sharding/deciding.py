"""Situations for tests of what a supervisor decides: executors as values, and a strategy that takes the first by id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from situate.sharding.assignment.holder_status import updated_memory
from situate.sharding.model.actions import Action, Archive, Delete, ReportCompleted, write_of
from situate.sharding.model.decision_inputs import INITIAL_MEMORY, ClusterView, Memory, Ownership
from situate.sharding.model.errors import NoHealthyExecutors
from situate.sharding.model.executors import EndReason, ExecutorStatus, LiveExecutor, Members, RemovedExecutor
from situate.sharding.model.field_paths import FieldPaths
from situate.sharding.model.object_view import ObjectView, view_of
from situate.sharding.model.supervisor_config import SupervisorConfig
from tests.conformance.ksched_world import World
from tests.sharding import builders

ADAPTER = FieldPaths()
T = 1000.0
"""Now, in most of the tests: everybody has been watching since 0."""
D = 15.0


def executor(id_: str, status: ExecutorStatus = ExecutorStatus.HEALTHY, **said: Any) -> LiveExecutor:
    """Of the incarnation `u` and its id, unless said otherwise."""
    return LiveExecutor(**{"id": id_, "uid": f"u{id_}", "status": status, "expires_at": T + D, **said})


def members(*executors: LiveExecutor, removed: tuple[str, ...] = (), **said: Any) -> Members:
    """`removed`: ids of executors that were proven dead."""
    return Members(
        **{
            "lease_s": D,
            "living": {each.uid: each for each in executors},
            "removed": {f"u{each}": RemovedExecutor(each, f"u{each}", EndReason.DEAD) for each in removed},
            "synced_at": 0.0,
            "changed_at": 0.0,
            **said,
        }
    )


def situation(*executors: LiveExecutor, now: float = T, removed: tuple[str, ...] = (), **said: Any) -> ClusterView:
    """`config` as a mapping; `members` instead of the executors."""
    config: Mapping[str, Any] = said.pop("config", {})
    found: Members = said.pop("members", None) or members(*executors, removed=removed)
    ownership: Ownership = said.pop("ownership", Ownership.OURS)

    def choose(_view: ObjectView, among: frozenset[str] | None, /) -> str:
        ids = [each for each in sorted(found.eligible) if among is None or each in among]
        if not ids:
            raise NoHealthyExecutors
        return ids[0]

    return ClusterView(
        **{
            "now": now,
            "wall": builders.wall(now),
            "members": found,
            "choose": choose,
            "term": 3,
            "config": SupervisorConfig(**config),
            "ownership": lambda _: ownership,
            "has_archiver": True,
            **said,
        }
    )


def view(uid: str = "o1", **said: Any) -> ObjectView:
    return view_of(builders.report(uid, **said), ADAPTER)


def held(by: str = "a", **said: Any) -> ObjectView:
    """An open object of this executor's usual incarnation."""
    return view(**{"executor": by, "executor_uid": f"u{by}", "epoch": 1, **said})


def known(seen: ObjectView, given: ClusterView, since: float = 0.0) -> Memory:
    """The memory of an object that has been so since then."""
    wall = builders.wall(since)
    return updated_memory(INITIAL_MEMORY, seen, ClusterView(since, wall, given.members, given.choose, 3, given.config))


def after(seen: ObjectView, *actions: Action) -> ObjectView:
    """The object when these writes have landed, which the fence must admit."""
    world = World(objects={seen.uid: dict(seen.content)})
    for action in actions:
        assert not isinstance(action, Archive | Delete | ReportCompleted), f"{action} is no patch"
        world.write(seen.uid, write_of(action, world.view(seen.uid), ADAPTER), 3)
    return world.view(seen.uid)


def acked(seen: ObjectView) -> ObjectView:
    """The object when its holder has released it."""
    world = World(objects={seen.uid: dict(seen.content)})
    world.release(seen.uid)
    return world.view(seen.uid)
