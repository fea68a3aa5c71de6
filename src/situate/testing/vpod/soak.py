"""vpod's histories as a `Product` of `situate.testing.histories.play`."""

from __future__ import annotations

from situate.testing.histories.play import HistoryResult, Product
from situate.testing.vpod.faults import FAULTS
from situate.testing.vpod.history import VpodHistory, generate
from situate.testing.vpod.run import play


def play_seed(seed: int) -> HistoryResult:
    return play(generate(seed))


PRODUCT = Product("situate.testing.vpod", generate, VpodHistory.from_json, play, play_seed, FAULTS)
