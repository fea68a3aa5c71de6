"""Chapters on sharding: executors are killed, drained and rolled while work continues.

The evidence is the log that the work itself writes. Some renders continue until the story releases them, so that there
are always objects to move. Short renders are created throughout.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from situate.cli.demo import chapters
from situate.cli.demo.chapters import Chapter, Unfulfilled
from situate.cli.demo.sharding.cast import ShardCast
from situate.cli.demo.sharding.objects import COUNT
from situate.cli.demo.sharding.scene import ShardScene, overlaps, runs
from situate.cli.demo.vpod.cast import Cast

_HELD, _SHORT, _FRAMES = 6, 6, 4


async def an_executor_is_killed(cast: Cast) -> str:
    shard = cast.shard
    await shard.install()
    await _until_so(shard.served, "the API server does not serve Renders")
    await until(shard, "executors run", lambda scene: _running(scene) == COUNT)
    await _until_so(shard.leased, f"not all {COUNT} executors hold a Lease")
    await shard.add(_HELD, _FRAMES, held=True)
    await shard.add(_SHORT, _FRAMES)
    before = await until(
        shard,
        "all are at work, and have been for a while",
        lambda scene: len(scene.held) == _HELD and scene.all_held_work() and all(each.kept for each in scene.held),
    )
    victim = max(before.executors, key=lambda each: len(_held_by(before, each.name))).name
    lost = _held_by(before, victim)
    killed_at = asyncio.get_running_loop().time()
    await shard.kill(victim)
    await shard.add(_SHORT, _FRAMES)
    after = await until(
        shard, f"what {victim} was at goes on elsewhere", lambda scene: scene.all_held_work(without=victim)
    )
    took_s = asyncio.get_running_loop().time() - killed_at
    kept = {each.name: each.kept for each in before.held}
    if forgot := [each.name for each in after.held if each.began_at < kept[each.name] and each.name in lost]:
        raise Unfulfilled(f"{forgot} began before what was kept of them: {_described(after)}")
    return (
        f"{victim} was killed with {len(lost)} renders at work; {took_s:.1f} s later, when its Lease had run out, "
        "others were at them, from the frame on that was kept last"
    )


async def executors_are_drained_and_rolled(cast: Cast) -> str:
    shard = cast.shard
    before = await until(shard, "all work", lambda scene: scene.all_held_work())
    drained = max(before.executors, key=lambda each: len(_held_by(before, each.name))).name
    held = len(_held_by(before, drained))
    await shard.drain(drained)
    await shard.add(_SHORT, _FRAMES)
    await until(
        shard,
        f"{drained} has nothing any more, and others go on",
        lambda scene: not scene.on(drained) and scene.all_held_work(without=drained),
    )
    old = {each.revision for each in before.executors}
    await shard.roll()
    await shard.add(_SHORT, _FRAMES)
    after = await until(
        shard,
        "all executors are new ones, and everything is at work",
        lambda scene: (
            len(scene.executors) == COUNT
            and not old & {each.revision for each in scene.executors}
            and _running(scene) == COUNT
            and scene.all_held_work()
            and shard.gone()
        ),
    )
    return (
        f"{drained} gave {held} renders back, each when it had stopped; then all {COUNT} executors were replaced, one "
        f"after the other, and {len(after.held)} renders moved on with them"
    )


async def what_is_done_leaves_the_cluster(cast: Cast) -> str:
    shard = cast.shard
    await shard.let_go()
    await until(shard, "nothing is left in the cluster", lambda scene: not scene.renders)
    archived = await shard.archived()
    failed = sorted(name for name, successful in archived.items() if not successful)
    missing = sorted(set(shard.made) - archived.keys())
    if missing or failed or len(archived) != len(shard.made):
        raise Unfulfilled(f"of {len(shard.made)} renders {missing} are not in the archive, and {failed} have failed")
    log = shard.log()
    if wrong := overlaps(log):
        raise Unfulfilled(f"the work's own log tells of what must not be: {'; '.join(wrong[:3])}")
    return (
        f"0 of {len(shard.made)} renders are left in the cluster, {len(archived)} are in the archive; their own log "
        f"tells of {runs(log)} runs, and of no two at one time"
    )


async def until(shard: ShardCast, what: str, holds: Callable[[ShardScene], bool]) -> ShardScene:
    """Return the first scene in which `holds`. Raises `Unfulfilled` if there is none in time."""
    return await chapters.until(shard.look, what, holds, _described)


async def _until_so(holds: Callable[[], Awaitable[bool]], otherwise: str) -> None:
    await chapters.until(holds, otherwise, bool, lambda _: otherwise)


def _held_by(scene: ShardScene, executor: str) -> list[str]:
    """Return the names of the held renders on an executor."""
    return [each.name for each in scene.on(executor) if each.held]


def _running(scene: ShardScene) -> int:
    return sum(each.state == "runs" for each in scene.executors)


def _described(scene: ShardScene) -> str:
    executors = ", ".join(f"{each.name} ({each.state}) {len(scene.on(each.name))}" for each in scene.executors)
    idle = [f"{each.name} of {each.executor or 'nobody'}" for each in scene.renders if not each.works]
    return f"{executors or 'no executors'}; {len(scene.renders)} renders, not at work: {', '.join(idle) or 'none'}"


SHARD_STORY = (
    Chapter(
        "An executor is killed",
        f"An operator with {COUNT} replicas: a supervisor spreads its renders. One replica gets SIGKILL.",
        an_executor_is_killed,
    ),
    Chapter(
        "Executors are drained and rolled",
        "One gives back what it has, then all are replaced, one at a time, while work goes on.",
        executors_are_drained_and_rolled,
    ),
    Chapter(
        "What is done leaves the cluster",
        "Completed renders go to an archive and are deleted; nothing ran twice.",
        what_is_done_leaves_the_cluster,
    ),
)
