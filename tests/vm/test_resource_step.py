"""The reference's step for the resources of one machine."""

from __future__ import annotations

from typing import Any

import pytest

from situate.vm.resource_step import ResourceStep, resource_step
from situate.vm.rules import Rules
from tests.vm.entries import amounts, node, pod

RULES = Rules(compat=True)


def step(has: float, wants: float, others: float = 0, ago: float | None = None, **more: Any) -> ResourceStep:
    started = more.pop("started", True)
    asks = pod("a", has, wants, approved=more.pop("approved", True))
    return resource_step(node(10, [asks, pod("b", others)]), asks, ago, RULES, started=started)


@pytest.mark.rule("vm:C30")
def test_nothing_is_granted_before_everything_was_taken_in() -> None:
    made = step(1, 2, started=False)
    assert (made.approve, made.after_start) == (None, True)
    assert made.node.pods["a"].reserved == amounts(1)


@pytest.mark.rule("vm:C26")
def test_an_increase_is_booked_and_written() -> None:
    made = step(1, 2)
    assert (made.approve, made.short, made.retry_after_s) == (amounts(2), False, None)
    assert made.node.pods["a"].reserved == amounts(2)


@pytest.mark.rule("vm:C26", "vm:C2")
def test_a_decrease_is_written_and_booked_once_the_pod_shows_it() -> None:
    made = step(4, 2)
    assert made.approve == amounts(2)
    assert made.node.reserved == amounts(4)


@pytest.mark.rule("vm:C26")
def test_a_part_is_granted_and_tried_again() -> None:
    made = step(1, 4, others=8)
    assert (made.approve, made.short, made.retry_after_s) == (amounts(2), True, 5.0)


@pytest.mark.rule("vm:C26")
def test_where_nothing_changes_nothing_is_written() -> None:
    assert (step(2, 2).approve, step(2, 2).short) == (None, False)
    made = step(2, 4, others=8)
    assert (made.approve, made.short, made.retry_after_s) == (None, True, 5.0)
    assert step(2, 2, approved=False).approve == amounts(2), "but the first time"


@pytest.mark.rule("vm:C26")
def test_after_a_write_the_next_one_waits() -> None:
    made = step(1, 2, ago=0.25)
    assert (made.approve, made.retry_after_s) == (None, 0.75)
    assert made.node.pods["a"].reserved == amounts(1)
    assert step(1, 2, ago=1.0).approve == amounts(2)
