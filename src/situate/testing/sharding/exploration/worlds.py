"""The explored worlds: those of every test run, and the larger ones of a soak."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from situate.testing.sharding.exploration import archive, hand_over
from situate.testing.sharding.exploration.hand_over import HandOverRules
from situate.testing.sharding.exploration.search import SafetyGuard, SearchResult, explore

_SAMPLE: Final = 300
"""Number of states of a world that are played on to a settled state."""


@dataclass(frozen=True, slots=True)
class Explorable:
    """A world with its name."""

    name: str
    explore: Callable[[frozenset[SafetyGuard]], SearchResult[Any]]
    """Explore the world without these guards."""
    open_problem: Callable[[Any], str]
    """Return the unfinished work long after a state. Empty: none."""

    def unfinished_work(self, found: SearchResult[Any]) -> str:
        """Return the first unfinished work long after an even sample of the end states. Empty: none.

        In a world without an end, the sample is one of all states: its supervisors always read again.
        """
        states = found.ends or found.reached
        chosen = sorted(states, key=repr)[:: max(1, len(states) // _SAMPLE)]
        return next((said for state in chosen if (said := self.open_problem(state))), "")


def _hand_over_world(name: str, rules: HandOverRules, **faults: int) -> Explorable:
    def run(without: frozenset[SafetyGuard]) -> SearchResult[Any]:
        given = rules._replace(without=without)
        return explore(hand_over.first_world(given, **faults), hand_over.next_worlds(given), is_end=hand_over.is_end)

    def unsettled(end: hand_over.HandOverWorld) -> str:
        # a first incarnation that lives and renews retains its object, though its Pod is gone
        return "" if rules.same_name else hand_over.open_problem(end, rules)

    return Explorable(f"hand-over: {name}", run, unsettled)


def _archive_world(name: str, first: archive.ArchiveWorld) -> Explorable:
    def run(without: frozenset[SafetyGuard]) -> SearchResult[Any]:
        return explore(first, archive.next_worlds(without))

    return Explorable(f"archive: {name}", run, archive.unfinished_work)


_INSTANT_WRITES: Final = HandOverRules(under_way=False)
QUICK: Final = (
    _hand_over_world("messages under way", HandOverRules()),
    _hand_over_world("one crash", _INSTANT_WRITES, crashes=1),
    _hand_over_world("one pause", _INSTANT_WRITES, pauses=1),
    _hand_over_world("another leader", _INSTANT_WRITES, fail_overs=1),
    _hand_over_world("the policy alone", HandOverRules(policy=True, same_name=True)),
    _hand_over_world("the same name again", HandOverRules(same_name=True), pauses=1),
    _archive_world("by age", archive.first_world()),
    _archive_world("deleted by a user", archive.first_world(deleting=True)._replace(deletes=0)),
    _archive_world("edited again", archive.first_world()._replace(edits=3, lost=0, bad=0, deletes=0)),
)
"""These worlds take some seconds."""
LARGE: Final = (
    _hand_over_world("one crash, one pause", _INSTANT_WRITES, crashes=1, pauses=1),
    _hand_over_world("one crash, one pause, another leader", _INSTANT_WRITES, crashes=1, pauses=1, fail_overs=1),
    _hand_over_world("one crash, messages under way", HandOverRules(), crashes=1),
    _hand_over_world("one pause, messages under way", HandOverRules(), pauses=1),
    _hand_over_world("another leader, messages under way", HandOverRules(), fail_overs=1),
    _hand_over_world("the policy alone, one crash, one pause", HandOverRules(policy=True), crashes=1, pauses=1),
    _archive_world("two of everything", archive.first_world()._replace(lost=2, edits=2, crashes=2)),
)
"""These worlds take minutes and gigabytes."""
