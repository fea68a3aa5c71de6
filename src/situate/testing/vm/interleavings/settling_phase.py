"""The end of an interleaving: without faults and new requests all work ends, then nothing migrates (I5, I7, I8)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from situate.testing.vm.interleavings.ledger_run import Course
from situate.testing.vm.interleavings.moves import Moves
from situate.testing.vm.interleavings.other_actors import Others
from situate.testing.vm.invariants.rules import regranted
from situate.vm.ledger.grants.arithmetic import pod_within
from situate.vm.model.pods_and_nodes import Pod

SETTLING_S: Final = (10.0,) * 4 + (60.0,) * 4 + (1400.0,) * 6
"""Seconds between `Beat` events. Cool-downs and back-offs of a history of this length are over within their sum."""
QUIET_S: Final = (30.0, 30.0, 700.0, 700.0)


class Rest:
    def __init__(self, course: Course, moves: Moves, others: Others) -> None:
        self._course = course
        self._moves = moves
        self._others = others

    def settle(self) -> None:
        """End faults and requests, let all work end, and check that nothing migrates afterwards (I5, I7)."""
        self._course.troubled = False
        self._course.story.append("-- settle")
        self._course.late.clear()
        for name, node in self._course.world.nodes.items():
            if not node.schedulable:
                self._others.cordon(name, False)
        for seconds in SETTLING_S:
            self._let_time_pass(seconds)
        begun = self._course.happened["StartMove"]
        for seconds in QUIET_S:
            self._let_time_pass(seconds)
        self._course.check(self._unsettled(begun))
        before = self._course.state
        self._course.restart()
        self._drain()
        self._course.check(regranted(before, self._course.state))

    def _let_time_pass(self, seconds: float) -> None:
        self._drain()
        self._course.now += seconds
        self._course.beat()
        self._drain()

    def _drain(self) -> None:
        """Let all work in progress end."""
        for _ in range(60):
            before = len(self._course.story)
            self._course.drain_told()
            while self._course.write():
                pass
            while self._course.outcomes:
                self._course.hear()
            for move in list(self._course.world.migrations.values()):
                self._moves.come_on(move)
            self._moves.bind_target()
            if len(self._course.story) == before and not any(self._course.told.values()):
                break

    def _could_grow(self, pod: Pod) -> bool:
        room = self._course.state.avail(self._course.state.where[pod.uid], pod.uid)
        return pod_within(pod, room, joint=True).reserved.exceeds(pod.reserved)

    def _unsettled(self, begun: int) -> Iterable[str]:
        if more := self._course.happened["StartMove"] - begun:
            yield f"I7: {more} migrations began although nothing changed"
        for claim in self._course.state.claims.values():
            yield f"B7: claim {claim.id} is open, but no migration is in progress"
        for key, move in self._course.state.moves.items():
            if not move.foreign or move.alive:
                yield f"B22: move {key} is not over"
        for uid in self._course.state.writes:
            known = self._course.state.pod(uid)
            if known is None or not known.frozen:
                yield f"F1: the write for {uid} was never observed"
        for uid in self._course.state.waiters:
            pod = self._course.state.pod(uid)
            if pod is None:
                yield f"I5: {uid} waits, but does not exist"
            elif pod.frozen:
                continue  # its VM runs elsewhere, and no client deletes the left pod
            elif self._could_grow(pod):
                yield f"I5: {uid} waits, but there is capacity for it"
        for name, node in self._course.state.nodes.items():
            uids = {uid for uid, pod in self._course.world.pods.items() if pod.node == name}
            if uids != set(node.pods):
                yield f"node {name} has {sorted(uids)}, but {sorted(node.pods)} are reserved"
