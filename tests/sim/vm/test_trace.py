"""Traces as JSON lines: what is written is read, and every mistake is told with its line."""

from __future__ import annotations

import random

import pytest

from situate.sim.vm.scenarios import SCENARIOS
from situate.sim.vm.trace import lines, read_trace

NODE = '{"time":0,"event":"node-added","uid":"n1","allocatable":{"cpu":"8","memory":"32Gi"}}'
POD = '{"time":1,"event":"pod-added","uid":"a","node":"n1","resources":{"cpu":"250m","memory":"1Gi"}}'


@pytest.mark.rule("vm:B42")
@pytest.mark.parametrize("name", SCENARIOS)
def test_what_is_written_is_read(name: str) -> None:
    trace = SCENARIOS[name](random.Random(1), 2)
    again, mistakes = read_trace("\n".join(lines(trace.changes)), name)
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
        pytest.param(f"{NODE}\n{POD}\n{NODE.replace('n1', 'n2')}", "line 3.time", id="back in time"),
        pytest.param('{"time":0,"event":"pod-deleted","uid":"a"}', "line 1.uid", id="deleted before it was added"),
    ],
)
def test_a_mistake_is_told_with_its_line(text: str, where: str) -> None:
    trace, mistakes = read_trace(text, "empty")
    assert trace is None
    assert where in {mistake.path for mistake in mistakes}
