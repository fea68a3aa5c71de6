"""Validating admission policies: who is denied, in which words, and which policies are no policies.

The real server reads policies, bindings and parameters through watches, so that they come into force after a while. The
parameters' kind is used by one test only: once its last policy is gone, 1.36.3 finds no parameters of a built-in kind
any more until it is restarted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.contract.api import Answer, Api
from tests.contract.things import configmap, core
from tests.contract.waiting import eventually

GROUP = "/apis/admissionregistration.k8s.io/v1"
CONFIGMAPS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}
NEVER = [{"expression": "false", "message": "never"}]


class Policies:
    """Writes policies of one name for one namespace, and removes them at the end."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.name = f"policy-{namespace}"
        self._api = api
        self._namespace = namespace

    async def write(self, binding: dict[str, Any] | None = None, **spec: Any) -> None:
        mine = {"matchLabels": {"kubernetes.io/metadata.name": self._namespace}}
        constraints = {"resourceRules": [CONFIGMAPS], "namespaceSelector": mine}
        await self.post("validatingadmissionpolicies", {"matchConstraints": constraints, **spec})
        bound = {"policyName": self.name, "validationActions": ["Deny"], **(binding or {})}
        await self.post("validatingadmissionpolicybindings", bound)

    async def post(self, resource: str, spec: dict[str, Any]) -> None:
        (await self._api.post(f"{GROUP}/{resource}", {"metadata": {"name": self.name}, "spec": spec})).ok(201)

    async def tried(self, data: dict[str, str], holds: Any) -> Answer:
        """What a dry run of a ConfigMap is answered with, once it is as expected."""
        path = core(self._namespace, "configmaps")
        return await eventually(lambda: self._api.post(path, configmap("c", data), dryRun="All"), holds)

    def denial(self, text: str) -> str:
        return f"ValidatingAdmissionPolicy '{self.name}' with binding '{self.name}' denied request: {text}"

    async def remove(self) -> None:
        for resource in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
            await self._api.delete(f"{GROUP}/{resource}/{self.name}")


@pytest.fixture
async def policies(api: Api, namespace: str) -> AsyncIterator[Policies]:
    made = Policies(api, namespace)
    yield made
    await made.remove()


@pytest.mark.parametrize(
    ("reason", "code"), [("Invalid", 422), ("Forbidden", 403), ("RequestEntityTooLarge", 413), (None, 422)]
)
async def test_a_denial(policies: Policies, reason: str | None, code: int) -> None:
    chosen = {} if reason is None else {"reason": reason}
    await policies.write(validations=[{**NEVER[0], **chosen}, {"expression": "false", "message": "never told"}])
    answer = await policies.tried({}, lambda answer: answer.status == code)
    text = policies.denial("never")
    details = {"name": "c", "kind": "configmaps", "causes": [{"message": text}]}
    answer.refused(code, reason or "Invalid", f'configmaps "c" is forbidden: {text}', details)


async def test_a_warning(policies: Policies) -> None:
    await policies.write({"validationActions": ["Warn", "Audit"]}, validations=NEVER)
    answer = await policies.tried({}, lambda answer: "Warning" in answer.headers)
    answer.ok(201)
    where = f"ValidatingAdmissionPolicy '{policies.name}' with binding '{policies.name}'"
    assert answer.headers["Warning"] == f'299 - "Validation failed for {where}: never"'


async def test_parameters(api: Api, namespace: str, policies: Policies) -> None:
    (await api.post(core(namespace, "configmaps"), configmap("limits", {"most": "3"}))).ok(201)
    validation = {
        "expression": "int(object.data.n) <= int(params.data.most)",
        "messageExpression": "params.metadata.name + ' of ' + namespaceObject.metadata.name + ': ' + params.data.most",
    }
    reference = {"name": "limits", "parameterNotFoundAction": "Deny"}
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    await policies.write({"paramRef": reference}, paramKind=kind, validations=[validation])
    text = policies.denial(f"limits of {namespace}: 3")
    await policies.tried({"n": "5"}, lambda answer: answer.body.get("message", "").endswith(text))
    (await policies.tried({"n": "3"}, lambda answer: answer.status == 201)).ok()


async def test_an_unknown_kind_of_parameters(policies: Policies) -> None:
    await policies.write(paramKind={"apiVersion": "x.example.com/v1", "kind": "Absent"}, validations=NEVER)
    answer = await policies.tried({}, lambda answer: answer.status == 422)
    text = (
        f"ValidatingAdmissionPolicy '{policies.name}' denied request: failed to configure policy: failed to find "
        "resource referenced by paramKind: 'x.example.com/v1, Kind=Absent'"
    )
    answer.refused(422, "Invalid", f'configmaps "c" is forbidden: {text}', ...)


async def test_match_conditions_without_a_value(policies: Policies) -> None:
    conditions = [{"name": key, "expression": f"object.data.{key} == '1'"} for key in ("x", "y")]
    await policies.write(matchConditions=conditions, validations=NEVER)
    answer = await policies.tried({"a": "1"}, lambda answer: answer.status == 422)
    missing = [f"expression 'object.data.{key} == '1'' resulted in error: no such key: {key}" for key in ("x", "y")]
    assert answer.body["message"].endswith(policies.denial(f"[{', '.join(missing)}]"))


@pytest.mark.parametrize(
    ("spec", "field", "problem"),
    [
        ({"matchConstraints": None}, "spec.matchConstraints", "Required value"),
        ({"matchConstraints": {}}, "spec.matchConstraints.resourceRules", "Required value"),
        (
            {"validations": [{"expression": "params.x"}]},
            "spec.validations[0].expression",
            "Invalid value: \"params.x\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' "
            "(in container '')\n | params.x\n | ^",
        ),
        (
            {"variables": [{"name": "v", "expression": "1"}], "validations": [{"expression": "variables.w == 1"}]},
            "spec.validations[0].expression",
            "Invalid value: \"variables.w == 1\": compilation failed: ERROR: <input>:1:10: undefined field 'w'\n "
            "| variables.w == 1\n | .........^",
        ),
        (
            {"validations": [{"expression": "true", "messageExpression": "object.data.x"}]},
            "spec.validations[0].messageExpression",
            'Invalid value: "object.data.x": must evaluate to string but got dyn',
        ),
        (
            {"variables": [{"name": "a-b", "expression": "1"}]},
            "spec.variables[0].name",
            'Invalid value: "a-b": must be a valid CEL identifier',
        ),
    ],
)
async def test_no_policies(api: Api, namespace: str, spec: dict[str, Any], field: str, problem: str) -> None:
    whole = {"matchConstraints": {"resourceRules": [CONFIGMAPS]}, "validations": NEVER, **spec}
    body = {"metadata": {"name": namespace}, "spec": {key: value for key, value in whole.items() if value is not None}}
    answer = await api.post(f"{GROUP}/validatingadmissionpolicies", body)
    kind = "ValidatingAdmissionPolicy"
    answer.refused(
        422, "Invalid", f'{kind}.admissionregistration.k8s.io "{namespace}" is invalid: {field}: {problem}', ...
    )
