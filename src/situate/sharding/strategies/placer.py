"""A strategy with rules that narrow its choice: executor selectors, hooks of users, owners, preferences of the caller.

The rules are the same for every strategy. A strategy that is not `SelectiveStrategy` is called once, and its choice
must obey the rules. `situate.sharding.assignment.executor_choice` decides which executors a rollout or a planned
restart prefers.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite

from situate.sharding.model.errors import NoExecutors, NoHealthyExecutors, Unschedulable
from situate.sharding.model.executors import ExecutorStatus, LiveExecutor
from situate.sharding.model.object_view import ObjectView
from situate.sharding.strategies.facts import ObjectFacts, facts_of
from situate.sharding.strategies.open_objects import OpenObjects, Roster
from situate.sharding.strategies.protocol import (
    CandidateRank,
    ExplainableStrategy,
    Ineligible,
    MemberObserver,
    SelectiveStrategy,
    Strategy,
    StrategyFailed,
)
from situate.sharding.strategies.rules import AllowedExecutors, Rules, parse_executor_selector

_MOST_SELECTORS = 256  # cached selectors; the cache is cleared beyond that
_TIE = 1e-9


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of a choice for one object."""

    chosen: str | None
    """None: no executor may be chosen, or the choice among the first is random."""
    refusal: Unschedulable | None
    """Why no executor would be chosen."""
    candidates: tuple[CandidateRank, ...]
    """Every known executor, the best first."""


class Placer:
    """A strategy under rules. It is itself a strategy, and the supervisor uses it around every configured strategy."""

    def __init__(
        self,
        strategy: Strategy,
        rules: Rules | None = None,
        weight_of: Callable[[ObjectView], int] | None = None,
    ) -> None:
        """`weight_of` returns the units of work of an object, at least 1; None: each object counts 1."""
        self._weight_of = weight_of
        self._strategy = strategy
        # checked once: a check of a protocol's methods costs more than most choices
        self._selective = strategy if isinstance(strategy, SelectiveStrategy) else None
        self._observes_members = strategy if isinstance(strategy, MemberObserver) else None
        self._rules = rules if rules is not None else Rules()
        self._roster = Roster()
        self._members: dict[str, LiveExecutor] = {}
        self._open = OpenObjects()
        self._selected: dict[str, frozenset[str]] = {}  # by text of the selector

    def observe_executor(self, executor: str, status: ExecutorStatus | None) -> None:
        self._roster.observe(executor, status)
        if status is None and self._members.pop(executor, None) is not None:
            self._selected.clear()
        self._strategy.observe_executor(executor, status)

    def observe_member(self, member: LiveExecutor) -> None:
        before = self._members.get(member.id)
        self._members[member.id] = member
        if before is None or before.labels != member.labels:
            self._selected.clear()
        if self._observes_members is not None:
            self._observes_members.observe_member(member)

    def observe_scheduled(self, obj: ObjectFacts) -> None:
        self._open.record_scheduled(obj)
        self._strategy.observe_scheduled(obj)

    def observe_completed(self, obj: ObjectFacts) -> None:
        self._open.record_completed(obj)
        self._strategy.observe_completed(obj)

    def observe_deleted(self, obj: ObjectFacts) -> None:
        self._open.record_deleted(obj)
        self._strategy.observe_deleted(obj)

    def open_weight(self, executor: str) -> int:
        """Return the weight of the open objects that are assigned to an executor."""
        return self._open.weight_of(executor)

    def choose(self, view: ObjectView, among: frozenset[str] | None) -> str:
        """Choose an executor, as `situate.sharding.model.decision_inputs.ExecutorChooser` requires."""
        obj = facts_of(view, self._weight_of)
        return self.choose_executor(obj) if among is None else self.choose_among(obj, among)

    def choose_executor(self, obj: ObjectFacts) -> str:
        """Choose an executor. Raises only `Unschedulable`, for any error of a strategy or of a user's rule."""
        return self._choose(obj, None)

    def choose_among(self, obj: ObjectFacts, among: Container[str]) -> str:
        """Choose among these executors. If the strategy is not `SelectiveStrategy`, none of them is eligible."""
        if self._selective is None:
            raise NoHealthyExecutors(cause=Ineligible("the strategy cannot choose from a subset of the executors"))
        return self._choose(obj, among)

    def _choose(self, obj: ObjectFacts, among: Container[str] | None) -> str:
        allowed = self._allowed_executors(obj, among)
        refusal: Unschedulable | None = None
        try:
            for group in self._groups(obj, allowed):
                try:
                    return self._choose_from_group(obj, group)
                except NoHealthyExecutors as error:
                    refusal = error
        except Unschedulable:
            raise
        except Exception as error:  # user code may raise any exception, and must not stop other objects
            raise StrategyFailed(error) from error
        raise _add_reasons(refusal or self._roster.refusal({}), allowed)

    def _choose_from_group(self, obj: ObjectFacts, among: Container[str] | None) -> str:
        tie_break = self._rules.tie_break
        if self._selective is not None and (among is not None or tie_break is not None):
            chosen = self._selective.choose_among(obj, self._roster if among is None else among, tie_break)
        else:
            chosen = self._strategy.choose_executor(obj)
        if not self._roster.is_healthy(chosen):
            raise StrategyFailed(Ineligible(f"the strategy named {chosen!r:.80}, which is not a healthy executor"))
        if among is not None and chosen not in among:
            raise StrategyFailed(
                Ineligible(f"the strategy named {chosen!r:.80}, which a rule excludes for this object")
            )
        return chosen

    def _allowed_executors(self, obj: ObjectFacts, among: Container[str] | None = None) -> AllowedExecutors | None:
        """Return which executors may have the object; None: all."""
        if not obj.selector and not self._rules.filters and among is None:
            return None
        return AllowedExecutors(obj, among, self._matching_executors(obj.selector), self._rules.filters, self._member)

    def _matching_executors(self, selector: str) -> frozenset[str] | None:
        """Return the executors whose labels match the selector; None: all."""
        if not selector:
            return None
        if selector not in self._selected:
            parsed = parse_executor_selector(selector)
            if len(self._selected) >= _MOST_SELECTORS:
                self._selected.clear()
            matching = (each.id for each in self._members.values() if parsed.matches(each.labels))
            self._selected[selector] = frozenset(matching)
        return self._selected[selector]

    def _member(self, executor: str) -> LiveExecutor:
        return self._members.get(executor) or LiveExecutor(executor, "")

    def _groups(self, obj: ObjectFacts, allowed: AllowedExecutors | None) -> Iterator[Container[str] | None]:
        """Yield groups of executors; the first group with an eligible executor is used. None: all executors."""
        required = None if allowed is None else allowed.as_container()
        if self._selective is None:  # a strategy that returns only one choice cannot prefer
            yield required
            return
        owner = self._owners_executor(obj)
        first = () if owner is None or (required is not None and owner not in required) else (frozenset((owner,)),)
        for group in (*first, required):
            if self._rules.scores:
                yield from self._groups_by_score(obj, group)
            else:
                yield group

    def _owners_executor(self, obj: ObjectFacts) -> str | None:
        if not self._rules.co_locate_with_owner or not obj.owner_uid:
            return None
        owner = self._open.holder(obj.owner_uid)
        return owner if owner is not None and self._roster.is_healthy(owner) else None

    def _groups_by_score(self, obj: ObjectFacts, among: Container[str] | None) -> Iterator[frozenset[str]]:
        """Yield the healthy ones of these executors in groups of equal score, the best first."""
        scored = sorted(
            (
                (-self._score(obj, each), each)
                for each in self._roster
                if self._roster.is_healthy(each) and (among is None or each in among)
            ),
        )
        group: list[str] = []
        first = 0.0
        for score, executor in scored:
            if group and score - first > _TIE:
                yield frozenset(group)
                group = []
            first = score if not group else first
            group.append(executor)
        if group:
            yield frozenset(group)

    def _score(self, obj: ObjectFacts, executor: str) -> float:
        member = self._member(executor)
        total = sum(weight * score(obj, member) for score, weight in self._rules.scores.values())
        if not isfinite(total):
            raise ValueError(f"the scores {', '.join(self._rules.scores)} of executor {executor!r} add up to {total}")
        return float(total)

    def explain(self, obj: ObjectFacts, preferred: frozenset[str] = frozenset()) -> Explanation:
        """Explain the choice for an object, without changing anything. Raises as `choose_executor` for a failing rule.

        `preferred`: executors that the caller would try first.
        """
        try:
            return self._explain(obj, preferred)
        except Unschedulable:
            raise
        except Exception as error:
            raise StrategyFailed(error) from error

    def _explain(self, obj: ObjectFacts, preferred: frozenset[str]) -> Explanation:
        allowed = self._allowed_executors(obj)
        required = None if allowed is None else allowed.as_container()
        owner = self._owners_executor(obj) if self._selective is not None else None
        found: list[tuple[tuple[bool, bool, float, int], CandidateRank]] = []
        refused: list[CandidateRank] = []
        for each in self._candidate_ranks(obj):
            left_out = allowed.refusal_reason(each.executor) if allowed is not None and each.place is not None else None
            if each.place is None or left_out is not None:
                refused.append(each if left_out is None else CandidateRank(each.executor, None, left_out))
                continue
            score = self._score(obj, each.executor) if self._rules.scores else 0.0
            is_owners, is_preferred = each.executor == owner, each.executor in preferred
            notes = [each.why]
            notes += ["preferred"] if is_preferred else []
            notes += ["its owner's executor"] if is_owners else []
            notes += [f"score {score:g} by rules"] if self._rules.scores else []
            key = (not is_preferred, not is_owners, -score, each.place)
            found.append((key, CandidateRank(each.executor, each.place, "; ".join(notes))))
        found.sort(key=lambda each: (each[0], each[1].executor))
        places = {key: place for place, key in reversed(list(enumerate((key for key, _ in found), 1)))}
        candidates = [CandidateRank(each.executor, places[key], each.why) for key, each in found]
        sure = len(candidates) == 1 or (len(candidates) > 1 and candidates[1].place != 1)
        chosen = candidates[0].executor if sure and self._rules.tie_break is None else None
        refusal = None if candidates else _add_reasons(self._refusal(required), allowed)
        return Explanation(chosen, refusal, (*candidates, *refused))

    def _candidate_ranks(self, obj: ObjectFacts) -> Sequence[CandidateRank]:
        if isinstance(self._strategy, ExplainableStrategy):
            return self._strategy.candidate_ranks(obj)
        why = "healthy; the strategy explains no choice"
        healthy = [CandidateRank(each, 1, why) for each in sorted(self._roster) if self._roster.is_healthy(each)]
        return healthy + self._roster.unhealthy_ranks()

    def _refusal(self, required: Container[str] | None) -> Unschedulable:
        left = sum(self._roster.is_healthy(each) and (required is None or each in required) for each in self._roster)
        return self._roster.refusal({"at capacity or without metrics": left})


def _add_reasons(refusal: Unschedulable, allowed: AllowedExecutors | None) -> Unschedulable:
    if allowed is None or isinstance(refusal, NoExecutors):
        return refusal
    told = "; ".join([str(refusal.cause), *allowed.refusal_counts()])
    return type(refusal)(refusal.reason, Ineligible(told))
