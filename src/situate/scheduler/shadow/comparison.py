"""Decides about each pod of another scheduler, binds nothing, and reports where and why it chose differently.

A binding is compared when it is seen, on the cluster as known at that moment, with all bindings seen before. Its node
agrees if it is among the best nodes here. Otherwise two other states are tried, because the two schedulers may have
seen different states. The first is the cluster when the pod was first seen: the other scheduler decided between the two
moments. The second, a moment later, is the cluster with the bindings that were seen next: the other scheduler counts
decisions before it writes them, and its writes may arrive in another order. A refusal (condition `PodScheduled`) is
compared only after it has lasted for a while.

`Shadow` is notified by stores and performs nothing; `situate.scheduler.shadow.service` watches and asks extenders.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from situate.framework.cycle.cycle import PluginFailed
from situate.framework.engine.engine import Engine
from situate.framework.explain.compare import Agreement, Comparison, compare_steps
from situate.framework.explain.explain import Question
from situate.framework.pod.pods import BadPod, PodKey
from situate.framework.preemption import extenders
from situate.framework.preemption.extenders import ExtenderReply, Steps, report_bad_replies
from situate.framework.snapshot.snapshot import Snapshot
from situate.objects.kinds.pods import Pod
from situate.objects.values.counts import format_count

REFUSAL_AGE_S: Final = 15.0
"""How long a refusal must last to count: the back-off of a pod that an event may help ends after 10 s."""
OVERTAKING_S: Final = 1.0
"""How much later a binding may be seen than one that was decided after it."""
_OVERTAKING_LIMIT: Final = 50
"""Bindings tried before a difference counts."""
FIRST_SIGHT_S: Final = 60.0
"""How long the snapshot of a pod's first sight is retained: it references everything that has changed since."""


@dataclass(frozen=True, slots=True)
class ComparedDecision:
    """A decision of the other scheduler, compared with the decision here."""

    at: float
    pod: Pod
    comparison: Comparison | None
    """None if a plugin failed here."""
    problem: str = ""
    unanswered: tuple[str, ...] = ()
    """Extenders that did not answer; the comparison is without them."""

    @property
    def name(self) -> str:
        return f"{self.pod.metadata.namespace}/{self.pod.metadata.name}"

    @property
    def result(self) -> str:
        return "failed" if self.comparison is None else self.comparison.agreement.value

    @property
    def agrees(self) -> bool:
        return self.comparison is not None and self.comparison.agreement.agrees

    @property
    def difference(self) -> str:
        """Return the difference, and the extenders that did not answer."""
        why = self.problem if self.comparison is None else self.comparison.difference
        return "; ".join(part for part in (why, *self.unanswered) if part)


@dataclass(frozen=True, slots=True, eq=False)
class Consultation:
    """A comparison that is suspended until extenders have answered."""

    steps: Steps[None]
    questions: tuple[extenders.ExtenderQuestion, ...]


@dataclass(frozen=True, slots=True)
class _PendingDifference:
    """A difference that bindings seen later may explain."""

    decided: ComparedDecision
    question: Question


@dataclass(slots=True)
class _PendingRefusal:
    since: float
    compared: bool = False


def reject_consultation(consultation: Consultation) -> None:
    """Reject a consultation: for engines without extenders."""
    raise AssertionError(f"no extender is configured to answer {consultation.questions}")


@dataclass(slots=True)
class Shadow:
    """The comparison of all decisions. Register `on_pod_change` with the store of pods before the engine's feed.

    `on_pod_change` must run before the engine has the change.
    """

    engine: Callable[[], Engine | None]
    """Returns the engine, which has the state of the stores but schedules nothing; None until everything was listed."""
    report: Callable[[ComparedDecision], None]
    clock: Callable[[], float]
    consult: Callable[[Consultation], None] = reject_consultation
    """Gets the questions answered, then calls `resume_comparison`."""
    counts: dict[str, int] = field(default_factory=dict)
    """By result; every possible result, once the first decision was seen."""
    _first_seen: dict[str, tuple[float, Snapshot]] = field(default_factory=dict)
    """By uid, the oldest first."""
    _known: set[str] = field(default_factory=set)
    """Uids of pods that wait."""
    _pending_refusals: dict[PodKey, _PendingRefusal] = field(default_factory=dict)
    _pending_differences: deque[_PendingDifference] = field(default_factory=deque)
    _consulting: int = 0
    """Number of suspended comparisons."""
    _latest_bindings: deque[tuple[float, Pod]] = field(default_factory=deque)
    """The latest bindings, with the time at which each was seen."""

    def on_pod_change(self, old: Pod | None, new: Pod | None) -> None:
        """Handle a pod that appeared, changed or was deleted; the engine does not have the change yet."""
        engine = self.engine()
        if engine is None:
            return
        if new is None:
            assert old is not None
            self._forget(old)
        elif new.spec.scheduler_name in engine.profiles:
            waited = old is not None and not old.spec.node_name and old.metadata.uid == new.metadata.uid
            if new.spec.node_name:
                if waited:
                    _, earlier = self._first_seen.get(new.metadata.uid, (0.0, None))
                    self._decide(engine, new, new.spec.node_name, earlier)
                    self._latest_bindings.append((self.clock(), new))
                self._forget(new)
            else:
                self._note_waiting(engine, new)

    def compare_due(self, pods: Callable[[str, str], Pod | None]) -> None:
        """Compare decisions that have lasted long enough; `pods` returns a pod by namespace and name."""
        engine, now = self.engine(), self.clock()
        if engine is None:
            return
        while self._first_seen and now - next(iter(self._first_seen.values()))[0] > FIRST_SIGHT_S:
            del self._first_seen[next(iter(self._first_seen))]
        while self._pending_differences and now - self._pending_differences[0].decided.at >= OVERTAKING_S:
            self._run_steps(self._later_binding_steps(self._pending_differences.popleft()), None)
        while (
            self._latest_bindings
            and now - self._latest_bindings[0][0] > 2 * OVERTAKING_S
            and not (self._pending_differences or self._consulting)
        ):
            self._latest_bindings.popleft()
        for (namespace, name), refused in list(self._pending_refusals.items()):
            if refused.compared or now - refused.since < REFUSAL_AGE_S:
                continue
            pod = pods(namespace, name)
            refused.compared = True
            if pod is not None and not pod.spec.node_name:
                self._decide(engine, pod, "", None)

    def _note_waiting(self, engine: Engine, pod: Pod) -> None:
        uid = pod.metadata.uid
        if uid not in self._known:
            self._known.add(uid)
            self._first_seen[uid] = self.clock(), engine.snapshot
        key = pod.metadata.namespace, pod.metadata.name
        condition = pod.condition("PodScheduled")
        refused = condition is not None and (condition.status, condition.reason) == ("False", "Unschedulable")
        if not refused or pod.status.nominated_node_name:  # a nominated pod is about to get its node
            self._pending_refusals.pop(key, None)
        elif key not in self._pending_refusals:
            self._pending_refusals[key] = _PendingRefusal(self.clock())

    def _forget(self, pod: Pod) -> None:
        self._first_seen.pop(pod.metadata.uid, None)
        self._known.discard(pod.metadata.uid)
        self._pending_refusals.pop((pod.metadata.namespace, pod.metadata.name), None)

    def resume_comparison(self, consultation: Consultation, replies: Sequence[ExtenderReply]) -> None:
        """Resume a comparison with one reply for each question, in order."""
        self._consulting -= 1
        self._run_steps(consultation.steps, replies)

    def _run_steps(self, steps: Steps[None], replies: Sequence[ExtenderReply] | None) -> None:
        """Run a comparison to its next questions, or to its end."""
        try:
            questions = next(steps) if replies is None else steps.send(replies)
        except StopIteration:
            return
        self._consulting += 1
        self.consult(Consultation(steps, questions))

    def _decide(self, engine: Engine, pod: Pod, theirs: str, earlier: Snapshot | None) -> None:
        self._run_steps(self._comparison_steps(engine, pod, theirs, earlier), None)

    def _comparison_steps(self, engine: Engine, pod: Pod, theirs: str, earlier: Snapshot | None) -> Steps[None]:
        at, comparison, problem, question = self.clock(), None, "", None
        unanswered: dict[str, None] = {}
        try:
            question = Question.of(engine, pod)
            if question.extenders:  # the engine advances before they answer
                question = replace(question, snapshot=question.snapshot.branch())
            comparison = yield from _compare(question, theirs, unanswered)
            if not comparison.agreement.agrees and earlier is not None:
                before = yield from _compare(replace(question, snapshot=earlier), theirs, unanswered)
                comparison = before if before.agreement.agrees else comparison
        except (BadPod, PluginFailed) as failed:
            problem = str(failed)
        decided = ComparedDecision(at, pod, comparison, problem, tuple(unanswered))
        if theirs and question is not None and comparison is not None and not decided.agrees:
            self._pending_differences.append(_PendingDifference(decided, question))
        else:
            self._count(decided)

    def _later_binding_steps(self, doubtful: _PendingDifference) -> Steps[None]:
        """Compare again, adding the bindings seen since one by one, until both agree; count the result."""
        decided, question = doubtful.decided, doubtful.question
        snapshot = question.snapshot
        unanswered = dict.fromkeys(decided.unanswered)
        later = [pod for at, pod in self._latest_bindings if decided.at <= at <= decided.at + OVERTAKING_S]
        for pod in later[:_OVERTAKING_LIMIT]:
            index = snapshot.nodes.index.get(pod.spec.node_name)
            if index is None or pod.metadata.uid == decided.pod.metadata.uid or pod.metadata.uid in snapshot.placed:
                continue
            snapshot = snapshot.assume(question.reader.read(pod), index)
            found = yield from _compare(replace(question, snapshot=snapshot), decided.pod.spec.node_name, unanswered)
            if found.agreement.agrees:
                decided = replace(decided, comparison=found)
                break
        self._count(decided)

    def _count(self, decided: ComparedDecision) -> None:
        if not self.counts:
            self.counts.update(dict.fromkeys((*(each.value for each in Agreement), "failed"), 0))
        self.counts[decided.result] += 1
        self.report(decided)


def _compare(question: Question, theirs: str, unanswered: dict[str, None]) -> Steps[Comparison]:
    return (yield from report_bad_replies(compare_steps(question, theirs), unanswered.setdefault))


def summary(counts: Mapping[str, int]) -> str:
    """Format counts: `30 decisions: 28 same, 2 equally good`."""
    total = sum(counts.values())
    parts = ", ".join(f"{number} {result}" for result, number in counts.items() if number)
    return f"{format_count(total, 'decision')}: {parts}" if total else "no decision was seen"
