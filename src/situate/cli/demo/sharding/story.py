"""Chapters on sharding: executors are killed, drained and rolled while work continues.

The evidence is the log that the work itself writes. Some renders continue until the story releases them, so that there
are always objects to move. Short renders are created throughout.
"""

from __future__ import annotations

import asyncio

from situate.cli.demo.chapters import Chapter, ChapterFailed, wait_for, wait_until
from situate.cli.demo.sharding.objects import EXECUTOR_COUNT
from situate.cli.demo.sharding.scene import ShardScene, log_errors, run_count
from situate.cli.demo.vpod.demo_client import DemoClient

_HELD, _SHORT, _FRAMES = 6, 6, 4


async def kill_executor(cast: DemoClient) -> str:
    shard = cast.shard
    await shard.install()
    await wait_for(shard.is_served, "the API server serves Renders")
    await wait_until(
        shard.read_scene, f"{EXECUTOR_COUNT} executors run", lambda scene: _running_count(scene) == EXECUTOR_COUNT
    )
    await wait_for(shard.all_leases_held, f"{EXECUTOR_COUNT} executors hold a Lease")
    await shard.add_renders(_HELD, _FRAMES, held=True)
    await shard.add_renders(_SHORT, _FRAMES)
    before = await wait_until(
        shard.read_scene,
        "all long renders run and have a checkpoint",
        lambda scene: (
            len(scene.held_renders) == _HELD
            and scene.all_held_in_progress()
            and all(each.checkpoint_frame for each in scene.held_renders)
        ),
    )
    victim = max(before.executors, key=lambda each: len(_held_render_names(before, each.name))).name
    lost = _held_render_names(before, victim)
    killed_at = asyncio.get_running_loop().time()
    await shard.kill(victim)
    await shard.add_renders(_SHORT, _FRAMES)
    after = await wait_until(
        shard.read_scene,
        f"other executors run the renders of {victim}",
        lambda scene: scene.all_held_in_progress(without=victim),
    )
    took_s = asyncio.get_running_loop().time() - killed_at
    kept = {each.name: each.checkpoint_frame for each in before.held_renders}
    if forgot := [each.name for each in after.held_renders if each.began_at < kept[each.name] and each.name in lost]:
        raise ChapterFailed(f"{forgot} started again before their last checkpoints: {after}")
    return (
        f"{victim} was killed while it ran {len(lost)} renders; {took_s:.1f} s later, after its Lease had expired, "
        "other executors ran them from their last checkpoints"
    )


async def drain_and_roll_executors(cast: DemoClient) -> str:
    shard = cast.shard
    before = await wait_until(shard.read_scene, "all long renders run", lambda scene: scene.all_held_in_progress())
    drained = max(before.executors, key=lambda each: len(_held_render_names(before, each.name))).name
    held = len(_held_render_names(before, drained))
    await shard.drain(drained)
    await shard.add_renders(_SHORT, _FRAMES)
    await wait_until(
        shard.read_scene,
        f"{drained} has no renders, and other executors run them",
        lambda scene: not scene.renders_on(drained) and scene.all_held_in_progress(without=drained),
    )
    old = {each.revision for each in before.executors}
    await shard.roll()
    await shard.add_renders(_SHORT, _FRAMES)
    after = await wait_until(
        shard.read_scene,
        "all executors are new, and all long renders run",
        lambda scene: (
            len(scene.executors) == EXECUTOR_COUNT
            and not old & {each.revision for each in scene.executors}
            and _running_count(scene) == EXECUTOR_COUNT
            and scene.all_held_in_progress()
            and shard.processes_ended()
        ),
    )
    return (
        f"{drained} released {held} renders, each after it had stopped; then all {EXECUTOR_COUNT} executors were "
        "replaced one "
        f"by one, and {len(after.held_renders)} renders moved to the new ones"
    )


async def archive_completed_renders(cast: DemoClient) -> str:
    shard = cast.shard
    await shard.release_renders()
    await wait_until(shard.read_scene, "no render is left in the cluster", lambda scene: not scene.renders)
    archived = await shard.archived_outcomes()
    failed = sorted(name for name, successful in archived.items() if not successful)
    missing = sorted(set(shard.created_names) - archived.keys())
    if missing or failed or len(archived) != len(shard.created_names):
        raise ChapterFailed(
            f"of {len(shard.created_names)} renders, {missing} are not in the archive and {failed} have failed"
        )
    log = shard.log_lines()
    if wrong := log_errors(log):
        raise ChapterFailed(f"the log of the renders shows overlapping runs: {'; '.join(wrong[:3])}")
    return (
        f"0 of {len(shard.created_names)} renders are left in the cluster, {len(archived)} are in the archive; their "
        "log shows "
        f"{run_count(log)} runs, and no two of one render at one time"
    )


def _held_render_names(scene: ShardScene, executor: str) -> list[str]:
    """Return the names of the held renders on an executor."""
    return [each.name for each in scene.renders_on(executor) if each.held]


def _running_count(scene: ShardScene) -> int:
    return sum(each.state == "runs" for each in scene.executors)


SHARD_STORY = (
    Chapter(
        "An executor is killed",
        f"A supervisor assigns renders to the {EXECUTOR_COUNT} replicas of an operator. One replica gets SIGKILL.",
        kill_executor,
    ),
    Chapter(
        "Executors are drained and rolled",
        "One executor is drained, then all are replaced one at a time, while work continues.",
        drain_and_roll_executors,
    ),
    Chapter(
        "Completed renders leave the cluster",
        "Completed renders go to an archive and are deleted. None ran twice at one time.",
        archive_completed_renders,
    ),
)
