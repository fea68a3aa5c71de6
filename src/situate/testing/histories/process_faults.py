"""Faults of processes and of their messages, which histories of every product share.

A step that is impossible now, such as killing a leader when none leads, does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Generic, assert_never

from situate.cluster.storage.effects import Identity
from situate.cluster.storage.watch import Watch
from situate.objects.messages import Request, Response
from situate.testing.histories.steps import (
    Calm,
    CutWatches,
    KillLeader,
    KillLeaderAt,
    KillStandby,
    Pass,
    PauseLeader,
    PauseLeaderAt,
    ProcessStep,
    ServerDown,
    StopLeader,
    Storm,
)
from situate.testing.virtual_time.network import NO_FAULTS, NetworkFaults
from situate.testing.virtual_time.processes import ProcessState
from situate.testing.virtual_time.world import C, ClusterWorld, Member

COMMON_STORMS: Final = {
    "request lost": NetworkFaults(lose_request=0.3),
    "answer lost": NetworkFaults(lose_answer=0.3),
    "refused": NetworkFaults(refuse=0.5),
    "conflict": NetworkFaults(conflict=0.5),
}
"""The network faults by kind of storm, for the kinds that are equal in all products."""


def is_write_to(request: Request, message: str) -> bool:
    """Return whether a request is a write to the subresource `message`, or a deletion if `message` is `delete`."""
    if message == "delete":
        return request.method == "DELETE"
    return request.method != "GET" and request.path.endswith(f"/{message}")


class ProcessFaults(Generic[C]):
    """Performs the faults of one history."""

    def __init__(
        self,
        world: ClusterWorld[C],
        storms: Mapping[str, NetworkFaults],
        *,
        is_message: Callable[[Request, str], bool] = is_write_to,
        trigger_limit_s: float,
    ) -> None:
        """`is_message` returns whether a write of ours is a message of a kind.

        A planned act on the leader is dropped if the leader sends no such message within `trigger_limit_s`.
        """
        self._world = world
        self._storms = storms
        self._is_message = is_message
        self._trigger_limit_s = trigger_limit_s
        self._answer_listeners: list[Callable[[Request, Response | Watch, Identity], None]] = []
        """Listeners of planned acts among the world's `request_listeners`."""

    def perform(self, step: ProcessStep) -> bool:
        """Perform a step. Return whether it took effect."""
        world = self._world
        match step:
            case KillLeader():
                return _act_on(world.leader(), world.end)
            case KillLeaderAt(message=message, answered=answered):
                self._plan_act(message, answered, "killed", world.end)
            case KillStandby():
                leader = world.leader()
                return _act_on(next((each for each in world.members if each is not leader), None), world.end)
            case PauseLeader(seconds=seconds):
                return _act_on(world.leader(), partial(self._pause, seconds=seconds))
            case PauseLeaderAt(message=message, answered=answered, seconds=seconds):
                self._plan_act(message, answered, "paused", partial(self._pause, seconds=seconds))
            case StopLeader():
                return _act_on(world.leader(), world.stop)
            case Storm(kind=kind):
                world.network.faults = self._storms[kind]
            case Calm():
                world.network.faults, world.network.failing_path = NO_FAULTS, ""
            case CutWatches(compact=compact):
                if compact:
                    world.happened["compacted"] += 1
                    world.cluster.api.store.compact()
                watched = bool(world.network.streams)
                world.network.cut_watches()
                self.record_lag(0.0)
                return watched
            case ServerDown(seconds=seconds):
                world.network.down = True
                world.network.cut_watches()
                world.timeline.call_after(seconds, lambda: setattr(world.network, "down", False))
                self.record_lag(seconds)
            case Pass():
                pass
            case _:
                assert_never(step)
        return True

    def heal(self) -> None:
        """End every fault: all processes run and messages arrive. Only acts at answers are still planned."""
        network = self._world.network
        network.faults, network.down, network.failing_path = NO_FAULTS, False, ""
        network.send_listeners.clear()
        for member in self._world.members:
            self._resume(member)

    def cancel_acts_at_answers(self) -> None:
        """Cancel the acts that `heal` leaves."""
        for listener in self._answer_listeners:
            self._world.request_listeners.remove(listener)
        self._answer_listeners.clear()

    def await_message(self, message: str, answered: bool, act: Callable[[str], None]) -> None:
        """Call `act` with the sender of the next message of a kind: before it leaves, or at its answer."""
        if answered:
            self.await_answer(lambda request, _: self._is_message(request, message), act)
            return
        listeners = self._world.network.send_listeners

        def left(request: Request, identity: Identity) -> None:
            if self._is_message(request, message):
                listeners.remove(left)
                act(identity.user)

        listeners.append(left)

    def await_answer(self, is_awaited: Callable[[Request, Response | Watch], bool], act: Callable[[str], None]) -> None:
        """Call `act` with the sender of the next such write when the server has carried it out."""

        def arrived(request: Request, answer: Response | Watch, identity: Identity) -> None:
            if is_awaited(request, answer):
                self._world.request_listeners.remove(arrived)
                self._answer_listeners.remove(arrived)
                act(identity.user)

        self._world.request_listeners.append(arrived)
        self._answer_listeners.append(arrived)

    def until_limit(self, act: Callable[[Member[C]], None]) -> Callable[[str], None]:
        """Return a function that acts on the process of an identity, if it lives and the time is not over."""
        until = self._world.now + self._trigger_limit_s

        def act_on_sender(identity: str) -> None:
            member = next((each for each in self._world.members if each.identity == identity), None)
            if member is not None and self._world.now <= until:
                act(member)

        return act_on_sender

    def record_lag(self, seconds: float) -> None:
        """Do nothing. Overridden where it matters that processes do not see the cluster for so many seconds."""

    def _plan_act(self, message: str, answered: bool, what: str, act: Callable[[Member[C]], None]) -> None:
        """Plan an act on a leader at its next message of a kind."""
        when = f"before the answer to its {message}" if answered else f"before its {message} left"

        def act_and_count(member: Member[C]) -> None:
            self._world.happened[f"leader {what} {when}"] += 1
            act(member)

        self.await_message(message, answered, self.until_limit(act_and_count))

    def _pause(self, member: Member[C], seconds: float) -> None:
        member.process.pause()
        self.record_lag(seconds)
        self._world.timeline.call_after(seconds, partial(self._resume, member))

    def _resume(self, member: Member[C]) -> None:
        """Resume a process (SIGCONT).

        A leader paused longer than its Lease believes that it leads until it reads the clock.
        """
        if member.process.state is ProcessState.PAUSED:
            self._world.happened["stale leader woke up"] += not member.controller.leader.is_leading()
            member.process.resume()


def _act_on(member: Member[C] | None, act: Callable[[Member[C]], None]) -> bool:
    """Act on a process, if there is one. Return whether there is."""
    if member is not None:
        act(member)
    return member is not None
