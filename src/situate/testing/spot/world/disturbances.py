"""Faults of our processes and messages: kills, pauses, storms, certificates and clocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final, assert_never

import msgspec

from situate.cluster.storage.effects import Identity
from situate.cluster.storage.watch import Watch
from situate.objects.messages import Request, Response
from situate.spot.model.object_names import CERTIFICATES
from situate.spot.model.pods_nodes_workloads import GATE
from situate.testing.histories.steps import (
    Calm,
    CutWatches,
    KillLeader,
    KillStandby,
    Pass,
    PauseLeader,
    ServerDown,
    StopLeader,
)
from situate.testing.spot import steps
from situate.testing.spot.invariants.rules import SpotWatchdog
from situate.testing.spot.steps import ProcessStep
from situate.testing.spot.world.other_webhooks import OtherWebhooks
from situate.testing.spot.world.webhooks import NO_REVIEW_FAULTS, ReviewFaults
from situate.testing.spot.world.world import OWN_NAMESPACE, OWN_PODS, SHOP, SpotMember, SpotWorld
from situate.testing.virtual_time.network import NO_FAULTS, NetworkFaults
from situate.testing.virtual_time.processes import ProcessState

TRIGGER_LIMIT_S: Final = 30.0
"""Seconds after which a planned kill of the leader is dropped if the leader sends no such message."""
RECONNECTED_S: Final = 60.0
"""Seconds after cut watches or a server outage until processes reliably see the present state."""

_STORMS: Final = {
    "request lost": NetworkFaults(lose_request=0.3),
    "answer lost": NetworkFaults(lose_answer=0.3),
    "refused": NetworkFaults(refuse=0.5),
    "conflict": NetworkFaults(conflict=0.5),
    "late events": NetworkFaults(event_delay_s=1.0, event_jitter_s=1.0),
    "blind": NetworkFaults(lose_answer=0.3, event_delay_s=2.0),
}
_REVIEW_FAULTS: Final = {
    "lost": ReviewFaults(lose_question=0.3),
    "answer lost": ReviewFaults(lose_answer=0.3),
    "repeated": ReviewFaults(repeat=0.5),
    "reordered": ReviewFaults(latency_s=(0.001, 0.8)),
    "all": ReviewFaults((0.001, 0.5), 0.1, 0.1, 0.3),
}


class SpotDisturbances:
    """Performs steps. A step that is impossible now does nothing."""

    def __init__(self, world: SpotWorld, watchdog: SpotWatchdog, happened: Counter[str]) -> None:
        self._world = world
        self._watchdog = watchdog
        self._happened = happened
        self._others = OtherWebhooks(world, happened)

    def gate_by_policy(self) -> None:
        self._others.gate_by_policy()

    def heal(self) -> None:
        """End every fault: all processes run, messages arrive, clocks agree, and other webhooks are removed."""
        world = self._world
        world.network.faults, world.webhook_calls.faults = NO_FAULTS, NO_REVIEW_FAULTS
        world.network.down = False
        world.network.send_listeners.clear()
        world.closed_until = world.now
        for member in world.members:
            self._resume(member)
        for machine, _ in enumerate(OWN_PODS):
            world.set_clock(machine, 0.0)
        self._others.refuse_creations(0)
        self._others.start_meddler("")
        self._others.start_rival("", first=False)
        self._set_read_only(False)

    def perform(self, step: ProcessStep) -> None:
        world = self._world
        match step:
            case KillLeader():
                if (member := world.leader()) is not None:
                    world.end(member)
            case steps.KillLeaderAt(message=message, answered=answered):
                self._plan_at_message(message, answered, "killed", world.end)
            case KillStandby():
                leader = world.leader()
                standby = next((member for member in world.members if member is not leader), None)
                if standby is not None:
                    world.end(standby)
            case PauseLeader(seconds=seconds):
                if (member := world.leader()) is not None:
                    self._pause(member, seconds)
            case steps.PauseLeaderAt(message=message, answered=answered, seconds=seconds):
                self._plan_at_message(message, answered, "paused", partial(self._pause, seconds=seconds))
            case StopLeader():
                if (member := world.leader()) is not None:
                    world.stop(member)
            case steps.BothDown(seconds=seconds):
                world.closed_until = world.now + seconds
                for member in tuple(world.members):
                    world.end(member)
            case steps.RefuseCreations(every=every):
                self._others.refuse_creations(every)
            case steps.Meddle(how=how):
                self._others.start_meddler(how)
            case steps.Rival(how=how, first=first):
                self._watchdog.record_disturbance()
                self._others.start_rival(how, first=first)
            case steps.Upgrade(machine=machine):
                world.upgrade(machine)
            case steps.ReadOnly(on=on):
                self._happened["read-only on"] += on
                self._set_read_only(on)
            case steps.Ungate():
                self._remove_gates()
            case steps.Storm(kind=kind):
                world.network.faults = _STORMS[kind]
            case steps.LoseReviews(kind=kind):
                self._happened["reviews reordered"] += kind in ("reordered", "all")
                world.webhook_calls.faults = _REVIEW_FAULTS[kind]
            case Calm():
                world.network.faults, world.webhook_calls.faults = NO_FAULTS, NO_REVIEW_FAULTS
            case CutWatches(compact=compact):
                if compact:
                    self._happened["compacted"] += 1
                    world.cluster.api.store.compact()
                world.network.cut_watches()
                self._extend_blindness(0.0)
            case ServerDown(seconds=seconds):
                world.network.down = True
                world.network.cut_watches()
                world.timeline.call_after(seconds, lambda: setattr(world.network, "down", False))
                self._extend_blindness(seconds)
            case steps.SetClock(machine=machine, seconds=seconds):
                world.set_clock(machine, seconds)
            case steps.LoseSecret():
                world.call("DELETE", f"/api/v1/namespaces/{OWN_NAMESPACE}/secrets/{CERTIFICATES}")
            case Pass():
                pass
            case _:
                assert_never(step)

    def _set_read_only(self, on: bool) -> None:
        if self._world.settings.read_only != on:
            self._world.reconfigure(msgspec.structs.replace(self._world.settings, read_only=on))
            self._watchdog.read_only_since = self._world.now if on else None

    def _remove_gates(self) -> None:
        self._watchdog.record_disturbance()
        for pod in self._world.pods():
            gates = pod["spec"].get("schedulingGates") or ()
            left = [each for each in gates if each["name"] != GATE]
            if len(left) < len(gates):
                path = f"/api/v1/namespaces/{SHOP}/pods/{pod['metadata']['name']}"
                self._world.call("PATCH", path, {"spec": {"schedulingGates": left or None}}, patch=True)

    def _extend_blindness(self, seconds: float) -> None:
        self._watchdog.blind_until = max(self._watchdog.blind_until, self._world.now + seconds + RECONNECTED_S)

    def _pause(self, member: SpotMember, seconds: float) -> None:
        member.process.pause()
        self._extend_blindness(seconds)
        self._world.timeline.call_after(seconds, partial(self._resume, member))

    def _resume(self, member: SpotMember) -> None:
        """Resume a process (SIGCONT).

        A leader paused longer than its Lease believes that it leads until it reads the clock.
        """
        if member.process.state is ProcessState.PAUSED:
            self._happened["stale leader woke up"] += not member.controller.elector.is_leader()
            member.process.resume()

    def _plan_at_message(self, message: str, answered: bool, what: str, do: Callable[[SpotMember], None]) -> None:
        """Plan an action on a leader at its next message of a kind."""
        world = self._world
        until = world.now + TRIGGER_LIMIT_S

        def met(identity: str, when: str) -> None:
            member = next((each for each in world.members if each.identity == identity), None)
            if member is not None and world.now <= until:
                self._happened[f"leader {what} {when}"] += 1
                do(member)

        if message == "review":
            self._plan_at_review(answered, met)
            return

        def left(request: Request, identity: Identity) -> None:
            if _message_kind(request) == message:
                world.network.send_listeners.remove(left)
                met(identity.user, f"before its {message} left")

        def arrived(request: Request, _: Response | Watch, identity: Identity) -> None:
            if _message_kind(request) == message:
                world.request_listeners.remove(arrived)
                met(identity.user, f"before the answer to its {message}")

        if answered:
            world.request_listeners.append(arrived)
        else:
            world.network.send_listeners.append(left)

    def _plan_at_review(self, answered: bool, met: Callable[[str, str], None]) -> None:
        """Act before the review's answer leaves, or while the answer is on its way and no watch shows the pod."""

        def given(identity: str, _: object) -> None:
            self._world.answer_listeners.remove(given)
            when = "before the answer to its review" if answered else "before its review left"
            # the process is in the middle of its turn
            self._world.timeline.call_after(0.0005 if answered else 0.0, partial(met, identity, when))

        self._world.answer_listeners.append(given)


def _message_kind(request: Request) -> str:
    """Return the kind of a message of ours."""
    if f"/namespaces/{SHOP}/pods/" not in request.path:
        return ""
    if request.path.endswith("/eviction"):
        return "eviction"
    if request.method == "DELETE":
        return "delete"
    if request.method != "PATCH":
        return ""
    return "release" if b"released-" in request.body else "mark"
