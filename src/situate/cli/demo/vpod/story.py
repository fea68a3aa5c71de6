"""Chapters of the demo. Each acts through the API only, and waits until its outcome is visible there."""

from __future__ import annotations

from collections.abc import Callable

from situate.cli.demo import chapters
from situate.cli.demo.chapters import Chapter, Unfulfilled
from situate.cli.demo.sharding.story import SHARD_STORY
from situate.cli.demo.spot.story import SPOT_STORY
from situate.cli.demo.vm.story import VM_STORY
from situate.cli.demo.vpod.cast import Cast
from situate.cli.demo.vpod.objects import NODES, REPORT
from situate.cli.demo.vpod.scene import Scene

_TASKS = 100


async def until(cast: Cast, what: str, holds: Callable[[Scene], bool]) -> Scene:
    """Return the first scene in which `holds`. Raises `Unfulfilled` if there is none in time."""
    return await chapters.until(cast.look, what, holds, _described)


async def sources_arrive(cast: Cast) -> str:
    for name, wanted in (("orders", 6), ("payments", 4), ("clicks", 2)):
        await cast.set_source(name, wanted)
    scene = await until(cast, "every source is placed", lambda scene: len(scene.sources) == 3 and scene.satisfied)
    _expect(scene.within_capacity, "a pod holds more than its capacity", scene)
    return f"12 vreplicas of 3 sources run on {len(scene.pods)} pods"


async def capacity_runs_out(cast: Cast) -> str:
    before = (await cast.look()).replicas
    await cast.set_source("clicks", 20)
    scene = await until(cast, "the StatefulSet has grown", lambda scene: scene.replicas > before and scene.satisfied)
    _expect(scene.within_capacity, "a pod holds more than its capacity", scene)
    return f"the StatefulSet grew from {before} to {scene.replicas} pods, no more than needed"


async def a_source_shrinks(cast: Cast) -> str:
    before = (await cast.look()).replicas
    gone_with_work: list[str] = []

    def watched(scene: Scene) -> bool:
        lost = [
            source.name for source in scene.sources if any(_ordinal(p) >= scene.replicas for p in source.placements)
        ]
        gone_with_work.extend(lost)
        return scene.replicas < before and scene.satisfied and scene.compact

    await cast.set_source("clicks", 4)
    scene = await until(cast, "the set is smaller and everything placed", watched)
    _expect(not gone_with_work, f"pods were cut while {gone_with_work} still ran there", scene)
    return f"vreplicas moved first, then the set shrank from {before} to {scene.replicas} pods"


async def a_node_is_lost(cast: Cast) -> str:
    await cast.set_source("orders", 10)
    scene = await until(cast, "every source is placed", lambda scene: scene.satisfied)
    victim = next(pod for pod in reversed(scene.pods) if scene.on(pod.name))
    lost = sum(scene.on(victim.name).values())
    await cast.lose_node(victim.node)
    await until(
        cast,
        f"the vreplicas of {victim.name} run elsewhere",
        lambda scene: scene.satisfied,
    )
    await cast.restore_node(victim.node)
    scene = await until(
        cast,
        "the node's pods are used again",
        lambda scene: scene.satisfied and bool(scene.on(victim.name)),
    )
    return f"{victim.node} went with {lost} vreplicas; they ran elsewhere, and moved back when it returned"


async def a_hundred_pods_are_placed(cast: Cast) -> str:
    kept = NODES[-1]
    await cast.keep_for_others(kept)
    await cast.add_report()
    # A scheduler with this reason has seen the taint. Nodes and Pods have separate watches, and Pods could arrive
    # first.
    await until(cast, f"{REPORT} waits and says why", lambda scene: "untolerated taint" in _why(scene))
    await cast.add_tasks(_TASKS)
    scene = await until(
        cast,
        "all pods but one have a node, and that one says why it has none",
        lambda scene: sum(scene.tasks_by_node.values()) == _TASKS and "untolerated taint" in _why(scene),
    )
    _expect(kept not in scene.tasks_by_node, f"pods are on {kept} against its taint", scene)
    why = _why(scene)
    changes = (await cast.explain(REPORT))["changes"]
    _expect(bool(changes), f"explain knows of no change that would help {REPORT}", scene)
    await cast.free(kept)
    await until(
        cast,
        f"{REPORT} is on {kept}, which is free now",
        lambda scene: (report := scene.task(REPORT)) is not None and report.node == kept,
    )
    placed = ", ".join(f"{count} on {node}" for node, count in scene.tasks_by_node.items())
    no, _, _ = why.partition(". ")
    return f"{placed}; {REPORT} waited ({no}); explain said: {changes[0]['text']}; the taint went, and it got {kept}"


async def the_leader_is_killed(cast: Cast) -> str:
    before = await until(
        cast,
        "somebody leads, and nothing is left to be spared or evened out",
        lambda scene: bool(scene.leader) and scene.satisfied and scene.compact and scene.even,
    )
    await cast.kill(before.leader)
    after = await until(cast, "another one leads", lambda scene: scene.leader not in ("", before.leader))
    _expect(
        {s.name: dict(s.placements) for s in after.sources} == {s.name: dict(s.placements) for s in before.sources},
        "placements moved with the leadership",
        after,
    )
    await cast.set_source("payments", 6)
    await until(cast, "the new leader places", lambda scene: scene.satisfied)
    return f"{after.leader} took over from {before.leader}; nothing moved, and new work is placed"


STORY = (
    Chapter("Sources arrive", "Three sources ask for consumers; the StatefulSet has no pods yet.", sources_arrive),
    Chapter("Capacity runs out", "clicks wants 20: more than the pods can hold.", capacity_runs_out),
    Chapter("A source shrinks", "clicks wants 4 again: pods are emptied, then the set is cut.", a_source_shrinks),
    Chapter("A node is lost", "A node disappears with its pods, and comes back later.", a_node_is_lost),
    Chapter(
        "A hundred pods are placed, one is not",
        "report needs an SSD, and the only node with one is kept for another team: why not, and what would help?",
        a_hundred_pods_are_placed,
    ),
    Chapter(
        "The leader is killed", "The process that decides gets SIGKILL; another one stands by.", the_leader_is_killed
    ),
    *SPOT_STORY,
    *SHARD_STORY,
    *VM_STORY,
)


def _expect(holds: bool, otherwise: str, scene: Scene) -> None:
    if not holds:
        raise Unfulfilled(f"{otherwise}: {_described(scene)}")


def _why(scene: Scene) -> str:
    """Return why the plain Pod that needs an SSD has no node; empty while there is no reason."""
    report = scene.task(REPORT)
    return report.why if report is not None and not report.node else ""


def _described(scene: Scene) -> str:
    sources = ", ".join(f"{s.name} {s.placed}/{s.wanted} on {dict(s.placements)}" for s in scene.sources)
    pods = ", ".join(f"{pod.name} {pod.state}" for pod in scene.pods)
    waiting = [task for task in scene.tasks if not task.node]
    tasks = f"{scene.tasks_by_node}, {len(waiting)} wait {[task.why for task in waiting[:3]]}"
    return (
        f"replicas {scene.replicas}; pods: {pods or 'none'}; sources: {sources or 'none'}; tasks: {tasks}; "
        f"leader: {scene.leader}"
    )


def _ordinal(pod: str) -> int:
    return int(pod.rpartition("-")[2])
