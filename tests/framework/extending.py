"""Engines with extenders, and what these reply."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from situate.framework.engine.decisions import Asked, Decision
from situate.framework.engine.engine import Engine
from situate.framework.plugin_api.configuration import Extender
from situate.framework.preemption.extenders import ExtenderQuestion, ExtenderReply, FilterNodes, FilterReply, NoReply
from situate.framework.profile.profile import profile_of
from situate.framework.queue.scheduling_queue import QueueSettings
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.nodes import Node, NodeStatus
from situate.objects.kinds.pods import Container, Pod, PodSpec, PodStatus, ResourceRequirements
from situate.objects.values.quantity import parse_quantity
from situate.plugins.default_binder import DefaultBinder
from situate.plugins.default_preemption import DefaultPreemption
from situate.plugins.node_resources_fit import NodeResourcesFit
from situate.plugins.priority_sort import PrioritySort

Answering = Callable[[ExtenderQuestion], ExtenderReply]
GPU = "example.com/gpu"


def extender(name: str = "one", **settings: Any) -> Extender:
    verbs = settings or {"filter_verb": "filter"}
    return Extender(f"http://{name}", **verbs)


def engine_of(*extenders: Extender, score: bool = False) -> Engine:
    plugins: list[tuple[Any, int]] = [(PrioritySort(), 0), (DefaultPreemption(), 0), (DefaultBinder(), 0)]
    profile = profile_of("here", plugins + ([(NodeResourcesFit(), 1)] if score else [(FitOnly(), 0)]))
    return Engine([profile], QueueSettings(pop_from_backoff=False), extenders=extenders)


class FitOnly:
    """Room, without an opinion on which node is better."""

    name = "NodeResourcesFit"

    def __init__(self) -> None:
        fit = NodeResourcesFit()
        self.filter = fit.filter
        self.needs = fit.needs
        self.events = fit.events


def node(name: str, cpu: str = "1") -> Node:
    room = {"cpu": parse_quantity(cpu), "memory": parse_quantity("1Gi"), "pods": parse_quantity("10")}
    return Node(ObjectMeta(name=name), status=NodeStatus(allocatable={**room, GPU: parse_quantity("4")}))


def pod(
    name: str, cpu: str = "600m", *, on: str = "", priority: int = 0, gpu: bool = False, nominated: str = ""
) -> Pod:
    requests = {"cpu": parse_quantity(cpu)} | ({GPU: parse_quantity("1")} if gpu else {})
    spec = PodSpec(
        scheduler_name="here",
        node_name=on,
        priority=priority,
        containers=(Container(resources=ResourceRequirements(requests=requests)),),
    )
    meta = ObjectMeta(name=name, namespace="default", uid=name)
    return Pod(meta, spec, PodStatus(nominated_node_name=nominated))


def with_nodes(engine: Engine, *names: str) -> Engine:
    for name in names:
        engine.set_node(node(name), 0)
    return engine


def carried_out(engine: Engine, decision: Any, answer: Answering, now: float = 0) -> tuple[Any, list[ExtenderQuestion]]:
    """The decision in the end, with all that was asked for it."""
    asked: list[ExtenderQuestion] = []
    while isinstance(decision, Asked):
        asked += decision.questions
        decision = engine.resume([answer(question) for question in decision.questions], now)
    return decision, asked


def scheduled(engine: Engine, answer: Answering, now: float = 0) -> tuple[Decision | None, list[ExtenderQuestion]]:
    decision, asked = carried_out(engine, engine.schedule(now), answer, now)
    return decision, asked


def passes(*names: str, failed: dict[str, str] | None = None, unresolvable: dict[str, str] | None = None) -> Answering:
    """An extender that lets these of the nodes pass that it is asked about."""

    def answer(question: ExtenderQuestion) -> ExtenderReply:
        assert isinstance(question, FilterNodes)
        return FilterReply(tuple(each for each in question.nodes if each in names), failed or {}, unresolvable or {})

    return answer


def by_name(**answers: Answering) -> Answering:
    return lambda question: answers[question.extender.url_prefix.removeprefix("http://")](question)


def nowhere(question: ExtenderQuestion) -> ExtenderReply:
    return NoReply("it took more than 5 s")
