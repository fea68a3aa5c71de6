"""Chapters on VMs: a VM grows into capacity that is freed for it, and an unneeded migration is cancelled.

In the first chapter a neighbour moves away, and no other VM or Pod gets the freed capacity. In the second one, capacity
becomes free by itself while a migration is in progress, so the migration ends. An agent requests every size, from the
load.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from situate.cli.demo.chapters import Chapter, ChapterFailed, wait_for, wait_until
from situate.cli.demo.vm.demo_client import VmDemoClient
from situate.cli.demo.vm.objects import ASKS, CPUS, GROWS, INITIAL_CPUS, LEAVES, NODES, PLAIN, STALL_PERCENT, WAITS
from situate.cli.demo.vm.scene import DemoMigration, VmScene
from situate.cli.demo.vpod.demo_client import DemoClient

_CPU, _WHILE_S = 1000, 1.5
_WANTED_CPUS = INITIAL_CPUS[GROWS] + INITIAL_CPUS[LEAVES]
"""CPUs to which the first VM grows: its own and all of its neighbour's."""
_HOME, _OTHER = NODES


async def grow_machine(cast: DemoClient) -> str:
    vm = cast.vm
    await vm.install()
    await wait_for(vm.is_served, "the API server serves VirtualMachines")
    await wait_for(vm.are_nodes_usable, f"node {_HOME} is usable")
    for name in INITIAL_CPUS:
        await vm.add_machine(name)
    await vm.add_pod(PLAIN)
    await wait_until(
        vm.read_scene,
        f"node {_HOME} is full",
        lambda scene: scene.all_running_on() and not scene.free_on(_HOME) and _is_placed(scene, PLAIN),
    )
    await vm.add_node(_OTHER)
    await vm.set_load(GROWS, _WANTED_CPUS)
    copying = await wait_until(
        vm.read_scene,
        f"a migration of {LEAVES} for {GROWS} is copying",
        lambda scene: _has_stalled(scene.move_of(LEAVES)),
    )
    move = copying.move_of(LEAVES)
    assert move is not None
    if (move.beneficiary, move.claimed_cpus) != (GROWS, INITIAL_CPUS[LEAVES] * _CPU):
        raise ChapterFailed(f"the capacity of {LEAVES} is not reserved for {GROWS}: {copying}")
    await vm.set_load(ASKS, INITIAL_CPUS[ASKS] + 1)
    await vm.add_pod(WAITS)
    await wait_until(
        vm.read_scene,
        f"{ASKS} and {WAITS} have requested capacity, too",
        lambda scene: _requested_cpus(scene, ASKS) > INITIAL_CPUS[ASKS] * _CPU and _is_refused(scene, WAITS),
    )
    got: list[str] = []
    early: list[str] = []

    def seen(scene: VmScene) -> bool:
        got.extend(_takers_of_reserved_capacity(scene))
        early.extend([str(scene)] if has_grown_early(scene) else [])
        return True

    def done(scene: VmScene) -> bool:
        seen(scene)
        grown, moved = scene.machine(GROWS), scene.machine(LEAVES)
        return (
            (grown is not None and grown.used_cpus == grown.allowed_cpus == _WANTED_CPUS * _CPU)
            and (moved is not None and (moved.phase, moved.node) == ("Running", _OTHER))
            and not scene.moves
        )

    await _read_scenes_longer(vm, seen)
    await vm.finish_migration(LEAVES)
    after = await wait_until(vm.read_scene, f"{GROWS} has grown and {LEAVES} runs on {_OTHER}", done)
    if got:
        raise ChapterFailed(f"{got[0]} got some of the capacity of {LEAVES}: {after}")
    if early:
        raise ChapterFailed(f"{GROWS} grew while {LEAVES} was on its node: {early[0]}")
    return (
        f"{GROWS} grew from {INITIAL_CPUS[GROWS]} to {_WANTED_CPUS} CPUs after {LEAVES} had moved to {_OTHER}; {ASKS} "
        f"and {WAITS} "
        f"each requested 1 CPU meanwhile, and got none of the {INITIAL_CPUS[LEAVES]} freed CPUs"
    )


async def grow_into_freed_capacity(cast: DemoClient) -> str:
    vm = cast.vm
    await vm.delete_pod(WAITS)
    await vm.set_load(ASKS, INITIAL_CPUS[ASKS])
    await wait_until(
        vm.read_scene,
        f"{ASKS} requests its old size and {WAITS} is gone",
        lambda scene: _requested_cpus(scene, ASKS) == INITIAL_CPUS[ASKS] * _CPU and scene.pod(WAITS) is None,
    )
    await vm.allow_migration(ASKS)
    await vm.set_load(GROWS, _WANTED_CPUS + 1)
    before = await wait_until(
        vm.read_scene, f"a migration of {ASKS} for {GROWS} is copying", lambda scene: _has_stalled(scene.move_of(ASKS))
    )
    held = before.machine(ASKS)
    assert held is not None
    await _read_scenes_longer(vm, bool)
    freed_at = asyncio.get_running_loop().time()
    await vm.delete_pod(PLAIN)

    def done(scene: VmScene) -> bool:
        grown, stays = scene.machine(GROWS), scene.machine(ASKS)
        return (
            (grown is not None and grown.used_cpus == grown.allowed_cpus == (_WANTED_CPUS + 1) * _CPU)
            and (stays is not None and stays.phase == "Running")
            and not scene.moves
        )

    after = await wait_until(vm.read_scene, f"{GROWS} has grown and no migration is left", done)
    took_s = asyncio.get_running_loop().time() - freed_at
    stayed = after.machine(ASKS)
    assert stayed is not None
    if (stayed.node, stayed.pod) != (_HOME, held.pod):
        raise ChapterFailed(f"{ASKS} has moved nevertheless: {after}")
    return (
        f"the migration of {ASKS} was {STALL_PERCENT}% done when {PLAIN} ended; {took_s:.1f} s later {GROWS} had "
        f"{_WANTED_CPUS + 1} CPUs, and {ASKS} still ran in its old Pod"
    )


async def _read_scenes_longer(vm: VmDemoClient, seen: Callable[[VmScene], object]) -> None:
    """Read scenes for `_WHILE_S` seconds, so that a stalled migration is visible for long enough."""
    clock = asyncio.get_running_loop().time
    over = clock() + _WHILE_S

    def passed(scene: VmScene) -> bool:
        seen(scene)
        return clock() >= over

    await wait_until(vm.read_scene, f"{_WHILE_S:g} s have passed", passed)


def _has_stalled(move: DemoMigration | None) -> bool:
    """Return whether the migration has reached its stall."""
    return move is not None and move.copied is not None and round(100 * move.copied) == STALL_PERCENT


def _requested_cpus(scene: VmScene, name: str) -> int:
    found = scene.machine(name)
    return 0 if found is None else found.requested_cpus


def _is_placed(scene: VmScene, name: str) -> bool:
    found = scene.pod(name)
    return found is not None and bool(found.node)


def _is_refused(scene: VmScene, name: str) -> bool:
    found = scene.pod(name)
    return found is not None and not found.node and bool(found.reason)


def _takers_of_reserved_capacity(scene: VmScene) -> list[str]:
    """Return the VMs and Pods that got capacity reserved for another VM."""
    grown = [ASKS] if scene.granted_cpus(ASKS) > INITIAL_CPUS[ASKS] * _CPU else []
    return grown + ([WAITS] if _is_placed(scene, WAITS) else [])


def has_grown_early(scene: VmScene) -> bool:
    """Return whether the VM grew before its neighbour left."""
    leaves = scene.machine(LEAVES)
    return leaves is not None and leaves.node == _HOME and scene.granted_cpus(GROWS) > INITIAL_CPUS[GROWS] * _CPU


VM_STORY = (
    Chapter(
        "A VM grows, its neighbour moves",
        f"{GROWS} needs {_WANTED_CPUS} of the {CPUS} CPUs of a full node, so {LEAVES} moves away. Others request "
        "capacity, "
        "too.",
        grow_machine,
    ),
    Chapter(
        "Capacity appears, and a migration is cancelled",
        f"{GROWS} needs one more CPU, so {ASKS} starts to move. Then Pod {PLAIN} ends and frees one CPU.",
        grow_into_freed_capacity,
    ),
)
