"""Admission policies: their expressions compile, and what they cannot do without is there.

After `pkg/apis/admissionregistration/validation`. Evaluation is in `cel_policies`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from situate.cluster.cel import POLICY_VARIABLES, compile_condition, compile_expression
from situate.cluster.field_errors import FieldError, forbidden, invalid, not_supported, required
from situate.cluster.validation.admission import validate_match_conditions
from situate.cluster.validation.metadata import validate_metadata, validate_metadata_update

_Map = Mapping[str, Any]
_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge")


def policy(obj: _Map) -> list[FieldError]:
    """A new ValidatingAdmissionPolicy."""
    return validate_metadata(obj["metadata"], namespaced=False) + _spec(obj.get("spec", {}))


def policy_update(new: _Map, old: _Map) -> list[FieldError]:
    """Everything may change."""
    return validate_metadata_update(new["metadata"], old["metadata"]) + _spec(new.get("spec", {}))


def mutating_policy(_obj: _Map) -> list[FieldError]:
    """Refused by name: its expressions build typed objects, which the evaluator here has not."""
    return [forbidden("spec.mutations", "MutatingAdmissionPolicy is not supported by this server; use a webhook")]


def mutating_policy_update(new: _Map, _old: _Map) -> list[FieldError]:
    """Never asked, for none is ever stored."""
    return mutating_policy(new)


def _spec(spec: _Map) -> list[FieldError]:
    errors: list[FieldError] = []
    if spec.get("failurePolicy") not in ("Fail", "Ignore"):
        errors.append(not_supported("spec.failurePolicy", spec.get("failurePolicy", ""), ("Fail", "Ignore")))
    if spec.get("matchConstraints") is None:
        errors.append(required("spec.matchConstraints"))
    elif not spec["matchConstraints"].get("resourceRules"):
        errors.append(required("spec.matchConstraints.resourceRules"))
    errors += validate_match_conditions(spec.get("matchConditions", ()), "spec.matchConditions")
    for index, variable in enumerate(spec.get("variables", ())):
        here = f"spec.variables[{index}]"
        if not variable.get("name"):
            errors.append(required(f"{here}.name", "name is not specified"))
        errors += _expression(variable.get("expression", ""), f"{here}.expression", condition=False)
    validations = spec.get("validations", ())
    if not validations and not spec.get("auditAnnotations"):
        detail = "validations or auditAnnotations must contain at least one item"
        errors += [required("spec.validations", detail), required("spec.auditAnnotations", detail)]
    for index, validation in enumerate(validations):
        here = f"spec.validations[{index}]"
        errors += _expression(validation.get("expression", ""), f"{here}.expression", condition=True)
        if validation.get("messageExpression"):
            errors += _expression(validation["messageExpression"], f"{here}.messageExpression", condition=False)
        reason = validation.get("reason")
        if reason is not None and reason not in _REASONS:
            errors.append(not_supported(f"{here}.reason", reason, _REASONS))
    return errors


def _expression(expression: str, path: str, *, condition: bool) -> list[FieldError]:
    text = expression.strip()
    if not text:
        return [required(path, "expression is not specified")]
    compiled = compile_condition(text, POLICY_VARIABLES) if condition else compile_expression(text, POLICY_VARIABLES)
    return [invalid(path, text, compiled)] if isinstance(compiled, str) else []
