"""What people are told on workloads: once for as long as it holds (B8, B11, B14)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from situate.objects.kinds.events import ObjectReference
from situate.spot.controller.act.attempt import Attempt, AttemptOutcome
from situate.spot.controller.act.notify import Notifier
from situate.spot.model.actions import Reason, Release
from situate.spot.model.pods_nodes_workloads import ON_DEMAND, PodKey
from situate.spot.model.policy_limits import Limits
from situate.spot.rebalance.decide import ClusterView, Decision, Notice, State, decide
from tests.spot.builders import NOW, UID, cluster, owner, pods
from tests.spot.report.test_plan import Always


class Heard:
    def __init__(self) -> None:
        self.known = cluster(owner(3, annotations={ON_DEMAND: "2"}), pods("spot:3"))
        self.events: list[tuple[str, str, str]] = []
        self.now = 0.0
        self.telling = Notifier(self.known, self._record, lambda: self.now)

    def decided(self, *notices: Notice, limits: Limits | None = None) -> Decision:
        situation = ClusterView(self.known, Always(), limits=limits or Limits())
        found = replace(decide(State(), situation, NOW), notices=notices)
        self.telling.notify_decision(found)
        return found

    def _record(self, about: ObjectReference, _: str, reason: str, message: str) -> None:
        self.events.append((about.name, reason, message))


@pytest.mark.rule("spot:B8", "spot:B18")
def test_a_notice_is_told_when_it_begins_and_when_it_begins_again() -> None:
    heard, notice = Heard(), Notice(UID, "NoOnDemandRoom", "no room")
    heard.decided(notice)
    heard.decided(notice)
    assert heard.events == [("web", "NoOnDemandRoom", "no room")]
    heard.decided()
    heard.decided(notice, Notice("uid-gone", "NoOnDemandRoom", "nobody is there to be told"))
    assert len(heard.events) == 2


@pytest.mark.rule("spot:I15")
def test_how_many_are_missing_is_told_and_a_change_of_it_is_no_news() -> None:
    heard = Heard()
    heard.decided(Notice(UID, "NoOnDemandRoom", "no room", "2 of 3 are missing"))
    heard.decided(Notice(UID, "NoOnDemandRoom", "no room", "1 of 3 are missing"))
    assert heard.events == [("web", "NoOnDemandRoom", "2 of 3 are missing: no room")]


@pytest.mark.rule("spot:B14")
def test_what_would_be_moved_is_told_once() -> None:
    heard = Heard()
    for _ in range(3):
        heard.decided(limits=Limits(read_only=True))
    ((name, reason, message),) = heard.events
    assert (name, reason) == ("web", "ReadOnly")
    assert message.startswith("spot would evict pod ")
    assert message.endswith(": to-on-demand")


@pytest.mark.finding("N30")
@pytest.mark.rule("spot:B8")
def test_pods_that_are_released_together_are_named_together() -> None:
    heard = Heard()

    def released(number: int) -> str:
        move = Release(PodKey("shop", f"web-{number}"), f"uid-{number}", UID, Reason.EVACUATE, NOW, {})
        heard.telling.notify_attempt(Attempt(move, AttemptOutcome.DONE))
        return heard.events[-1][2]

    assert released(1) == "spot released pod web-1: evacuate"
    assert released(2) == "spot released 2 pods, web-1, web-2: evacuate"
    for number in range(3, 13):
        last = released(number)
    assert last.startswith("spot released 12 pods, web-3, web-4, ")
    assert last.endswith("web-12 and 2 more: evacuate")
    heard.now += 61
    assert released(13) == "spot released pod web-13: evacuate"
