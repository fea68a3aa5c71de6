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
from situate.framework.preemption.extenders import Reply, Steps, noting
from situate.framework.snapshot.snapshot import Snapshot
from situate.objects.kinds.pods import Pod
from situate.objects.values.counts import counted

STANDS_S: Final = 15.0
"""How long a refusal must last to count: the back-off of a pod that an event may help ends after 10 s."""
OVERTAKES_S: Final = 1.0
"""How much later a binding may be seen than one that was decided after it."""
_OVERTAKING: Final = 50
"""Bindings tried before a difference counts."""
FIRST_SIGHT_S: Final = 60.0
"""How long the snapshot of a pod's first sight is retained: it references everything that has changed since."""


@dataclass(frozen=True, slots=True)
class Decided:
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
    def why(self) -> str:
        """Return the difference, and the extenders that did not answer."""
        why = self.problem if self.comparison is None else self.comparison.why
        return "; ".join(part for part in (why, *self.unanswered) if part)


@dataclass(frozen=True, slots=True, eq=False)
class Consultation:
    """A comparison that is suspended until extenders have answered."""

    steps: Steps[None]
    questions: tuple[extenders.Question, ...]


@dataclass(frozen=True, slots=True)
class _Doubtful:
    """A difference that bindings seen later may explain."""

    decided: Decided
    question: Question


@dataclass(slots=True)
class _Refused:
    since: float
    told: bool = False


def nobody_to_consult(consultation: Consultation) -> None:
    """Reject a consultation: for engines without extenders."""
    raise AssertionError(f"no extender is configured to answer {consultation.questions}")


@dataclass(slots=True)
class Shadow:
    """The comparison of all decisions. Register `changed` with the store of pods before the engine's feed.

    `changed` must run before the engine has the change.
    """

    engine: Callable[[], Engine | None]
    """Returns the engine, which has the state of the stores but schedules nothing; None until everything was listed."""
    tell: Callable[[Decided], None]
    clock: Callable[[], float]
    consult: Callable[[Consultation], None] = nobody_to_consult
    """Gets the questions answered, then calls `answered`."""
    counts: dict[str, int] = field(default_factory=dict)
    """By result; every possible result, once the first decision was seen."""
    _first_seen: dict[str, tuple[float, Snapshot]] = field(default_factory=dict)
    """By uid, the oldest first."""
    _known: set[str] = field(default_factory=set)
    """Uids of pods that wait."""
    _refused: dict[PodKey, _Refused] = field(default_factory=dict)
    _doubtful: deque[_Doubtful] = field(default_factory=deque)
    _consulting: int = 0
    """Number of suspended comparisons."""
    _bound: deque[tuple[float, Pod]] = field(default_factory=deque)
    """The latest bindings, with the time at which each was seen."""

    def changed(self, old: Pod | None, new: Pod | None) -> None:
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
                    self._bound.append((self.clock(), new))
                self._forget(new)
            else:
                self._note_waiting(engine, new)

    def due(self, pods: Callable[[str, str], Pod | None]) -> None:
        """Compare decisions that have lasted long enough; `pods` returns a pod by namespace and name."""
        engine, now = self.engine(), self.clock()
        if engine is None:
            return
        while self._first_seen and now - next(iter(self._first_seen.values()))[0] > FIRST_SIGHT_S:
            del self._first_seen[next(iter(self._first_seen))]
        while self._doubtful and now - self._doubtful[0].decided.at >= OVERTAKES_S:
            self._go_on(self._with_overtaken(self._doubtful.popleft()), None)
        while self._bound and now - self._bound[0][0] > 2 * OVERTAKES_S and not (self._doubtful or self._consulting):
            self._bound.popleft()
        for (namespace, name), refused in list(self._refused.items()):
            if refused.told or now - refused.since < STANDS_S:
                continue
            pod = pods(namespace, name)
            refused.told = True
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
            self._refused.pop(key, None)
        elif key not in self._refused:
            self._refused[key] = _Refused(self.clock())

    def _forget(self, pod: Pod) -> None:
        self._first_seen.pop(pod.metadata.uid, None)
        self._known.discard(pod.metadata.uid)
        self._refused.pop((pod.metadata.namespace, pod.metadata.name), None)

    def answered(self, consultation: Consultation, replies: Sequence[Reply]) -> None:
        """Resume a comparison with one reply for each question, in order."""
        self._consulting -= 1
        self._go_on(consultation.steps, replies)

    def _go_on(self, steps: Steps[None], replies: Sequence[Reply] | None) -> None:
        """Run a comparison to its next questions, or to its end."""
        try:
            questions = next(steps) if replies is None else steps.send(replies)
        except StopIteration:
            return
        self._consulting += 1
        self.consult(Consultation(steps, questions))

    def _decide(self, engine: Engine, pod: Pod, theirs: str, earlier: Snapshot | None) -> None:
        self._go_on(self._compared(engine, pod, theirs, earlier), None)

    def _compared(self, engine: Engine, pod: Pod, theirs: str, earlier: Snapshot | None) -> Steps[None]:
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
        decided = Decided(at, pod, comparison, problem, tuple(unanswered))
        if theirs and question is not None and comparison is not None and not decided.agrees:
            self._doubtful.append(_Doubtful(decided, question))
        else:
            self._count(decided)

    def _with_overtaken(self, doubtful: _Doubtful) -> Steps[None]:
        """Compare again, adding the bindings seen since one by one, until both agree; count the result."""
        decided, question = doubtful.decided, doubtful.question
        snapshot = question.snapshot
        unanswered = dict.fromkeys(decided.unanswered)
        later = [pod for at, pod in self._bound if decided.at <= at <= decided.at + OVERTAKES_S]
        for pod in later[:_OVERTAKING]:
            index = snapshot.nodes.index.get(pod.spec.node_name)
            if index is None or pod.metadata.uid == decided.pod.metadata.uid or pod.metadata.uid in snapshot.placed:
                continue
            snapshot = snapshot.assume(question.reader.read(pod), index)
            found = yield from _compare(replace(question, snapshot=snapshot), decided.pod.spec.node_name, unanswered)
            if found.agreement.agrees:
                decided = replace(decided, comparison=found)
                break
        self._count(decided)

    def _count(self, decided: Decided) -> None:
        if not self.counts:
            self.counts.update(dict.fromkeys((*(each.value for each in Agreement), "failed"), 0))
        self.counts[decided.result] += 1
        self.tell(decided)


def _compare(question: Question, theirs: str, unanswered: dict[str, None]) -> Steps[Comparison]:
    return (yield from noting(compare_steps(question, theirs), unanswered.setdefault))


def summary(counts: Mapping[str, int]) -> str:
    """Format counts: `30 decisions: 28 same, 2 equally good`."""
    total = sum(counts.values())
    parts = ", ".join(f"{number} {result}" for result, number in counts.items() if number)
    return f"{counted(total, 'decision')}: {parts}" if total else "no decision was seen"
