"""Rules that narrow a strategy's choice: hooks of users, and selectors of objects over executors' labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field

from situate.objects.selection.label_selectors import BadSelector, Selector, parse_selector
from situate.sharding.model.errors import Unschedulable
from situate.sharding.model.executors import LiveExecutor
from situate.sharding.strategies.facts import ObjectFacts
from situate.sharding.strategies.protocol import TieBreak

Filter = Callable[[ObjectFacts, LiveExecutor], str | None]
"""Returns why the executor may not have the object, in a few words; None if it may."""
Score = Callable[[ObjectFacts, LiveExecutor], float]
"""Returns a score; higher is better, as in kube-scheduler."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that narrow a strategy's choice, in this order."""

    filters: Sequence[Filter] = ()
    co_locate_with_owner: bool = False
    """A controlled object goes to the executor of its owner while that executor is eligible."""
    scores: Mapping[str, tuple[Score, float]] = field(default_factory=dict)
    """Scores and their weights, by name. Only the executors with the highest sum are left to the strategy."""
    tie_break: TieBreak | None = None
    """Chooses among the executors that the strategy considers equal."""


class AllowedExecutors:
    """The executors that may have one object, checked on demand, and the reasons against the others."""

    def __init__(
        self,
        obj: ObjectFacts,
        among: Container[str] | None,
        matching: frozenset[str] | None,
        filters: Sequence[Filter],
        member: Callable[[str], LiveExecutor],
    ) -> None:
        self._obj = obj
        self._among = among
        self._matching = matching
        self._filters = filters
        self._member = member
        self._known: dict[str, str | None] = {}

    def as_container(self) -> Container[str]:
        """Return a plain set if a single set decides, because strategies search it faster."""
        if not self._filters and (self._among is None) != (self._matching is None):
            return self._among if self._among is not None else self._matching or frozenset()
        return self

    def __contains__(self, executor: object) -> bool:
        return isinstance(executor, str) and self.refusal_reason(executor) is None

    def refusal_reason(self, executor: str) -> str | None:
        """Return why the executor may not have the object; None if it may."""
        if self._among is not None and executor not in self._among:
            return "not in the requested set of executors"
        if self._matching is not None and executor not in self._matching:
            return f"its labels do not match the executor selector {self._obj.selector[:100]!r}"
        if executor not in self._known:
            member = self._member(executor)
            reasons = (each(self._obj, member) for each in self._filters)
            self._known[executor] = next((reason for reason in reasons if reason is not None), None)
        return self._known[executor]

    def refusal_counts(self) -> list[str]:
        """Return the reasons with their counts, for the executors that were checked."""
        counts = Counter(reason for reason in self._known.values() if reason is not None)
        told = [f"{count} {reason}" for reason, count in sorted(counts.items())]
        if self._matching is not None:
            told.append(f"{len(self._matching)} match the executor selector {self._obj.selector[:100]!r}")
        return told


def parse_executor_selector(selector: str) -> Selector:
    """Parse a selector. Raises `Unschedulable`: an object with an unreadable selector is not assigned."""
    try:
        return parse_selector(selector)
    except BadSelector as error:
        raise Unschedulable("BadSelector", error) from error
