"""Faults of a history's processes, their clocks and their messages."""

from __future__ import annotations

from typing import Final

from situate.objects.messages import Request
from situate.testing.histories.process_faults import ProcessFaults
from situate.testing.histories.steps import Calm, ProcessStep, Storm
from situate.testing.vm import steps
from situate.testing.vm.history import STORMS
from situate.testing.vm.world.history_world import VmHistoryWorld, write_kind
from situate.vm.controller.controller import VmController

TRIGGER_LIMIT_S: Final = 60.0
"""Seconds after which a planned kill of the leader is dropped if the leader sends no such write."""


class VmDisturbances(ProcessFaults[VmController]):
    """The faults of one history."""

    def __init__(self, place: VmHistoryWorld) -> None:
        super().__init__(place, STORMS, is_message=_is_write_kind, trigger_limit_s=TRIGGER_LIMIT_S)
        self._history_world = place

    def perform(self, step: ProcessStep | steps.SetClock) -> bool:
        place = self._history_world
        if isinstance(step, steps.SetClock):
            place.clock_off_s = step.seconds
            return True
        if isinstance(step, Storm | Calm):
            kind = step.kind if isinstance(step, Storm) else ""
            place.refusing_server.refusal_kind = kind if kind in ("busy", "invalid") else ""
        return super().perform(step)

    def heal(self) -> None:
        super().heal()
        self._history_world.refusing_server.refusal_kind = ""
        self._history_world.clock_off_s = 0.0


def _is_write_kind(request: Request, message: str) -> bool:
    kind = write_kind(request)
    return kind == message or (message == "any" and kind != "")
