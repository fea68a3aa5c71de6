"""Validate label selectors, node selectors, tolerations and taints.

After `apimachinery/pkg/apis/meta/v1/validation` and `pkg/apis/core/validation`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from situate.cluster.errors.field_errors import FieldError, duplicate, forbidden, invalid, not_supported, required
from situate.cluster.kinds.validation.metadata import validate_choice, validate_label_name, validate_labels
from situate.cluster.kinds.validation.names import dns_subdomain, label_value

_Map = Mapping[str, Any]
EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NO_OPERATOR: Final = "not a valid selector operator"
_NEEDS_VALUES: Final = "must be specified when `operator` is 'In' or 'NotIn'"
_NO_VALUES: Final = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"


def validate_label_selector(selector: _Map | None, path: str) -> list[FieldError]:
    """Validate matchLabels and matchExpressions. An absent selector is valid."""
    if not selector:
        return []
    errors = validate_labels(selector.get("matchLabels", {}), f"{path}.matchLabels")
    for index, requirement in enumerate(selector.get("matchExpressions", ())):
        here = f"{path}.matchExpressions[{index}]"
        errors += _operator(requirement, here)
        errors += validate_label_name(requirement.get("key", ""), f"{here}.key")
        errors += _values(requirement.get("values") or (), here)
    return errors


def _operator(requirement: _Map, path: str) -> list[FieldError]:
    """Check that the operator is known, and that it has values only if it needs them."""
    operator, values = requirement.get("operator", ""), requirement.get("values") or ()
    if operator in ("In", "NotIn"):
        return [] if values else [required(f"{path}.values", _NEEDS_VALUES)]
    if operator in ("Exists", "DoesNotExist"):
        return [forbidden(f"{path}.values", _NO_VALUES)] if values else []
    return [invalid(f"{path}.operator", operator, _NO_OPERATOR)]


def _values(values: Sequence[str], path: str) -> list[FieldError]:
    return [
        invalid(f"{path}.values[{index}]", value, problem)
        for index, value in enumerate(values)
        for problem in label_value(value)
    ]


def validate_node_selector(selector: _Map, path: str) -> list[FieldError]:
    """Check that the selector has at least one term, and validate each term."""
    terms = selector.get("nodeSelectorTerms") or ()
    here = f"{path}.nodeSelectorTerms"
    if not terms:
        return [required(here, "must have at least one node selector term")]
    return [
        error
        for index, term in enumerate(terms)
        for error in validate_node_selector_term(term, f"{here}[{index}]", any_value=False)
    ]


def validate_node_selector_term(term: _Map, path: str, *, any_value: bool) -> list[FieldError]:
    """Validate a term. `any_value` is for preferences: upstream does not check their values."""
    errors: list[FieldError] = []
    for index, requirement in enumerate(term.get("matchExpressions", ())):
        errors += _node_requirement(requirement, f"{path}.matchExpressions[{index}]", any_value)
    for index, requirement in enumerate(term.get("matchFields", ())):
        errors += _field_requirement(requirement, f"{path}.matchFields[{index}]")
    return errors


def _node_requirement(requirement: _Map, path: str, any_value: bool) -> list[FieldError]:
    values = requirement.get("values") or ()
    if requirement.get("operator") in ("Gt", "Lt"):
        detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
        errors = [] if len(values) == 1 else [required(f"{path}.values", detail)]
    else:
        errors = _operator(requirement, path)
    errors += validate_label_name(requirement.get("key", ""), f"{path}.key")
    return errors if any_value else errors + _values(values, path)


def _field_requirement(requirement: _Map, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    operator, values = requirement.get("operator", ""), requirement.get("values") or ()
    if operator not in ("In", "NotIn"):
        errors.append(invalid(f"{path}.operator", operator, _NO_OPERATOR))
    elif len(values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.append(required(f"{path}.values", detail))
    if requirement.get("key") != "metadata.name":
        errors.append(invalid(f"{path}.key", requirement.get("key", ""), "not a valid field selector key"))
    else:
        errors += [
            invalid(f"{path}.values[{index}]", value, problem)
            for index, value in enumerate(values)
            for problem in dns_subdomain(value)
        ]
    return errors


def validate_tolerations(tolerations: Sequence[_Map], path: str) -> list[FieldError]:
    """Validate keys, operators, values and effects of tolerations."""
    errors: list[FieldError] = []
    for index, toleration in enumerate(tolerations):
        errors += _toleration(toleration, f"{path}[{index}]")
    return errors


def _toleration(toleration: _Map, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    key, operator = toleration.get("key", ""), toleration.get("operator", "")
    value, effect = toleration.get("value", ""), toleration.get("effect", "")
    if key:
        errors += validate_label_name(key, f"{path}.key")
    elif operator != "Exists":
        detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        errors.append(invalid(f"{path}.operator", operator, detail))
    if "tolerationSeconds" in toleration and effect != "NoExecute":
        errors.append(invalid(f"{path}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"))
    if operator in ("", "Equal"):
        problems = label_value(value)
        if problems:
            errors.append(invalid(f"{path}.operator", value, ";".join(problems)))
    elif operator == "Exists":
        if value:
            errors.append(invalid(f"{path}.operator", value, "value must be empty when `operator` is 'Exists'"))
    elif operator in ("Lt", "Gt"):
        errors.append(not_supported(f"{path}.operator", operator, ("Equal", "Exists", "Lt", "Gt")))
    else:
        errors.append(not_supported(f"{path}.operator", operator, ("Equal", "Exists")))
    if effect and effect not in EFFECTS:
        errors.append(not_supported(f"{path}.effect", effect, EFFECTS))
    return errors


def validate_taints(taints: Sequence[_Map], path: str) -> list[FieldError]:
    """Check that each taint is well formed, and unique by key and effect."""
    errors: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        here = f"{path}[{index}]"
        key, effect = taint.get("key", ""), taint.get("effect", "")
        errors += validate_label_name(key, f"{here}.key")
        problems = label_value(taint.get("value", ""))
        if problems:
            errors.append(invalid(f"{here}.value", taint["value"], ";".join(problems)))
        errors += validate_choice(effect, EFFECTS, f"{here}.effect")
        if (key, effect) in seen:
            shown = {"Key": key, "Value": taint.get("value", ""), "Effect": effect, "TimeAdded": taint.get("timeAdded")}
            error = duplicate(here, shown)
            errors.append(replace(error, body=f"{error.body}: taints must be unique by key and effect pair"))
        seen.add((key, effect))
    return errors
