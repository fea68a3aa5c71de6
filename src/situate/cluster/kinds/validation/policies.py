"""Validate ValidatingAdmissionPolicies and their bindings: required fields, and expressions that compile.

After `pkg/apis/admissionregistration/validation`. `cel.policies` evaluates the expressions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from situate.cluster.cel.environments import CONDITION_VARIABLES, PARAMETER_VARIABLES, with_variables
from situate.cluster.cel.programs import TypedProgram, compile_expression, type_problem
from situate.cluster.cel.syntax import RESERVED_WORDS
from situate.cluster.cel.types import DYN, Type
from situate.cluster.errors.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_many,
)
from situate.cluster.kinds.validation.admission import validate_match_conditions, validate_rule
from situate.cluster.kinds.validation.metadata import validate_choice, validate_optional_choice
from situate.cluster.kinds.validation.names import dns_1035_label, dns_subdomain, label_key, path_segment
from situate.cluster.kinds.validation.selectors import validate_label_selector

_Map = Mapping[str, Any]
_Types = Mapping[str, Type]
_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS: Final = ("Audit", "Deny", "Warn")
_MAX_ANNOTATIONS: Final = 20
_IDENTIFIER: Final = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")


def policy_spec(obj: _Map) -> list[FieldError]:
    """Validate the spec of a ValidatingAdmissionPolicy."""
    spec = obj.get("spec", {})
    errors: list[FieldError] = []
    if spec.get("failurePolicy") not in ("Fail", "Ignore"):
        errors.append(not_supported("spec.failurePolicy", spec.get("failurePolicy", ""), ("Fail", "Ignore")))
    if spec.get("paramKind") is not None:
        errors += _param_kind(spec["paramKind"])
    if spec.get("matchConstraints") is None:
        errors.append(required("spec.matchConstraints"))
    else:
        errors += _match_resources(spec["matchConstraints"], "spec.matchConstraints")
        if not spec["matchConstraints"].get("resourceRules"):
            errors.append(required("spec.matchConstraints.resourceRules"))
    declared = CONDITION_VARIABLES if spec.get("paramKind") is None else PARAMETER_VARIABLES
    errors += validate_match_conditions(spec.get("matchConditions", ()), "spec.matchConditions", declared)
    found, declared = _variables(spec.get("variables", ()), declared)
    errors += found
    annotations = spec.get("auditAnnotations", ())
    if not spec.get("validations") and not annotations:
        detail = "validations or auditAnnotations must contain at least one item"
        errors += [required("spec.validations", detail), required("spec.auditAnnotations", detail)]
    for index, validation in enumerate(spec.get("validations", ())):
        errors += _validation(validation, f"spec.validations[{index}]", declared)
    return errors + _annotations(annotations, obj["metadata"].get("name", ""), declared)


def _variables(variables: Sequence[_Map], declared: _Types) -> tuple[list[FieldError], _Types]:
    """Return the errors of the variables, and the declarations for later expressions.

    Each variable can use those before it.
    """
    errors: list[FieldError] = []
    known: dict[str, Type] = {}
    for index, variable in enumerate(variables):
        here, name = f"spec.variables[{index}]", variable.get("name", "")
        if not name:
            errors.append(required(f"{here}.name", "name is not specified"))
        elif not _IDENTIFIER.fullmatch(name) or name in RESERVED_WORDS:
            errors.append(invalid(f"{here}.name", name, "must be a valid CEL identifier"))
        compiled = _compile_expression(
            variable.get("expression", ""), f"{here}.expression", with_variables(declared, known)
        )
        if isinstance(compiled, FieldError):
            errors.append(compiled)
        known[name] = DYN if isinstance(compiled, FieldError) else compiled.type
    return errors, with_variables(declared, known) if variables else declared


def _param_kind(kind: _Map) -> list[FieldError]:
    errors: list[FieldError] = []
    version, name = kind.get("apiVersion", ""), kind.get("kind", "")
    if not version:
        errors.append(required("spec.paramKind.apiVersion"))
    elif version.count("/") > 1:
        errors.append(invalid("spec.paramKind.apiVersion", version, f"unexpected GroupVersion string: {version}"))
    else:
        group, slash, plain = version.rpartition("/")
        if slash:
            errors += [invalid("spec.paramKind.apiVersion", group, problem) for problem in dns_subdomain(group)]
        errors += [invalid("spec.paramKind.apiVersion", plain, problem) for problem in dns_1035_label(plain)]
    if not name:
        errors.append(required("spec.paramKind.kind"))
    else:
        mixed = "may have mixed case, but should otherwise match: "
        errors += [invalid("spec.paramKind.kind", name, mixed + problem) for problem in dns_1035_label(name.lower())]
    return errors


def _match_resources(match: _Map, path: str) -> list[FieldError]:
    errors = validate_optional_choice(match.get("matchPolicy"), ("Equivalent", "Exact"), f"{path}.matchPolicy")
    errors += validate_label_selector(match.get("namespaceSelector"), f"{path}.namespaceSelector")
    errors += validate_label_selector(match.get("objectSelector"), f"{path}.objectSelector")
    for key in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(match.get(key) or ()):
            errors += _named_rule(rule, f"{path}.{key}[{index}]")
    return errors


def _named_rule(rule: _Map, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[str] = set()
    for index, name in enumerate(rule.get("resourceNames") or ()):
        here = f"{path}.resourceNames[{index}]"
        errors += [invalid(here, name, problem) for problem in path_segment(name)]
        if name in names:
            errors.append(duplicate(here, name))
        names.add(name)
    return errors + validate_rule(rule, path)


def _validation(validation: _Map, path: str, declared: _Types) -> list[FieldError]:
    errors = _expression(validation.get("expression", ""), f"{path}.expression", declared, "bool")
    message, described = validation.get("message", ""), validation.get("messageExpression", "")
    if message and not message.strip():
        errors.append(invalid(f"{path}.message", message, "must be non-empty if specified"))
    elif "\n" in message.strip():
        errors.append(invalid(f"{path}.message", message, "must not contain line breaks"))
    if described and not described.strip():
        errors.append(invalid(f"{path}.messageExpression", described, "must be non-empty if specified"))
    elif described:
        errors += _expression(described, f"{path}.messageExpression", declared, "string")
    return errors + validate_optional_choice(validation.get("reason"), _REASONS, f"{path}.reason")


def _annotations(annotations: Sequence[_Map], policy_name: str, declared: _Types) -> list[FieldError]:
    errors: list[FieldError] = []
    if len(annotations) > _MAX_ANNOTATIONS:
        errors.append(too_many("spec.auditAnnotations", len(annotations), _MAX_ANNOTATIONS))
    keys: set[str] = set()
    for index, annotation in enumerate(annotations):
        here, key = f"spec.auditAnnotations[{index}]", annotation.get("key", "")
        whole = f"{policy_name}/{key}"
        errors += [invalid(f"{here}.key", whole, problem) for problem in label_key(whole)]
        text = annotation.get("valueExpression", "")
        if not text.strip():
            errors.append(required(f"{here}.valueExpression", "valueExpression is not specified"))
        else:
            errors += _expression(text, f"{here}.valueExpression", declared, "string", "null_type")
        if key in keys:
            errors.append(duplicate(f"{here}.key", key))
        keys.add(key)
    return errors


def _expression(expression: str, path: str, declared: _Types, *types: str) -> list[FieldError]:
    """Validate an expression. `types` are the allowed types of its value."""
    compiled = _compile_expression(expression, path, declared)
    if isinstance(compiled, FieldError):
        return [compiled]
    problem = type_problem(compiled.type, *types)
    return [invalid(path, expression.strip(), problem)] if problem else []


def _compile_expression(expression: str, path: str, declared: _Types) -> TypedProgram | FieldError:
    text = expression.strip()
    if not text:
        return required(path, "expression is not specified")
    compiled = compile_expression(text, declared)
    return invalid(path, text, compiled) if isinstance(compiled, str) else compiled


def binding_spec(obj: _Map) -> list[FieldError]:
    """Validate the spec of a ValidatingAdmissionPolicyBinding. The named policy need not exist."""
    errors: list[FieldError] = []
    spec = obj.get("spec", {})
    name = spec.get("policyName", "")
    if not name:
        errors.append(required("spec.policyName"))
    errors += [invalid("spec.policyName", name, problem) for problem in dns_subdomain(name)] if name else []
    if spec.get("paramRef") is not None:
        errors += _param_ref(spec["paramRef"])
    if spec.get("matchResources") is not None:
        errors += _match_resources(spec["matchResources"], "spec.matchResources")
    return errors + _actions(spec.get("validationActions") or ())


def _param_ref(reference: _Map) -> list[FieldError]:
    path = "spec.paramRef"
    errors: list[FieldError] = []
    name, selector = reference.get("name"), reference.get("selector")
    if name:
        errors += [invalid(f"{path}.name", name, problem) for problem in path_segment(name)]
        if selector is not None:
            both = "name and selector are mutually exclusive"
            errors += [forbidden(f"{path}.name", both), forbidden(f"{path}.selector", both)]
    elif selector is None:
        errors.append(required(path, "one of name or selector must be specified"))
    errors += validate_label_selector(selector, f"{path}.selector")
    action = reference.get("parameterNotFoundAction", "")
    return errors + validate_choice(action, ("Deny", "Allow"), f"{path}.parameterNotFoundAction")


def _actions(actions: Sequence[str]) -> list[FieldError]:
    path = "spec.validationActions"
    if not actions:
        return [required(path, "at least one validation action is required")]
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            errors.append(not_supported(f"{path}[{index}]", action, _ACTIONS))
        if action in seen:
            errors.append(duplicate(f"{path}[{index}]", action))
        seen.add(action)
    if {"Deny", "Warn"} <= seen:
        detail = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the API "
            "response and headers serves no purpose)"
        )
        errors.append(invalid(path, list(actions), detail))
    return errors
