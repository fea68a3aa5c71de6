"""What the chapters on sharding see, draw and demand of the work's own log: values and pictures, without a cluster."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console, Group

from situate.archive.options import ArchiveOptions
from situate.cli.demo.sharding.objects import EXECUTOR_COUNT, LEASE_S, configuration, deployment
from situate.cli.demo.sharding.picture import draw_scene
from situate.cli.demo.sharding.scene import DemoExecutor, DemoRender, ShardScene, log_errors, run_count
from situate.cli.input.configuration import SECTIONS, sharding_entries
from situate.runtime.configuration.file import parse_configuration

RUNNING = DemoExecutor("a", "runs", "1")
KILLED = DemoExecutor("b", "killed", "1")


def seen(*renders: DemoRender) -> ShardScene:
    return ShardScene((RUNNING, KILLED), renders, 5)


def render(executor: str, *, works: bool = True, held: bool = True, done: bool = False) -> DemoRender:
    return DemoRender("render-01", executor, works, held, done)


def log(*lines: tuple[str, str]) -> list[str]:
    return [json.dumps({"token": token, "what": what}) for token, what in lines]


@pytest.mark.parametrize(
    ("one", "works"),
    [
        pytest.param(render("a"), True, id="at work"),
        pytest.param(render("a", works=False), False, id="not begun"),
        pytest.param(render("b"), False, id="with one that was killed"),
        pytest.param(render("c"), False, id="with one that is gone"),
        pytest.param(render("b", held=False), True, id="a short one ends by itself"),
    ],
)
def test_work_goes_on_where_what_is_held_is_with_executors_that_run(one: DemoRender, works: bool) -> None:
    assert seen(one).all_held_in_progress() is works


def test_an_executor_that_has_to_give_everything_back_does_not_count() -> None:
    assert not seen(render("a")).all_held_in_progress(without="a")


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        pytest.param(
            (("u:1", "begun"), ("u:1", "frame"), ("u:2", "begun"), ("u:2", "done")), 0, id="one after another"
        ),
        pytest.param((("u:1", "begun"), ("v:2", "begun"), ("u:1", "frame")), 0, id="two objects at once"),
        pytest.param((("u:1", "begun"), ("u:2", "begun"), ("u:1", "frame")), 1, id="it goes on beside a later one"),
        pytest.param((("u:1", "begun"), ("u:1", "begun")), 1, id="begun twice"),
        pytest.param((("u:1", "done"), ("u:1", "done")), 1, id="done twice"),
    ],
)
def test_two_runs_at_once_are_found_in_the_log(lines: tuple[tuple[str, str], ...], found: int) -> None:
    told = log(*lines)
    assert len(log_errors(told)) == found
    assert run_count(told) == len({token for token, _ in lines})


def test_the_picture_shows_who_has_what_and_what_has_left() -> None:
    console = Console(width=100, record=True, file=io.StringIO())
    scene = seen(render("a"), render("b", works=False), render("", works=False), render("gone", held=False))
    console.print(Group(*draw_scene(scene)))
    lines = console.export_text().splitlines()
    assert [(line.split()[0], line.count("■"), line.count("□")) for line in lines[1:5]] == [
        ("a", 1, 0),
        ("b", 0, 1),
        ("gone", 1, 0),
        ("-", 0, 1),
    ]
    assert "5 created, 4 in the cluster, 1 moved to the archive" in lines


def test_supervisor_and_executors_agree_on_the_lease() -> None:
    parsed, mistakes = parse_configuration(json.dumps(configuration(Path("/archive"))), SECTIONS)
    assert mistakes == ()
    assert parsed is not None
    settings = sharding_entries(parsed)[0]
    assert settings.lease_times().lease_s == LEASE_S
    assert settings.archive.url() == "file:///archive"
    assert ArchiveOptions().ttl_failed is None
    assert settings.archive.ttl_failed == 0
    made = deployment()
    (container,) = made["spec"]["template"]["spec"]["containers"]
    assert f"--lease-duration={LEASE_S:g}s" in container["args"]
    assert made["spec"]["replicas"] == EXECUTOR_COUNT
