"""Rules of custom resources in CEL, held against objects: values as CEL sees them, and what a broken rule says."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.contract.api import Api, causes
from tests.contract.test_expressions import RECORDED
from tests.contract.things import group
from tests.contract.waiting import eventually

Json = dict[str, Any]

RULES: list[Json] = [
    {"rule": "self.t > timestamp('2024-01-01T00:00:00Z')"},
    {"rule": "self.d < duration('90m')"},
    {"rule": "self.by == b'abc'"},
    {"rule": "self.x == 1.0"},
    {"rule": "!has(self.o.a__dash__b) || self.o.a__dash__b == 'x'", "fieldPath": ".o['a-b']"},
    {"rule": "!has(self.o.__in__) || self.o.__in__ == 'x'", "fieldPath": ".o.in", "reason": "FieldValueForbidden"},
    {"rule": "!has(self.o.nul)", "message": "nul is set"},
    {"rule": "self.n < 5", "messageExpression": "'n with ' + self.s", "message": "never told"},
    {"rule": "self.n < 6", "messageExpression": "'a' + self.ls[9]", "message": "instead"},
    {"rule": "self.n < 7", "messageExpression": "'a' + self.ls[9]"},
    {"rule": "self.n < 8", "reason": "FieldValueRequired", "fieldPath": ".s"},
    {"rule": "self.l.size() < 3", "reason": "FieldValueDuplicate", "fieldPath": ".l"},
    {"rule": "self.m.a == 1"},
    {"rule": "self.ls[0] == 'a'"},
]
GOOD: Json = {
    "n": 1,
    "x": 1,
    "s": "a",
    "l": [1],
    "ls": ["a"],
    "t": "2024-05-01T00:00:00+02:00",
    "d": "1h",
    "by": "YWJj",
    "m": {"a": 1},
    "o": {},
}


def failed(number: int) -> str:
    return f"Invalid value: failed rule: {RULES[number]['rule']}"


class Ruled:
    """Objects of a kind with rules."""

    def __init__(self, api: Api, name: str) -> None:
        self.api = api
        self.group = f"{name}.example.com"

    async def define(self) -> None:
        schema = json.loads(json.dumps(RECORDED["schema"]))
        spec = schema["properties"]["spec"]
        spec["x-kubernetes-validations"] = RULES
        # Without a limit, an expression over them might cost too much.
        spec["properties"]["s"]["maxLength"] = 9
        spec["properties"]["s"]["x-kubernetes-validations"] = [{"rule": "self != 'bad'"}]
        spec["properties"]["n"]["x-kubernetes-validations"] = [{"rule": "self >= oldSelf", "message": "may not shrink"}]
        name = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 63}}}
        schema["properties"]["metadata"] = name
        schema["x-kubernetes-validations"] = [
            {"rule": "self.metadata.name.size() < 4", "message": "too long a name"},
            {"rule": f"self.kind == 'Ruled' && self.apiVersion == '{self.group}/v1'"},
        ]
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        names = {"plural": "ruled", "kind": "Ruled"}
        body = {"group": self.group, "scope": "Cluster", "names": names, "versions": [version]}
        definitions = group("apiextensions.k8s.io/v1", "", "customresourcedefinitions")
        (await self.api.post(definitions, {"metadata": {"name": f"ruled.{self.group}"}, "spec": body})).ok(201)
        await eventually(self.create, lambda answer: answer.status == 201)

    async def create(self, name: str = "r", *, dry: bool = True, **spec: Any) -> Any:
        whole = {key: value for key, value in {**GOOD, **spec}.items() if value is not None}
        body = {"apiVersion": f"{self.group}/v1", "kind": "Ruled", "metadata": {"name": name}, "spec": whole}
        return await self.api.post(self.path(), body, **({"dryRun": "All"} if dry else {}))

    def path(self, name: str = "") -> str:
        return group(f"{self.group}/v1", "", "ruled", name)

    async def remove(self) -> None:
        path = group("apiextensions.k8s.io/v1", "", "customresourcedefinitions", f"ruled.{self.group}")
        (await self.api.delete(path)).ok()


@pytest.fixture
async def ruled(api: Api) -> AsyncIterator[Ruled]:
    made = Ruled(api, f"r{uuid.uuid4().hex[:8]}")
    await made.define()
    yield made
    await made.remove()


async def test_broken_rules(ruled: Ruled) -> None:
    no_key = 'Invalid value: "object": no such key: '
    for change, want in (
        ({"x": 1.0}, []),
        ({"o": {"in": "x", "a-b": "x"}}, []),
        ({"t": "2023-01-01T00:00:00Z"}, [("FieldValueInvalid", "spec", failed(0))]),
        ({"d": "1h30m"}, [("FieldValueInvalid", "spec", failed(1))]),
        ({"by": "YWJk"}, [("FieldValueInvalid", "spec", failed(2))]),
        ({"x": 2}, [("FieldValueInvalid", "spec", failed(3))]),
        ({"o": {"a-b": "y"}}, [("FieldValueInvalid", "spec.o.a-b", failed(4))]),
        ({"o": {"in": "y"}}, [("FieldValueForbidden", "spec.o.in", failed(5).replace("Invalid value", "Forbidden"))]),
        ({"o": {"nul": "z"}}, [("FieldValueInvalid", "spec", "Invalid value: nul is set")]),
        ({"n": 5}, [("FieldValueInvalid", "spec", "Invalid value: n with a")]),
        (
            {"n": 8},
            [
                ("FieldValueInvalid", "spec", "Invalid value: n with a"),
                ("FieldValueInvalid", "spec", "Invalid value: instead"),
                ("FieldValueInvalid", "spec", failed(9)),
                ("FieldValueRequired", "spec.s", failed(10).replace("Invalid value", "Required value")),
            ],
        ),
        ({"l": [1, 2, 3]}, [("FieldValueDuplicate", "spec.l", "Duplicate value")]),
        ({"m": {}}, [("FieldValueInvalid", "spec", f"{no_key}a evaluating rule: self.m.a == 1")]),
        ({"t": None}, [("FieldValueInvalid", "spec", f"{no_key}t evaluating rule: {RULES[0]['rule']}")]),
        (
            {"ls": []},
            [
                (
                    "FieldValueInvalid",
                    "spec",
                    f'Invalid value: "object": index out of bounds: 0 evaluating rule: {RULES[13]["rule"]}',
                )
            ],
        ),
        ({"s": "bad"}, [("FieldValueInvalid", "spec.s", "Invalid value: \"bad\": failed rule: self != 'bad'")]),
    ):
        answer = await ruled.create(**change)
        assert answer.status == (422 if want else 201), (change, answer.body)
        assert causes(answer) == want, change


async def test_the_whole_object(ruled: Ruled) -> None:
    answer = await ruled.create("long-name")
    assert causes(answer) == [("FieldValueInvalid", "<nil>", "Invalid value: too long a name")]


async def test_a_field_and_its_past(ruled: Ruled) -> None:
    (await ruled.create(dry=False, n=2)).ok(201)
    answer = await ruled.api.patch(ruled.path("r"), {"spec": {"n": 1}})
    assert causes(answer) == [("FieldValueInvalid", "spec.n", "Invalid value: 1: may not shrink")]
    (await ruled.api.patch(ruled.path("r"), {"spec": {"n": 3}})).ok()
