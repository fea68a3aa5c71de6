"""Faults of our processes and messages: kills, pauses, storms, certificates and clocks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from situate.objects.messages import Request
from situate.spot.controller.controller import SpotController
from situate.spot.model.object_names import CERTIFICATES
from situate.spot.model.pods_nodes_workloads import GATE
from situate.testing.histories.process_faults import ProcessFaults
from situate.testing.histories.steps import Calm, ProcessStep
from situate.testing.spot import steps
from situate.testing.spot.generate import REVIEW_FAULTS, STORMS
from situate.testing.spot.invariants.rules import SpotWatchdog
from situate.testing.spot.world.other_webhooks import OtherWebhooks
from situate.testing.spot.world.webhooks import NO_REVIEW_FAULTS
from situate.testing.spot.world.world import OWN_NAMESPACE, OWN_PODS, SHOP, SpotWorld

TRIGGER_LIMIT_S: Final = 30.0
"""Seconds after which a planned kill of the leader is dropped if the leader sends no such message."""
RECONNECTED_S: Final = 60.0
"""Seconds after cut watches or a server outage until processes reliably see the present state."""


class SpotDisturbances(ProcessFaults[SpotController]):
    """Performs steps. A step that is impossible now does nothing."""

    def __init__(self, world: SpotWorld, watchdog: SpotWatchdog) -> None:
        super().__init__(world, STORMS, is_message=_is_message, trigger_limit_s=TRIGGER_LIMIT_S)
        self._spot_world = world
        self._watchdog = watchdog
        self._others = OtherWebhooks(world)

    def gate_by_policy(self) -> None:
        self._others.gate_by_policy()

    def heal(self) -> None:
        """End every fault: all processes run, messages arrive, clocks agree, and other webhooks are removed."""
        super().heal()
        world = self._spot_world
        world.webhook_calls.faults = NO_REVIEW_FAULTS
        world.closed_until = world.now
        for machine, _ in enumerate(OWN_PODS):
            world.set_clock(machine, 0.0)
        self._others.refuse_creations(0)
        self._others.start_meddler("")
        self._others.start_rival("", first=False)
        self._set_read_only(False)

    def perform(self, step: ProcessStep | steps.ProcessStep) -> bool:
        world = self._spot_world
        match step:
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
                world.happened["read-only on"] += on
                self._set_read_only(on)
            case steps.Ungate():
                self._remove_gates()
            case steps.LoseReviews(kind=kind):
                world.happened["reviews reordered"] += kind in ("reordered", "all")
                world.webhook_calls.faults = REVIEW_FAULTS[kind]
            case steps.SetClock(machine=machine, seconds=seconds):
                world.set_clock(machine, seconds)
            case steps.LoseSecret():
                world.call("DELETE", f"/api/v1/namespaces/{OWN_NAMESPACE}/secrets/{CERTIFICATES}")
            case _:
                if isinstance(step, Calm):
                    world.webhook_calls.faults = NO_REVIEW_FAULTS
                return super().perform(step)
        return True

    def _set_read_only(self, on: bool) -> None:
        if self._spot_world.settings.read_only != on:
            self._spot_world.reconfigure(msgspec.structs.replace(self._spot_world.settings, read_only=on))
            self._watchdog.read_only_since = self._spot_world.now if on else None

    def _remove_gates(self) -> None:
        self._watchdog.record_disturbance()
        for pod in self._spot_world.pods():
            gates = pod["spec"].get("schedulingGates") or ()
            left = [each for each in gates if each["name"] != GATE]
            if len(left) < len(gates):
                path = f"/api/v1/namespaces/{SHOP}/pods/{pod['metadata']['name']}"
                self._spot_world.call("PATCH", path, {"spec": {"schedulingGates": left or None}}, patch=True)

    def record_lag(self, seconds: float) -> None:
        self._watchdog.blind_until = max(self._watchdog.blind_until, self._world.now + seconds + RECONNECTED_S)

    def await_message(self, message: str, answered: bool, act: Callable[[str], None]) -> None:
        """Act also at a review: before its answer leaves, or while it is on its way and no watch shows the pod."""
        if message != "review":
            super().await_message(message, answered, act)
            return
        listeners = self._spot_world.answer_listeners

        def given(identity: str, _: object) -> None:
            listeners.remove(given)
            # the process is in the middle of its turn
            self._world.timeline.call_after(0.0005 if answered else 0.0, partial(act, identity))

        listeners.append(given)


def _is_message(request: Request, message: str) -> bool:
    return _message_kind(request) == message


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
