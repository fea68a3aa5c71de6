"""Runs a shadow as a service: it watches, compares, counts and reports; it writes nothing but Events."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

import structlog
from prometheus_client import CollectorRegistry, Counter

from situate.framework.engine.engine import Engine
from situate.framework.preemption.extenders import ExtenderQuestion, ExtenderReply
from situate.kube.client import Client
from situate.kube.events import NORMAL, RecordActionEvent, reference
from situate.objects.kinds.meta import KubernetesObject
from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod
from situate.objects.resources import PODS, ResourceType
from situate.scheduler.controller.engine_feed import EngineFeed, ProblemReporter
from situate.scheduler.controller.informers import Informers
from situate.scheduler.shadow.comparison import ComparedDecision, Consultation, Shadow, reject_consultation

_CHECK_INTERVAL_S: Final = 1.0
_CONCURRENT_COMPARISONS: Final = 8
"""Comparisons for which extenders are asked at a time."""

Ask: TypeAlias = Callable[[Sequence[ExtenderQuestion]], Awaitable[Sequence[ExtenderReply]]]
"""Returns one reply for each question, in order."""


class ShadowScheduler:
    """A service: `run` until cancelled."""

    name = "scheduler shadow"

    def __init__(
        self,
        make_engine: Callable[[], Engine],
        client: Client,
        complaints: ProblemReporter,
        tell: Callable[[ComparedDecision], None],
        *,
        rng: random.Random,
        ask: Ask | None = None,
    ) -> None:
        """`report_decision` is called for every decision of the other scheduler.

        `ask` calls the extenders that `read_only` returns; None if the engine has none.
        """
        self.informers = Informers.create(client, rng)
        self.engine: Engine | None = None
        self.shadow = Shadow(
            lambda: self.engine, tell, _loop_time, reject_consultation if ask is None else self._consult
        )
        self._ask = ask
        self._slots = asyncio.Semaphore(_CONCURRENT_COMPARISONS)
        self._group: asyncio.TaskGroup | None = None
        self._make_engine = make_engine
        self.informers.pods.store.on_change(self.shadow.on_pod_change)  # before the intake, so that it is called first
        self._engine_feed = EngineFeed(self.informers.stores, complaints, _loop_time)

    async def run(self) -> None:
        """Run until cancelled. Raises only on a defect of this program."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            for each in self.informers.reflectors():
                group.create_task(each.run(), name=each.name)
            await self.informers.wait_synced()
            engine = self._make_engine()
            self._engine_feed.begin(engine, self._engine_feed.hand_over_catalog)
            self.engine = engine
            for pod in self.informers.pods.store.list():
                if not pod.spec.node_name:
                    self.shadow.on_pod_change(None, pod)
            while True:
                await asyncio.sleep(_CHECK_INTERVAL_S)
                self._engine_feed.hand_over_catalog()
                self.shadow.compare_due(lambda namespace, name: self.informers.pods.store.get(name, namespace))

    def _consult(self, consultation: Consultation) -> None:
        assert self._group is not None
        self._group.create_task(self._ask_extenders(consultation))

    async def _ask_extenders(self, consultation: Consultation) -> None:
        assert self._ask is not None
        async with self._slots:
            replies = await self._ask(consultation.questions)
        self.shadow.resume_comparison(consultation, replies)

    def not_ready(self) -> str | None:
        """Return why it is not ready."""
        return self.informers.not_ready()


class ShadowNotifier:
    """Metrics, log and optional Events of a shadow that runs for a long time."""

    def __init__(self, registry: CollectorRegistry, record: RecordActionEvent | None) -> None:
        """`record` writes Events on the pods; None writes none."""
        self._record = record
        self._decisions = Counter(
            "situate_scheduler_shadow_decisions",
            "Decisions of another scheduler that the shadow has compared with its own, by result.",
            ("profile", "result"),
            registry=registry,
        )
        self._reported_problems: dict[str, str] = {}
        """By uid: the last problem reported for an object that cannot be used."""
        self._log = structlog.get_logger()

    def bad_object(self, each: Pod | Node, problem: str) -> None:
        """Report an object that cannot be used; once until the problem changes."""
        if self._reported_problems.get(each.metadata.uid) != problem:
            self._reported_problems[each.metadata.uid] = problem
            self._log.warning("unusable object or value ignored", object=each.metadata.name, error=problem)

    def bad_selector(self, resource: ResourceType[Any], each: KubernetesObject, problem: str) -> None:
        self._log.warning(
            "unusable object or value ignored", object=f"{resource.plural} {each.metadata.name}", error=problem
        )

    def good_object(self, resource: str, uid: str) -> None:  # noqa: ARG002 - the signature is `ProblemReporter`'
        self._reported_problems.pop(uid, None)

    def report_decision(self, decided: ComparedDecision) -> None:
        profile = decided.pod.spec.scheduler_name
        self._decisions.labels(profile, decided.result).inc()
        if decided.comparison is None:
            self._log.error("comparison of a decision failed", pod=decided.name, error=decided.problem)
            return
        for problem in decided.unanswered:
            self._log.warning("extender did not answer the shadow", pod=decided.name, error=problem)
        if not decided.agrees:
            self._log.warning("another scheduler chose differently", pod=decided.name, reason=decided.difference)
            if self._record is not None:
                message = f"The shadow chose differently ({decided.result}): {decided.difference}"
                regarding = reference(PODS, decided.pod)
                self._record(regarding, NORMAL, "ChosenDifferently", message, "Comparing", None, profile)


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
