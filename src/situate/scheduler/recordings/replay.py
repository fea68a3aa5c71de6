"""Replays a recording under another profile, at the recording's times, and compares each placement.

Two clusters run side by side: `there` is the recorded one, `here` is the result of the profile for the same arrivals.
Pods that arrived without a node are decided here as they arrive. They stay on their node until the recording deletes
them; bindings succeed at once. All other objects (nodes, pods that arrived with a node, budgets) are as recorded.
Further effects of a decision are not simulated: a pod preempted here is gone, and is not created again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from situate.framework.cycle.cycle import PluginFailed
from situate.framework.engine.decisions import Asked, Decision, Failed, Placed, Refused
from situate.framework.engine.engine import Engine
from situate.framework.explain.compare import Agreement, Comparison, compare
from situate.framework.explain.explain import Question
from situate.framework.plugin_api.actions import Evict
from situate.framework.pod.pods import PodInfo
from situate.framework.snapshot.snapshot import Snapshot
from situate.objects.kinds.meta import KubernetesObject
from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod
from situate.objects.resources import PODS, ResourceType
from situate.scheduler.controller.engine_feed import EngineFeed, ProblemReporter
from situate.scheduler.controller.informers import Stores
from situate.scheduler.recordings.format import BindingEntry, Entry, ObjectEntry, SyncedEntry

_SAMPLES: Final = 500
"""Number of points of the time series; there may be up to twice as many."""


@dataclass(slots=True)
class PodStory:
    """A pod that was decided about, here and there."""

    pod: str
    uid: str
    arrived: float
    there: str = ""
    """Its node in the recording; empty if it got none."""
    there_at: float | None = None
    here: str = ""
    here_at: float | None = None
    comparison: Comparison | None = None
    """Comparison of the last decision here; None before the first."""
    problem: str = ""
    """The error of the last decision here."""
    preempted: bool = False
    """Whether it was preempted here."""
    gone: bool = False

    @property
    def agreement(self) -> Agreement | None:
        """Return the agreement; None if neither side has decided."""
        if self.there == self.here:
            return Agreement.SAME
        if not self.here:
            return Agreement.REFUSED_HERE
        if not self.there:
            return Agreement.REFUSED_THERE
        found = self.comparison
        return found.agreement if found is not None and not found.agreement.value.startswith("refused") else None

    @property
    def difference(self) -> str:
        if self.problem:
            return self.problem
        if self.agreement is Agreement.SAME or self.comparison is None:
            return ""
        return self.comparison.difference


@dataclass(frozen=True, slots=True)
class Sample:
    """Counts at one moment."""

    at: float
    pending_there: int
    pending_here: int
    nodes_there: int
    """Nodes with at least one pod."""
    nodes_here: int


@dataclass(frozen=True, slots=True)
class Usage:
    """The utilization of a cluster."""

    requested: Mapping[str, float]
    """By resource: requested share of the capacity of all nodes, 0..1; only resources that some node has."""
    nodes_used: int
    spread: float
    """Standard deviation over the nodes of the requested share of their CPU; 0 if all are equally full."""


@dataclass(frozen=True, slots=True)
class Replay:
    """The result of a replay."""

    seconds: float
    nodes: int
    """At the end."""
    stories: tuple[PodStory, ...]
    """In the order of arrival."""
    samples: tuple[Sample, ...]
    """Up to `2 * _SAMPLES` moments and the last one; the first is always among them."""
    averages: TimeAverages
    there: Usage
    here: Usage

    def counts(self) -> dict[Agreement, int]:
        """Count the agreements of the pods about which either side has decided."""
        found = dict.fromkeys(Agreement, 0)
        for story in self.stories:
            if story.agreement is not None:
                found[story.agreement] += 1
        return found


@dataclass(frozen=True, slots=True)
class TimeAverages:
    """Averages over time, and maxima."""

    pending_there: float
    pending_here: float
    nodes_there: float
    nodes_here: float
    most_pending_there: int
    most_pending_here: int


@dataclass(slots=True)
class _TimeSeries:
    """Sums over all moments, and a selection of the moments."""

    samples: list[Sample] = field(default_factory=list)
    _last: Sample | None = None
    _began: float = 0.0
    _sums: NDArray[np.float64] = field(default_factory=lambda: np.zeros(4))
    _most: tuple[int, int] = (0, 0)
    _apart: float = 0.0
    """Samples closer together than this are dropped."""

    def add(self, sample: Sample) -> None:
        if self._last is None:
            self._began = sample.at
        else:
            self._sums += (sample.at - self._last.at) * _values(self._last)
        self._last = sample
        self._most = max(self._most[0], sample.pending_there), max(self._most[1], sample.pending_here)
        if not self.samples or sample.at - self.samples[-1].at >= self._apart:
            self.samples.append(sample)
        if len(self.samples) > 2 * _SAMPLES:
            self.samples = self.samples[::2]
            self._apart = (self.samples[-1].at - self.samples[0].at) / _SAMPLES

    def selected_samples(self) -> tuple[Sample, ...]:
        last = (self._last,) if self._last is not None and self._last is not self.samples[-1] else ()
        return (*self.samples, *last)

    def averages(self) -> TimeAverages:
        last = self._last or Sample(0.0, 0, 0, 0, 0)
        length = last.at - self._began
        means = (self._sums / length if length > 0 else _values(last)).tolist()
        return TimeAverages(means[0], means[1], means[2], means[3], *self._most)


def _values(sample: Sample) -> NDArray[np.float64]:
    return np.array(
        [sample.pending_there, sample.pending_here, sample.nodes_there, sample.nodes_here], dtype=np.float64
    )


@dataclass(slots=True)
class _NoReports:
    """Ignores complaints of the recorded cluster, which equal those of the replayed one."""

    def bad_object(self, each: Pod | Node, problem: str) -> None:
        pass

    def bad_selector(self, resource: ResourceType[Any], each: KubernetesObject, problem: str) -> None:
        pass

    def good_object(self, resource: str, uid: str) -> None:
        pass


@dataclass(slots=True)
class _Cluster:
    """A cluster as the engine sees it."""

    engine: Engine
    stores: Stores
    engine_feed: EngineFeed

    @classmethod
    def create(cls, engine: Engine, complaints: ProblemReporter, clock: Callable[[], float]) -> _Cluster:
        stores = Stores.create_empty()
        intake = EngineFeed(stores, complaints, clock)
        intake.begin(engine, lambda: None)
        return cls(engine, stores, intake)

    def apply(self, resource: ResourceType[Any], found: Any, *, gone: bool) -> None:
        store = self.stores.store_of(resource)
        assert store is not None
        if gone:
            store.remove(found.metadata.name, found.metadata.namespace)
        else:
            store.put(found)


def replay(
    entries: Sequence[Entry],
    make_engine: Callable[[], Engine],
    complaints: ProblemReporter,
    progress: Callable[[float], None] = lambda _: None,
) -> Replay:
    """Replay the entries; `make_engine` creates engines of the profile, without extenders.

    `progress` receives the current time.
    """
    player = _Replayer(make_engine, complaints, _bindings(entries))
    at = 0.0
    for entry in entries:
        if entry.at > at:
            player.decide_until(at, entry.at)
            at = entry.at
            progress(at)
        player.apply_entry(entry)
    player.decide_until(at, None)
    return player.result(at)


def _bindings(entries: Iterable[Entry]) -> dict[str, str]:
    """Return the node that the recorded scheduler finally chose, by uid."""
    return {entry.uid: entry.node for entry in entries if isinstance(entry, BindingEntry)}


@dataclass(slots=True)
class _Replayer:
    make_engine: Callable[[], Engine]
    complaints: ProblemReporter
    bindings: Mapping[str, str]
    now: float = 0.0
    synced: bool = False
    stories: dict[str, PodStory] = field(default_factory=dict)
    waiting_there: set[str] = field(default_factory=set)
    waiting_here: set[str] = field(default_factory=set)
    course: _TimeSeries = field(default_factory=_TimeSeries)
    there: _Cluster = field(init=False)
    here: _Cluster = field(init=False)

    def __post_init__(self) -> None:
        self.there = _Cluster.create(self.make_engine(), _NoReports(), lambda: self.now)
        self.here = _Cluster.create(self.make_engine(), self.complaints, lambda: self.now)

    # Entries of the recording

    def apply_entry(self, entry: Entry) -> None:
        self.now = entry.at
        match entry:
            case SyncedEntry():
                self.synced = True
            case BindingEntry(at, _, uid, node):
                story = self.stories.get(uid)
                if story is not None:
                    story.there, story.there_at = node, at
                    self.waiting_there.discard(uid)
            case ObjectEntry(_, type_, resource, found):
                gone = type_ == "DELETED"
                self.there.apply(resource, found, gone=gone)
                if resource is PODS:
                    self._apply_pod(found, gone=gone)
                else:
                    self.here.apply(resource, found, gone=gone)

    def _apply_pod(self, pod: Pod, *, gone: bool) -> None:
        uid = pod.metadata.uid
        story = self.stories.get(uid)
        if story is None and not gone and not pod.spec.node_name:
            name = f"{pod.metadata.namespace}/{pod.metadata.name}"
            story = self.stories[uid] = PodStory(name, uid, self.now)
            self.waiting_there.add(uid)
            self.waiting_here.add(uid)
        if story is None:
            self.here.apply(PODS, pod, gone=gone)
            return
        if gone:
            story.gone = True
            self.waiting_there.discard(uid)
            self.waiting_here.discard(uid)
        elif pod.spec.node_name and not story.there:  # it was bound while the watch was interrupted
            story.there, story.there_at = pod.spec.node_name, self.now
            self.waiting_there.discard(uid)
        if not story.preempted:
            self.here.apply(PODS, _pod_on_node(pod, story.here), gone=gone)

    # Decisions

    def decide_until(self, at: float, until: float | None) -> None:
        """Make all decisions that are possible from `at` on, before the entry at `until`."""
        if not self.synced:
            return
        self.now = at
        self._decide()
        engine = self.here.engine
        while until is not None:
            later = engine.queue.next_tick(self.now)
            if later is None or later >= until:
                break
            self.now = max(later, self.now)
            self._decide()

    def _decide(self) -> None:
        self.here.engine_feed.hand_over_catalog()
        engine = self.here.engine
        engine.tick(self.now)
        while (decision := engine.schedule(self.now)) is not None:
            if isinstance(decision, Asked):
                raise ValueError("a replay cannot ask the extenders of the engine about past states")
            self._record_decision(decision)
        self._sample()

    def _record_decision(self, decision: Decision) -> None:
        info = decision.pod.info
        story = self.stories.get(info.uid)
        if story is None:
            return
        theirs = self.bindings.get(info.uid, "")
        match decision:
            case Placed(_, node):
                if node != theirs:
                    story.comparison = self._compare_without_pod(info, theirs)
                story.here, story.here_at, story.problem = node, self.now, ""
                self.waiting_here.discard(info.uid)
                self.here.engine.binding_succeeded(decision)
                self.here.stores.pods.put(_pod_on_node(info.pod, node))
            case Refused():
                story.comparison = self._compare_placement(info.pod, theirs)
                self._evict(decision)
            case Failed(_, error):
                story.problem = error
            case _:
                story.problem = "a Permit plugin delays the pod"

    def _compare_without_pod(self, info: PodInfo, theirs: str) -> Comparison | None:
        """Compare on the cluster without the pod just placed: removing and restoring the pod needs no copy."""
        cache = self.here.engine.cache
        known = cache.remove_pod(info.uid)
        assert known is not None
        try:
            return self._compare_placement(info.pod, theirs)
        finally:
            cache.assume(known.info, known.node)

    def _compare_placement(self, pod: Pod, theirs: str) -> Comparison | None:
        try:
            return compare(Question.of(self.here.engine, pod), theirs)
        except PluginFailed:
            return None

    def _evict(self, refused: Refused) -> None:
        evictions = [each for each in refused.actions if isinstance(each, Evict)]
        for each in evictions:
            namespace, name = each.pod
            known = self.here.stores.pods.get(name, namespace)
            if known is not None and known.metadata.uid == each.uid:
                self.here.stores.pods.remove(name, namespace)
            story = self.stories.get(each.uid)
            if story is not None:
                story.preempted = True
        if evictions:
            self.here.engine.evictions_sent(refused, self.now)

    # Results

    def _sample(self) -> None:
        self.course.add(
            Sample(
                self.now,
                len(self.waiting_there),
                len(self.waiting_here),
                _count_used_nodes(self.there.engine.snapshot),
                _count_used_nodes(self.here.engine.snapshot),
            )
        )

    def result(self, end: float) -> Replay:
        return Replay(
            end,
            self.here.engine.snapshot.count,
            tuple(self.stories.values()),
            self.course.selected_samples(),
            self.course.averages(),
            _usage(self.there.engine.snapshot),
            _usage(self.here.engine.snapshot),
        )


def _pod_on_node(pod: Pod, node: str) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node))


def _count_used_nodes(snapshot: Snapshot) -> int:
    return int(np.count_nonzero(snapshot.pod_count))


def _usage(snapshot: Snapshot) -> Usage:
    parts = {}
    for column, name in enumerate(snapshot.nodes.vocabulary.resources.names):
        room = int(snapshot.allocatable(column).sum())
        if room:
            parts[name] = int(snapshot.requested(column).sum()) / room
    room_of_node = snapshot.allocatable(0)
    there = room_of_node > 0
    spread = float(np.std(snapshot.requested(0)[there] / room_of_node[there])) if there.any() else 0.0
    return Usage(parts, _count_used_nodes(snapshot), spread)
