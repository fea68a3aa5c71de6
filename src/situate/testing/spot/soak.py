"""spot's histories as a `Product` of `situate.testing.histories.play`."""

from __future__ import annotations

from typing import ClassVar

from situate.testing.histories import play as playing
from situate.testing.histories.play import HistoryResult, Product
from situate.testing.spot.faults import FAULTS
from situate.testing.spot.generate import generate
from situate.testing.spot.history import SpotHistory
from situate.testing.spot.run import play


class SpotTotals(playing.HistoryTotals):
    PREFIX: ClassVar[str] = "spot-"


def play_seed(seed: int) -> HistoryResult:
    return play(generate(seed))


PRODUCT = Product("situate.testing.spot", generate, SpotHistory.from_json, play, play_seed, FAULTS, SpotTotals)
