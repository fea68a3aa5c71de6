"""Policies: what is required of them, and the verdicts and words of the real API server, 1.36.3."""

from __future__ import annotations

from typing import Any

import pytest

from situate.cluster.cel.policies import evaluate_policy
from situate.cluster.kinds.defaults import apply_defaults
from situate.cluster.kinds.validation import validate_create

RULES = {
    "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"]}]
}


def policy(kind: str = "ValidatingAdmissionPolicy", **spec: Any) -> dict[str, Any]:
    found = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "p.x"},
        "spec": {"matchConstraints": RULES, "validations": [{"expression": "true"}], **spec},
    }
    apply_defaults(found)
    return found


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({}, []),
        (
            {"validations": [{"expression": ""}]},
            ["spec.validations[0].expression: Required value: expression is not specified"],
        ),
        (
            {"validations": [{"expression": "1"}]},
            ['spec.validations[0].expression: Invalid value: "1": must evaluate to bool but got int'],
        ),
        ({"matchConstraints": {}}, ["spec.matchConstraints.resourceRules: Required value"]),
        ({"failurePolicy": "X"}, ['spec.failurePolicy: Unsupported value: "X": supported values: "Fail", "Ignore"']),
        (
            {"validations": [{"expression": "true", "reason": "X"}]},
            [
                'spec.validations[0].reason: Unsupported value: "X": supported values: '
                '"Forbidden", "Invalid", "RequestEntityTooLarge"'
            ],
        ),
        (
            {"variables": [{"name": "", "expression": "true"}]},
            ["spec.variables[0].name: Required value: name is not specified"],
        ),
        (
            {"variables": [{"name": "in", "expression": "1"}]},
            ['spec.variables[0].name: Invalid value: "in": must be a valid CEL identifier'],
        ),
        (
            {"variables": [{"name": "v", "expression": "variables.w"}, {"name": "w", "expression": "1"}]},
            [
                'spec.variables[0].expression: Invalid value: "variables.w": compilation failed: ERROR: <input>:1:10: '
                "undefined field 'w'\n | variables.w\n | .........^"
            ],
        ),
        (
            {"validations": [{"expression": "params.x == 1"}]},
            [
                'spec.validations[0].expression: Invalid value: "params.x == 1": compilation failed: ERROR: '
                "<input>:1:1: undeclared reference to 'params' (in container '')\n | params.x == 1\n | ^"
            ],
        ),
        (
            {"paramKind": {"apiVersion": "a/b/c", "kind": ""}},
            [
                'spec.paramKind.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c',
                "spec.paramKind.kind: Required value",
            ],
        ),
        (
            {"validations": [{"expression": "object.data.x"}]},
            ['spec.validations[0].expression: Invalid value: "object.data.x": must evaluate to bool but got dyn'],
        ),
        (
            {"validations": [{"expression": "true", "message": " ", "messageExpression": "1"}]},
            [
                'spec.validations[0].message: Invalid value: " ": must be non-empty if specified',
                'spec.validations[0].messageExpression: Invalid value: "1": must evaluate to string but got int',
            ],
        ),
        (
            {"validations": [], "auditAnnotations": [{"key": "k", "valueExpression": "1"}, {"key": "k"}]},
            [
                'spec.auditAnnotations[0].valueExpression: Invalid value: "1": must evaluate to one of '
                "[string null_type] but got int",
                "spec.auditAnnotations[1].valueExpression: Required value: valueExpression is not specified",
                'spec.auditAnnotations[1].key: Duplicate value: "k"',
            ],
        ),
    ],
)
def test_what_a_policy_needs(spec: dict[str, Any], want: list[str]) -> None:
    assert [str(error) for error in validate_create(policy(**spec))] == want


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({}, []),
        ({"policyName": ""}, ["spec.policyName: Required value"]),
        (
            {"validationActions": []},
            ["spec.validationActions: Required value: at least one validation action is required"],
        ),
        (
            {"validationActions": ["X", "Deny", "Deny"]},
            [
                'spec.validationActions[0]: Unsupported value: "X": supported values: "Audit", "Deny", "Warn"',
                'spec.validationActions[2]: Duplicate value: "Deny"',
            ],
        ),
        (
            {"validationActions": ["Deny", "Warn"]},
            [
                'spec.validationActions: Invalid value: ["Deny","Warn"]: must not contain both Deny and Warn '
                "(repeating the same validation failure information in the API response and headers serves no purpose)"
            ],
        ),
        (
            {"paramRef": {}},
            [
                "spec.paramRef: Required value: one of name or selector must be specified",
                "spec.paramRef.parameterNotFoundAction: Required value",
            ],
        ),
        (
            {"paramRef": {"name": "a", "selector": {}, "parameterNotFoundAction": "Deny"}},
            [
                "spec.paramRef.name: Forbidden: name and selector are mutually exclusive",
                "spec.paramRef.selector: Forbidden: name and selector are mutually exclusive",
            ],
        ),
        (
            {"matchResources": {"resourceRules": [{**RULES["resourceRules"][0], "operations": []}]}},
            ["spec.matchResources.resourceRules[0].operations: Required value"],
        ),
    ],
)
def test_what_a_binding_needs(spec: dict[str, Any], want: list[str]) -> None:
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "b.x"},
        "spec": {"policyName": "p.x", "validationActions": ["Deny"], **spec},
    }
    assert [str(error) for error in validate_create(binding)] == want


def test_several_match_conditions_without_a_value_are_all_told() -> None:
    conditions = [{"name": name, "expression": f"object.data.{name} == '1'"} for name in ("x", "y")]
    assert judged({}, matchConditions=conditions) == [
        (
            422,
            "[expression 'object.data.x == '1'' resulted in error: no such key: x, "
            "expression 'object.data.y == '1'' resulted in error: no such key: y]",
        )
    ]
    assert judged({}, matchConditions=[*conditions, {"name": "z", "expression": "false"}]) == []


JUDGED = policy(
    validations=[
        {"expression": "object.data.a == '1'"},
        {"expression": "variables.v == 'x'", "message": "no x", "reason": "Forbidden"},
        {"expression": "object.data.zz == '1'", "messageExpression": "'zz is ' + object.data.zz"},
    ],
    variables=[{"name": "v", "expression": "object.data.b"}],
    matchConditions=[{"name": "named", "expression": "object.metadata.name != 'skipped'"}],
)


def judged(data: dict[str, str], name: str = "c", **spec: Any) -> list[tuple[int, str]]:
    found = {**JUDGED, "spec": {**JUDGED["spec"], **spec}}
    variables = {"object": {"metadata": {"name": name}, "data": data}, "oldObject": None, "request": {}}
    return [(each.code, each.message) for each in evaluate_policy(found, "b.x", variables)]


@pytest.mark.parametrize(
    ("data", "want"),
    [
        pytest.param({"a": "1", "b": "x", "zz": "1"}, [], id="all hold"),
        pytest.param(
            {"a": "2", "b": "x", "zz": "1"}, [(422, "failed expression: object.data.a == '1'")], id="one fails"
        ),
        pytest.param({"a": "1", "b": "y", "zz": "1"}, [(403, "no x")], id="its own message and reason"),
        pytest.param({"a": "1", "b": "x", "zz": "2"}, [(422, "zz is 2")], id="a message made by an expression"),
        pytest.param(
            {"a": "1", "b": "x"},
            [(422, "expression 'object.data.zz == '1'' resulted in error: no such key: zz")],
            id="no value",
        ),
        pytest.param(
            {"a": "1", "zz": "1"},
            [
                (
                    422,
                    "expression 'variables.v == 'x'' resulted in error: "
                    'composited variable "v" fails to evaluate: no such key: b',
                )
            ],
            id="a variable without value",
        ),
    ],
)
def test_verdicts(data: dict[str, str], want: list[tuple[int, str]]) -> None:
    assert judged(data) == want


def test_failure_policy_ignore_forgives_expressions_without_a_value_only() -> None:
    assert judged({"a": "2", "b": "x"}, failurePolicy="Ignore") == [(422, "failed expression: object.data.a == '1'")]


def test_a_match_condition_that_is_false_leaves_nothing_to_hold() -> None:
    assert judged({"a": "2"}, name="skipped") == []


def test_a_denial_names_policy_and_binding() -> None:
    found = evaluate_policy(
        JUDGED, "b.x", {"object": {"metadata": {"name": "c"}, "data": {"a": "2", "b": "x", "zz": "1"}}}
    )
    assert found[0].denial() == (
        "ValidatingAdmissionPolicy 'p.x' with binding 'b.x' denied request: failed expression: object.data.a == '1'"
    )
