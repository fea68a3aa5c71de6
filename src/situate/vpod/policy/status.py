"""The answer of a plugin for one Pod: a code and its reasons; and the rule that merges several answers.

Upstream: pkg/scheduler/state/interface.go of knative/eventing v0.43.0.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

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
    def is_unschedulable(self) -> bool:
        return self.code is Code.UNSCHEDULABLE

    @property
    def is_error(self) -> bool:
        return self.code is Code.ERROR

    @property
    def message(self) -> str:
        """The reasons, joined as upstream joins them."""
        return ", ".join(self.reasons)


SUCCESS = Status()


def merge_statuses(statuses: Iterable[Status]) -> Status:
    """Merge statuses: error over unschedulable over success, with the reasons of all failures in order."""
    answers = tuple(statuses)
    return Status(
        max((answer.code for answer in answers), default=Code.SUCCESS),
        tuple(reason for answer in answers if not answer.is_success for reason in answer.reasons),
    )
