"""Extenders in the live scheduler: asked in the midst of a cycle, let to bind; what they do not say is found out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from situate.framework.plugin_api.actions import BindByExtender
from situate.framework.plugin_api.configuration import Extender
from situate.framework.preemption.extenders import ExtenderQuestion, ExtenderReply, FilterNodes, FilterReply, NoReply
from situate.scheduler.config.settings import SchedulerSettings
from situate.scheduler.extenders.client import BindingFailed
from situate.testing.scheduler.world import default_setup
from tests.scheduler.stage import PODS_PATH, Stage, stage

CHOOSY = Extender(url_prefix="http://choosy.example", filter_verb="filter", bind_verb="bind")
EASY = Extender(url_prefix="http://easy.example", filter_verb="filter", bind_verb="bind", ignorable=True)


class Choosy:
    """Lets pods have one node alone, and binds them itself."""

    def __init__(self, how: Callable[[Stage, BindByExtender], None]) -> None:
        self.stage: Stage | None = None
        self.answers = True
        self._how = how

    async def ask(self, questions: Sequence[ExtenderQuestion]) -> Sequence[ExtenderReply]:
        await asyncio.sleep(0.5)
        if not self.answers:
            return [NoReply("connection refused") for _ in questions]
        return [self._filtered(each) for each in questions]

    async def bind(self, action: BindByExtender) -> None:
        assert self.stage is not None
        await asyncio.sleep(0.1)
        self._how(self.stage, action)

    @staticmethod
    def _filtered(question: ExtenderQuestion) -> ExtenderReply:
        assert isinstance(question, FilterNodes)
        return FilterReply(("node-7",), {name: "not choosy enough" for name in question.nodes if name != "node-7"}, {})


def binds(ours: Stage, action: BindByExtender) -> None:
    name = action.pod[1]
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"name": action.node}}
    ours.world.call("POST", f"{PODS_PATH}/{name}/binding", body)


def binds_and_is_not_heard(ours: Stage, action: BindByExtender) -> None:
    binds(ours, action)
    raise BindingFailed(action, "no answer", outcome_unknown=True)


def does_not_bind(_: Stage, action: BindByExtender) -> None:
    raise BindingFailed(action, "no answer", outcome_unknown=True)


@pytest.mark.parametrize("how", [binds, binds_and_is_not_heard])
def test_an_extender_chooses_and_binds(how: Callable[[Stage, BindByExtender], None]) -> None:
    choosy = Choosy(how)
    setup = default_setup(settings=SchedulerSettings(extenders=(CHOOSY,)))
    with stage(setup, extending=choosy) as ours:
        choosy.stage = ours
        ours.create("web")
        ours.create("other")
        ours.wait_bound("web", "other")
        ours.let_pass(2)
        assert ours.node_of("web") == ours.node_of("other") == "node-7"
        assert ours.notes("web", "Scheduled") == ["Successfully assigned work/web to node-7"]


def test_what_an_extender_that_may_be_ignored_does_not_bind_the_scheduler_does() -> None:
    choosy = Choosy(does_not_bind)
    with stage(default_setup(settings=SchedulerSettings(extenders=(EASY,))), extending=choosy) as ours:
        choosy.stage = ours
        ours.create("web")
        ours.wait_bound("web")
        assert ours.node_of("web") == "node-7"


def test_an_extender_that_does_not_answer_fails_its_pods_until_it_does() -> None:
    choosy = Choosy(binds)
    with stage(default_setup(settings=SchedulerSettings(extenders=(CHOOSY,))), extending=choosy) as ours:
        choosy.stage, choosy.answers = ours, False
        ours.create("web")
        ours.let_pass(3)
        assert ours.condition("web")["reason"] == "SchedulerError"
        assert "connection refused" in ours.condition("web")["message"]
        choosy.answers = True
        ours.wait_bound("web")
