"""Event logs of ksched, each with the invariants that it breaks: our checker must name exactly those."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from situate.testing.sharding.events import read_events
from situate.testing.sharding.invariants import INVARIANTS, Limits, breaches
from tests.conformance.outcome import PASSED, Case, Outcome, UnknownOperationError, failed


def history(case: Case) -> Outcome:
    wanted = set(case["violates"])
    if unknown := wanted - set(INVARIANTS):
        raise UnknownOperationError(f"invariant {', '.join(sorted(unknown))}; known: {', '.join(INVARIANTS)}")
    found = breaches(read_events(_whole(case["events"])), _limits(case.get("limits") or {}))
    if {breach.invariant for breach in found} == wanted:
        return PASSED
    return failed(f"expected {sorted(wanted)}, found {[str(breach) for breach in found]}")


def _whole(events: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The events, each that names an executor without an incarnation with the latest one that the log has shown."""
    latest: dict[str, Any] = {}
    found: list[Mapping[str, Any]] = []
    for event in events:
        executor = event.get("ex", event.get("to"))
        if executor is not None:
            inc = latest[executor] = event.get("inc", latest.get(executor, 1))
            found.append({**event, "inc": inc})
        else:
            found.append(event)
    return found


def _limits(wire: Mapping[str, Any]) -> Limits:
    if unknown := set(wire) - {"L1", "L2"}:
        raise UnknownOperationError(f"limit {', '.join(sorted(unknown))}; known: L1, L2")
    return Limits(first_assignment_s=wire.get("L1"), reassignment_s=wire.get("L2"))


def history_cases(document: Any) -> list[Case]:
    cases: list[Case] = document["histories"]
    return cases
