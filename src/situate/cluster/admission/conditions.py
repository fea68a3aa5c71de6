"""Evaluate matchConditions of webhooks: CEL expressions that must all be true.

After apiserver's webhook/matchconditions/matcher.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from situate.cluster.admission.attributes import Attributes
from situate.cluster.cel.programs import CelError, Program, accepted_expression
from situate.cluster.errors.refusals import Declined, forbidden


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions of one webhook."""

    programs: tuple[Program, ...]
    fails_closed: bool
    """True if an error refuses the write; otherwise an error skips the webhook."""

    @staticmethod
    def of(conditions: Sequence[Mapping[str, Any]], *, fails_closed: bool) -> Conditions:
        """Compile `matchConditions`."""
        return Conditions(tuple(accepted_expression(entry["expression"]) for entry in conditions), fails_closed)

    def hold(self, attributes: Attributes, request: Mapping[str, Any]) -> bool:
        """Return whether to call the webhook. One false condition decides against it, even if others fail.

        `request` is that of the AdmissionReview. Raises `Declined` (403) for an error that refuses the write.
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
            raise Declined(forbidden(attributes.resource, attributes.name, text))
        return False
