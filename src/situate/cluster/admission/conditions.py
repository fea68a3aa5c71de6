"""Evaluate matchConditions of webhooks: CEL expressions that must all be true.

After apiserver's webhook/matchconditions/matcher.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from situate.cluster.admission.attributes import Attributes
from situate.cluster.cel.programs import CelError, Program, compile_accepted
from situate.cluster.errors.refusals import RequestRefused, forbidden


@dataclass(frozen=True, slots=True)
class MatchConditions:
    """The conditions of one webhook."""

    programs: tuple[Program, ...]
    fails_closed: bool
    """True if an error refuses the write; otherwise an error skips the webhook."""

    @staticmethod
    def compile(conditions: Sequence[Mapping[str, Any]], *, fails_closed: bool) -> MatchConditions:
        """Compile `matchConditions`."""
        return MatchConditions(tuple(compile_accepted(entry["expression"]) for entry in conditions), fails_closed)

    def are_met(self, attributes: Attributes, request: Mapping[str, Any]) -> bool:
        """Return whether to call the webhook. One false condition decides against it, even if others fail.

        `request` is that of the AdmissionReview. Raises `RequestRefused` (403) for an error that refuses the write.
        """
        variables = {"object": attributes.object, "oldObject": attributes.old, "request": request}
        errors: list[str] = []
        for program in self.programs:
            value = program.holds(variables)
            if isinstance(value, CelError):
                errors.append(f"expression '{program.expression}' resulted in error: {value.message}")
            elif not value:
                return False
        if not errors:
            return True
        if self.fails_closed:
            text = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
            raise RequestRefused(forbidden(attributes.resource, attributes.name, text))
        return False
