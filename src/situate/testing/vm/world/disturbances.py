"""Faults of a history's processes, their clocks and their messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final, assert_never

from situate.cluster.storage.effects import Identity
from situate.cluster.storage.watch import Watch
from situate.objects.messages import Request, Response
from situate.testing.histories.steps import Calm, CutWatches, KillLeader, StopLeader
from situate.testing.virtual_time.network import NO_FAULTS, NetworkFaults
from situate.testing.virtual_time.processes import ProcessState
from situate.testing.vm import steps
from situate.testing.vm.steps import ProcessStep
from situate.testing.vm.world.history_world import VmHistoryWorld, write_kind
from situate.testing.vm.world.processes import VmMember

TRIGGER_LIMIT_S: Final = 60.0
"""Seconds after which a planned kill of the leader is dropped if the leader sends no such write."""
_STORMS: Final = {
    "request lost": NetworkFaults(lose_request=0.3),
    "answer lost": NetworkFaults(lose_answer=0.3),
    "refused": NetworkFaults(refuse=0.5),
    "conflict": NetworkFaults(conflict=0.5),
    "busy": NO_FAULTS,
    "invalid": NO_FAULTS,
    "late events": NetworkFaults(event_delay_s=0.5, event_jitter_s=4.5, repeat_event=0.2),
    "late writes": NetworkFaults(late_write_s=3.0, event_delay_s=0.5),
}


class VmDisturbances:
    """The faults of one history."""

    def __init__(self, place: VmHistoryWorld, happened: Counter[str]) -> None:
        self._world = place
        self._happened = happened

    def perform(self, step: ProcessStep) -> None:
        place = self._world
        match step:
            case KillLeader():
                if (member := place.leader()) is not None:
                    place.end(member)
            case steps.KillLeaderAt(message=message, answered=answered):
                self._plan_at_write(message, answered, "killed", place.end)
            case steps.PauseLeaderAt(message=message, answered=answered, seconds=seconds):
                self._plan_at_write(message, answered, "paused", partial(self._pause, seconds=seconds))
            case StopLeader():
                if (member := place.leader()) is not None:
                    place.stop(member)
            case steps.Storm(kind=kind):
                place.network.faults = _STORMS[kind]
                place.refusing_server.refusal_kind = kind if kind in ("busy", "invalid") else ""
            case Calm():
                place.network.faults, place.refusing_server.refusal_kind = NO_FAULTS, ""
            case CutWatches(compact=compact):
                if compact:
                    self._happened["compacted"] += 1
                    place.cluster.api.store.compact()
                place.network.cut_watches()
            case steps.SetClock(seconds=seconds):
                place.clock_off_s = seconds
            case _:
                assert_never(step)

    def _pause(self, member: VmMember, seconds: float) -> None:
        member.process.pause()
        self._world.timeline.call_after(seconds, partial(self.resume, member))

    def resume(self, member: VmMember) -> None:
        """Resume a process (SIGCONT).

        A leader paused longer than its Lease believes that it leads until it reads the clock.
        """
        if member.process.state is ProcessState.PAUSED:
            elector = member.controller.elector
            self._happened["stale leader woke up"] += elector is not None and not elector.is_leader()
            member.process.resume()

    def _plan_at_write(self, message: str, answered: bool, what: str, do: Callable[[VmMember], None]) -> None:
        """Plan an action on a leader at its next write of a kind."""
        place = self._world
        until = place.now + TRIGGER_LIMIT_S

        def met(identity: str, when: str) -> None:
            member = next((each for each in place.members if each.identity == identity), None)
            if member is not None and place.now <= until:
                self._happened[f"leader {what} {when} {message}{'' if answered else ' left'}"] += 1
                do(member)

        def left(request: Request, identity: Identity) -> None:
            if _is_write_kind(request, message):
                place.network.send_listeners.remove(left)
                met(identity.user, "before its")

        def arrived(request: Request, _: Response | Watch, identity: Identity) -> None:
            if _is_write_kind(request, message):
                place.request_listeners.remove(arrived)
                met(identity.user, "before the answer to its")

        if answered:
            place.request_listeners.append(arrived)
        else:
            place.network.send_listeners.append(left)


def _is_write_kind(request: Request, message: str) -> bool:
    kind = write_kind(request)
    return kind == message or (message == "any" and kind != "")
