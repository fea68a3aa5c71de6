"""The scheduler's histories as a `Product` of `situate.testing.histories.play`."""

from __future__ import annotations

from typing import ClassVar, Final

from situate.testing.histories import play as playing
from situate.testing.histories.play import HistoryResult, Product
from situate.testing.scheduler.history import SchedulerHistory, generate
from situate.testing.scheduler.run import play

_MOMENTS = (
    "before its binding left",
    "before the answer to its binding",
    "before its status left",
    "before the answer to its status",
    "before the answer to its delete",
)

FAULTS: Final = {
    "preemption": ("victim deleted",),
    "another scheduler": ("bound by another scheduler",),
    "network": (
        "request lost",
        "answer lost",
        "request refused",
        "write in conflict",
        "event delayed",
        "watch cut",
        "binding written answered 409",
    ),
    "leader killed": tuple(f"leader killed {moment}" for moment in _MOMENTS),
    "leader paused": ("stale leader woke up", *(f"leader paused {moment}" for moment in _MOMENTS)),
}
"""Kinds of faults, each with the names that must occur."""


class SchedulerTotals(playing.HistoryTotals):
    PREFIX: ClassVar[str] = "scheduler-"


def play_seed(seed: int) -> HistoryResult:
    return play(generate(seed))


PRODUCT = Product(
    "situate.testing.scheduler", generate, SchedulerHistory.from_json, play, play_seed, FAULTS, SchedulerTotals
)
