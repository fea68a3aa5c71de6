"""What running one vector case gives, and the two ways in which a runner refuses what it does not know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

Case = Mapping[str, Any]
CaseRunner = Callable[[Case], "Outcome"]


class UnknownPhraseError(Exception):
    """A sentence meant for people that the runner's table does not hold: the case is skipped, and says so."""


class UnknownOperationError(Exception):
    """An op, action or tag that the runner does not know: the case fails."""


@dataclass(frozen=True, slots=True)
class Outcome:
    verdict: Literal["passed", "failed", "skipped"]
    detail: str = ""
    """The difference, or why it was skipped."""
    optional: bool = False
    """Printed apart, with O; changes nothing about the exit code."""

    def as_optional(self) -> Outcome:
        return replace(self, optional=True)


PASSED = Outcome("passed")


def failed(difference: str) -> Outcome:
    return Outcome("failed", difference)


def skipped(reason: str) -> Outcome:
    return Outcome("skipped", reason)


def compared(actual: Mapping[str, Any], expected: Mapping[str, Any]) -> Outcome:
    """Passed if every expected key is there with an equal value; the difference names the keys."""
    differences = [
        f"{key}: expected {wanted!r}, got {actual.get(key, 'nothing')!r}"
        for key, wanted in expected.items()
        if key not in actual or actual[key] != wanted
    ]
    return failed("; ".join(differences)) if differences else PASSED


def by_action(actions: Mapping[str, CaseRunner]) -> CaseRunner:
    """Runs a case by its `action`."""

    def run(case: Case) -> Outcome:
        runner = actions.get(case["action"])
        if runner is None:
            raise UnknownOperationError(f"action {case['action']!r}; known: {', '.join(sorted(actions))}")
        return runner(case)

    return run


def optional(runner: CaseRunner) -> CaseRunner:
    """Its failures, those of the adapter too, are printed and change nothing."""
    return lambda case: attempted(runner, case).as_optional()


def attempted(runner: CaseRunner, case: Case) -> Outcome:
    """One case; whatever it does to an adapter, it must not keep the other cases from running."""
    if not isinstance(case, Mapping):
        return failed(f"a case is a mapping, this is {case!r:.80}")
    try:
        return runner(case)
    except UnknownPhraseError as phrase:
        return skipped(f"unknown phrase: {phrase}")
    except UnknownOperationError as operation:
        return failed(f"unknown operation: {operation}")
    except Exception as error:
        return failed(f"{type(error).__name__}: {error}")
