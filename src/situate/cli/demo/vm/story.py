"""Chapters on VMs: a VM grows into capacity that is freed for it, and an unneeded migration is cancelled.

In the first chapter a neighbour moves away, and no other VM or Pod gets the freed capacity. In the second one, capacity
becomes free by itself while a migration is in progress, so the migration ends. An agent requests every size, from the
load.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from situate.cli.demo import chapters
from situate.cli.demo.chapters import Chapter, Unfulfilled
from situate.cli.demo.vm.demo_client import VmCast
from situate.cli.demo.vm.objects import ASKS, BEGIN, CPUS, GROWS, LEAVES, NODES, PLAIN, STALL_PERCENT, WAITS
from situate.cli.demo.vm.scene import DemoMove, VmScene
from situate.cli.demo.vpod.demo_client import Cast

_CPU, _WHILE_S = 1000, 1.5
_WANTED = BEGIN[GROWS] + BEGIN[LEAVES]
"""CPUs to which the first VM grows: its own and all of its neighbour's."""
_HOME, _OTHER = NODES


async def a_machine_grows(cast: Cast) -> str:
    vm = cast.vm
    await vm.install()
    await _until_so(vm.served, "the API server serves VirtualMachines")
    await _until_so(vm.usable, f"node {_HOME} is usable")
    for name in BEGIN:
        await vm.add_machine(name)
    await vm.add_pod(PLAIN)
    await until(
        vm, f"node {_HOME} is full", lambda scene: scene.run() and not scene.free(_HOME) and _placed(scene, PLAIN)
    )
    await vm.add_node(_OTHER)
    await vm.set_load(GROWS, _WANTED)
    copying = await until(
        vm, f"a migration of {LEAVES} for {GROWS} is copying", lambda scene: _copies(scene.move_of(LEAVES))
    )
    move = copying.move_of(LEAVES)
    assert move is not None
    if (move.beneficiary, move.claims) != (GROWS, BEGIN[LEAVES] * _CPU):
        raise Unfulfilled(f"the capacity of {LEAVES} is not reserved for {GROWS}: {_described(copying)}")
    await vm.set_load(ASKS, BEGIN[ASKS] + 1)
    await vm.add_pod(WAITS)
    await until(
        vm,
        f"{ASKS} and {WAITS} have requested capacity, too",
        lambda scene: _asked(scene, ASKS) > BEGIN[ASKS] * _CPU and _refused(scene, WAITS),
    )
    got: list[str] = []
    early: list[str] = []

    def seen(scene: VmScene) -> bool:
        got.extend(_thirds(scene))
        early.extend([_described(scene)] if grew_early(scene) else [])
        return True

    def done(scene: VmScene) -> bool:
        seen(scene)
        grown, moved = scene.machine(GROWS), scene.machine(LEAVES)
        return (
            (grown is not None and grown.uses == grown.may == _WANTED * _CPU)
            and (moved is not None and (moved.phase, moved.node) == ("Running", _OTHER))
            and not scene.moves
        )

    await _a_while(vm, seen)
    await vm.let_go(LEAVES)
    after = await until(vm, f"{GROWS} has grown and {LEAVES} runs on {_OTHER}", done)
    if got:
        raise Unfulfilled(f"{got[0]} got some of the capacity of {LEAVES}: {_described(after)}")
    if early:
        raise Unfulfilled(f"{GROWS} grew while {LEAVES} was on its node: {early[0]}")
    return (
        f"{GROWS} grew from {BEGIN[GROWS]} to {_WANTED} CPUs after {LEAVES} had moved to {_OTHER}; {ASKS} and {WAITS} "
        f"each requested 1 CPU meanwhile, and got none of the {BEGIN[LEAVES]} freed CPUs"
    )


async def room_appears(cast: Cast) -> str:
    vm = cast.vm
    await vm.end_pod(WAITS)
    await vm.set_load(ASKS, BEGIN[ASKS])
    await until(
        vm,
        f"{ASKS} requests its old size and {WAITS} is gone",
        lambda scene: _asked(scene, ASKS) == BEGIN[ASKS] * _CPU and scene.pod(WAITS) is None,
    )
    await vm.allow_moves(ASKS)
    await vm.set_load(GROWS, _WANTED + 1)
    before = await until(
        vm, f"a migration of {ASKS} for {GROWS} is copying", lambda scene: _copies(scene.move_of(ASKS))
    )
    held = before.machine(ASKS)
    assert held is not None
    await _a_while(vm, bool)
    freed_at = asyncio.get_running_loop().time()
    await vm.end_pod(PLAIN)

    def done(scene: VmScene) -> bool:
        grown, stays = scene.machine(GROWS), scene.machine(ASKS)
        return (
            (grown is not None and grown.uses == grown.may == (_WANTED + 1) * _CPU)
            and (stays is not None and stays.phase == "Running")
            and not scene.moves
        )

    after = await until(vm, f"{GROWS} has grown and no migration is left", done)
    took_s = asyncio.get_running_loop().time() - freed_at
    stayed = after.machine(ASKS)
    assert stayed is not None
    if (stayed.node, stayed.pod) != (_HOME, held.pod):
        raise Unfulfilled(f"{ASKS} has moved nevertheless: {_described(after)}")
    return (
        f"the migration of {ASKS} was {STALL_PERCENT}% done when {PLAIN} ended; {took_s:.1f} s later {GROWS} had "
        f"{_WANTED + 1} CPUs, and {ASKS} still ran in its old Pod"
    )


async def until(vm: VmCast, what: str, holds: Callable[[VmScene], bool]) -> VmScene:
    """Return the first scene in which `holds`. Raises `Unfulfilled` if there is none in time."""
    return await chapters.until(vm.look, what, holds, _described)


async def _a_while(vm: VmCast, seen: Callable[[VmScene], object]) -> None:
    """Read scenes for `_WHILE_S` seconds, so that a stalled migration is visible for long enough."""
    clock = asyncio.get_running_loop().time
    over = clock() + _WHILE_S

    def passed(scene: VmScene) -> bool:
        seen(scene)
        return clock() >= over

    await until(vm, f"{_WHILE_S:g} s have passed", passed)


async def _until_so(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    await chapters.until(holds, what, bool, lambda _: "still false")


def _copies(move: DemoMove | None) -> bool:
    """Return whether the migration has reached its stall."""
    return move is not None and move.copied is not None and round(100 * move.copied) == STALL_PERCENT


def _asked(scene: VmScene, name: str) -> int:
    found = scene.machine(name)
    return 0 if found is None else found.asks


def _placed(scene: VmScene, name: str) -> bool:
    found = scene.pod(name)
    return found is not None and bool(found.node)


def _refused(scene: VmScene, name: str) -> bool:
    found = scene.pod(name)
    return found is not None and not found.node and bool(found.why)


def _thirds(scene: VmScene) -> list[str]:
    """Return the VMs and Pods that got capacity reserved for another VM."""
    grown = [ASKS] if scene.granted(ASKS) > BEGIN[ASKS] * _CPU else []
    return grown + ([WAITS] if _placed(scene, WAITS) else [])


def grew_early(scene: VmScene) -> bool:
    """Return whether the VM grew before its neighbour left."""
    leaves = scene.machine(LEAVES)
    return leaves is not None and leaves.node == _HOME and scene.granted(GROWS) > BEGIN[GROWS] * _CPU


def _described(scene: VmScene) -> str:
    machines = ", ".join(
        f"{each.name} ({each.phase or 'new'}) on {each.node or 'none'} uses {each.uses}m of {each.may}m, requests "
        f"{each.asks}m"
        for each in scene.machines
    )
    moves = ", ".join(
        f"{each.machine} to {each.target} ({each.phase}, {each.copied}) for {each.beneficiary}" for each in scene.moves
    )
    pods = ", ".join(f"{each.name} on {each.node or 'none'} {each.why}" for each in scene.pods)
    return f"VMs: {machines or 'none'}; migrations: {moves or 'none'}; pods: {pods or 'none'}"


VM_STORY = (
    Chapter(
        "A VM grows, its neighbour moves",
        f"{GROWS} needs {_WANTED} of the {CPUS} CPUs of a full node, so {LEAVES} moves away. Others request capacity, "
        "too.",
        a_machine_grows,
    ),
    Chapter(
        "Capacity appears, and a migration is cancelled",
        f"{GROWS} needs one more CPU, so {ASKS} starts to move. Then Pod {PLAIN} ends and frees one CPU.",
        room_appears,
    ),
)
