"""The end of an interleaving: without faults and new requests all work ends, then nothing migrates (I5, I7, I8)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from situate.testing.vm.interleavings.ledger_run import LedgerRun
from situate.testing.vm.interleavings.moves import MigrationSteps
from situate.testing.vm.interleavings.other_actors import OtherActorSteps
from situate.testing.vm.invariants.rules import regrant_differences
from situate.vm.ledger.grants.arithmetic import pod_after_grant
from situate.vm.model.pods_and_nodes import Pod

SETTLING_S: Final = (10.0,) * 4 + (60.0,) * 4 + (1400.0,) * 6
"""Seconds between `TimerFired` events.

Cool-downs and back-offs of a history of this length are over within their sum.
"""
QUIET_S: Final = (30.0, 30.0, 700.0, 700.0)


class SettlingPhase:
    def __init__(self, course: LedgerRun, moves: MigrationSteps, others: OtherActorSteps) -> None:
        self._run = course
        self._moves = moves
        self._others = others

    def settle(self) -> None:
        """End faults and requests, let all work end, and check that nothing migrates afterwards (I5, I7)."""
        self._run.has_faults = False
        self._run.story.append("-- settle")
        self._run.late_writes.clear()
        for name, node in self._run.world.nodes.items():
            if not node.schedulable:
                self._others.cordon(name, False)
        for seconds in SETTLING_S:
            self._let_time_pass(seconds)
        begun = self._run.happened["StartMove"]
        for seconds in QUIET_S:
            self._let_time_pass(seconds)
        self._run.check(self._open_problems(begun))
        before = self._run.state
        self._run.restart()
        self._finish_work()
        self._run.check(regrant_differences(before, self._run.state))

    def _let_time_pass(self, seconds: float) -> None:
        self._finish_work()
        self._run.now += seconds
        self._run.tick_while_due()
        self._finish_work()

    def _finish_work(self) -> None:
        """Let all work in progress end."""
        for _ in range(60):
            before = len(self._run.story)
            self._run.deliver_all_events()
            while self._run.send_next_write():
                pass
            while self._run.outcomes:
                self._run.deliver_outcome()
            for move in list(self._run.world.migrations.values()):
                self._moves.advance_migration(move)
            self._moves.bind_target()
            if len(self._run.story) == before and not any(self._run.undelivered_events.values()):
                break

    def _could_grow(self, pod: Pod) -> bool:
        room = self._run.state.available(self._run.state.where[pod.uid], pod.uid)
        return pod_after_grant(pod, room, joint=True).reserved.exceeds(pod.reserved)

    def _open_problems(self, begun: int) -> Iterable[str]:
        if more := self._run.happened["StartMove"] - begun:
            yield f"I7: {more} migrations began although nothing changed"
        for claim in self._run.state.claims.values():
            yield f"B7: claim {claim.id} is open, but no migration is in progress"
        for key, move in self._run.state.moves.items():
            if not move.foreign or move.alive:
                yield f"B22: move {key} is not over"
        for uid in self._run.state.writes:
            known = self._run.state.pod(uid)
            if known is None or not known.frozen:
                yield f"F1: the write for {uid} was never observed"
        for uid in self._run.state.waiters:
            pod = self._run.state.pod(uid)
            if pod is None:
                yield f"I5: {uid} waits, but does not exist"
            elif pod.frozen:
                continue  # its VM runs elsewhere, and no client deletes the left pod
            elif self._could_grow(pod):
                yield f"I5: {uid} waits, but there is capacity for it"
        for name, node in self._run.state.nodes.items():
            uids = {uid for uid, pod in self._run.world.pods.items() if pod.node == name}
            if uids != set(node.pods):
                yield f"node {name} has {sorted(uids)}, but {sorted(node.pods)} are reserved"
