"""Whatever is sent is answered: recorded requests with random parts replaced never end in a traceback."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from situate.cluster.kinds import validation
from situate.cluster.kinds.defaults import apply_defaults
from situate.cluster.kinds.schemas import built_in_schema
from situate.cluster.kinds.schemas.decoding import DecodedObject, decode_object
from situate.cluster.kinds.structural import schema as structural
from situate.cluster.patch import fieldmanager
from situate.cluster.patch.fieldmanager import ManagerIdentity, reset_fields

RECORDED = Path(__file__).parent / "recorded"
VALUES: list[Any] = [None, "", 0, -1, 1.5, True, [], {}, "x", ["x"], {"a": "b"}, [{}], [None], {"x": None}, "1Gi"]
Place = tuple[str | int, ...]


def places(value: Any, path: Place = ()) -> Iterator[Place]:
    if path:
        yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from places(item, (*path, index))


def mutated(body: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    new = copy.deepcopy(body)
    for _ in range(chance.choice((1, 1, 2, 3))):
        place = chance.choice([path for path in places(new) if path not in (("apiVersion",), ("kind",))])
        holder: Any = new
        for step in place[:-1]:
            holder = holder[step]
        holder[place[-1]] = copy.deepcopy(chance.choice(VALUES))
    return new


@pytest.mark.parametrize("seed", range(20))
def test_built_in_objects(seed: int) -> None:
    chance = random.Random(seed)
    for case in json.loads((RECORDED / "creations.json").read_text()):
        go_through(mutated(case["body"], chance))


def go_through(body: dict[str, Any]) -> None:
    schema = built_in_schema(body["apiVersion"], body["kind"])
    assert schema is not None
    writer = ManagerIdentity("hostile", body["apiVersion"], "2026-01-01T00:00:00Z")
    fieldmanager.server_side_apply(None, copy.deepcopy(body), schema, writer)
    decoded = decode_object(copy.deepcopy(body), schema)
    if not isinstance(decoded, DecodedObject):
        return
    obj = decoded.object
    apply_defaults(obj)
    obj["metadata"].setdefault("namespace", "default")
    again = copy.deepcopy(obj)
    apply_defaults(again)
    assert again == obj
    validation.validate_create(obj)
    validation.validate_update(obj, again)
    validation.validate_status(obj, again)
    if body["kind"] == "Pod":
        validation.validate_resize(obj, again)
    obj["metadata"]["managedFields"] = fieldmanager.update_managers(
        None, obj, schema, writer, reset_fields(body["kind"], "", True)
    )
    fieldmanager.server_side_apply(
        obj, body, schema, ManagerIdentity("other", body["apiVersion"], writer.time), force=True
    )


@pytest.mark.parametrize("seed", range(10))
def test_definitions_and_their_objects(seed: int) -> None:
    chance = random.Random(seed)
    recorded = json.loads((RECORDED / "custom_resources.json").read_text())
    definitions = [case["body"] for case in json.loads((RECORDED / "definitions.json").read_text())]
    schema = built_in_schema("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    assert schema is not None
    for body in [*definitions, *[recorded["definition"]] * 20]:
        decoded = decode_object(mutated(body, chance), schema)
        if not isinstance(decoded, DecodedObject):
            continue
        structural.default_crd(decoded.object)
        if structural.validate_crd(decoded.object):
            continue
        resource = structural.compile_version(decoded.object, decoded.object["spec"]["versions"][0]["name"])
        for case in recorded["cases"][:20]:
            outcome = resource.check(mutated(case["body"], chance))
            if isinstance(outcome, DecodedObject) and "metadata" in outcome.object:
                resource.default(outcome.object)
                resource.validate(outcome.object)
                resource.validate(outcome.object, copy.deepcopy(outcome.object))
