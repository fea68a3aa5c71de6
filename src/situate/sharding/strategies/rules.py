"""Rules that narrow a strategy's choice: hooks of users, and what objects ask of executors' labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field

from situate.objects.selection.label_selectors import BadSelector, Selector, parse_selector
from situate.sharding.model.errors import Unschedulable
from situate.sharding.model.executors import Executor
from situate.sharding.strategies.facts import ObjectFacts
from situate.sharding.strategies.protocol import TieBreak

Filter = Callable[[ObjectFacts, Executor], str | None]
"""Why the executor may not have the object, in a few words; None if it may."""
Score = Callable[[ObjectFacts, Executor], float]
"""The higher the better, as in kube-scheduler."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What narrows a strategy's choice, in this order."""

    filters: Sequence[Filter] = ()
    co_locate_with_owner: bool = False
    """An object that another one controls goes to that one's executor while it is eligible."""
    scores: Mapping[str, tuple[Score, float]] = field(default_factory=dict)
    """By name, with their weights: only those with the highest sum are left to the strategy."""
    tie_break: TieBreak | None = None
    """Chooses among those that the strategy holds for equal."""


class Allowed:
    """Who may have one object, looked at one by one, and why the others may not."""

    def __init__(
        self,
        obj: ObjectFacts,
        among: Container[str] | None,
        matching: frozenset[str] | None,
        filters: Sequence[Filter],
        member: Callable[[str], Executor],
    ) -> None:
        self._obj = obj
        self._among = among
        self._matching = matching
        self._filters = filters
        self._member = member
        self._known: dict[str, str | None] = {}

    def as_container(self) -> Container[str]:
        """A plain set where one alone decides, which strategies can search faster."""
        if not self._filters and (self._among is None) != (self._matching is None):
            return self._among if self._among is not None else self._matching or frozenset()
        return self

    def __contains__(self, executor: object) -> bool:
        return isinstance(executor, str) and self.why_not(executor) is None

    def why_not(self, executor: str) -> str | None:
        """None: it may."""
        if self._among is not None and executor not in self._among:
            return "not among those that were asked for"
        if self._matching is not None and executor not in self._matching:
            return f"its labels do not match the executor selector {self._obj.selector[:100]!r}"
        if executor not in self._known:
            member = self._member(executor)
            reasons = (each(self._obj, member) for each in self._filters)
            self._known[executor] = next((reason for reason in reasons if reason is not None), None)
        return self._known[executor]

    def told(self) -> list[str]:
        """What has kept how many from being chosen, as far as it was looked at."""
        counts = Counter(reason for reason in self._known.values() if reason is not None)
        told = [f"{count} {reason}" for reason, count in sorted(counts.items())]
        if self._matching is not None:
            told.append(f"{len(self._matching)} match the executor selector {self._obj.selector[:100]!r}")
        return told


def parsed_selector(selector: str) -> Selector:
    """Raises `Unschedulable`: an object must not go anywhere because nobody can tell where it may go."""
    try:
        return parse_selector(selector)
    except BadSelector as error:
        raise Unschedulable("BadSelector", error) from error
