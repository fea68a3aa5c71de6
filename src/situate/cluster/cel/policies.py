"""Evaluate ValidatingAdmissionPolicies when a request matches one of their bindings.

After `apiserver/pkg/admission/plugin/policy/validating`. `admission.policies` matches requests with policies and
bindings. `validation.policies` checks a policy when it is created.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from situate.cluster.cel.programs import CelError, compile_accepted, conditions_met

_Map = Mapping[str, Any]
_REASONS: Final = {"Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413}


@dataclass(frozen=True, slots=True)
class Violation:
    """One validation that failed, or that could not be evaluated."""

    policy: str
    binding: str
    """Empty if the policy itself cannot be used."""
    message: str
    reason: str
    """Invalid, Forbidden or RequestEntityTooLarge."""

    @property
    def code(self) -> int:
        """HTTP status of a denial."""
        return _REASONS.get(self.reason, 422)

    def denial(self) -> str:
        """Return the text after `… is forbidden: `."""
        bound = f" with binding '{self.binding}'" if self.binding else ""
        return f"ValidatingAdmissionPolicy '{self.policy}'{bound} denied request: {self.message}"

    def warning(self) -> str:
        """Return the text for a binding with the action Warn."""
        where = f"ValidatingAdmissionPolicy '{self.policy}' with binding '{self.binding}'"
        return f"Validation failed for {where}: {self.message}"


def evaluate_policy(policy: _Map, binding: str, variables: Mapping[str, Any]) -> Sequence[Violation]:
    """Return the violations of an accepted policy for a request.

    `variables` has object, oldObject, request, namespaceObject and params. For an expression that fails, the policy's
    failurePolicy decides. If one match condition is false, there are no violations, even if other conditions fail.
    """
    spec, name = policy.get("spec", {}), policy["metadata"]["name"]
    strict = spec.get("failurePolicy", "Fail") == "Fail"

    def violation(message: str, reason: str = "Invalid") -> Violation:
        return Violation(name, binding, message, reason)

    scope = dict(variables)
    conditions = (compile_accepted(condition["expression"]) for condition in spec.get("matchConditions", ()))
    met = conditions_met(conditions, scope)
    if isinstance(met, CelError):
        return [violation(met.message)] if strict else []
    if not met:
        return []
    failures = _define_variables(spec.get("variables", ()), scope)
    found: list[Violation] = []
    for validation in spec.get("validations", ()):
        expression = validation["expression"].strip()
        holds = compile_accepted(expression).holds(scope)
        if isinstance(holds, CelError):
            if strict:
                reason = failures.get(holds.message, holds.message)
                found.append(violation(f"expression '{expression}' resulted in error: {reason}"))
        elif not holds:
            found.append(violation(_message(validation, expression, scope), validation.get("reason") or "Invalid"))
    return found


def _define_variables(variables: Sequence[_Map], scope: dict[str, Any]) -> dict[str, str]:
    """Add `variables` to the scope. Return texts for failed variables, by the evaluator's error at their use.

    A variable that fails is left out, so that the error occurs at its use, as upstream evaluates lazily.
    """
    own: dict[str, Any] = {}
    failures: dict[str, str] = {}
    scope["variables"] = own
    for variable in variables:
        name = variable["name"]
        value = compile_accepted(variable["expression"]).evaluate(scope)
        if isinstance(value, CelError):
            reason = failures.get(value.message, value.message)
            failures[f"no such key: {name}"] = f'composited variable "{name}" fails to evaluate: {reason}'
        else:
            own[name] = value
    return failures


def _message(validation: _Map, expression: str, scope: Mapping[str, Any]) -> str:
    if validation.get("messageExpression"):
        text = compile_accepted(validation["messageExpression"]).evaluate(scope)
        if isinstance(text, str) and text.strip() and "\n" not in text:
            return text.strip()
    return validation.get("message", "").strip() or f"failed expression: {expression}"
