"""Knative's rule that merges the answers of several plugins, which the vectors compare."""

from __future__ import annotations

from collections.abc import Iterable

from situate.vpod.policy.status import Code, Status


def merge_statuses(statuses: Iterable[Status]) -> Status:
    """Merge statuses: error over unschedulable over success, with the reasons of all failures in order."""
    answers = tuple(statuses)
    return Status(
        max((answer.code for answer in answers), default=Code.SUCCESS),
        tuple(reason for answer in answers if not answer.is_success for reason in answer.reasons),
    )
