"""Types in CEL: which expressions are refused with the object that carries them, and in which words.

The expressions and what is said of them stand in `tests/cluster/recorded/expressions.json`: for each the errors as
LINE:COLUMN: TEXT, or one sentence about the type of its value; none if it is accepted.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.contract.api import Answer, Api

Json = dict[str, Any]

RECORDED: Json = json.loads((Path(__file__).parents[1] / "cluster/recorded/expressions.json").read_text())
EXPRESSIONS: dict[str, dict[str, list[str]]] = RECORDED["expressions"]
_POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}
_VARIABLES = [
    {"name": "v", "expression": "1"},
    {"name": "w", "expression": "object.x"},
    {"name": "y", "expression": "request.name"},
]


def definition(rule: str, *, whole: bool) -> Json:
    schema = json.loads(json.dumps(RECORDED["schema"]))
    (schema if whole else schema["properties"]["spec"])["x-kubernetes-validations"] = [{"rule": rule}]
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "typed", "kind": "Typed"}
    spec = {"group": "types.example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": "typed.types.example.com"}, "spec": spec}


def policy(expression: str, where: str) -> Json:
    spec: Json = {"matchConstraints": {"resourceRules": [_RULE]}, "validations": [{"expression": "true"}]}
    match where:
        case "validations":
            spec["validations"] = [{"expression": expression}]
        case "validations with variables":
            spec |= {"variables": _VARIABLES, "validations": [{"expression": expression}]}
        case "variables":
            spec["variables"] = [_VARIABLES[0], {"name": "last", "expression": expression}]
        case "match conditions":
            spec["matchConditions"] = [{"name": "only", "expression": expression}]
    return {"metadata": {"name": "typed"}, "spec": spec}


def problems(answer: Answer) -> list[str]:
    if answer.status == 201:
        return []
    (cause,) = answer.body["details"]["causes"]
    found = re.findall(r"<input>:(\d+:\d+: .*)", cause["message"])
    return found or re.findall(r"(?:must evaluate to|cel expression must).*$", cause["message"])


@pytest.mark.parametrize("where", EXPRESSIONS)
async def test_types(api: Api, where: str) -> None:
    found: dict[str, list[str]] = {}
    for expression in EXPRESSIONS[where]:
        if where.startswith("rules"):
            body = definition(expression, whole=where.endswith("whole"))
            answer = await api.post(_DEFINITIONS, body, dryRun="All")
        else:
            answer = await api.post(_POLICIES, policy(expression, where), dryRun="All")
        assert answer.status in (201, 422), answer
        found[expression] = problems(answer)
    assert found == EXPRESSIONS[where]


async def test_how_a_rule_is_shown(api: Api) -> None:
    answer = await api.post(_DEFINITIONS, definition("self.n > 1 && self.s", whole=False), dryRun="All")
    rule = (
        '{"Rule":"self.n \\u003e 1 \\u0026\\u0026 self.s","Message":"","MessageExpression":"","Reason":null,'
        '"FieldPath":"","OptionalOldSelf":null}'
    )
    where = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule"
    problem = (
        f"Invalid value: {rule}: compilation failed: ERROR: <input>:1:19: expected type 'bool' but found 'string'\n"
        " | self.n > 1 && self.s\n | ..................^"
    )
    answer.refused(
        422,
        "Invalid",
        f'CustomResourceDefinition.apiextensions.k8s.io "typed.types.example.com" is invalid: {where}: {problem}',
        {
            "name": "typed.types.example.com",
            "group": "apiextensions.k8s.io",
            "kind": "CustomResourceDefinition",
            "causes": [{"reason": "FieldValueInvalid", "message": problem, "field": where}],
        },
    )


@pytest.mark.parametrize(
    ("rule", "field", "problem"),
    [
        ({"messageExpression": "1"}, "messageExpression", "…: messageExpression must evaluate to a string"),
        (
            {"messageExpression": "self.s + self.n"},
            "messageExpression",
            "…: messageExpression compilation failed: ERROR: <input>:1:8: found no matching overload for '_+_' applied "
            "to '(string, int)'\n | self.s + self.n\n | .......^",
        ),
        (
            {"messageExpression": " "},
            "messageExpression",
            "Required value: messageExpression must be non-empty if specified",
        ),
        ({"fieldPath": ".nobody"}, "fieldPath", 'Invalid value: ".nobody": must be a valid path'),
        ({"fieldPath": ".l[0]"}, "fieldPath", 'Invalid value: ".l[0]": must be a valid path'),
        ({"message": " "}, "message", 'Invalid value: " ": must be non-empty if specified'),
        (
            {"rule": "self.n ==\n 1", "messageExpression": "'x'"},
            "message",
            "Required value: message must be specified if rule contains line breaks",
        ),
        (
            {"reason": "Perhaps"},
            "reason",
            'Unsupported value: "Perhaps": supported values: "FieldValueDuplicate", "FieldValueForbidden", '
            '"FieldValueInvalid", "FieldValueRequired"',
        ),
    ],
)
async def test_what_a_rule_may_not_have(api: Api, rule: Json, field: str, problem: str) -> None:
    body = definition("true", whole=False)
    spec = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["x-kubernetes-validations"][0] |= rule
    answer = await api.post(_DEFINITIONS, body, dryRun="All")
    assert answer.status == 422
    (cause,) = answer.body["details"]["causes"]
    assert cause["field"] == f"spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].{field}"
    assert cause["message"].endswith(problem.removeprefix("…"))


async def test_items_without_a_key_have_no_past(api: Api) -> None:
    body = definition("true", whole=False)
    spec = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["os"]["items"]["x-kubernetes-validations"] = [{"rule": "self.v == oldSelf.v"}]
    answer = await api.post(_DEFINITIONS, body, dryRun="All")
    assert answer.status == 422
    (cause,) = answer.body["details"]["causes"]
    assert cause["message"] == (
        'Invalid value: "self.v == oldSelf.v": oldSelf cannot be used on the uncorrelatable portion of the schema '
        "within spec.validation.openAPIV3Schema.properties[spec].properties[os]"
    )


@pytest.mark.parametrize("expression", ["object.x", "object.x + 1"])
async def test_conditions_of_webhooks_are_true_or_false(api: Api, expression: str) -> None:
    webhook = {
        "name": "a.situate.dev",
        "clientConfig": {"url": "https://localhost/a"},
        "rules": [_RULE],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "matchConditions": [{"name": "only", "expression": expression}],
    }
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    answer = await api.post(path, {"metadata": {"name": "typed"}, "webhooks": [webhook]}, dryRun="All")
    assert answer.status == 422
    (cause,) = answer.body["details"]["causes"]
    got = "dyn" if expression == "object.x" else "int"
    assert cause["message"] == f'Invalid value: "{expression}": must evaluate to bool but got {got}'
