"""The explored worlds: those of every test run, and the larger ones of a soak."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from situate.testing.sharding.exploring import archive, hand_over
from situate.testing.sharding.exploring.hand_over import Rules
from situate.testing.sharding.exploring.search import Explored, Guard, explore

_SAMPLE: Final = 300
"""Number of end states of a world that are played on to a settled state."""


@dataclass(frozen=True, slots=True)
class Explorable:
    """A world with its name."""

    name: str
    explore: Callable[[frozenset[Guard]], Explored[Any]]
    """Explore the world without these guards."""
    unsettled: Callable[[Any], str]
    """Return the unfinished work long after an end state. Empty: none."""

    def missing(self, ends: tuple[Any, ...]) -> str:
        """Return the first unfinished work in an even sample of these states. Empty: none."""
        chosen = sorted(ends, key=repr)[:: max(1, len(ends) // _SAMPLE)]
        return next((said for end in chosen if (said := self.unsettled(end))), "")


def _hand_over(name: str, rules: Rules, **faults: int) -> Explorable:
    def run(without: frozenset[Guard]) -> Explored[Any]:
        given = rules._replace(without=without)
        return explore(hand_over.first(given, **faults), hand_over.moves(given), is_end=hand_over.is_end)

    def unsettled(end: hand_over.World) -> str:
        # a first incarnation that lives and renews retains its object, though its Pod is gone
        return "" if rules.same_name else hand_over.unsettled(end, rules)

    return Explorable(f"hand-over: {name}", run, unsettled)


def _archive(name: str, first: archive.World) -> Explorable:
    def run(without: frozenset[Guard]) -> Explored[Any]:
        return explore(first, archive.moves(without))

    return Explorable(f"archive: {name}", run, archive.left_undone)


_AT_ONCE: Final = Rules(under_way=False)
QUICK: Final = (
    _hand_over("messages under way", Rules()),
    _hand_over("one crash", _AT_ONCE, crashes=1),
    _hand_over("one pause", _AT_ONCE, pauses=1),
    _hand_over("another leader", _AT_ONCE, fail_overs=1),
    _hand_over("the policy alone", Rules(policy=True, same_name=True)),
    _hand_over("the same name again", Rules(same_name=True), pauses=1),
    _archive("by age", archive.first()),
    _archive("deleted by a user", archive.first(deleting=True)._replace(deletes=0)),
)
"""These worlds take some seconds."""
LARGE: Final = (
    _hand_over("one crash, one pause", _AT_ONCE, crashes=1, pauses=1),
    _hand_over("one crash, one pause, another leader", _AT_ONCE, crashes=1, pauses=1, fail_overs=1),
    _hand_over("one crash, messages under way", Rules(), crashes=1),
    _hand_over("one pause, messages under way", Rules(), pauses=1),
    _hand_over("another leader, messages under way", Rules(), fail_overs=1),
    _hand_over("the policy alone, one crash, one pause", Rules(policy=True), crashes=1, pauses=1),
    _archive("two of everything", archive.first()._replace(lost=2, edits=2, crashes=2)),
)
"""These worlds take minutes and gigabytes."""
