"""Histories of the shipped vm processes as a `Product` of `situate.testing.histories.play`."""

from __future__ import annotations

from typing import ClassVar

from situate.testing.histories import play as playing
from situate.testing.histories.play import HistoryResult, Product
from situate.testing.vm.faults import FAULTS
from situate.testing.vm.history import VmHistory, generate
from situate.testing.vm.run import play


class VmTotals(playing.HistoryTotals):
    PREFIX: ClassVar[str] = "vm-"


def play_seed(seed: int) -> HistoryResult:
    return play(generate(seed))


PRODUCT = Product("situate.testing.vm", generate, VmHistory.from_json, play, play_seed, FAULTS, VmTotals)
