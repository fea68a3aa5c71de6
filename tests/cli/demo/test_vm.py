"""What the chapters on virtual machines see and draw: values and pictures, without a cluster."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, Group

from situate.cli.demo.plain_pods import DemoPlainPod
from situate.cli.demo.vm.objects import (
    CPUS,
    INITIAL_CPUS,
    NODES,
    SCHEDULER,
    agent_configuration,
    configuration,
    load,
    machine,
    pod,
)
from situate.cli.demo.vm.picture import draw_scene
from situate.cli.demo.vm.scene import DemoMachine, DemoMigration, VmScene
from situate.cli.demo.vm.story import has_grown_early
from situate.cli.input.agent_file import agent_settings
from situate.cli.input.configuration import SECTIONS, vm_settings
from situate.runtime.configuration.file import parse_configuration
from situate.vm.agent.decide.scaling import Scaling

HOME, OTHER = NODES
BACKUP = DemoPlainPod("backup", HOME, "")


def running(name: str, cpus: int, *, node: str = HOME, asks: int = 0, phase: str = "Running") -> DemoMachine:
    milli = 1000 * cpus
    return DemoMachine(name, node, f"{name}-1", phase, milli, 1000 * asks or milli, milli)


def leaving(name: str = "mail", *, ends: bool = False) -> DemoMigration:
    return DemoMigration(name, HOME, OTHER, "Running", 0.4, "shop", 4000, ends)


def scene(*moves: DemoMigration, pods: tuple[DemoPlainPod, ...] = (BACKUP,)) -> VmScene:
    machines = (running("shop", 2, asks=6), running("mail", 4, phase="Migrating"), running("docs", 1, asks=2))
    return VmScene(NODES, machines, moves, pods)


def shown(seen: VmScene, width: int = 80) -> list[str]:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(Group(*draw_scene(seen)))
    return [line.rstrip() for line in console.export_text().splitlines()]


@pytest.mark.parametrize(
    ("seen", "free", "coming"),
    [
        pytest.param(scene(), (0, 8000), 0, id="nobody moves"),
        pytest.param(scene(leaving()), (0, 4000), 1, id="room is reserved where it comes to"),
        pytest.param(scene(leaving(ends=True)), (0, 8000), 0, id="and not once the move ends"),
        pytest.param(scene(pods=()), (1000, 8000), 0, id="a pod has ended"),
    ],
)
def test_what_is_booked_or_reserved_is_not_free(seen: VmScene, free: tuple[int, int], coming: int) -> None:
    assert (seen.free_on(HOME), seen.free_on(OTHER)) == free
    assert len(seen.arriving_on(OTHER)) == coming


@pytest.mark.parametrize(
    ("shop", "mail", "early"),
    [
        pytest.param(2, HOME, False, id="as it was"),
        pytest.param(6, HOME, True, id="before its neighbour has left"),
        pytest.param(6, OTHER, False, id="once it has left"),
    ],
)
def test_who_grows_before_the_neighbour_has_left_spoils_the_chapter(shop: int, mail: str, early: bool) -> None:
    machines = (running("shop", shop), running("mail", 4, node=mail, phase="Migrating"), running("docs", 1))
    assert has_grown_early(VmScene(NODES, machines, (leaving(),), (BACKUP,))) == early


def test_all_run_only_if_there_are_any() -> None:
    assert not VmScene((HOME,), (), (), ()).all_running_on()
    assert not scene().all_running_on(), "one of them migrates"
    assert VmScene((HOME,), (running("shop", 2),), (), ()).all_running_on()


def test_bars_are_as_long_as_nodes_are_large_and_say_who_leaves_for_whom() -> None:
    waiting = DemoPlainPod("batch", "", "0/2 nodes are available: 1 too small. preemption: none")
    lines = shown(scene(leaving(), pods=(BACKUP, waiting)))
    first, second = (line.partition(" ")[2] for line in lines[1:3])
    assert first == "▏shop 2       ▏mail 4 leaves, then shop's ▏docs 1▏backup▏"
    assert second == "▏→ mail: reserved           ▏free                       ▏"
    assert {len(line) for line in (first, second)} == {7 * CPUS + 1}
    assert lines[4] == f"mail: {HOME} → {OTHER}, copying, 40% done; CPUs reserved for shop"
    assert [line.split() for line in lines[7:11]] == [
        ["shop", "2", "2", "6", "short"],
        ["mail", "4", "4", "4"],
        ["docs", "1", "1", "2", "short"],
        ["batch", "0", "0", "1", *["waits:", "0/2", "nodes", "are", "available:", "1", "too", "small"]],
    ]


def test_a_scene_without_machines_can_be_drawn() -> None:
    assert "no migration" in shown(VmScene((), (), (), ()))


def requests(made: dict[str, Any]) -> int:
    (container,) = made["spec"]["containers"]
    return int(container["resources"]["requests"]["cpu"])


def test_the_storys_own_settings_are_valid_and_fill_the_first_node(tmp_path: Path) -> None:
    parsed, mistakes = parse_configuration(json.dumps(configuration(4711)), SECTIONS)
    assert mistakes == ()
    assert parsed is not None
    settings = vm_settings(parsed)
    assert settings is not None
    file = tmp_path / "agent.yaml"
    file.write_text(json.dumps(agent_configuration(4711, tmp_path)))
    assert agent_settings(file, ()).scheduler.scheduler_name == settings.scheduler_name == SCHEDULER
    assert sum(INITIAL_CPUS.values()) + requests(pod("backup")) == CPUS
    assert {machine(name)["spec"]["schedulerName"] for name in INITIAL_CPUS} == {SCHEDULER}
    assert json.loads(load(6)) == {"load1": pytest.approx(6 * Scaling().load_average_fraction_target)}
