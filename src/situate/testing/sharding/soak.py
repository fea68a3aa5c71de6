"""Histories of sharding as `situate.testing.histories.play` takes them."""

from __future__ import annotations

from typing import ClassVar, Final

from situate.testing.histories import play as playing
from situate.testing.histories.play import Played, Product
from situate.testing.sharding.faults import FAULTS
from situate.testing.sharding.history import History, generate
from situate.testing.sharding.run import play


class Totals(playing.Totals):
    PREFIX: ClassVar[str] = "sharding-"


def play_seed(seed: int) -> Played:
    return play(generate(seed))


PRODUCT: Final = Product("situate.testing.sharding", generate, History.from_json, play, play_seed, FAULTS, Totals)
