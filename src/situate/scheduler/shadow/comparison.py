"""Beside another scheduler: decides about each of its pods, binds nothing, and tells where and why it chose otherwise.

A binding is compared when it is seen, on the cluster as it is known at that moment, which has all bindings that were
seen before; its node agrees if it is among our best. What both cannot have seen at the same time is no difference:
where the node is not among our best, the cluster as it was when the pod was seen first is asked too, since the other
scheduler decided some time between the two; and a moment later the cluster with the bindings that were seen next, since
it counts what it has decided before it writes it, and its writes overtake each other. A refusal (condition
`PodScheduled`) is compared only once it has stood for a while.

`Shadow` is told by stores and performs nothing; watching, and asking extenders, is `situate.scheduler.shadow.service`.
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
"""A refusal that has stood for so long is one: the back-off of a pod that something may help ends after 10 s."""
OVERTAKES_S: Final = 1.0
"""How much later a binding may be seen than one that was decided after it."""
_OVERTAKING: Final = 50
"""Bindings that are tried before a difference is one."""
FIRST_SIGHT_S: Final = 60.0
"""How long the cluster as it was when a pod came is kept: it holds on to all that has happened since."""


@dataclass(frozen=True, slots=True)
class Decided:
    """One of the other scheduler's decisions, beside ours."""

    at: float
    pod: Pod
    comparison: Comparison | None
    """None where a plugin of ours failed."""
    problem: str = ""
    unanswered: tuple[str, ...] = ()
    """Extenders that were asked in vain; the comparison is without them."""

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
        """What is different, and who could not be asked about it."""
        why = self.problem if self.comparison is None else self.comparison.why
        return "; ".join(part for part in (why, *self.unanswered) if part)


@dataclass(frozen=True, slots=True, eq=False)
class Consultation:
    """A comparison that stands still until extenders have answered."""

    steps: Steps[None]
    questions: tuple[extenders.Question, ...]


@dataclass(frozen=True, slots=True)
class _Doubtful:
    """A difference that bindings which were overtaken may explain."""

    decided: Decided
    question: Question


@dataclass(slots=True)
class _Refused:
    since: float
    told: bool = False


def nobody_to_consult(consultation: Consultation) -> None:
    """For engines without extenders."""
    raise AssertionError(f"there is nobody to ask {consultation.questions}")


@dataclass(slots=True)
class Shadow:
    """Mutable. Register `changed` with the store of pods before whatever tells the engine: it is asked beforehand."""

    engine: Callable[[], Engine | None]
    """Which knows what the stores know, and in which nobody schedules; None while not all has been seen."""
    tell: Callable[[Decided], None]
    clock: Callable[[], float]
    consult: Callable[[Consultation], None] = nobody_to_consult
    """Has the questions answered, and calls `answered`."""
    counts: dict[str, int] = field(default_factory=dict)
    """By result; every one of them that there can be, once the first decision was seen."""
    _first_seen: dict[str, tuple[float, Snapshot]] = field(default_factory=dict)
    """By uid, the oldest first."""
    _known: set[str] = field(default_factory=set)
    """Pods that wait, by uid."""
    _refused: dict[PodKey, _Refused] = field(default_factory=dict)
    _doubtful: deque[_Doubtful] = field(default_factory=deque)
    _consulting: int = 0
    """Comparisons that stand still."""
    _bound: deque[tuple[float, Pod]] = field(default_factory=deque)
    """The latest bindings, with the time at which each was seen."""

    def changed(self, old: Pod | None, new: Pod | None) -> None:
        """A pod has appeared, changed or gone; the engine does not know it yet."""
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
        """Compares what has stood long enough; `pods` gives a pod by namespace and name."""
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
        if not refused or pod.status.nominated_node_name:  # with a promise it is about to get its node
            self._refused.pop(key, None)
        elif key not in self._refused:
            self._refused[key] = _Refused(self.clock())

    def _forget(self, pod: Pod) -> None:
        self._first_seen.pop(pod.metadata.uid, None)
        self._known.discard(pod.metadata.uid)
        self._refused.pop((pod.metadata.namespace, pod.metadata.name), None)

    def answered(self, consultation: Consultation, replies: Sequence[Reply]) -> None:
        """One reply for each question, in their order."""
        self._consulting -= 1
        self._go_on(consultation.steps, replies)

    def _go_on(self, steps: Steps[None], replies: Sequence[Reply] | None) -> None:
        """To the next questions, or to the end."""
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
            if question.extenders:  # by the time they have answered the engine is further on
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
        """The decision, on the first cluster with some of the bindings seen since on which both agree."""
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
    """`30 decisions: 28 same, 2 equally good`."""
    total = sum(counts.values())
    parts = ", ".join(f"{number} {result}" for result, number in counts.items() if number)
    return f"{counted(total, 'decision')}: {parts}" if total else "no decision was seen"
