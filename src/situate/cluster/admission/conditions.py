"""Evaluate matchConditions of webhooks: CEL expressions that must all be true.

After apiserver's webhook/matchconditions/matcher.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from situate.cluster.admission.attributes import Attributes
from situate.cluster.cel.programs import Program, compile_accepted, conditions_met
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
        met = conditions_met(self.programs, variables)
        if isinstance(met, bool):
            return met
        if self.fails_closed:
            raise RequestRefused(forbidden(attributes.resource, attributes.name, met.message))
        return False
