"""ValidatingAdmissionPolicies, evaluated when a request matches one of their bindings.

After `apiserver/pkg/admission/plugin/policy/validating`. Which requests a policy and its bindings match is known to
`admission.policies`; policies are judged when they are created, in `validation.policies`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from situate.cluster.cel.programs import CelError, accepted_expression

_Map = Mapping[str, Any]
_REASONS: Final = {"Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413}


@dataclass(frozen=True, slots=True)
class Violation:
    """One validation that did not hold, or could not be evaluated."""

    policy: str
    binding: str
    """Empty if the policy itself cannot be used."""
    message: str
    reason: str
    """Invalid, Forbidden or RequestEntityTooLarge."""

    @property
    def code(self) -> int:
        """The HTTP status of a denial."""
        return _REASONS.get(self.reason, 422)

    def denial(self) -> str:
        """The text after `… is forbidden: `."""
        bound = f" with binding '{self.binding}'" if self.binding else ""
        return f"ValidatingAdmissionPolicy '{self.policy}'{bound} denied request: {self.message}"

    def warning(self) -> str:
        """The text of a binding whose action is Warn."""
        where = f"ValidatingAdmissionPolicy '{self.policy}' with binding '{self.binding}'"
        return f"Validation failed for {where}: {self.message}"


def evaluate_policy(policy: _Map, binding: str, variables: Mapping[str, Any]) -> Sequence[Violation]:
    """What of an accepted policy does not hold for a request.

    `variables` has object, oldObject, request, namespaceObject and params. An expression without a value counts as the
    policy's failurePolicy says. A match condition that is false leaves nothing to hold, whatever becomes of the others.
    """
    spec, name = policy.get("spec", {}), policy["metadata"]["name"]
    strict = spec.get("failurePolicy", "Fail") == "Fail"

    def violation(message: str, reason: str = "Invalid") -> Violation:
        return Violation(name, binding, message, reason)

    scope = dict(variables)
    unknown: list[str] = []
    for condition in spec.get("matchConditions", ()):
        expression = condition["expression"].strip()
        holds = accepted_expression(expression).holds(scope)
        if isinstance(holds, CelError):
            unknown.append(f"expression '{expression}' resulted in error: {holds.message}")
        elif not holds:
            return []
    if unknown:
        text = unknown[0] if len(unknown) == 1 else f"[{', '.join(unknown)}]"
        return [violation(text)] if strict else []
    failures = _define_variables(spec.get("variables", ()), scope)
    found: list[Violation] = []
    for validation in spec.get("validations", ()):
        expression = validation["expression"].strip()
        holds = accepted_expression(expression).holds(scope)
        if isinstance(holds, CelError):
            if strict:
                reason = failures.get(holds.message, holds.message)
                found.append(violation(f"expression '{expression}' resulted in error: {reason}"))
        elif not holds:
            found.append(violation(_message(validation, expression, scope), validation.get("reason") or "Invalid"))
    return found


def _define_variables(variables: Sequence[_Map], scope: dict[str, Any]) -> dict[str, str]:
    """Adds `variables` to the scope; one without a value is missed where it is used, as upstream evaluates lazily.

    Gives what is reported then, by what the evaluator says.
    """
    own: dict[str, Any] = {}
    failures: dict[str, str] = {}
    scope["variables"] = own
    for variable in variables:
        name = variable["name"]
        value = accepted_expression(variable["expression"]).evaluate(scope)
        if isinstance(value, CelError):
            reason = failures.get(value.message, value.message)
            failures[f"no such key: {name}"] = f'composited variable "{name}" fails to evaluate: {reason}'
        else:
            own[name] = value
    return failures


def _message(validation: _Map, expression: str, scope: Mapping[str, Any]) -> str:
    if validation.get("messageExpression"):
        text = accepted_expression(validation["messageExpression"]).evaluate(scope)
        if isinstance(text, str) and text.strip() and "\n" not in text:
            return text.strip()
    return validation.get("message", "").strip() or f"failed expression: {expression}"
