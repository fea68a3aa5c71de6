"""The answer of a plugin for one Pod: a code and its reasons.

Upstream: pkg/scheduler/state/interface.go of knative/eventing v0.43.0.
"""

from __future__ import annotations

import enum

import msgspec


class Code(enum.IntEnum):
    """The codes in order of precedence: the merged code of several statuses is the greatest."""

    SUCCESS = 0
    UNSCHEDULABLE = 1
    ERROR = 2


class Status(msgspec.Struct, frozen=True):
    """The answer of one plugin; reasons are empty on success."""

    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()

    @property
    def is_success(self) -> bool:
        return self.code is Code.SUCCESS

    @property
    def message(self) -> str:
        """The reasons, joined as upstream joins them."""
        return ", ".join(self.reasons)


SUCCESS = Status()
