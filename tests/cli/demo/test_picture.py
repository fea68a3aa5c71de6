"""The demo's screen at the sizes of terminals: chapter, scene and hints are there, however many steps are over."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console
from rich.live import Live

from situate.cli.demo.demo_processes import hints
from situate.cli.demo.plain_pods import DemoPlainPod
from situate.cli.demo.sharding.scene import DemoExecutor, DemoRender, ShardScene
from situate.cli.demo.spot.objects import NEW_SPOT_NODES, ON_DEMAND_NODES, SPOT_NODES
from situate.cli.demo.spot.scene import Replica, SpotNode, SpotScene
from situate.cli.demo.vm import objects
from situate.cli.demo.vm.scene import DemoMachine, DemoMigration, VmScene
from situate.cli.demo.vpod.picture import AnyScene, Picture
from situate.cli.demo.vpod.scene import DemoPod, DemoSource, VpodScene
from situate.cli.demo.vpod.story import STORY

WHY = (
    "0/4 nodes are available: 1 node(s) had untolerated taint {team: b}, 3 node(s) didn't match Pod's node "
    "affinity/selector. no new claims to deallocate, preemption: 0/4 nodes are available"
)
KUBECONFIG = Path("/tmp/situate-demo-abcdefgh/kubeconfig")
SIZES = [(80, 24), (100, 32), (160, 50)]


def placements() -> VpodScene:
    pods = tuple(DemoPod(f"demo-dispatcher-{number}", number, "demo-a", "Running") for number in range(4))
    sources = tuple(DemoSource(name, 6, {pods[0].name: 2}) for name in ("orders", "payments", "clicks"))
    tasks = (*(DemoPlainPod(f"task-{number}", "demo-a", "") for number in range(40)), DemoPlainPod("report", "", WHY))
    return VpodScene(4, pods, sources, tasks, ("demo-a", "demo-b", "demo-c"), "scheduler-1", 8)


def spot() -> SpotScene:
    names = (*ON_DEMAND_NODES, *SPOT_NODES, *NEW_SPOT_NODES)
    nodes = tuple(SpotNode(name, "spot", "ends") for name in names)
    replicas = tuple(Replica(f"r{number}", names[number % 8], "spot", True, False) for number in range(10))
    waits = Replica("r10", "", "spot", False, False)
    readiness = tuple((number / 2, 8 + number % 3) for number in range(100))
    return SpotScene("web", (*replicas, waits), nodes, 50.0, readiness, ((40.0, "all spot nodes end"),))


def shard() -> ShardScene:
    executors = tuple(DemoExecutor(f"renders-{number}", "runs", "1") for number in range(4))
    renders = tuple(DemoRender(f"r{n}", f"renders-{n % 4}", True, n % 2 == 0, False) for n in range(24))
    return ShardScene(executors, renders, 40)


def vm() -> VmScene:
    machines = tuple(
        DemoMachine(name, objects.NODES[0], f"{name}-x", "Running", 1000 * cpus, 6000, 1000 * cpus)
        for name, cpus in objects.INITIAL_CPUS.items()
    )
    moves = (DemoMigration(objects.LEAVES, *objects.NODES, "Running", 0.4, objects.GROWS, 4000, False),)
    pods = (DemoPlainPod("backup", objects.NODES[0], ""), DemoPlainPod("batch", "", WHY))
    return VmScene(objects.NODES, machines, moves, pods)


SCENES: dict[str, tuple[AnyScene, list[str]]] = {
    "placements": (placements(), ["demo-dispatcher-3", "leader: scheduler-1", "0/4 nodes are available"]),
    "spot": (spot(), [*SPOT_NODES, "waiting", "ready: 10 of 10", "leaves when its replacement is ready"]),
    "shard": (shard(), ["renders-3", "24 in the cluster, 16 moved to the archive"]),
    "vm": (vm(), ["demo-vm-2", "copying, 40% done", "batch"]),
}


def screen(size: tuple[int, int], seen: AnyScene | None, done: list[str], *, number: int = 4) -> list[str]:
    """The lines that a terminal of that size shows."""
    out = io.StringIO()
    console = Console(
        file=out, width=size[0], height=size[1], force_terminal=True, color_system=None, legacy_windows=False
    )
    chapter = STORY[number]
    picture = Picture(seen, chapter.title, chapter.caption, done, hints(KUBECONFIG))
    with Live(console=console, auto_refresh=False, screen=True) as live:
        out.seek(0)
        out.truncate()
        live.update(picture, refresh=True)
        shown = out.getvalue()
    return shown.replace("\x1b[H", "").split("\x1b[")[0].splitlines()


def outcomes() -> list[str]:
    return [f"{number}. {each.title}: {'what came of it, at length, ' * 8}" for number, each in enumerate(STORY, 1)]


@pytest.mark.finding("N25")
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", SCENES)
def test_chapter_scene_and_hints_are_on_the_screen_when_every_step_is_over(size: tuple[int, int], name: str) -> None:
    seen, parts = SCENES[name]
    lines = screen(size, seen, outcomes())
    assert len(lines) == size[1]
    assert {len(line) for line in lines} == {size[0]}
    text = "\n".join(lines)
    for part in (STORY[4].title, *parts, f"export KUBECONFIG={KUBECONFIG}", "Ctrl-C here ends the demo"):
        assert part in text, f"{part}\n{text}"
    assert "Ctrl-C" in lines[-2], "the last line of the panel, always"


@pytest.mark.finding("N25")
@pytest.mark.parametrize("size", SIZES)
def test_a_finished_step_is_one_line_and_the_oldest_are_dropped(size: tuple[int, int]) -> None:
    lines = screen(size, vm(), outcomes())
    steps = [line for line in lines if "✓" in line]
    assert steps, lines
    numbers = [int(line.split("✓ ")[1].partition(".")[0]) for line in steps]
    assert numbers == list(range(len(STORY) - len(steps) + 1, len(STORY) + 1)), "the newest, in their order"


@pytest.mark.finding("N25")
def test_a_terminal_that_is_too_small_says_so_and_still_tells_how_to_end() -> None:
    lines = screen((60, 10), spot(), outcomes())
    assert len(lines) == 10
    assert any("more lines: enlarge the terminal" in line for line in lines)
    assert "Ctrl-C here ends the demo" in lines[-2]
