"""Chapters on sharding: executors are killed, drained and rolled while work continues.

The evidence is the log that the work itself writes. Some renders continue until the story releases them, so that there
are always objects to move. Short renders are created throughout.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from situate.cli.demo import chapters
from situate.cli.demo.chapters import Chapter, Unfulfilled
from situate.cli.demo.sharding.demo_client import ShardCast
from situate.cli.demo.sharding.objects import COUNT
from situate.cli.demo.sharding.scene import ShardScene, overlaps, runs
from situate.cli.demo.vpod.demo_client import Cast

_HELD, _SHORT, _FRAMES = 6, 6, 4


async def an_executor_is_killed(cast: Cast) -> str:
    shard = cast.shard
    await shard.install()
    await _until_so(shard.served, "the API server serves Renders")
    await until(shard, f"{COUNT} executors run", lambda scene: _running(scene) == COUNT)
    await _until_so(shard.leased, f"{COUNT} executors hold a Lease")
    await shard.add(_HELD, _FRAMES, held=True)
    await shard.add(_SHORT, _FRAMES)
    before = await until(
        shard,
        "all long renders run and have a checkpoint",
        lambda scene: len(scene.held) == _HELD and scene.all_held_work() and all(each.kept for each in scene.held),
    )
    victim = max(before.executors, key=lambda each: len(_held_by(before, each.name))).name
    lost = _held_by(before, victim)
    killed_at = asyncio.get_running_loop().time()
    await shard.kill(victim)
    await shard.add(_SHORT, _FRAMES)
    after = await until(
        shard, f"other executors run the renders of {victim}", lambda scene: scene.all_held_work(without=victim)
    )
    took_s = asyncio.get_running_loop().time() - killed_at
    kept = {each.name: each.kept for each in before.held}
    if forgot := [each.name for each in after.held if each.began_at < kept[each.name] and each.name in lost]:
        raise Unfulfilled(f"{forgot} started again before their last checkpoints: {_described(after)}")
    return (
        f"{victim} was killed while it ran {len(lost)} renders; {took_s:.1f} s later, after its Lease had expired, "
        "other executors ran them from their last checkpoints"
    )


async def executors_are_drained_and_rolled(cast: Cast) -> str:
    shard = cast.shard
    before = await until(shard, "all long renders run", lambda scene: scene.all_held_work())
    drained = max(before.executors, key=lambda each: len(_held_by(before, each.name))).name
    held = len(_held_by(before, drained))
    await shard.drain(drained)
    await shard.add(_SHORT, _FRAMES)
    await until(
        shard,
        f"{drained} has no renders, and other executors run them",
        lambda scene: not scene.on(drained) and scene.all_held_work(without=drained),
    )
    old = {each.revision for each in before.executors}
    await shard.roll()
    await shard.add(_SHORT, _FRAMES)
    after = await until(
        shard,
        "all executors are new, and all long renders run",
        lambda scene: (
            len(scene.executors) == COUNT
            and not old & {each.revision for each in scene.executors}
            and _running(scene) == COUNT
            and scene.all_held_work()
            and shard.gone()
        ),
    )
    return (
        f"{drained} released {held} renders, each after it had stopped; then all {COUNT} executors were replaced one "
        f"by one, and {len(after.held)} renders moved to the new ones"
    )


async def what_is_done_leaves_the_cluster(cast: Cast) -> str:
    shard = cast.shard
    await shard.let_go()
    await until(shard, "no render is left in the cluster", lambda scene: not scene.renders)
    archived = await shard.archived()
    failed = sorted(name for name, successful in archived.items() if not successful)
    missing = sorted(set(shard.made) - archived.keys())
    if missing or failed or len(archived) != len(shard.made):
        raise Unfulfilled(f"of {len(shard.made)} renders, {missing} are not in the archive and {failed} have failed")
    log = shard.log()
    if wrong := overlaps(log):
        raise Unfulfilled(f"the log of the renders shows overlapping runs: {'; '.join(wrong[:3])}")
    return (
        f"0 of {len(shard.made)} renders are left in the cluster, {len(archived)} are in the archive; their log shows "
        f"{runs(log)} runs, and no two of one render at one time"
    )


async def until(shard: ShardCast, what: str, holds: Callable[[ShardScene], bool]) -> ShardScene:
    """Return the first scene in which `holds`. Raises `Unfulfilled` if there is none in time."""
    return await chapters.until(shard.look, what, holds, _described)


async def _until_so(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    await chapters.until(holds, what, bool, lambda _: "still false")


def _held_by(scene: ShardScene, executor: str) -> list[str]:
    """Return the names of the held renders on an executor."""
    return [each.name for each in scene.on(executor) if each.held]


def _running(scene: ShardScene) -> int:
    return sum(each.state == "runs" for each in scene.executors)


def _described(scene: ShardScene) -> str:
    executors = ", ".join(f"{each.name} ({each.state}) {len(scene.on(each.name))}" for each in scene.executors)
    idle = [f"{each.name} of {each.executor or 'no executor'}" for each in scene.renders if not each.works]
    return f"{executors or 'no executors'}; {len(scene.renders)} renders, not running: {', '.join(idle) or 'none'}"


SHARD_STORY = (
    Chapter(
        "An executor is killed",
        f"A supervisor assigns renders to the {COUNT} replicas of an operator. One replica gets SIGKILL.",
        an_executor_is_killed,
    ),
    Chapter(
        "Executors are drained and rolled",
        "One executor is drained, then all are replaced one at a time, while work continues.",
        executors_are_drained_and_rolled,
    ),
    Chapter(
        "Completed renders leave the cluster",
        "Completed renders go to an archive and are deleted. None ran twice at one time.",
        what_is_done_leaves_the_cluster,
    ),
)
