"""Neon's file about the reconcile queue: merging events, back-off, and what is due next."""

from __future__ import annotations

from typing import Any, Final

from situate.vm.controller.backoff import FACTOR, FIRST_NS, LONGEST_NS, NO_FAILURE
from tests.conformance.outcome import PASSED, Case, Outcome, UnknownOperationError, compared, failed
from tests.conformance.reconcile_queue import ImpossibleEvents, Kind, ReconcileQueue, merged

Json = Any
_MS: Final = 1_000_000


def cases(document: Json) -> list[Case]:
    """Each told which list it is of; the constants and the sequence of plain failures are cases too."""
    plain = document.get("plain_backoff_ns", [])
    row = {"failed": True, "handler_retry_after_ms": 0}
    wanted = [{"retry_after_ns": wait, "successive_failures": n + 1} for n, wait in enumerate(plain)]
    constants = document.get("backoff_constants", {})
    return [
        *(
            {"list": "merge", "name": f"{each['first']} then {each['then']}", **each}
            for each in document.get("merge", [])
        ),
        {"list": "constants", "name": "backoff_constants", "expected": constants},
        {"list": "backoff", "name": "plain_backoff_ns", "results": [row] * len(plain), "expected": wanted},
        *({"list": "backoff", **each} for each in document.get("backoff", [])),
        *({"list": "queue", **each} for each in document.get("queue", [])),
    ]


def reconcile_queue(case: Case) -> Outcome:
    match case["list"]:
        case "merge":
            return _merge(case)
        case "constants":
            actual = {"initial_ms": FIRST_NS // _MS, "factor": FACTOR, "max_ms": LONGEST_NS // _MS}
            return compared({key: actual.get(key) for key in case["expected"]}, case["expected"])
        case "backoff":
            return _backoff(case)
        case "queue":
            return _queue(case)
        case unknown:
            raise UnknownOperationError(f"list {unknown!r}")


def _merge(case: Case) -> Outcome:
    try:
        got = merged(Kind(case["first"]), Kind(case["then"])).value
    except ImpossibleEvents:
        got = "panic"
    return compared({"expected": got}, {"expected": case["expected"]})


def _backoff(case: Case) -> Outcome:
    backoff = NO_FAILURE
    for number, (result, expected) in enumerate(zip(case["results"], case["expected"], strict=True)):
        retry = (result.get("handler_retry_after_ms") or 0) * _MS
        backoff, wait = backoff.after_failure(retry) if result["failed"] else (NO_FAILURE, retry)
        outcome = compared({"retry_after_ns": wait, "successive_failures": backoff.failures}, expected)
        if outcome.verdict != "passed":
            return failed(f"result {number}: {outcome.detail}")
    return PASSED


def _queue(case: Case) -> Outcome:
    queue: ReconcileQueue[str, str] = ReconcileQueue()
    running: list[str] = []
    now = 0
    for number, step in enumerate(case["steps"]):
        now = step.get("at_ms", now)
        match next((op for op in ("enqueue", "next", "finish") if op in step), None):
            case "enqueue":
                key, kind, value = step["enqueue"]
                queue.add(key, Kind(kind), value, now)
            case "next":
                work = queue.next(now)
                running += [work.key] if work is not None else []
                wanted = step["next"]
                actual = None if work is None else {"key": work.key, "kind": work.kind.value, "object": work.object}
                if actual is not None and wanted is not None and "key" not in wanted:
                    del actual["key"]
                if actual != wanted:
                    return failed(f"step {number}: expected {wanted}, got {actual}")
            case "finish":
                finished = step["finish"] or {}
                key = finished.get("key", running[-1])
                running.remove(key)
                wait = finished.get("retry_after_ms")
                queue.finish(key, now + wait if wait else None)
            case _:
                raise UnknownOperationError(f"step {sorted(step)}")
    return PASSED
