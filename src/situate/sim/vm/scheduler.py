"""The scheduler of a simulation: the shipped `apply_event` with `TimerFired` events, writes, and pods without a node.

The rules are N16-N27. Watch events and writes arrive a little later, in order, and none is lost. The world provides the
pods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from situate.sim.timeline import ScheduledCall, Timeline
from situate.sim.vm.account import VMAccount
from situate.sim.vm.world import VMWorld
from situate.vm.ledger.step import step
from situate.vm.model.actions import Action, StartMove
from situate.vm.model.events import Event, PodReserved, TimerFired, WriteResult
from situate.vm.model.migrations import Move
from situate.vm.model.node_fit import fit, largest_total, score
from situate.vm.model.pods_and_nodes import Node, Pod
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import LedgerState
from situate.vm.placement.target_filter import planner_with_filter
from situate.vm.planning.targets import Fits

WATCH_S: Final = 0.01
WRITE_S: Final = 0.02
BIND_S: Final = 0.05
_RETRY_S: Final = 1.0
_TICK_PAUSE_S: Final = 0.001
"""Seconds between two `TimerFired` events if another one is due at once."""


@dataclass(frozen=True, slots=True)
class PendingPod:
    """A pod that waits for a node."""

    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels that its node must have."""
    excluded_node: str = ""
    """A node that it must not use: the source node of its VM (C34)."""
    move: str = ""
    """Key of the migration whose target it is."""
    bound: Callable[[], object] = lambda: None


class SchedulerProcess:
    def __init__(self, timeline: Timeline, world: VMWorld, rules: Rules, account: VMAccount, fits: Fits) -> None:
        self.state = LedgerState()
        self.changed: list[Callable[[], object]] = []
        """Called after every step."""
        self.migration_made: Callable[[str], object] = lambda _: None
        self._timeline, self._world, self._rules, self._account = timeline, world, rules, account
        self._planner = planner_with_filter(fits)
        self._pending: dict[str, PendingPod] = {}
        self._next_tick: ScheduledCall | None = None
        self._retry: ScheduledCall | None = None

    def start(self) -> None:
        for event in self._world.listing():
            self.apply_event(event)

    def deliver_events(self, events: Iterable[Event]) -> None:
        """Deliver each event a little later, as a watch does."""
        for event in events:
            self._timeline.call_after(WATCH_S, lambda event=event: self.apply_event(event))  # type: ignore[misc]  # bound early

    def apply_event(self, event: Event) -> None:
        now = self._timeline.now
        decision = step(self.state, event, now, self._rules, self._planner)
        before, self.state = self.state, decision.state
        self._account.result.claims_broken += sum(
            claim.broken and not (key in before.claims and before.claims[key].broken)
            for key, claim in self.state.claims.items()
        )
        for action in decision.actions:
            self._timeline.call_after(WRITE_S, lambda action=action: self._write_action(action))  # type: ignore[misc]  # as above
        if self._next_tick is not None:
            self._next_tick.cancel()
            self._next_tick = None
        if decision.wake_at is not None:
            self._next_tick = self._timeline.call_at(
                max(decision.wake_at, now + _TICK_PAUSE_S), lambda: self.apply_event(TimerFired())
            )
        for call in self.changed:
            call()

    def _write_action(self, action: Action) -> None:
        now = self._timeline.now
        known = set(self._world.migrations)
        events = self._world.perform(action, now)
        self.deliver_events(events or ())
        if isinstance(action, StartMove) and action.move.name in self._world.migrations.keys() - known:
            self._account.result.moves.append(now)
            self.migration_made(action.move.name)
        outcome = "refused" if events is None else "ok"
        self._timeline.call_after(WATCH_S, lambda: self.apply_event(WriteResult(action, outcome)))

    # pods that wait for a node

    def place(self, uid: str, pending: PendingPod) -> None:
        self._pending[uid] = pending
        self._place_pending_pods()

    def _place_pending_pods(self) -> None:
        """Try to place all waiting pods, in order. Pods that fit nowhere are retried later."""
        for uid, pending in list(self._pending.items()):
            if uid not in self._world.pods:
                del self._pending[uid]
                continue
            pod = self._world.pod(uid)
            node = self._node_for(pod, pending)
            if node:
                del self._pending[uid]
                self.apply_event(PodReserved(pod, node))
                self._timeline.call_after(BIND_S, lambda uid=uid, node=node, to=pending: self._bind_pod(uid, node, to))  # type: ignore[misc]  # as above
        if self._pending and self._retry is None:
            self._retry = self._timeline.call_after(_RETRY_S, self._retry_later)

    def _retry_later(self) -> None:
        self._retry = None
        self._place_pending_pods()

    def _bind_pod(self, uid: str, node: str, pending: PendingPod) -> None:
        if uid not in self._world.pods:
            return
        if node not in self._world.nodes:  # the node was lost meanwhile
            self.place(uid, pending)
            return
        self.deliver_events(self._world.bind(uid, node))
        pending.bound()

    def _node_for(self, pod: Pod, pending: PendingPod) -> str:
        """Return the best fitting node, or the first by name among equals.

        A target pod gets only its reserved node (B14).
        """
        move = self.state.moves.get(pending.move)
        reserved = "" if move is None else move.target_node
        nodes = [
            node
            for name, node in sorted(self.state.nodes.items())
            if node.schedulable and name != pending.excluded_node and (not reserved or name == reserved)
        ]
        nodes = [node for node in nodes if pending.labels.items() <= node.labels.items()]
        fitting = [
            node
            for node in nodes
            if fit(node, node.pods.values(), pod, self._reserved_for_others(node, pod, move)).fits
        ]
        most = largest_total(self.state.nodes.values())
        points = {
            node.name: score(node, pod, most, self._rules.scoring, self._reserved_for_others(node, pod, move)).points
            for node in fitting
        }
        return max(points, key=lambda name: points[name], default="")

    def _reserved_for_others(self, node: Node, pod: Pod, move: Move | None) -> Amounts | None:
        """Return the capacity held there for others, without that of the pod's own migration (B4)."""
        if self._rules.compat:
            return None
        kept = self.state.held_for_others(node.name, pod.uid) + self.state.incoming_amount(node.name, pod.uid)
        own = move is not None and move.target_node == node.name and not move.target_counted
        return kept - move.amount if own and move is not None else kept
