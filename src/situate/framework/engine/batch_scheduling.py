"""Pods that are placed together, exactly where one after the other would have gone.

A *run* is equal pods that follow each other, a *stretch* different ones that need no more than a node. Those that
cannot be placed like this have a cycle of their own, which is left to `situate.framework.engine.engine`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeAlias

import numpy as np

from situate.framework.cycle.handle import Wishes
from situate.framework.cycle.reserve import concerns
from situate.framework.engine.choose_node import Chooser, Tie
from situate.framework.engine.decisions import Asked, Decision, PlacedRun
from situate.framework.plugin_api.configuration import Extender
from situate.framework.pod.pods import PodInfo
from situate.framework.preemption.extenders import interested
from situate.framework.preemption.nominations import Nominations
from situate.framework.profile.profile import Profile
from situate.framework.queue.queued_pod import WaitingPod
from situate.framework.queue.scheduling_queue import SchedulingQueue
from situate.framework.snapshot.cache import Cache

Cycle: TypeAlias = Callable[[WaitingPod], Decision | Asked | None]
"""A pod's own cycle; None for one that nobody waits for any more."""

_RUN: Final = 3
"""Equal pods in a row that are worth being placed as a run,"""
_NODES_PER_POD: Final = 4096
"""and one more for each so many nodes, since a run looks at all of them afresh."""
_COUNTED: Final = 2048
"""Pods of a run that are counted at a time: they stay in the processor's cache until all of that is done."""
_STRETCH: Final = 64
"""Pods of one stretch at most: what comes meanwhile has to wait for it."""


@dataclass(frozen=True, slots=True)
class Joined:
    """What an engine joins, and what its decisions change."""

    cache: Cache
    queue: SchedulingQueue
    nominations: Nominations
    wishes: Wishes


class Together:
    """Of one engine. The pods are those that have been taken from its queue."""

    def __init__(
        self,
        joined: Joined,
        profiles: Mapping[str, Profile],
        choosers: Mapping[str, Chooser],
        tie: Tie,
        extenders: Sequence[Extender],
        *,
        runs: bool,
        stretches: bool,
    ) -> None:
        """`profiles` and `choosers` by the name of the scheduler; `runs` and `stretches`: which shortcuts are taken."""
        self._cache = joined.cache
        self._queue = joined.queue
        self._nominations = joined.nominations
        self._wishes = joined.wishes
        self._profiles = profiles
        self._choosers = choosers
        self._tie = tie
        self._extenders = extenders
        self._runs = runs
        self._stretches = stretches
        self._reserves = {name: _reserving(profile) for name, profile in profiles.items()}
        """Of the profiles in which a pod may need no more than a node: what tells whether it does."""

    def place(self, first: WaitingPod, most: int, cycle: Cycle) -> list[Decision | PlacedRun | Asked]:
        """What becomes of this pod and of those behind it, at most so many, which are taken from the queue.

        `cycle` is for those that have to be placed one by one.
        """
        run, least = self._run(first, most), self._least
        simple = self._stretches and self._is_simple(first)
        if simple and len(run) < least:
            return self._place_stretch(run, most, least, cycle)
        decisions: list[Decision | PlacedRun | Asked] = []
        at = 0
        equal = True
        while at < len(run):
            placed = self._place_run(run[at:]) if equal and at + 1 < len(run) and self._may_run(first) else None
            if placed is not None:
                decisions.append(placed)
                at += len(placed.pods)
                continue
            equal = False  # what keeps one from it keeps the equal ones behind it from it as well
            placed = self._place_in_turn(run, at) if simple else None
            if placed is not None:
                decisions.append(placed)
                at += len(placed.pods)
                if self._wishes:
                    self._queue.put_first(run[at:])
                    return decisions
                continue
            simple = False  # this one finds no node, and so it is with those behind it
            if at:
                self._queue.take_off(run[at])
            decision = cycle(run[at])
            if decision is not None:
                decisions.append(decision)
            at += 1
        return decisions

    def _place_stretch(
        self, run: list[WaitingPod], most: int, least: int, cycle: Cycle
    ) -> list[Decision | PlacedRun | Asked]:
        """The first that finds no node, or whose plugins fail, has its own cycle, which tells; and those behind it are
        back in the queue then, since something may come of that.
        """
        self._stretch(run, most, least)
        placed = self._place_in_turn(run, 0)
        decisions: list[Decision | PlacedRun | Asked] = [] if placed is None else [placed]
        rest = run if placed is None else run[len(placed.pods) :]
        if not rest or (placed is not None and self._wishes):
            self._queue.put_first(rest)
            return decisions
        self._queue.put_first(rest[1:])
        if placed is not None:
            self._queue.take_off(rest[0])
        decision = cycle(rest[0])
        if decision is not None:
            decisions.append(decision)
        return decisions

    @property
    def _least(self) -> int:
        """So many equal pods are worth being placed as a run."""
        return _RUN + self._cache.snapshot().count // _NODES_PER_POD

    def _run(self, first: WaitingPod, most: int) -> list[WaitingPod]:
        """The pod with the equal ones behind it, at most so many in all; they are taken from the queue."""
        return [first, *self._queue.pop_like(first, most - 1, _equal)] if self._runs else [first]

    def _stretch(self, run: list[WaitingPod], most: int, least: int) -> None:
        """Adds the simple pods behind `run`, up to a run of `least`; they are taken from the queue.

        Placed in turn, each is chosen for, and counted, as in a cycle of its own. All that is saved is what a cycle
        does for pods that are not simple, so nothing else can come of it.
        """
        name = run[0].info.template.scheduler_name
        last, equal = run[-1], 0
        known: set[int] = set()  # by identity: peers are simple all or none, and the queue keeps them meanwhile

        def simple(_: WaitingPod, other: WaitingPod) -> bool:
            nonlocal last, equal
            equal = equal + 1 if self._runs and _equal(last, other) else 0
            last = other
            if equal + 1 >= least or other.info.template.scheduler_name != name:
                return False
            peers = id(other.info.peers)
            if peers not in known:
                if not self._is_simple(other):
                    return False
                known.add(peers)
            return True

        run += self._queue.pop_like(run[0], min(most, _STRETCH) - len(run), simple)

    def _is_simple(self, waiting: WaitingPod) -> bool:
        """Whether the pod needs no more than a node, which its class and other pods decide, and it holds up nobody."""
        info = waiting.info
        if info.peers is None or self._nominations:
            return False
        name = info.template.scheduler_name
        reserves = self._reserves[name]
        if reserves is None:
            return False
        for concerned in reserves:  # a generator takes as long as all the rest
            if concerned(info):
                return False
        for extender in self._extenders:
            if interested(extender, info):
                return False
        return bool(self._cache.snapshot().count) and self._choosers[name].compares_all(info)

    def _place_in_turn(self, run: Sequence[WaitingPod], begin: int) -> PlacedRun | None:
        """Simple pods of one profile from `begin` on, one after the other, as long as each finds a node.

        Ends early where plugins want something, which is heeded before the next pod's turn comes. None where the first
        finds no node, or plugins fail: its own cycle will say so.
        """
        chooser, snapshot = self._choosers[run[begin].info.template.scheduler_name], self._cache.snapshot()
        nodes: list[int] = []
        for waiting in islice(run, begin, None):
            try:
                node = chooser.choose_at_once(waiting.info, snapshot, self._tie)
            except Exception:
                break
            if node is None:
                break
            snapshot = self._cache.assume_at(waiting.info, node)
            nodes.append(node)
            if self._wishes:
                break
        if not nodes:
            return None
        placed = run[begin : begin + len(nodes)]
        self._queue.done_run(placed)
        return PlacedRun(placed, np.array(nodes, dtype=np.intp), snapshot.nodes.names)

    def _may_run(self, waiting: WaitingPod) -> bool:
        """Whether the pod and its equals may be placed at once."""
        profile = self._profiles[waiting.info.pod.spec.scheduler_name]
        if self._nominations or waiting.info.terminating or profile.permit:
            return False
        return not any(concerns(plugin, waiting.info) for plugin in (*profile.allot, *profile.reserve))

    def _place_run(self, run: list[WaitingPod]) -> PlacedRun | None:
        """The first of them that find nodes; None if they have to be placed one by one."""
        snapshot = self._cache.snapshot()
        first = run[0].info
        if not snapshot.count:
            return None
        try:
            nodes = self._choosers[first.pod.spec.scheduler_name].choose_run(first, snapshot, len(run))
        except Exception:
            return None  # the pods' own cycles will say so
        if not len(nodes):
            return None
        pods = run[: len(nodes)]
        for begin in range(0, len(pods), _COUNTED):
            some = pods[begin : begin + _COUNTED]
            self._cache.assume_equal([waiting.info for waiting in some], nodes[begin : begin + _COUNTED])
            self._queue.done_run(some)
        return PlacedRun(pods, nodes, snapshot.nodes.names)


def _reserving(profile: Profile) -> tuple[Callable[[PodInfo], bool], ...] | None:
    """What tells whether Allot or Reserve have to do with a pod; None if that cannot be told, or Permit has a say."""
    known = [getattr(plugin, "reserves", None) for plugin in (*profile.allot, *profile.reserve)]
    told = tuple(each for each in known if each is not None)
    return None if profile.permit or len(told) < len(known) else told


def _equal(one: WaitingPod, other: WaitingPod) -> bool:
    """Whether two pods make no difference to any decision, their own or others'."""
    peers = one.info.peers
    return peers is other.info.peers and peers is not None
