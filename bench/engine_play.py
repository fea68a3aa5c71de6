"""Drives the public `Engine` through a workload, times it, and tells where every pod went.

The profile is the default one: all plugins, all nodes scored, reasons told. One thread; seconds are the process's own.
"""

from __future__ import annotations

import gc
import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from situate.framework.class_cache.switches import NO_SHORTCUTS, Shortcuts
from situate.framework.engine.decisions import Asked, Decision, Placed, PlacedRun, Refused
from situate.framework.engine.engine import Engine
from situate.framework.engine.messages import refusal
from situate.framework.plugin_api.actions import Evict
from situate.framework.plugin_api.configuration import KubeSchedulerConfiguration
from situate.framework.profile.profile import ALL_NODES, Profile
from situate.framework.profile.profiles import profiles_of
from situate.framework.volumes.catalog import EMPTY_CATALOG, Catalog
from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod
from situate.plugins.registry import registry

RUN = 100_000
"""At most so many pods are asked for at once."""

Decided = Decision | PlacedRun | Asked
Story = list[tuple[str, str]]
"""Each decision: a pod's namespace and name, and its node or why it has none."""


def default_profiles() -> Sequence[Profile]:
    """As shipped: every default plugin, every node scored."""
    configuration = KubeSchedulerConfiguration(percentage_of_nodes_to_score=ALL_NODES)
    known, mistakes = registry(())
    profiles, more = profiles_of(configuration, known)
    assert not mistakes
    assert not more
    return profiles


@dataclass(frozen=True)
class Workload:
    """A cluster, and the pods whose placing is measured."""

    nodes: Sequence[Node]
    measured: Sequence[Pod]
    initial: Sequence[Pod] = ()
    """Placed before the clock starts."""
    standing: Sequence[Pod] = ()
    """They wait all the time."""
    catalog: Catalog = EMPTY_CATALOG
    threshold: int | None = None
    """kube-scheduler's official pods/s."""
    beside: Callable[[Play, int], None] | None = None
    """What happens beside, for the n-th time."""
    every: int = 0
    """After so many measured pods. Time passes at the official rate: a test that does something 5 times a second does
    it once in a fifth of the pods that kube-scheduler has to place in a second."""


@dataclass
class Play:
    """One scheduler in one workload."""

    workload: Workload
    shortcuts: Shortcuts
    to_the_end: bool = True
    """Whether bindings are built and reported as done."""
    engine: Engine = field(init=False)
    now: float = 0.0
    decisions: list[Decided] = field(default_factory=list)
    placed: int = 0
    """Measured pods that have a node."""
    cpu_s: float = 0.0
    """Processor time that the measured pods took."""
    queue_s: float = 0.0
    """Of that, for reading them and putting them into the queue."""
    home: dict[str, str] = field(default_factory=dict)
    """The node of each initial pod, by uid."""
    _measured: frozenset[str] = frozenset()
    _others: bool = False
    """Whether pods come that are not measured."""

    def __post_init__(self) -> None:
        self.engine = Engine(default_profiles(), shortcuts=self.shortcuts)
        self.engine.set_catalog(self.workload.catalog, (), self.now)
        for node in self.workload.nodes:
            self.engine.set_node(node, self.now)

    def begin(self, home: dict[str, str] | None = None) -> None:
        """Places the initial pods; `home` says where if another scheduler has done so already."""
        engine, workload = self.engine, self.workload
        for pod in workload.initial:
            placed = home is not None and pod.metadata.uid in home
            engine.set_pod(on(pod, home[pod.metadata.uid]) if home and placed else pod, self.now)
        while decisions := engine.schedule_run(self.now, RUN):
            for decision in decisions:
                assert isinstance(decision, Placed | PlacedRun), decision
                for each in decision if isinstance(decision, PlacedRun) else (decision,):
                    self.home[each.pod.info.uid] = each.node
                    engine.binding_succeeded(each)
        self.home |= home or {}
        for pod in workload.standing:
            engine.set_pod(pod, self.now)
        self.now += 1.0
        assert engine.schedule(self.now) is None
        self._measured = frozenset(pod.metadata.uid for pod in workload.measured)
        self._others = workload.beside is not None
        engine.cache.snapshot()

    def measure(self, most: int | None = None) -> None:
        """Lets the measured pods come and places them, or at least so many of them."""
        gc.collect()
        gc.freeze()
        begin = time.process_time()
        for pod in self.workload.measured:
            self.engine.set_pod(pod, self.now)
        self.queue_s = time.process_time() - begin
        self._place(len(self.workload.measured) if most is None else min(most, len(self.workload.measured)))
        self.cpu_s = time.process_time() - begin
        gc.unfreeze()

    def _place(self, wanted: int) -> None:
        workload, engine = self.workload, self.engine
        turns = 0
        while self.placed < wanted:
            if workload.beside is not None and self.placed >= turns * workload.every:
                workload.beside(self, turns)
                turns += 1
                self.now += workload.every / (workload.threshold or 1000)
                engine.tick(self.now)
            most = turns * workload.every - self.placed if workload.every else RUN
            decisions = engine.schedule_run(self.now, most)
            if not decisions:
                self._wait()
            for decision in decisions:
                self.decisions.append(decision)
                self._perform(decision)

    def _wait(self) -> None:
        """Until the queue has something to do."""
        later = self.engine.queue.next_tick(self.now)
        assert later is not None, f"{self.placed} pods are placed, and nothing moves"
        self.now = max(later, self.now + 1.0)
        self.engine.tick(self.now)

    def _perform(self, decision: Decided) -> None:
        """Everything succeeds at once: bindings, and evictions."""
        engine = self.engine
        if isinstance(decision, PlacedRun):
            if self.to_the_end:
                for each in decision:
                    engine.binding(each)
                    engine.binding_succeeded(each)
            self.placed += (
                sum(pod.info.uid in self._measured for pod in decision.pods) if self._others else len(decision)
            )
        elif isinstance(decision, Placed):
            if self.to_the_end:
                engine.binding(decision)
                engine.binding_succeeded(decision)
            self.placed += decision.pod.info.uid in self._measured
        else:
            assert isinstance(decision, Refused), decision
            refusal(decision)
            evictions = [action for action in decision.actions if isinstance(action, Evict)]
            for victim in evictions:
                engine.remove_pod(victim.uid, self.now)
            if evictions:
                engine.evictions_sent(decision, self.now)

    def story(self) -> Story:
        told: Story = []
        for decision in self.decisions:
            if isinstance(decision, PlacedRun):
                told += [(str(each.pod.info), each.node) for each in decision]
            elif isinstance(decision, Placed):
                told.append((str(decision.pod.info), decision.node))
            else:
                assert isinstance(decision, Refused)
                told.append((str(decision.pod.info), refusal(decision)))
        return told


def played(workload: Workload, shortcuts: Shortcuts = Shortcuts(), *, to_the_end: bool = True) -> Play:  # noqa: B008  # frozen
    """From the first node to the last pod."""
    play = Play(workload, shortcuts, to_the_end=to_the_end)
    play.begin()
    play.measure()
    return play


def verify(fast: Play, most: int | None) -> int:
    """Holds the decisions against those of the plain path; how many were compared.

    `most` measured pods, None is all. The plain path begins with the same initial pods in the same places.
    """
    plain = Play(fast.workload, NO_SHORTCUTS, to_the_end=fast.to_the_end)
    plain.begin(fast.home)
    plain.measure(most)
    expected, found = plain.story(), fast.story()
    found = found[: len(expected)]
    if digest(found) != digest(expected):
        place = next((at for at, (one, other) in enumerate(zip(found, expected, strict=False)) if one != other), 0)
        raise SystemExit(f"decision {place} is {found[place : place + 1]}; plainly it is {expected[place]}")
    return len(expected)


def digest(story: Story) -> str:
    """The hash of what was decided, in the order of the decisions."""
    return hashlib.sha256("\n".join(f"{pod} {outcome}" for pod, outcome in story).encode()).hexdigest()


def on(pod: Pod, node: str) -> Pod:
    """The pod in place."""
    return replace(pod, spec=replace(pod.spec, node_name=node))
