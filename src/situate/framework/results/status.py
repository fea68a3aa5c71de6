"""Codes and statuses of plugins (upstream pkg/scheduler/framework interface.go)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final


class Code(IntEnum):
    """Result codes, numbered as upstream. In the core an error is an exception; `ERROR` is for reports."""

    SUCCESS = 0
    ERROR = 1
    UNSCHEDULABLE = 2
    """Not now; preemption might help."""
    UNRESOLVABLE = 3
    """UnschedulableAndUnresolvable: preemption cannot help on this node."""
    WAIT = 4
    """Permit only: the Pod waits."""
    SKIP = 5
    """The plugin does not apply."""
    PENDING = 6
    """Placed in principle; waits for an external step."""

    @property
    def rejects(self) -> bool:
        return self in _REJECTIONS

    @property
    def title(self) -> str:
        """The upstream name of the code."""
        return _TITLES[self]


_REJECTIONS: Final = frozenset({Code.UNSCHEDULABLE, Code.UNRESOLVABLE, Code.PENDING})
_TITLES: Final = {
    Code.SUCCESS: "Success",
    Code.ERROR: "Error",
    Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNRESOLVABLE: "UnschedulableAndUnresolvable",
    Code.WAIT: "Wait",
    Code.SKIP: "Skip",
    Code.PENDING: "Pending",
}


@dataclass(frozen=True, slots=True)
class Status:
    """One plugin's answer about a Pod as a whole."""

    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()
    plugin: str = ""
    """The plugin that answered. The framework sets it."""

    @property
    def ok(self) -> bool:
        return self.code is Code.SUCCESS

    @property
    def message(self) -> str:
        return ", ".join(self.reasons)


SUCCESS: Final = Status()
SKIP: Final = Status(Code.SKIP)


def unschedulable_status(*reasons: str) -> Status:
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable_status(*reasons: str) -> Status:
    return Status(Code.UNRESOLVABLE, reasons)
