"""Traces as JSON lines: what is written is read, and every mistake is told with its line."""

from __future__ import annotations

import random

import pytest

from situate.sim.vm.scenarios import SCENARIOS
from situate.sim.vm.trace import MOST_MISTAKES, read_trace, trace_lines

NODE = '{"time":0,"event":"node-added","uid":"n1","allocatable":{"cpu":"8","memory":"32Gi"}}'
POD = '{"time":1,"event":"pod-added","uid":"a","node":"n1","resources":{"cpu":"250m","memory":"1Gi"}}'
NAME = '"n1"'
VM = POD[:-1] + ',"bounds":{"min":{"cpu":"%d","memory":"%dGi"},"max":{"cpu":"%d","memory":"%dGi"}}}'
BOUNDS = '{"min":{"cpu":"1","memory":"4Gi"},"max":{"cpu":"8","memory":"32Gi"}}'
CHANGED = '{{"time":2,"event":"pod-changed","uid":"a","{}":{}}}'


@pytest.mark.rule("vm:B42")
@pytest.mark.parametrize("name", SCENARIOS)
def test_what_is_written_is_read(name: str) -> None:
    trace = SCENARIOS[name](random.Random(1), 2)
    again, mistakes = read_trace("\n".join(trace_lines(trace.changes)), name)
    assert not mistakes
    assert again is not None
    assert again.changes == trace.changes


@pytest.mark.parametrize(
    ("text", "where"),
    [
        pytest.param("", "empty", id="nothing"),
        pytest.param("{", "line 1", id="no JSON"),
        pytest.param("[" * 100_000, "line 1", id="without a bottom"),
        pytest.param(NODE.replace('"time":0', '"time":NaN'), "line 1.time", id="no time"),
        pytest.param('{"time":0}', "line 1.event", id="no event"),
        pytest.param(NODE.replace("node-added", "node-add"), "line 1.event", id="an unknown event"),
        pytest.param(NODE.replace('"8"', '"eight"'), "line 1.allocatable.cpu", id="no quantity"),
        pytest.param(NODE.replace('"8"', '"-8"'), "line 1.allocatable.cpu", id="negative"),
        pytest.param(NODE.replace("allocatable", "labels"), "line 1.allocatable", id="not what a node needs"),
        pytest.param(f"{NODE}\n{NODE}", "line 2.uid", id="added twice"),
        pytest.param(POD, "line 1.node", id="on a node that is not there"),
        pytest.param(NODE.replace(":0", ":1700000000"), "line 1.time", id="seconds since 1970"),
        pytest.param(f"{NODE}\n{VM % (8, 32, 1, 64)}", "line 2.bounds.min.cpu", id="bounds upside down"),
        pytest.param(f"{NODE}\n{VM % (1, 32, 8, 4)}", "line 2.bounds.min.memory", id="memory upside down"),
        pytest.param(f"{NODE}\n{POD}\n{CHANGED.format('bounds', BOUNDS)}", "line 3.bounds", id="bounds of no machine"),
        pytest.param(f"{NODE}\n{POD}\n{CHANGED.format('node', NAME)}", "line 3.node", id="bound to another node"),
        pytest.param(f"{NODE}\n{POD}\n{CHANGED.format('priority', 5)}", "line 3.priority", id="another priority"),
        pytest.param(f"{NODE}\n{POD}\n{CHANGED.format('dirtyRate', 5)}", "line 3.dirtyRate", id="another load"),
        pytest.param(NODE.replace("}}", '},"usedMemory":1}'), "line 1.usedMemory", id="a node's memory"),
        pytest.param(f"{NODE}\n{POD}\n{NODE.replace('n1', 'n2')}", "line 3.time", id="back in time"),
        pytest.param('{"time":0,"event":"pod-deleted","uid":"a"}', "line 1.uid", id="deleted before it was added"),
    ],
)
def test_a_mistake_is_told_with_its_line(text: str, where: str) -> None:
    trace, mistakes = read_trace(text, "empty")
    assert trace is None
    assert where in {mistake.path for mistake in mistakes}


def test_a_byte_order_mark_and_line_ends_of_windows_are_read() -> None:
    trace, mistakes = read_trace(f"\ufeff{NODE}\r\n\r\n{POD}\r\n", "load")
    assert not mistakes
    assert trace is not None
    assert [change.uid for change in trace.changes] == ["n1", "a"]


def test_a_line_ends_where_json_lines_do() -> None:
    """A line separator of Unicode may stand in a text of JSON."""
    trace, mistakes = read_trace(NODE.replace("n1", "n\u20281"), "load")
    assert not mistakes
    assert trace is not None


def test_of_many_mistakes_the_first_are_told() -> None:
    _, mistakes = read_trace("\n".join([POD.replace('"250m"', "1")] * 1000), "load")
    assert len(mistakes) <= MOST_MISTAKES + 1
    assert "was not read" in str(mistakes[-1])


def test_of_a_line_that_adds_something_wrongly_no_later_line_is_blamed() -> None:
    _, mistakes = read_trace(f'{NODE.replace("8", "8x", 1)}\n{NODE.replace("n1", "n2")[:-1]},"x":1}}\n{POD}', "load")
    assert [mistake.path for mistake in mistakes] == ["line 1.allocatable.cpu", "line 2.x"]
    on_the_second = POD.replace("n1", "n2")
    _, mistakes = read_trace(f'{NODE.replace("n1", "n2")[:-1]},"x":1}}\n{on_the_second}', "load")
    assert [mistake.path for mistake in mistakes] == ["line 1.x"]


def test_where_a_line_is_no_json_is_told_by_its_character() -> None:
    _, (mistake,) = read_trace(f'{NODE}\n{{"time":}}', "load")
    assert "line 2: found" in str(mistake)
    assert "line 1" not in str(mistake)
    assert "character 9" in str(mistake)
