"""Chapters on spot: all spot nodes end, once after a notice and once without. The number of serving Pods decides."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from situate.cli.demo import chapters
from situate.cli.demo.chapters import POLL_S, TIME_LIMIT_S, Chapter, ChapterFailed
from situate.cli.demo.spot.demo_client import SpotDemoClient
from situate.cli.demo.spot.objects import (
    FLOOR,
    NEW_SPOT_NODES,
    NOTICE_S,
    NOTICE_TAINT,
    REPLICAS,
    SHUTDOWN_TAINT,
    SPOT_NODES,
)
from situate.cli.demo.spot.scene import SpotScene
from situate.cli.demo.vpod.demo_client import DemoClient
from situate.cli.demo.wait import holds_in_time

_SKIPPED = "skipped: the API server is on another machine and cannot reach a webhook here"
_LINGER_S = 1.5
_WARNED, _UNWARNED = "web", "api"


async def wait_until(
    cast: SpotDemoClient, name: str, what: str, holds: Callable[[SpotScene], bool], within_s: float = TIME_LIMIT_S
) -> SpotScene:
    """Return the first scene of the workload in which `holds`. Every scene is shown, and counts for readiness.

    Raises `ChapterFailed` after `within_s` seconds.
    """
    return await chapters.wait_until(partial(cast.read_scene, name), what, holds, within_s)


async def end_nodes_with_notice(cast: DemoClient) -> str:
    spot = cast.spot
    if not spot.reachable:
        return _SKIPPED
    await spot.install()
    await _wait_for(spot.is_admission_ready, "the API server still does not call the webhook; see spot.log")
    await spot.add_spot_nodes(*SPOT_NODES)
    settled = await _deploy_and_settle(spot, _WARNED)
    leaving = settled.spot_replica_count()
    await spot.taint_spot_nodes(NOTICE_TAINT, f"notice: {NOTICE_S} s")
    moved = await wait_until(
        spot,
        _WARNED,
        "all Pods have left the spot nodes",
        lambda scene: not scene.spot_replica_count() and scene.ready_count == REPLICAS == len(scene.replicas),
        within_s=NOTICE_S,
    )
    took_s = moved.at - settled.at
    await spot.delete_spot_nodes("the nodes end")
    after = await _read_scenes_longer(spot, _WARNED)
    least = after.least_ready_since(settled.at)
    if least < REPLICAS:
        raise ChapterFailed(f"only {least} of {REPLICAS} Pods were ready at one time: {after}")
    return (
        f"{leaving} of {REPLICAS} Pods left {len(SPOT_NODES)} spot nodes within {took_s:.1f} s of the notice, each "
        f"when its replacement was ready; {least} of {REPLICAS} were ready at every check"
    )


async def end_nodes_without_notice(cast: DemoClient) -> str:
    spot = cast.spot
    if not spot.reachable:
        return _SKIPPED
    await spot.remove_deployment(_WARNED)
    await wait_until(spot, _WARNED, f"the Pods of {_WARNED} are gone", lambda scene: not scene.replicas)
    await spot.add_spot_nodes(*NEW_SPOT_NODES)
    settled = await _deploy_and_settle(spot, _UNWARNED)
    lost = settled.spot_replica_count()
    await spot.taint_spot_nodes(SHUTDOWN_TAINT, "the nodes are off")
    whole = await wait_until(
        spot,
        _UNWARNED,
        "all Pods are ready again",
        lambda scene: scene.ready_count == REPLICAS == len(scene.replicas) and not scene.spot_replica_count(),
    )
    after = await _read_scenes_longer(spot, _UNWARNED)
    least = after.least_ready_since(settled.at)
    if least < FLOOR:
        raise ChapterFailed(f"only {least} Pods were ready at one time, and the floor is {FLOOR}: {after}")
    return (
        f"{lost} of {REPLICAS} Pods were lost at once, and the floor of {FLOOR} on demand stayed ready; "
        f"{REPLICAS} were ready again after {whole.at - settled.at:.1f} s"
    )


async def _read_scenes_longer(spot: SpotDemoClient, name: str) -> SpotScene:
    """Read scenes for `_LINGER_S` seconds more, so that later effects are drawn and counted, too."""
    over = await spot.read_scene(name)
    return await wait_until(spot, name, f"{_LINGER_S:g} s have passed", lambda scene: scene.at - over.at >= _LINGER_S)


async def _wait_for(holds: Callable[[], Awaitable[bool]], otherwise: str) -> None:
    if not await holds_in_time(holds, TIME_LIMIT_S, POLL_S):
        raise ChapterFailed(f"after {TIME_LIMIT_S:g} s {otherwise}")


async def _deploy_and_settle(spot: SpotDemoClient, name: str) -> SpotScene:
    """Deploy the workload, and wait until its floor runs on demand and the rest on spot.

    It is deployed when all nodes are usable: Pods that found no space on spot nodes would stay on demand.
    """
    await wait_until(spot, name, "all nodes run", lambda scene: all(node.state == "runs" for node in scene.nodes))
    await spot.create_scouts(name)
    await _wait_for(partial(spot.delete_running_scouts, name), "not every node runs its test Pod")
    await spot.deploy(name)
    return await wait_until(
        spot,
        name,
        f"{FLOOR} of {REPLICAS} Pods are on demand and most of the others on spot nodes",
        lambda scene: (
            scene.ready_count == REPLICAS == len(scene.replicas)
            and REPLICAS // 2 <= scene.spot_replica_count() <= REPLICAS - FLOOR
        ),
    )


SPOT_STORY = (
    Chapter(
        "Spot nodes end after a notice",
        f"Ten replicas, two of them on demand. All spot nodes get {NOTICE_S} s notice, and end when empty.",
        end_nodes_with_notice,
    ),
    Chapter(
        "Spot nodes end without a notice",
        "All spot machines fail at once and get a taint. If only their Nodes vanish, Kubernetes reacts after 40 s.",
        end_nodes_without_notice,
    ),
)
