"""How a case of ksched's vectors counts: by its `basis`, which says where it comes from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from tests.conformance.outcome import Case, CaseRunner, Outcome, UnknownOperationError, attempted

MUST: Final = frozenset({"test", "code", "readme", "required", "computed"})
PROPOSED: Final = "proposed"


def scored(runner: CaseRunner) -> CaseRunner:
    """Cases that must pass count; what is only proposed is printed apart."""

    def run(case: Case) -> Outcome:
        basis = case.get("basis")
        if basis not in MUST and basis != PROPOSED:
            raise UnknownOperationError(f"basis {basis!r}; known: {', '.join(sorted({*MUST, PROPOSED}))}")
        outcome = attempted(runner, case)
        return outcome.as_optional() if basis == PROPOSED else outcome

    return run


def listed(document: Any, groups: Iterable[str], basis: str | None = None) -> list[Case]:
    """The cases of the groups that a file has, each with its group's name as `group`.

    A case without a basis has that of its group's file, or `basis`.
    """
    return [
        {"basis": document.get("basis", basis), **case, "group": group}
        for group in groups
        for case in document.get(group, ())
    ]
