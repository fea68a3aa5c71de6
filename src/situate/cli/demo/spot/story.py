"""Chapters on spot: all spot nodes end, once after a notice and once without. The number of serving Pods decides."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from situate.cli.demo import chapters
from situate.cli.demo.chapters import LOOK_S, WITHIN_S, Chapter, Unfulfilled
from situate.cli.demo.spot.demo_client import SpotCast
from situate.cli.demo.spot.objects import ENDS, FLOOR, GONE, NEW_SPOT_NODES, NOTICE_S, REPLICAS, SPOT_NODES
from situate.cli.demo.spot.scene import SpotScene
from situate.cli.demo.vpod.demo_client import Cast

_LEFT_OUT = "skipped: the API server is on another machine and cannot reach a webhook here"
_AFTER_S = 1.5
_WARNED, _UNWARNED = "web", "api"


async def until(
    cast: SpotCast, name: str, what: str, holds: Callable[[SpotScene], bool], within_s: float = WITHIN_S
) -> SpotScene:
    """Return the first scene of the workload in which `holds`. Every scene is shown, and counts for readiness.

    Raises `Unfulfilled` after `within_s` seconds.
    """
    return await chapters.until(lambda: cast.look(name), what, holds, _described, within_s)


async def nodes_end_after_a_notice(cast: Cast) -> str:
    spot = cast.spot
    if not spot.reachable:
        return _LEFT_OUT
    await spot.install()
    await _until(spot.answers, "the API server still does not call the webhook; see spot.log")
    await spot.add_spot(*SPOT_NODES)
    settled = await _settled(spot, _WARNED)
    leaving = settled.on_spot()
    await spot.taint_spot(ENDS, f"notice: {NOTICE_S} s")
    moved = await until(
        spot,
        _WARNED,
        "all Pods have left the spot nodes",
        lambda scene: not scene.on_spot() and scene.ready == REPLICAS == len(scene.replicas),
        within_s=NOTICE_S,
    )
    took_s = moved.at - settled.at
    await spot.end_spot("the nodes end")
    after = await _a_while(spot, _WARNED)
    least = after.least_since(settled.at)
    if least < REPLICAS:
        raise Unfulfilled(f"only {least} of {REPLICAS} Pods were ready at one time: {_described(after)}")
    return (
        f"{leaving} of {REPLICAS} Pods left {len(SPOT_NODES)} spot nodes within {took_s:.1f} s of the notice, each "
        f"when its replacement was ready; {least} of {REPLICAS} were ready at every check"
    )


async def nodes_end_without_a_notice(cast: Cast) -> str:
    spot = cast.spot
    if not spot.reachable:
        return _LEFT_OUT
    await spot.remove(_WARNED)
    await until(spot, _WARNED, f"the Pods of {_WARNED} are gone", lambda scene: not scene.replicas)
    await spot.add_spot(*NEW_SPOT_NODES)
    settled = await _settled(spot, _UNWARNED)
    lost = settled.on_spot()
    await spot.taint_spot(GONE, "the nodes are off")
    whole = await until(
        spot,
        _UNWARNED,
        "all Pods are ready again",
        lambda scene: scene.ready == REPLICAS == len(scene.replicas) and not scene.on_spot(),
    )
    after = await _a_while(spot, _UNWARNED)
    least = after.least_since(settled.at)
    if least < FLOOR:
        raise Unfulfilled(f"only {least} Pods were ready at one time, and the floor is {FLOOR}: {_described(after)}")
    return (
        f"{lost} of {REPLICAS} Pods were lost at once, and the floor of {FLOOR} on demand stayed ready; "
        f"{REPLICAS} were ready again after {whole.at - settled.at:.1f} s"
    )


async def _a_while(spot: SpotCast, name: str) -> SpotScene:
    """Read scenes for `_AFTER_S` seconds more, so that later effects are drawn and counted, too."""
    over = await spot.look(name)
    return await until(spot, name, f"{_AFTER_S:g} s have passed", lambda scene: scene.at - over.at >= _AFTER_S)


async def _until(holds: Callable[[], Awaitable[bool]], otherwise: str) -> None:
    clock = asyncio.get_running_loop().time
    deadline = clock() + WITHIN_S
    while not await holds():
        if clock() > deadline:
            raise Unfulfilled(f"after {WITHIN_S:g} s {otherwise}")
        await asyncio.sleep(LOOK_S)


async def _settled(spot: SpotCast, name: str) -> SpotScene:
    """Deploy the workload, and wait until its floor runs on demand and the rest on spot.

    It is deployed when all nodes are usable: Pods that found no space on spot nodes would stay on demand.
    """
    await until(spot, name, "all nodes run", lambda scene: all(node.state == "runs" for node in scene.nodes))
    await spot.send_scouts(name)
    await _until(partial(spot.recall_scouts, name), "not every node runs its test Pod")
    await spot.deploy(name)
    return await until(
        spot,
        name,
        f"{FLOOR} of {REPLICAS} Pods are on demand and most of the others on spot nodes",
        lambda scene: (
            scene.ready == REPLICAS == len(scene.replicas) and REPLICAS // 2 <= scene.on_spot() <= REPLICAS - FLOOR
        ),
    )


def _described(scene: SpotScene) -> str:
    nodes = ", ".join(f"{node.name} ({node.state}) {len(scene.on(node.name))}" for node in scene.nodes)
    return f"{scene.ready} of {len(scene.replicas)} Pods ready; {nodes}; {len(scene.on(''))} waiting"


SPOT_STORY = (
    Chapter(
        "Spot nodes end after a notice",
        f"Ten replicas, two of them on demand. All spot nodes get {NOTICE_S} s notice, and end when empty.",
        nodes_end_after_a_notice,
    ),
    Chapter(
        "Spot nodes end without a notice",
        "All spot machines fail at once and get a taint. If only their Nodes vanish, Kubernetes reacts after 40 s.",
        nodes_end_without_a_notice,
    ),
)
