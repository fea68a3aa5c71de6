"""ksched's vectors: which runner each file has. The README beside the vectors defines fields and expectations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.conformance import (
    ksched_archive,
    ksched_assignment,
    ksched_fencing,
    ksched_hashing,
    ksched_histories,
    ksched_reassign,
    ksched_rebalance,
    ksched_supervisor,
)
from tests.conformance.ksched_basis import scored
from tests.conformance.outcome import Case, CaseRunner

RUNNERS: Mapping[str, CaseRunner] = {
    "archive.json": scored(ksched_archive.archive),
    "assignment.json": scored(ksched_assignment.assignment),
    "fencing.json": scored(ksched_fencing.fencing),
    "hashing.json": scored(ksched_hashing.hashing),
    "histories.json": ksched_histories.history,
    "rebalance.json": scored(ksched_rebalance.rebalance),
    "reassign.json": scored(ksched_reassign.reassign),
    "supervisor.json": scored(ksched_supervisor.supervisor),
}
"""By file name; each runs one case, wrapped in `ksched_basis.scored`."""

CASES: Mapping[str, Callable[[Any], list[Case]]] = {
    "archive.json": ksched_archive.archive_cases,
    "hashing.json": ksched_hashing.cases,
    "histories.json": ksched_histories.history_cases,
    "rebalance.json": ksched_rebalance.cases,
}
"""By file name: how the cases stand in files that are more than a list of them."""
