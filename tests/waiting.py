"""Waiting for what other processes bring about: asking again until it holds, never for a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

WITHIN_S = 120.0
"""More than enough for anything that a test waits for, also on a machine that is busy; what takes longer hangs."""
POLL_S = (0.02, 0.2)
"""First and longest pause between two looks: soon after the start they come close together, later they cost nothing."""
_SLOWER = 1.25


def eventually(what: str, ask: Callable[[], T], holds: Callable[[T], Any] = bool, *, within_s: float = WITHIN_S) -> T:
    """The first answer for which `holds`; fails with the last one when the time is over."""
    deadline = time.monotonic() + within_s
    pause_s, longest_s = POLL_S
    while True:
        answer = ask()
        if holds(answer):
            return answer
        assert time.monotonic() < deadline, f"after {within_s:g} s it is still not so that {what}: {answer}"
        time.sleep(pause_s)
        pause_s = min(pause_s * _SLOWER, longest_s)


def unchanged(what: str, ask: Callable[[], T], seconds: float, *, within_s: float = WITHIN_S) -> T:
    """The first answer that stays what it is for that long; fails when the time is over."""
    deadline = time.monotonic() + within_s
    answer, since = ask(), time.monotonic()
    while time.monotonic() - since < seconds:
        time.sleep(POLL_S[1])
        before, answer = answer, ask()
        if answer != before:
            since = time.monotonic()
        assert time.monotonic() < deadline, f"after {within_s:g} s it has still not settled, {what}: {answer}"
    return answer


def steadily(what: str, ask: Callable[[], T], holds: Callable[[T], Any] = bool, *, seconds: float) -> None:
    """Demands that it holds for that long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        answer = ask()
        assert holds(answer), f"it is not so any more that {what}: {answer}"
        time.sleep(POLL_S[0])
