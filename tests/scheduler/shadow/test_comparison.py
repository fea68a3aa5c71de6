from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from situate.framework.engine.engine import Engine
from situate.framework.plugin_api.configuration import Extender
from situate.framework.preemption.extenders import ExtenderReply, FilterReply, NoReply, read_only_extenders
from situate.objects.kinds.events import ObjectReference
from situate.objects.kinds.meta import Condition
from situate.objects.kinds.nodes import Taint
from situate.objects.kinds.pods import (
    Affinity,
    NodeAffinity,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    PodStatus,
    PreferredSchedulingTerm,
)
from situate.scheduler.controller.engine_feed import EngineFeed
from situate.scheduler.controller.informers import Stores
from situate.scheduler.shadow.comparison import (
    FIRST_SIGHT_S,
    OVERTAKING_S,
    REFUSAL_AGE_S,
    ComparedDecision,
    Consultation,
    Shadow,
    summary,
)
from situate.scheduler.shadow.service import ShadowNotifier
from tests.framework.clusters import a_node, a_pod, default_profile
from tests.scheduler.recordings.test_replay import Complaints


@dataclass
class Beside:
    """A cluster whose pods somebody else binds."""

    stores: Stores = field(default_factory=Stores.create_empty)
    told: list[ComparedDecision] = field(default_factory=list)
    now: float = 0.0

    def __post_init__(self) -> None:
        self.engine = Engine([default_profile()])
        self.shadow = Shadow(lambda: self.engine, self.told.append, lambda: self.now)
        self.stores.pods.on_change(self.shadow.on_pod_change)
        EngineFeed(self.stores, Complaints(), lambda: self.now).begin(self.engine, lambda: None)

    def nodes(self, *names: str, cpu: str = "4") -> None:
        for name in names:
            self.stores.nodes.put(a_node(name, cpu=cpu))

    def waits(self, pod: Pod) -> Pod:
        self.stores.pods.put(pod)
        return pod

    def bind(self, pod: Pod, node: str) -> None:
        spec = msgspec.structs.replace(pod.spec, node_name=node)
        self.stores.pods.put(msgspec.structs.replace(pod, spec=spec))

    def refuse(self, pod: Pod, *, nominated: str = "") -> None:
        condition = Condition("PodScheduled", "False", "Unschedulable", "0/1 nodes are available: 1 of no use.")
        status = PodStatus(conditions=(condition,), nominated_node_name=nominated)
        self.stores.pods.put(msgspec.structs.replace(pod, status=status))

    def later(self, seconds: float) -> None:
        self.now += seconds
        self.shadow.compare_due(lambda namespace, name: self.stores.pods.get(name, namespace))

    @property
    def results(self) -> list[tuple[str, str, str]]:
        return [(each.name, each.result, each.difference) for each in self.told]


def test_a_binding_is_compared_on_the_cluster_with_all_bindings_before_it() -> None:
    beside = Beside()
    beside.nodes("a", "b")
    first, second = (beside.waits(a_pod(name, "1")) for name in ("first", "second"))
    beside.bind(first, "b")
    beside.bind(second, "a")
    assert beside.results == [("default/first", "equally good", ""), ("default/second", "same", "")]
    assert beside.shadow.counts["same"] == 1
    assert summary(beside.shadow.counts) == "2 decisions: 1 same, 1 equally good"


def test_a_worse_node_is_told_with_the_reason() -> None:
    beside = Beside()
    beside.nodes("a", "b")
    beside.bind(beside.waits(a_pod("first", "3")), "a")
    beside.bind(beside.waits(a_pod("second", "1")), "a")
    beside.later(OVERTAKING_S)
    ((_, result, why),) = beside.results[1:]
    assert result == "other node"
    assert why.startswith("b has ")
    assert "NodeResourcesFit" in why


def test_what_the_other_scheduler_could_not_know_yet_is_no_difference() -> None:
    beside = Beside()
    beside.nodes("a")
    pod = beside.waits(a_pod("web", "1"))
    beside.nodes("better", cpu="64")  # it appears after the decision, before we hear of it
    beside.bind(pod, "a")
    assert [each.result for each in beside.told] == ["same"]


def test_the_cluster_as_it_was_is_not_kept_for_ever() -> None:
    beside = Beside()
    beside.nodes("a")
    pod = beside.waits(a_pod("web", "1"))
    beside.later(FIRST_SIGHT_S + 1)
    beside.nodes("better", cpu="64")
    beside.waits(pod)  # an update is no first sight
    beside.bind(pod, "a")
    beside.later(OVERTAKING_S)
    assert [each.result for each in beside.told] == ["other node"]


def test_bindings_that_overtake_each_other_are_no_difference() -> None:
    beside = Beside()
    beside.nodes("a", "b")
    beside.bind(beside.waits(a_pod("third", "1")), "b")
    first, second = (beside.waits(a_pod(name, "3")) for name in ("first", "second"))
    beside.bind(second, "b")  # decided when the first was on a already, and seen before it: b is the fuller one here
    beside.bind(first, "a")
    beside.later(OVERTAKING_S / 2)
    assert [each.name for each in beside.told] == ["default/third", "default/first"]
    beside.later(OVERTAKING_S / 2)
    assert [each.name for each in beside.told] == ["default/third", "default/first", "default/second"]
    assert all(each.agrees for each in beside.told)


def test_a_node_that_will_not_do_is_told_with_all_plugins_that_say_so() -> None:
    beside = Beside()
    beside.stores.nodes.put(a_node("a", taints=(Taint("gpu", "", "NoSchedule"),)))
    beside.nodes("b")
    beside.bind(beside.waits(a_pod("web")), "a")
    beside.later(OVERTAKING_S)
    assert beside.results == [
        ("default/web", "impossible here", "a: TaintToleration: node(s) had untolerated taint(s)")
    ]


def test_a_refusal_is_compared_once_it_has_stood() -> None:
    beside = Beside()
    beside.nodes("a")
    pod = beside.waits(a_pod("web", "1"))
    beside.refuse(pod)
    beside.later(REFUSAL_AGE_S - 1)
    assert beside.told == []
    beside.later(1)
    beside.later(REFUSAL_AGE_S)
    assert beside.results == [("default/web", "refused there", "a is feasible here")]


def test_a_refusal_that_both_agree_on() -> None:
    beside = Beside()
    beside.nodes("a")
    beside.refuse(beside.waits(a_pod("web", "64")))
    beside.later(REFUSAL_AGE_S)
    assert [each.result for each in beside.told] == ["same"]


def test_a_refusal_that_ends_in_a_binding_or_a_promise_is_none() -> None:
    beside = Beside()
    beside.nodes("a")
    bound, promised, gone = (beside.waits(a_pod(name, "1")) for name in ("bound", "promised", "gone"))
    for pod in (bound, promised, gone):
        beside.refuse(pod)
    beside.bind(bound, "a")
    beside.refuse(promised, nominated="a")
    beside.stores.pods.remove("gone", "default")
    beside.later(2 * REFUSAL_AGE_S)
    assert [each.name for each in beside.told] == ["default/bound"]


def test_pods_of_other_schedulers_and_pods_that_came_with_a_node_are_nobodys_decision() -> None:
    beside = Beside()
    beside.nodes("a")
    other = a_pod("other")
    other = msgspec.structs.replace(other, spec=msgspec.structs.replace(other.spec, scheduler_name="somebody"))
    beside.bind(beside.waits(other), "a")
    beside.waits(a_pod("static", node="a"))
    assert beside.told == []


def test_a_pod_over_which_a_plugin_fails_is_told_and_does_not_stop_the_others() -> None:
    beside = Beside()
    beside.nodes("a", "b")
    bad = PreferredSchedulingTerm(1, NodeSelectorTerm((NodeSelectorRequirement("gen", "Gt", ("x",)),)))
    pod = a_pod("bad", spec=PodSpec(affinity=Affinity(NodeAffinity(preferred=(bad,)))))
    beside.bind(beside.waits(pod), "a")
    beside.bind(beside.waits(a_pod("good")), "b")
    assert [each.result for each in beside.told] == ["failed", "same"]
    assert "NodeAffinity" in beside.told[0].difference


def test_nothing_is_compared_before_everything_has_been_seen() -> None:
    told: list[ComparedDecision] = []
    shadow = Shadow(lambda: None, told.append, lambda: 0.0)
    pod = a_pod("web")
    shadow.on_pod_change(None, pod)
    shadow.on_pod_change(pod, a_pod("web", node="a"))
    shadow.compare_due(lambda namespace, name: None)
    assert told == []


@pytest.mark.parametrize("wanted", [False, True])
def test_metrics_count_and_events_are_written_where_they_are_wanted(wanted: bool) -> None:
    registry = CollectorRegistry()
    events: list[str] = []

    def record(
        regarding: ObjectReference,
        type_: str,
        reason: str,
        message: str,
        action: str = "",
        related: ObjectReference | None = None,
        reporter: str = "",
    ) -> None:
        events.append(reason)

    reporter = ShadowNotifier(registry, record if wanted else None)
    beside = Beside()
    beside.nodes("a", "b")
    beside.bind(beside.waits(a_pod("first", "3")), "a")
    beside.bind(beside.waits(a_pod("second", "1")), "a")
    beside.later(OVERTAKING_S)
    for each in beside.told:
        reporter.report_decision(each)
    labels = {"profile": "default-scheduler", "result": "other node"}
    assert registry.get_sample_value("situate_scheduler_shadow_decisions_total", labels) == 1
    assert events == (["ChosenDifferently"] if wanted else [])


ONE = Extender("http://one.example", filter_verb="filter")


@dataclass
class BesideExtended(Beside):
    """Where an extender has a say, who answers when the test says so."""

    asked: list[Consultation] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.engine = Engine([default_profile()], extenders=read_only_extenders([ONE]))
        self.shadow = Shadow(lambda: self.engine, self.told.append, lambda: self.now, self.asked.append)
        self.stores.pods.on_change(self.shadow.on_pod_change)
        EngineFeed(self.stores, Complaints(), lambda: self.now).begin(self.engine, lambda: None)

    def answer(self, reply: ExtenderReply) -> None:
        consultation = self.asked.pop(0)
        self.shadow.resume_comparison(consultation, [reply for _ in consultation.questions])


def test_extenders_are_asked_on_the_cluster_of_the_decision() -> None:
    beside = BesideExtended()
    beside.nodes("a", "b")
    beside.bind(beside.waits(a_pod("web", "1")), "a")
    beside.nodes("c")
    assert beside.told == []
    ((question,),) = (each.questions for each in beside.asked)
    assert getattr(question, "nodes", ()) == ("a", "b")
    beside.answer(FilterReply(("a",), {"b": "no licence"}, {}))
    assert beside.results == [("default/web", "same", "")]


def test_a_node_that_an_extender_refuses_is_told() -> None:
    beside = BesideExtended()
    beside.nodes("a", "b")
    beside.bind(beside.waits(a_pod("web", "1")), "a")
    for _ in range(2):  # on the cluster of now, and on that of its arrival
        beside.answer(FilterReply(("b",), {"a": "no licence"}, {}))
    beside.later(OVERTAKING_S)
    assert beside.results == [("default/web", "impossible here", "a: Extender http://one.example: no licence")]


def test_an_extender_that_does_not_answer_is_named() -> None:
    beside = BesideExtended()
    beside.nodes("a", "b")
    beside.bind(beside.waits(a_pod("web", "1")), "a")
    beside.answer(NoReply("connection refused"))
    (told,) = beside.told
    assert told.result == "same"
    assert told.unanswered == ("extender http://one.example at filter: connection refused",)
    assert told.difference == told.unanswered[0]
