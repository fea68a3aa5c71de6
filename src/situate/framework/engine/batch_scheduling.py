"""Place consecutive Pods together, each on the node that it would get one by one.

A *run* is a sequence of equal Pods. A *stretch* is a sequence of different Pods that need only a node. Other Pods have
a cycle of their own in `situate.framework.engine.engine`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeAlias

import numpy as np

from situate.framework.cycle.handle import PluginRequests
from situate.framework.cycle.reserve import may_apply_to
from situate.framework.engine.choose_node import NodeChooser, TieBreaker
from situate.framework.engine.decisions import Asked, Decision, PlacedRun
from situate.framework.plugin_api.configuration import Extender
from situate.framework.pod.pods import PodInfo
from situate.framework.preemption.extenders import manages_pod
from situate.framework.preemption.nominations import Nominations
from situate.framework.profile.profile import Profile
from situate.framework.queue.queued_pod import WaitingPod
from situate.framework.queue.scheduling_queue import SchedulingQueue
from situate.framework.snapshot.cache import Cache

RunCycle: TypeAlias = Callable[[WaitingPod], Decision | Asked | None]
"""The cycle of a single Pod; None if the Pod must no longer be scheduled."""

_RUN_MINIMUM: Final = 3
"""Minimum number of equal consecutive Pods for a run."""
_NODES_PER_POD: Final = 4096
"""One more Pod is required for each such number of nodes, because a run evaluates all nodes."""
_PODS_AT_ONCE: Final = 2048
"""Number of Pods of a run to count at a time, so that they stay in the processor's cache meanwhile."""
_STRETCH_LIMIT: Final = 64
"""Maximum number of Pods in a stretch. Events that arrive meanwhile wait for its end."""


@dataclass(frozen=True, slots=True)
class EngineState:
    """The parts of an engine that its decisions change."""

    cache: Cache
    queue: SchedulingQueue
    nominations: Nominations
    plugin_requests: PluginRequests


class BatchScheduler:
    """Joint placement of the Pods that one engine has taken from its queue."""

    def __init__(
        self,
        joined: EngineState,
        profiles: Mapping[str, Profile],
        choosers: Mapping[str, NodeChooser],
        tie: TieBreaker,
        extenders: Sequence[Extender],
        *,
        runs: bool,
        stretches: bool,
    ) -> None:
        """`profiles` and `choosers` are by scheduler name; `runs` and `stretches` enable the shortcuts."""
        self._cache = joined.cache
        self._queue = joined.queue
        self._nominations = joined.nominations
        self._plugin_requests = joined.plugin_requests
        self._profiles = profiles
        self._choosers = choosers
        self._tie = tie
        self._extenders = extenders
        self._runs = runs
        self._stretches = stretches
        self._reserve_checks = {name: _reserve_checks_of(profile) for name, profile in profiles.items()}
        """For profiles whose Pods may need only a node: the functions that check whether a Pod needs more."""

    def decide_batch(self, first: WaitingPod, most: int, cycle: RunCycle) -> list[Decision | PlacedRun | Asked]:
        """Decide about this Pod and the Pods after it, at most `most`, which are taken from the queue.

        `cycle` runs for Pods that must be placed one by one.
        """
        run, least = self._take_run(first, most), self._run_minimum
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
            equal = False  # the reason that stops this Pod stops the equal Pods after it too
            placed = self._place_in_turn(run, at) if simple else None
            if placed is not None:
                decisions.append(placed)
                at += len(placed.pods)
                if self._plugin_requests:
                    self._queue.put_first(run[at:])
                    return decisions
                continue
            simple = False  # this Pod finds no node, so the equal Pods after it find none either
            if at:
                self._queue.begin_cycle(run[at])
            decision = cycle(run[at])
            if decision is not None:
                decisions.append(decision)
            at += 1
        return decisions

    def _place_stretch(
        self, run: list[WaitingPod], most: int, least: int, cycle: RunCycle
    ) -> list[Decision | PlacedRun | Asked]:
        """Place a stretch of Pods.

        The first Pod without a node, or with a failing plugin, has its own cycle, which reports the reason. The Pods
        after it return to the queue first, because that cycle may affect them.
        """
        self._extend_stretch(run, most, least)
        placed = self._place_in_turn(run, 0)
        decisions: list[Decision | PlacedRun | Asked] = [] if placed is None else [placed]
        rest = run if placed is None else run[len(placed.pods) :]
        if not rest or (placed is not None and self._plugin_requests):
            self._queue.put_first(rest)
            return decisions
        self._queue.put_first(rest[1:])
        if placed is not None:
            self._queue.begin_cycle(rest[0])
        decision = cycle(rest[0])
        if decision is not None:
            decisions.append(decision)
        return decisions

    @property
    def _run_minimum(self) -> int:
        """The minimum number of equal Pods for a run."""
        return _RUN_MINIMUM + self._cache.snapshot().count // _NODES_PER_POD

    def _take_run(self, first: WaitingPod, most: int) -> list[WaitingPod]:
        """Return the Pod with the equal Pods after it, at most `most` in all. They are taken from the queue."""
        return [first, *self._queue.pop_like(first, most - 1, _are_peers)] if self._runs else [first]

    def _extend_stretch(self, run: list[WaitingPod], most: int, least: int) -> None:
        """Add the simple Pods after `run`, up to a run of `least`. They are taken from the queue.

        Each Pod is placed and counted in turn, as in its own cycle. Only the steps for Pods that are not simple are
        left out, so the result is the same.
        """
        name = run[0].info.template.scheduler_name
        last, equal = run[-1], 0
        known: set[int] = set()  # by identity: peers are simple all or none, and the queue references them

        def simple(_: WaitingPod, other: WaitingPod) -> bool:
            nonlocal last, equal
            equal = equal + 1 if self._runs and _are_peers(last, other) else 0
            last = other
            if equal + 1 >= least or other.info.template.scheduler_name != name:
                return False
            peers = id(other.info.peers)
            if peers not in known:
                if not self._is_simple(other):
                    return False
                known.add(peers)
            return True

        run += self._queue.pop_like(run[0], min(most, _STRETCH_LIMIT) - len(run), simple)

    def _is_simple(self, waiting: WaitingPod) -> bool:
        """Return whether the Pod needs only a node, and no reservation, extender or nomination is involved."""
        info = waiting.info
        if info.peers is None or self._nominations:
            return False
        name = info.template.scheduler_name
        reserves = self._reserve_checks[name]
        if reserves is None:
            return False
        for concerned in reserves:  # a generator takes as long as all the rest
            if concerned(info):
                return False
        for extender in self._extenders:
            if manages_pod(extender, info):
                return False
        return bool(self._cache.snapshot().count) and self._choosers[name].compares_all(info)

    def _place_in_turn(self, run: Sequence[WaitingPod], begin: int) -> PlacedRun | None:
        """Place simple Pods of one profile from `begin` on, one after the other, until one finds no node.

        The loop also ends when plugins make requests, which the engine executes before the next Pod. None if the first
        Pod finds no node or a plugin fails; the Pod's own cycle reports the reason.
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
            if self._plugin_requests:
                break
        if not nodes:
            return None
        placed = run[begin : begin + len(nodes)]
        self._queue.record_placements(placed)
        return PlacedRun(placed, np.array(nodes, dtype=np.intp), snapshot.nodes.names)

    def _may_run(self, waiting: WaitingPod) -> bool:
        """Return whether the Pod and its equals may be placed at once."""
        profile = self._profiles[waiting.info.pod.spec.scheduler_name]
        if self._nominations or waiting.info.terminating or profile.permit:
            return False
        return not any(may_apply_to(plugin, waiting.info) for plugin in (*profile.allot, *profile.reserve))

    def _place_run(self, run: list[WaitingPod]) -> PlacedRun | None:
        """Place the first Pods that find nodes; None if they must be placed one by one."""
        snapshot = self._cache.snapshot()
        first = run[0].info
        if not snapshot.count:
            return None
        try:
            nodes = self._choosers[first.pod.spec.scheduler_name].choose_run(first, snapshot, len(run))
        except Exception:
            return None  # the Pods' own cycles report the reason
        if not len(nodes):
            return None
        pods = run[: len(nodes)]
        for begin in range(0, len(pods), _PODS_AT_ONCE):
            some = pods[begin : begin + _PODS_AT_ONCE]
            self._cache.assume_equal([waiting.info for waiting in some], nodes[begin : begin + _PODS_AT_ONCE])
            self._queue.record_placements(some)
        return PlacedRun(pods, nodes, snapshot.nodes.names)


def _reserve_checks_of(profile: Profile) -> tuple[Callable[[PodInfo], bool], ...] | None:
    """Return functions that check whether Allot or Reserve apply to a Pod.

    None if a plugin has no such check, or the profile has Permit plugins.
    """
    known = [getattr(plugin, "reserves", None) for plugin in (*profile.allot, *profile.reserve)]
    told = tuple(each for each in known if each is not None)
    return None if profile.permit or len(told) < len(known) else told


def _are_peers(one: WaitingPod, other: WaitingPod) -> bool:
    """Return whether no decision distinguishes the two Pods, neither about themselves nor about other Pods."""
    peers = one.info.peers
    return peers is other.info.peers and peers is not None
