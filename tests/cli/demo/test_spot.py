"""What the chapters on spot see and draw: values and pictures, without a cluster."""

from __future__ import annotations

import io

import pytest
from rich.console import Console, Group

from situate.cli.demo.spot.objects import (
    NEW_SPOT_NODES,
    NOTICE_S,
    REPLICAS,
    SPOT_NODES,
    configuration,
    installation_objects,
    node,
)
from situate.cli.demo.spot.picture import draw_scene
from situate.cli.demo.spot.scene import Replica, SpotNode, SpotScene
from situate.objects.settings.section import parse_section
from situate.spot.config.settings import SpotSettings
from situate.spot.rebalance.node_termination import MARGIN_S

NODES = (SpotNode("demo-od-1", "on-demand", "runs"), SpotNode("demo-spot-1", "spot", "ends"))


def replicas(on_demand: int, spot: int, *, released: bool = False) -> tuple[Replica, ...]:
    held = (Replica(f"a-{n}", "demo-od-1", "on-demand", is_serving=True, released=False) for n in range(on_demand))
    return (*held, *(Replica(f"b-{n}", "demo-spot-1", "spot", is_serving=True, released=released) for n in range(spot)))


def seen(*counts: int, every_s: float = 0.5) -> SpotScene:
    scene: SpotScene | None = None
    for number, count in enumerate(counts):
        scene = SpotScene("web", replicas(count, 0), NODES, number * every_s).with_history_of(scene)
    assert scene is not None
    return scene


def shown(scene: SpotScene) -> list[str]:
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(Group(*draw_scene(scene)))
    return console.export_text().splitlines()


def test_what_served_is_remembered_and_the_least_of_it_told() -> None:
    scene = seen(3, 10, 10, 4, 10)
    assert [ready for _, ready in scene.readiness] == [3, 10, 10, 4, 10]
    assert scene.least_ready_since(0) == 3
    assert scene.least_ready_since(0.5) == 4
    assert scene.least_ready_since(2.0) == 10
    other = SpotScene("api", (), NODES, 9.0).with_history_of(scene)
    assert other.readiness == ((9.0, 0),), "another workload begins anew"


def test_the_chart_falls_where_readiness_fell_and_bears_the_marks() -> None:
    scene = seen(10, 10, 2, 9, 10)
    lines = shown(scene.with_mark("the nodes end"))
    chart = {line[:3].strip(): line[4:] for line in lines if line[:3].strip().isdigit()}
    assert chart == {"10": "██ ▄█", "8": "██ ██", "6": "██ ██", "4": "██ ██", "2": "█████"}
    assert "    ────▲" in lines
    assert any("▲ the nodes end" in line for line in lines)
    assert any(line.startswith("ready: 10 of 10, never less than 10 since ▲; floor 2") for line in lines)


def test_a_long_time_shows_its_end_and_a_gap_shows_what_was_before() -> None:
    lines = shown(seen(*[10] * 90))
    assert len(next(line for line in lines if line.startswith(" 10"))) == 4 + 64
    gap = shown(seen(10, 2, 10, every_s=1.0))
    assert next(line for line in gap if line.startswith(" 10")) == " 10 ██  █"


def test_pods_are_drawn_on_their_nodes_and_those_that_leave_are_hollow() -> None:
    lines = shown(SpotScene("web", replicas(2, 3, released=True), NODES, 0.0))
    assert any(line.split() == ["demo-od-1", "on-demand", "runs", "■■"] for line in lines)
    assert any(line.split() == ["demo-spot-1", "spot", "ends", "□□□"] for line in lines)


def test_the_storys_own_settings_are_valid_and_leave_time_to_move() -> None:
    settings, mistakes = parse_section(configuration(4711)["spot"], SpotSettings)
    assert mistakes == ()
    assert settings is not None
    assert settings.start_s + MARGIN_S + 1 < NOTICE_S, "else pods would be evicted at once"
    kinds = [each["kind"] for each in installation_objects(4711)]
    policy = ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"]
    assert kinds == ["Secret", "ConfigMap", "Lease", "MutatingWebhookConfiguration", *policy]
    assert {node(name)["metadata"]["labels"]["node.kubernetes.io/capacity"] for name in SPOT_NODES} == {"spot"}
    assert not set(SPOT_NODES) & set(NEW_SPOT_NODES)


@pytest.mark.parametrize("count", [0, REPLICAS])
def test_a_scene_without_a_past_can_be_drawn(count: int) -> None:
    assert shown(SpotScene("web", replicas(count, 0), NODES, 0.0))
