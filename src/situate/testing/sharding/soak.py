"""Histories of sharding as `situate.testing.histories.play` takes them: of the shipped processes, and of decisions
alone.
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
"""Steps of a history of the shipped processes. Those of decisions alone have twice as many: theirs cost a tenth."""


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
