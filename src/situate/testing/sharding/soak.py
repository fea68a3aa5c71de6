"""Histories of sharding as instances of `situate.testing.histories.play.Product`.

One product plays the shipped processes, the other one the decisions alone.
"""

from __future__ import annotations

from typing import ClassVar, Final

from situate.testing.histories import play as playing
from situate.testing.histories.play import Played, Product
from situate.testing.sharding import run
from situate.testing.sharding.faults import FAULTS, SHIPPED
from situate.testing.sharding.history import History, generate
from situate.testing.sharding.shipped.run import play

LENGTH: Final = 10
"""Steps per history of the shipped processes. Histories of decisions have twice as many at a tenth of the cost."""


class Totals(playing.Totals):
    PREFIX: ClassVar[str] = "sharding-"


class TotalsOfDecisions(playing.Totals):
    PREFIX: ClassVar[str] = "sharding-decisions-"


def shipped_history(seed: int) -> History:
    return generate(seed, LENGTH)


def play_shipped(seed: int) -> Played:
    return play(shipped_history(seed))


def play_decisions(seed: int) -> Played:
    return run.play(generate(seed))


PRODUCT: Final = Product(
    "situate.testing.sharding", shipped_history, History.from_json, play, play_shipped, SHIPPED, Totals
)
DECISIONS: Final = Product(
    "situate.testing.sharding decisions",
    generate,
    History.from_json,
    run.play,
    play_decisions,
    FAULTS,
    TotalsOfDecisions,
)
