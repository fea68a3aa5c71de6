"""Machines and agents of the tests: a unit is 250m and 1Gi, sizes are in units."""

from __future__ import annotations

from typing import Any

from situate.vm.agent.goal import SystemMetrics
from situate.vm.agent.state import Config, Guest, State
from situate.vm.amounts import Amounts

GIB = 2**30
UNIT = Amounts.of(250, GIB)


def units(number: int) -> Amounts:
    return Amounts.of(250 * number, GIB * number)


def guest(use: int = 1, least: int = 1, most: int = 4, **more: Any) -> Guest:
    return Guest(units(least), units(use), units(most), GIB, **more)


def agent_state(use: int = 1, *, compat: bool = False, least: int = 1, most: int = 4, **more: Any) -> State:
    return State(Config(UNIT, compat=compat), guest(use, least, most), **more)


def needs(number: float) -> SystemMetrics:
    """A load for which so many units are right."""
    return SystemMetrics(load1=number * 0.25 * 0.9, load5=number * 0.25 * 0.9, memory_used=0.0)
