"""Rules around a strategy: selectors, hooks, owners, whom the caller prefers; strategies of users that are wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest

from situate.sharding.model.decision_inputs import ExecutorChooser
from situate.sharding.model.errors import NoCapacity, NoExecutors, NoHealthyExecutors, Unschedulable
from situate.sharding.model.executors import ExecutorStatus, LiveExecutor
from situate.sharding.model.field_paths import FieldPaths
from situate.sharding.model.names import EXECUTOR_SELECTOR, PRIORITY
from situate.sharding.model.object_view import view_of
from situate.sharding.strategies import (
    MinScheduled,
    ObjectFacts,
    Placer,
    RoundRobin,
    Rules,
    Strategy,
    StrategyFailed,
    facts_of,
    priority_oddity,
    report_member,
)
from tests.sharding.strategies.telling import FULL, NOTHING, UNHEALTHY, healthy, holding, refusal

ZONES = {"a": "north", "b": "north", "c": "south"}


def zoned(rules: Rules | None = None, strategy: Strategy | None = None) -> Placer:
    """Three healthy executors, two of them in the north."""
    placer = Placer(strategy or MinScheduled(), rules)
    for executor, zone in ZONES.items():
        report_member(placer, LiveExecutor(executor, f"uid of {executor}", labels={"zone": zone}))
    return placer


@pytest.mark.parametrize(
    ("selector", "want"),
    [
        pytest.param("zone=south", "c", id="one"),
        pytest.param("zone in (north)", "b", id="the less loaded of two"),
        pytest.param("zone!=north", "c", id="not there"),
        pytest.param("", "c", id="any"),
        pytest.param("!gpu", "c", id="a label that nobody has"),
    ],
)
@pytest.mark.rule("sharding:B16")
def test_an_object_goes_where_its_selector_allows(selector: str, want: str) -> None:
    placer = zoned()
    holding(placer, {"a": 2, "b": 1})
    assert placer.choose_executor(ObjectFacts("o", selector=selector)) == want


@pytest.mark.rule("sharding:B16", "sharding:B11")
def test_a_selector_that_nobody_matches_is_named_and_one_that_is_none_too() -> None:
    placer = zoned()
    refused = refusal(placer, ObjectFacts("o", selector="zone=west"))
    assert type(refused) is NoHealthyExecutors
    assert "0 match the executor selector 'zone=west'" in str(refused)
    broken = refusal(placer, ObjectFacts("o", selector="zone in"))
    assert broken is not None
    assert broken.reason == "BadSelector"
    assert "label selector 'zone in'" in str(broken)
    assert placer.choose_executor(NOTHING) in ZONES  # others go on


def test_those_that_match_may_be_full() -> None:
    placer = zoned()
    report_member(placer, LiveExecutor("c", "uid", labels={"zone": "south"}, capacity=1))
    holding(placer, {"c": 1})
    assert isinstance(refusal(placer, ObjectFacts("o", selector="zone=south")), NoCapacity)


def test_labels_that_change_are_seen() -> None:
    placer = zoned()
    south = ObjectFacts("o", selector="zone=south")
    assert placer.choose_executor(south) == "c"
    report_member(placer, LiveExecutor("b", "uid", labels={"zone": "south"}))
    report_member(placer, LiveExecutor("c", "uid", labels={"zone": "north"}))
    assert placer.choose_executor(south) == "b"
    placer.observe_executor("b", None)
    assert isinstance(refusal(placer, south), NoHealthyExecutors)


def test_many_selectors_are_served_and_few_remembered() -> None:
    placer = zoned()
    for number in range(1000):
        assert placer.choose_executor(ObjectFacts("o", selector=f"zone=south,v{number}!=x")) == "c"


def test_filters_say_why_and_are_asked_in_order() -> None:
    rules = Rules(
        filters=[
            lambda _, executor: "too far away" if executor.labels["zone"] == "south" else None,
            lambda obj, executor: "not for this tenant" if obj.namespace == "shop" and executor.id == "a" else None,
        ]
    )
    placer = zoned(rules)
    assert placer.choose_executor(ObjectFacts("o", namespace="shop")) == "b"
    placer.observe_executor("b", UNHEALTHY)
    refused = str(refusal(placer, ObjectFacts("o", namespace="shop")))
    assert "1 not for this tenant" in refused
    assert "1 too far away" in refused


def test_the_highest_scores_are_left_to_the_strategy() -> None:
    rules = Rules(
        scores={
            "zone": (lambda _, executor: executor.labels["zone"] == "north", 2),
            "name": (lambda _, executor: executor.id == "c", 1),
        }
    )
    placer = zoned(rules)
    holding(placer, {"a": 3, "b": 2})
    assert placer.choose_executor(NOTHING) == "b"
    report_member(placer, LiveExecutor("b", "uid", labels={"zone": "north"}, capacity=2))
    assert placer.choose_executor(NOTHING) == "a"
    placer.observe_executor("a", FULL)
    assert placer.choose_executor(NOTHING) == "c"  # the best that has room


def test_a_tie_break_chooses_among_equals_alone() -> None:
    placer = zoned(Rules(tie_break=lambda _, tied: tied[-1]))
    assert placer.choose_executor(NOTHING) == "c"
    holding(placer, {"c": 1})
    assert placer.choose_executor(NOTHING) == "b"


@pytest.mark.parametrize("co_locate", [True, False])
def test_controlled_objects_go_with_their_owner_while_that_is_eligible(co_locate: bool) -> None:
    placer = zoned(Rules(co_locate_with_owner=co_locate))
    placer.observe_scheduled(ObjectFacts("owner", executor="b"))
    holding(placer, {"b": 5})
    child = ObjectFacts("child", owner_uid="owner")
    assert placer.choose_executor(child) == ("b" if co_locate else "a")
    assert placer.choose_executor(ObjectFacts("child", owner_uid="owner", selector="zone=south")) == "c"
    placer.observe_executor("b", UNHEALTHY)
    assert placer.choose_executor(child) != "b"


@pytest.mark.rule("sharding:B11")
def test_an_owner_whose_executor_has_no_room_is_left_behind() -> None:
    placer = zoned(Rules(co_locate_with_owner=True))
    report_member(placer, LiveExecutor("b", "uid", capacity=1))
    placer.observe_scheduled(ObjectFacts("owner", executor="b"))
    child = ObjectFacts("child", owner_uid="owner")
    assert placer.choose_executor(child) == "a"
    explained = placer.explain(child)
    assert [(each.executor, each.place) for each in explained.candidates] == [("c", 1), ("a", 2), ("b", None)]


def test_whom_the_caller_prefers() -> None:
    placer = zoned()
    holding(placer, {"a": 5})
    assert placer.choose_among(NOTHING, frozenset({"a"})) == "a"
    with pytest.raises(NoHealthyExecutors):
        placer.choose_among(ObjectFacts("o", selector="zone=south"), frozenset({"a"}))
    with pytest.raises(NoHealthyExecutors):
        placer.choose_among(NOTHING, frozenset())


class Stubborn:
    """A strategy of a user: it always answers the same, or raises."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def observe_executor(self, executor: str, status: ExecutorStatus | None) -> None: ...
    def observe_scheduled(self, obj: ObjectFacts) -> None: ...
    def observe_completed(self, obj: ObjectFacts) -> None: ...
    def observe_deleted(self, obj: ObjectFacts) -> None: ...

    def choose_executor(self, obj: ObjectFacts) -> str:
        if isinstance(self.answer, Exception):
            raise self.answer
        answer: str = self.answer
        return answer


@pytest.mark.rule("sharding:K13", "sharding:K7")
def test_a_strategy_of_the_users_needs_nothing_but_the_protocol() -> None:
    placer = zoned(strategy=Stubborn("b"))
    assert placer.choose_executor(NOTHING) == "b"
    assert placer.choose_executor(ObjectFacts("o", selector="zone=north")) == "b"
    explained = placer.explain(NOTHING)
    assert explained.chosen is None
    assert [each.place for each in explained.candidates] == [1, 1, 1]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param("z", "the strategy named 'z', which is not a healthy executor", id="nobody we know"),
        pytest.param("", "the strategy named '', which is not a healthy executor", id="nobody"),
        pytest.param(None, "the strategy named None", id="nothing"),
        pytest.param(["a"], "unhashable", id="a list"),
        pytest.param("c" * 10_000, "not a healthy executor", id="a long name"),
        pytest.param(ZeroDivisionError("division by zero"), "division by zero", id="it raises"),
    ],
)
def test_a_strategy_that_fails_is_named_on_the_object_and_raises_nothing_else(answer: object, message: str) -> None:
    refused = refusal(zoned(strategy=Stubborn(answer)))
    assert isinstance(refused, StrategyFailed)
    assert refused.reason == "StrategyFailed"
    assert message in str(refused)
    assert len(str(refused)) < 300


def test_a_users_own_no_is_passed_on() -> None:
    assert str(refusal(zoned(strategy=Stubborn(Unschedulable("OutOfLicences"))))) == "OutOfLicences"


def test_a_strategy_that_cannot_choose_among_some_must_obey_and_is_not_asked_for_favours() -> None:
    placer = zoned(strategy=Stubborn("a"))
    refused = refusal(placer, ObjectFacts("o", selector="zone=south"))
    assert isinstance(refused, StrategyFailed)
    assert "which a rule excludes" in str(refused)
    with pytest.raises(NoHealthyExecutors, match="cannot choose from a subset"):
        placer.choose_among(NOTHING, frozenset({"a"}))


def raising(*_: object) -> Any:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param(Rules(filters=[raising]), id="a filter"),
        pytest.param(Rules(scores={"s": (raising, 1)}), id="a score"),
        pytest.param(Rules(scores={"s": (lambda *_: math.nan, 1)}), id="a score that is no number"),
        pytest.param(Rules(tie_break=raising), id="a tie-break"),
        pytest.param(Rules(tie_break=lambda *_: "z"), id="a tie-break that names nobody"),
    ],
)
def test_a_rule_that_fails_is_named_on_the_object(rules: Rules) -> None:
    assert isinstance(refusal(zoned(rules)), StrategyFailed)


@pytest.mark.rule("sharding:B11")
def test_a_dry_run_explains_each_candidate_and_changes_nothing() -> None:
    rules = Rules(co_locate_with_owner=True, scores={"name": (lambda _, executor: float(executor.id == "b"), 1)})
    placer = zoned(rules)
    report_member(placer, LiveExecutor("d", "uid", ExecutorStatus.UNHEALTHY, labels={"zone": "north"}))
    placer.observe_scheduled(ObjectFacts("owner", executor="a"))
    obj = ObjectFacts("o", owner_uid="owner", selector="zone=north")
    first = placer.explain(obj, preferred=frozenset({"b"}))
    assert first.chosen == "b"
    assert first.refusal is None
    assert [(each.executor, each.place, each.why) for each in first.candidates] == [
        ("b", 1, "0 open; preferred; score 1 by rules"),
        ("a", 2, "1 open; its owner's executor; score 0 by rules"),
        ("c", None, "its labels do not match the executor selector 'zone=north'"),
        ("d", None, "Unhealthy"),
    ]
    assert placer.explain(obj, preferred=frozenset({"b"})) == first
    assert placer.explain(obj).chosen == placer.choose_executor(obj) == "a"


def test_an_explanation_of_nobody_says_why() -> None:
    assert isinstance(Placer(MinScheduled()).explain(NOTHING).refusal, NoExecutors)
    explained = zoned().explain(ObjectFacts("o", selector="zone=west"))
    assert explained.chosen is None
    assert isinstance(explained.refusal, NoHealthyExecutors)


def test_the_placer_tells_its_strategy_and_counts_what_everybody_has() -> None:
    placer = zoned(strategy=RoundRobin())
    holding(placer, {"a": 2})
    placer.observe_completed(ObjectFacts("a has 0"))
    assert placer.open_weight("a") == 1
    placer.observe_deleted(ObjectFacts("a has 1"))
    assert placer.open_weight("a") == 0


def content(annotations: Mapping[str, str]) -> dict[str, Any]:
    return {
        "metadata": {
            "uid": "u",
            "namespace": "shop",
            "name": "web",
            "annotations": dict(annotations),
            "ownerReferences": [{"uid": "owner", "controller": True}],
        },
        "spec": {"assignedTo": "a"},
    }


def test_facts_are_what_the_object_says() -> None:
    view = view_of(content({PRIORITY: "7", EXECUTOR_SELECTOR: "zone=north"}), FieldPaths())
    facts = facts_of(view, lambda _: 5)
    assert facts == ObjectFacts("u", "shop", "web", "a", "owner", 5, 7, "zone=north")
    assert facts_of(view).weight == 1
    assert facts_of(view, lambda _: -3).weight == 1


@pytest.mark.parametrize("text", ["", "high", "1e3", "1.5", "10000000000", "-1000000001", "٣", "9" * 5000])
@pytest.mark.rule("sharding:B16")
def test_a_priority_that_cannot_be_read_counts_as_none_and_is_told(text: str) -> None:
    view = view_of(content({PRIORITY: text}), FieldPaths())
    assert facts_of(view).priority == 0
    assert "allowed: whole numbers" in str(priority_oddity(view))
    assert len(str(priority_oddity(view))) < 400


def test_the_supervisor_asks_with_a_view() -> None:
    placer = zoned()
    choose: ExecutorChooser = placer.choose
    view = view_of(content({EXECUTOR_SELECTOR: "zone=north"}), FieldPaths())
    assert choose(view, None) == "a"
    assert choose(view, frozenset({"b", "c"})) == "b"


def test_healthy_is_all_it_takes() -> None:
    placer = Placer(MinScheduled(), Rules(filters=[lambda *_: None]))
    healthy(placer, "a")
    assert placer.choose_executor(NOTHING) == "a"
