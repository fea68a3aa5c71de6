"""The bookkeeping of the reference's first generation."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.first_generation import (
    NodeResource,
    PodResource,
    autoscaling_disabled,
    bounds_changed,
    deleted,
    migration_started,
    requested,
    reserved,
    too_much_pressure,
)

NODE = NodeResource(total=10, watermark=8, reserved=6)


@pytest.mark.rule("vm:C41")
def test_the_first_contact_takes_the_buffer_off_the_node() -> None:
    node, pod = requested(replace(NODE, buffer=2), PodResource(4, buffer=2), 3, None, 1)
    assert (node.reserved, node.buffer) == (5, 0)
    assert (pod.reserved, pod.buffer, pod.pressure) == (3, 0, 0)


@pytest.mark.rule("vm:C41")
def test_what_the_agent_was_told_before_is_granted_again_without_room() -> None:
    node, pod = requested(replace(NODE, reserved=10), PodResource(2), 6, 5, 1)
    assert (pod.reserved, pod.pressure) == (5, 1)
    assert (node.reserved, node.pressure) == (13, 1)


@pytest.mark.rule("vm:C41")
def test_new_pressure_replaces_old() -> None:
    node, pod = requested(replace(NODE, reserved=10, pressure=7), PodResource(2, pressure=7), 5, 2, 1)
    assert (pod.pressure, node.pressure) == (3, 3)


@pytest.mark.rule("vm:C41")
def test_a_machine_that_leaves_takes_its_pressure_with_it() -> None:
    node, pod = migration_started(replace(NODE, buffer=1, pressure=2), PodResource(3, buffer=1, pressure=2))
    assert node == NodeResource(10, 8, reserved=5, accounted=2)
    node, pod = requested(node, pod, 4, 2, 1, starting=True)
    assert (pod.reserved, pod.pressure) == (2, 2)
    assert deleted(replace(node, accounted=4), pod, migrating=True) == NodeResource(10, 8, reserved=3)


@pytest.mark.rule("vm:C41")
def test_switching_autoscaling_off_and_changing_bounds() -> None:
    assert autoscaling_disabled(replace(NODE, buffer=1), PodResource(3, buffer=1))[0] == replace(NODE, reserved=5)
    node, pod = bounds_changed(replace(NODE, buffer=1), PodResource(3, buffer=1, maximum=3), 0, 1)
    assert (node.reserved, node.buffer, pod.reserved, pod.buffer) == (5, 0, 2, 0)
    assert bounds_changed(NODE, PodResource(3, maximum=3), 0, 9)[0] == NODE, "it was heard of"


@pytest.mark.rule("vm:C42")
@pytest.mark.parametrize(
    ("cpu", "memory", "wanted"),
    [
        pytest.param(NodeResource(10, 8, 8), NodeResource(10, 8, 7, pressure=9), False, id="nobody over a watermark"),
        pytest.param(NodeResource(10, 8, 8), NodeResource(10, 8, 8), False, id="memory at it, and nothing to relieve"),
        pytest.param(
            NodeResource(10, 8, 8), NodeResource(10, 8, 8, pressure=1), True, id="memory at it, under pressure"
        ),
        pytest.param(NodeResource(10, 8, 9, accounted=1), NodeResource(10, 8, 0), False, id="accounted for"),
        pytest.param(NodeResource(10, 8, 9, buffer=1), NodeResource(10, 8, 0), False, id="only a buffer"),
    ],
)
def test_too_much_pressure(cpu: NodeResource, memory: NodeResource, wanted: bool) -> None:
    assert too_much_pressure(cpu, memory) is wanted


@given(st.integers(0, 30), st.integers(0, 9), st.integers(0, 9), st.integers(0, 20), st.none() | st.integers(0, 20))
def test_node_and_pod_change_alike(others: int, held: int, buffer: int, wanted: int, last: int | None) -> None:
    pod = PodResource(held + buffer, buffer)
    node, _ = reserved(NodeResource(20, 15, others), pod)
    after, now = requested(node, pod, wanted, last, 2)
    assert (after.reserved, after.buffer, after.pressure) == (others + now.reserved, 0, now.pressure)
    assert now.reserved + now.pressure == wanted
