"""ValidatingAdmissionPolicies, evaluated when a request matches one of their bindings.

After `apiserver/pkg/admission/plugin/policy/validating`. Which requests a policy and its bindings match is the caller's
matter; policies are judged when they are created, in `validation.policies`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from situate.cluster.cel import PARAMETER_VARIABLES, POLICY_VARIABLES, CelError, Program, compile_expression

_Map = Mapping[str, Any]
_REASONS: Final = {"Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413}


@dataclass(frozen=True, slots=True)
class Violation:
    """One validation that did not hold, or could not be evaluated."""

    policy: str
    binding: str
    message: str
    reason: str
    """Invalid, Forbidden or RequestEntityTooLarge."""

    @property
    def code(self) -> int:
        """The HTTP status of a denial."""
        return _REASONS.get(self.reason, 422)

    def denial(self) -> str:
        """The text after `… is forbidden: `."""
        return f"ValidatingAdmissionPolicy '{self.policy}' with binding '{self.binding}' denied request: {self.message}"

    def warning(self) -> str:
        """The text of a binding whose action is Warn."""
        where = f"ValidatingAdmissionPolicy '{self.policy}' with binding '{self.binding}'"
        return f"Validation failed for {where}: {self.message}"


def evaluate_policy(policy: _Map, binding: str, variables: Mapping[str, Any]) -> Sequence[Violation]:
    """What of an accepted policy does not hold for a request.

    `variables` has object, oldObject, request, namespaceObject and, if the binding names some, params. An expression
    without a value counts as the policy's failurePolicy says. A match condition that is false leaves nothing to hold.
    """
    spec, name = policy.get("spec", {}), policy["metadata"]["name"]
    strict = spec.get("failurePolicy", "Fail") == "Fail"

    def violation(message: str, reason: str = "Invalid") -> Violation:
        return Violation(name, binding, message, reason)

    scope = dict(variables)
    for condition in spec.get("matchConditions", ()):
        holds = _accepted(condition["expression"], PARAMETER_VARIABLES).holds(scope)
        if isinstance(holds, CelError):
            return [violation(f"match condition '{condition['name']}': {holds.message}")] if strict else []
        if not holds:
            return []
    failures = _define_variables(spec.get("variables", ()), scope)
    found: list[Violation] = []
    for validation in spec.get("validations", ()):
        expression = validation["expression"].strip()
        holds = _accepted(expression, POLICY_VARIABLES).holds(scope)
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
        value = _accepted(variable["expression"], POLICY_VARIABLES).evaluate(scope)
        if isinstance(value, CelError):
            reason = failures.get(value.message, value.message)
            failures[f"no such key: {name}"] = f'composited variable "{name}" fails to evaluate: {reason}'
        else:
            own[name] = value
    return failures


def _accepted(expression: str, declared: frozenset[str]) -> Program:
    program = compile_expression(expression.strip(), declared)
    assert isinstance(program, Program), f"{expression!r} was accepted with its policy and is refused now: {program}"
    return program


def _message(validation: _Map, expression: str, scope: Mapping[str, Any]) -> str:
    if validation.get("messageExpression"):
        text = _accepted(validation["messageExpression"], POLICY_VARIABLES).evaluate(scope)
        if isinstance(text, str) and text.strip() and "\n" not in text:
            return text.strip()
    return validation.get("message", "").strip() or f"failed expression: {expression}"
