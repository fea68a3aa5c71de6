"""x-kubernetes-validations: check the CEL rules of a schema, and evaluate them on objects.

After `apiextensions-apiserver/pkg/apis/apiextensions/validation` and `pkg/apiserver/schema/cel`. Upstream also refuses
rules with a high estimated cost; this server does not estimate costs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from situate.cluster.cel.programs import CelError, TypedProgram, compile_accepted, compile_expression
from situate.cluster.cel.types import BOOL, STRING, Type
from situate.cluster.errors.field_errors import (
    NO_PATH,
    ErrorKind,
    FieldError,
    Omitted,
    duplicate,
    forbidden,
    internal,
    invalid,
    not_supported,
    required,
)
from situate.cluster.kinds.schemas.nodes import MISSING
from situate.cluster.kinds.structural.cel import rule_type, rule_value

_Map = Mapping[str, Any]
_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_STEP: Final = re.compile(r"\.([^.\[\]']+)|\['([^']+)'\]")


def validate_rules(schema: _Map, path: str, *, typed: bool) -> list[FieldError]:
    """Validate all rules of a schema. With `typed` (the schema itself is valid) the rules are compiled too."""
    return list(_rules(schema, path, root=True, typed=typed, atomic=""))


def _rules(schema: _Map, path: str, *, root: bool, typed: bool, atomic: str) -> Iterator[FieldError]:
    """Validate the rules of a schema and of its parts.

    `atomic` is the path of the outermost list whose items have no identity; empty outside such lists.
    """
    rules = schema.get("x-kubernetes-validations") or ()
    self_type = rule_type(schema, root=root) if typed else None
    if rules and typed and self_type is None:
        detail = (
            "internal error: failed to construct type information for x-kubernetes-validations rules: "
            "unable to convert structural schema to CEL declarations"
        )
        yield internal(f"{path}.x-kubernetes-validations", detail)
    for index, rule in enumerate(rules):
        yield from _rule(rule, f"{path}.x-kubernetes-validations[{index}]", schema, self_type, atomic)

    def below(part: _Map, here: str, inside: str) -> Iterator[FieldError]:
        embedded = bool(part.get("x-kubernetes-embedded-resource"))
        return _rules(part, here, root=embedded, typed=typed, atomic=inside)

    for name, part in sorted(schema.get("properties", {}).items()):
        yield from below(part, f"{path}.properties[{name}]", atomic)
    if isinstance(schema.get("additionalProperties"), dict):
        yield from below(schema["additionalProperties"], f"{path}.additionalProperties", atomic)
    if isinstance(schema.get("items"), dict):
        inside = atomic if schema.get("x-kubernetes-list-type") == "map" else atomic or path
        yield from below(schema["items"], f"{path}.items", inside)


def _rule(rule: _Map, path: str, schema: _Map, self_type: Type | None, atomic: str) -> Iterator[FieldError]:
    text, message = rule.get("rule", ""), rule.get("message", "")
    if not text.strip():
        yield required(f"{path}.rule", "rule is not specified")
        return
    if message and not message.strip():
        yield invalid(f"{path}.message", message, "must be non-empty if specified")
    elif "\n" in message.strip():
        yield invalid(f"{path}.message", message, "must not contain line breaks")
    elif "\n" in text.strip() and not message:
        yield required(f"{path}.message", "message must be specified if rule contains line breaks")
    if "reason" in rule and rule["reason"] not in _REASONS:
        yield not_supported(f"{path}.reason", rule["reason"], _REASONS)
    if rule.get("optionalOldSelf"):
        yield invalid(f"{path}.optionalOldSelf", True, "optionalOldSelf is not supported by this server")
    if rule.get("fieldPath") and _format_field_path(rule["fieldPath"], schema) is None:
        yield invalid(f"{path}.fieldPath", rule["fieldPath"], "must be a valid path")
    if self_type is not None:
        yield from _expressions(rule, path, self_type, atomic)


def _expressions(rule: _Map, path: str, self_type: Type, atomic: str) -> Iterator[FieldError]:
    declared = {"self": self_type, "oldSelf": self_type}
    compiled = compile_expression(rule["rule"].strip(), declared)
    if isinstance(compiled, str):
        yield invalid(f"{path}.rule", _internal_rule(rule), compiled)
    elif compiled.type != BOOL:
        yield invalid(f"{path}.rule", _internal_rule(rule), "cel expression must evaluate to a bool")
    elif _uses_old_self(compiled) and atomic:
        detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {atomic}"
        yield invalid(f"{path}.rule", rule["rule"], detail)
    message = rule.get("messageExpression", "")
    if not message:
        return
    if not message.strip():
        yield required(f"{path}.messageExpression", "messageExpression must be non-empty if specified")
        return
    told = compile_expression(message.strip(), declared)
    if isinstance(told, str):
        yield invalid(f"{path}.messageExpression", _internal_rule(rule), f"messageExpression {told}")
    elif told.type != STRING:
        yield invalid(f"{path}.messageExpression", _internal_rule(rule), "messageExpression must evaluate to a string")


def _uses_old_self(compiled: TypedProgram) -> bool:
    return bool(re.search(r"\boldSelf\b", compiled.expression))


def _internal_rule(rule: _Map) -> dict[str, Any]:
    """Return the rule as the server's internal type prints it."""
    return {
        "Rule": rule.get("rule", ""),
        "Message": rule.get("message", ""),
        "MessageExpression": rule.get("messageExpression", ""),
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath", ""),
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }


def _format_field_path(path: str, schema: _Map) -> str | None:
    """Return a fieldPath as errors show it, such as `.o.a-b` and `.m[key]`; None if the schema has no such fields."""
    shown, position = "", 0
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            return None
        name = step[1] or step[2]
        below = schema.get("properties", {}).get(name)
        shown += f".{name}" if below is not None else f"[{name}]"
        below = below if below is not None else schema.get("additionalProperties")
        if not isinstance(below, dict):
            return None
        schema, position = below, step.end()
    return shown


def broken_rules(value: Any, schema: _Map, path: str, old: Any, *, root: bool) -> Iterator[FieldError]:
    """Yield the errors of this schema's own rules for a value. `old` is MISSING if there is no previous value."""
    rules = schema.get("x-kubernetes-validations")
    if not rules:
        return
    scope = {"self": rule_value(value, schema, root=root)}
    if old is not MISSING:
        scope["oldSelf"] = rule_value(old, schema, root=root)
    for rule in rules:
        program = compile_accepted(rule["rule"])
        if "oldSelf" in program.expression and "oldSelf" not in scope:
            continue
        verdict = program.holds(scope)
        if isinstance(verdict, CelError):
            yield invalid(path or NO_PATH, schema.get("type", ""), f"{verdict.message} evaluating rule: {rule['rule']}")
        elif not verdict:
            yield _rule_error(
                rule, value, f"{path}{_format_field_path(rule.get('fieldPath', ''), schema)}", _message(rule, scope)
            )


def _message(rule: _Map, scope: _Map) -> str:
    """Return the result of the rule's messageExpression if it is one line of text, else the rule's message."""
    expression = rule.get("messageExpression", "")
    if expression and ("oldSelf" not in expression or "oldSelf" in scope):
        told = compile_accepted(expression).evaluate(scope)
        if isinstance(told, str) and told.strip() and "\n" not in told:
            return told
    return rule.get("message") or f"failed rule: {rule['rule'].strip()}"


def _rule_error(rule: _Map, value: Any, path: str, detail: str) -> FieldError:
    where = path.removeprefix(".") or NO_PATH
    # Maps and lists are not shown.
    shown = Omitted.VALUE if isinstance(value, (dict, list)) else value
    match rule.get("reason"):
        case ErrorKind.REQUIRED.value:
            return required(where, detail)
        case ErrorKind.FORBIDDEN.value:
            return forbidden(where, detail)
        case ErrorKind.DUPLICATE.value:
            return duplicate(where, shown)
        case _:
            return invalid(where, shown, detail)
