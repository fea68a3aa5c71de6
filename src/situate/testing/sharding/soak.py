"""Histories of sharding as `situate.testing.histories.play` takes them."""

from __future__ import annotations

from typing import ClassVar, Final

from situate.testing.histories import play as playing
from situate.testing.histories.play import HistoryResult, Product
from situate.testing.sharding.faults import FAULTS
from situate.testing.sharding.history import ShardingHistory, generate
from situate.testing.sharding.run import play


class ShardingTotals(playing.HistoryTotals):
    PREFIX: ClassVar[str] = "sharding-"


def play_seed(seed: int) -> HistoryResult:
    return play(generate(seed))


PRODUCT: Final = Product(
    "situate.testing.sharding", generate, ShardingHistory.from_json, play, play_seed, FAULTS, ShardingTotals
)
