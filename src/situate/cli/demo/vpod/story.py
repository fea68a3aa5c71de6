"""Chapters of the demo. Each acts through the API only, and waits until its outcome is visible there."""

from __future__ import annotations

from situate.cli.demo.chapters import Chapter, ChapterFailed, wait_until
from situate.cli.demo.sharding.story import SHARD_STORY
from situate.cli.demo.spot.story import SPOT_STORY
from situate.cli.demo.vm.story import VM_STORY
from situate.cli.demo.vpod.demo_client import DemoClient
from situate.cli.demo.vpod.objects import NODES, REPORT
from situate.cli.demo.vpod.scene import VpodScene

_TASKS = 100


async def place_sources(cast: DemoClient) -> str:
    for name, wanted in (("orders", 6), ("payments", 4), ("clicks", 2)):
        await cast.set_source(name, wanted)
    scene = await wait_until(
        cast.read_scene, "every source is placed", lambda scene: len(scene.sources) == 3 and scene.is_satisfied
    )
    _expect(scene.is_within_capacity, "a Pod has more vreplicas than its capacity", scene)
    return f"12 vreplicas of 3 sources run on {len(scene.pods)} Pods"


async def exceed_capacity(cast: DemoClient) -> str:
    before = (await cast.read_scene()).replicas
    await cast.set_source("clicks", 20)
    scene = await wait_until(
        cast.read_scene, "the StatefulSet has grown", lambda scene: scene.replicas > before and scene.is_satisfied
    )
    _expect(scene.is_within_capacity, "a Pod has more vreplicas than its capacity", scene)
    return f"the StatefulSet grew from {before} to {scene.replicas} Pods, no more than needed"


async def shrink_source(cast: DemoClient) -> str:
    before = (await cast.read_scene()).replicas
    gone_with_work: list[str] = []

    def watched(scene: VpodScene) -> bool:
        lost = [
            source.name for source in scene.sources if any(_ordinal(p) >= scene.replicas for p in source.placements)
        ]
        gone_with_work.extend(lost)
        return scene.replicas < before and scene.is_satisfied and scene.is_compact

    await cast.set_source("clicks", 4)
    scene = await wait_until(cast.read_scene, "the StatefulSet is smaller and every source is placed", watched)
    _expect(not gone_with_work, f"Pods were removed while vreplicas of {gone_with_work} ran on them", scene)
    return f"vreplicas moved first, then the StatefulSet shrank from {before} to {scene.replicas} Pods"


async def lose_node(cast: DemoClient) -> str:
    await cast.set_source("orders", 10)
    scene = await wait_until(cast.read_scene, "every source is placed", lambda scene: scene.is_satisfied)
    victim = next(pod for pod in reversed(scene.pods) if scene.vreplicas_on(pod.name))
    lost = sum(scene.vreplicas_on(victim.name).values())
    await cast.lose_node(victim.node)
    await wait_until(
        cast.read_scene,
        f"the vreplicas of {victim.name} run on other Pods",
        lambda scene: scene.is_satisfied,
    )
    await cast.restore_node(victim.node)
    scene = await wait_until(
        cast.read_scene,
        f"{victim.name} has vreplicas again",
        lambda scene: scene.is_satisfied and bool(scene.vreplicas_on(victim.name)),
    )
    return (
        f"{victim.node} was lost with {lost} vreplicas; they ran on other Pods, and moved back when the node returned"
    )


async def place_hundred_pods(cast: DemoClient) -> str:
    kept = NODES[-1]
    await cast.reserve_for_team(kept)
    await cast.add_report()
    # A scheduler with this reason has seen the taint. Nodes and Pods have separate watches, and Pods could arrive
    # first.
    await wait_until(
        cast.read_scene,
        f"Pod {REPORT} waits because of the taint",
        lambda scene: "untolerated taint" in _unscheduled_reason(scene),
    )
    await cast.add_tasks(_TASKS)
    scene = await wait_until(
        cast.read_scene,
        f"{_TASKS} Pods have a node, and Pod {REPORT} waits because of the taint",
        lambda scene: sum(scene.tasks_by_node.values()) == _TASKS and "untolerated taint" in _unscheduled_reason(scene),
    )
    _expect(kept not in scene.tasks_by_node, f"Pods are on {kept} despite its taint", scene)
    why = _unscheduled_reason(scene)
    changes = (await cast.explain(REPORT))["changes"]
    _expect(bool(changes), f"explain names no change that would help Pod {REPORT}", scene)
    await cast.remove_taint(kept)
    await wait_until(
        cast.read_scene,
        f"Pod {REPORT} is on {kept}, which has no taint now",
        lambda scene: (report := scene.task(REPORT)) is not None and report.node == kept,
    )
    placed = ", ".join(f"{count} on {node}" for node, count in scene.tasks_by_node.items())
    no, _, _ = why.partition(". ")
    return (
        f"{placed}. Pod {REPORT} waited ({no}). explain suggested: {changes[0]['text']}. Without the taint, Pod "
        f"{REPORT} got {kept}"
    )


async def kill_leader(cast: DemoClient) -> str:
    before = await wait_until(
        cast.read_scene,
        "a process leads, and no Pod is left to remove or to even out",
        lambda scene: bool(scene.leader) and scene.is_satisfied and scene.is_compact and scene.is_even,
    )
    await cast.kill(before.leader)
    after = await wait_until(
        cast.read_scene, "another process leads", lambda scene: scene.leader not in ("", before.leader)
    )
    _expect(
        {s.name: dict(s.placements) for s in after.sources} == {s.name: dict(s.placements) for s in before.sources},
        "placements changed with the leader",
        after,
    )
    await cast.set_source("payments", 6)
    await wait_until(cast.read_scene, "the new leader places vreplicas", lambda scene: scene.is_satisfied)
    return f"{after.leader} took over from {before.leader}; no vreplica moved, and new ones are placed"


STORY = (
    Chapter("Sources arrive", "Three sources request consumers; the StatefulSet has no Pods yet.", place_sources),
    Chapter(
        "Capacity runs out", "clicks requests 20 vreplicas, more than the Pods have capacity for.", exceed_capacity
    ),
    Chapter(
        "A source shrinks",
        "clicks requests 4 again: vpod empties Pods, then scales the StatefulSet down.",
        shrink_source,
    ),
    Chapter("A node is lost", "A node is lost with its Pods, and returns later.", lose_node),
    Chapter(
        "A hundred Pods are placed, one is not",
        "Pod report needs an SSD, but the only node with an SSD has a taint. explain names the cause and a fix.",
        place_hundred_pods,
    ),
    Chapter("The leader is killed", "The leading process gets SIGKILL; a second process leads.", kill_leader),
    *SPOT_STORY,
    *SHARD_STORY,
    *VM_STORY,
)


def _expect(holds: bool, otherwise: str, scene: VpodScene) -> None:
    if not holds:
        raise ChapterFailed(f"{otherwise}: {scene}")


def _unscheduled_reason(scene: VpodScene) -> str:
    """Return why the plain Pod that needs an SSD has no node; empty while there is no reason."""
    report = scene.task(REPORT)
    return report.reason if report is not None and not report.node else ""


def _ordinal(pod: str) -> int:
    return int(pod.rpartition("-")[2])
