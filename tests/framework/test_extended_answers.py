"""Explanations and comparisons where extenders have a say, each reply given by the test."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from situate.framework.engine.engine import Engine
from situate.framework.explain.compare import Agreement, compare_steps
from situate.framework.explain.explain import Question, explain_steps
from situate.framework.explain.what_if import settle_steps
from situate.framework.plugin_api.configuration import Extender
from situate.framework.preemption.extenders import ExtenderQuestion as Asked
from situate.framework.preemption.extenders import (
    ExtenderReply,
    FilterNodes,
    FilterReply,
    NoReply,
    PrioritizeNodes,
    PrioritizeReply,
    Steps,
    read_only_extenders,
    report_bad_replies,
)
from tests.framework.clusters import a_node, a_pod, default_profile

R = TypeVar("R")
Answer = Callable[[Asked], ExtenderReply]

URL = "http://one.example"
ONE = Extender(URL, filter_verb="filter", prioritize_verb="prioritize", weight=3, bind_verb="bind")


def engine(*names: str) -> Engine:
    made = Engine([default_profile()], extenders=read_only_extenders([ONE]))
    for name in names:
        made.set_node(a_node(name, cpu="4"), 0.0)
    return made


def answered(steps: Steps[R], answer: Answer) -> tuple[R, list[str]]:
    """The result, and what was noted."""
    notes: list[str] = []
    noted = report_bad_replies(steps, notes.append)
    try:
        questions = next(noted)
        while True:
            questions = noted.send([answer(each) for each in questions])
    except StopIteration as end:
        return end.value, notes


def passes(*names: str, best: str = "", otherwise: str = "no licence") -> Answer:
    def answer(question: Asked) -> ExtenderReply:
        match question:
            case FilterNodes():
                kept = tuple(name for name in question.nodes if name in names)
                return FilterReply(kept, {name: otherwise for name in question.nodes if name not in names}, {})
            case PrioritizeNodes():
                return PrioritizeReply(tuple((name, 10 * (name == best)) for name in question.nodes))
            case _:
                return NoReply("does not preempt")

    return answer


def test_an_extender_stands_beside_the_plugins() -> None:
    told, notes = answered(
        explain_steps(Question.of(engine("a", "b", "c"), a_pod("web", "1"))), passes("b", "c", best="c")
    )
    assert (told.node, notes) == ("c", [])
    assert told.scores[0].shares[f"Extender {URL}"].weighted == 300
    assert told.scores[0].total - told.scores[1].total == 300
    line = told.filters[-1]
    assert (line.plugin, line.refused, line.reasons) == (f"Extender {URL}", 1, {"no licence": 1})


def test_where_it_refuses_all_the_sentence_says_so() -> None:
    told, _ = answered(explain_steps(Question.of(engine("a", "b"), a_pod("web", "1"))), passes())
    assert told.node == ""
    assert told.message == "0/2 nodes are available: 2 no licence."


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (NoReply("connection refused"), f"extender {URL} at filter: connection refused"),
        (FilterReply(("z",), {}, {}), f"extender {URL} at filter: returned node z, which was not in the request"),
    ],
)
def test_one_that_does_not_answer_is_named_and_stops_nobody(reply: ExtenderReply, said: str) -> None:
    def answer(question: Asked) -> ExtenderReply:
        return reply if isinstance(question, FilterNodes) else NoReply("connection refused")

    told, notes = answered(explain_steps(Question.of(engine("a", "b"), a_pod("web", "1"))), answer)
    assert told.node == "a"
    assert notes == [said, f"extender {URL} at prioritize: connection refused"]


def test_a_comparison_asks_as_well() -> None:
    question = Question.of(engine("a", "b", "c"), a_pod("web", "1"))
    same, _ = answered(compare_steps(question, "c"), passes("b", "c", best="c"))
    assert same.agreement is Agreement.SAME
    impossible, _ = answered(compare_steps(question, "a"), passes("b", "c"))
    assert impossible.agreement is Agreement.IMPOSSIBLE
    assert impossible.refusals == ((f"Extender {URL}", ("no licence",)),)
    other, _ = answered(compare_steps(question, "b"), passes("b", "c", best="c"))
    assert other.difference == f"c has score {other.totals[0]}, b has {other.totals[1]}: Extender {URL} 300 against 0"


def test_a_pod_keeps_a_promised_node_only_if_the_extender_agrees() -> None:
    made = engine("a", "b")
    promised = a_pod("web", "1")
    made.set_pod(promised, 0.0)
    waiting = made.queue.get(promised.metadata.uid)
    assert waiting is not None
    made.nominations.nominate(waiting.info, "b")
    kept, _ = answered(explain_steps(Question.of(made, promised)), passes("a", "b", best="a"))
    assert (kept.node, kept.uses_nomination) == ("b", True)
    moved, _ = answered(explain_steps(Question.of(made, promised)), passes("a"))
    assert (moved.node, moved.uses_nomination) == ("a", False)


def test_what_if_asks_pod_by_pod() -> None:
    trial = engine("a", "b").branch(extenders=read_only_extenders([ONE]))
    for name in ("first", "second"):
        trial.set_pod(a_pod(name, "1"), 0.0)
    outcomes, _ = answered(settle_steps(trial, 0.0), passes("b"))
    assert [each.node for each in outcomes.values()] == ["b", "b"]
