from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from situate.objects.settings.schema import document_schema, json_schema
from situate.objects.settings.section import Duration, ObjectName


class Inner(msgspec.Struct, frozen=True, rename="camel"):
    """Inner words.

    More words.
    """

    settle_time: Duration = 10.0


class Outer(msgspec.Struct, frozen=True, rename="camel"):
    """Outer words."""

    name: ObjectName
    size: Annotated[int, msgspec.Meta(ge=1)] | None = None
    mode: Literal["a", "b"] = "a"
    inner: Inner = Inner()
    tags: dict[str, str] = {}  # msgspec copies an empty default


def test_a_duration_is_text_or_a_number_below_go_nanoseconds() -> None:
    settle = json_schema(Inner)["properties"]["settleTime"]
    text, number = settle["anyOf"][0]["anyOf"]
    assert text["type"] == "string"
    assert number == {"type": "number", "minimum": 0, "exclusiveMaximum": 10**9}
    assert settle["default"] == 10.0


def test_unknown_keys_are_refused_and_required_ones_named() -> None:
    schema = json_schema(Outer)
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["name"]
    assert schema["description"] == "Outer words."
    assert schema["properties"]["name"]["description"].startswith("a DNS subdomain")
    assert schema["properties"]["size"] == {
        "anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}],
        "default": None,
    }
    assert schema["properties"]["mode"]["anyOf"][0]["enum"] == ["a", "b"]
    assert schema["properties"]["inner"]["default"] == {"settleTime": 10.0}


def test_the_schema_is_json() -> None:
    document = document_schema("Situate", {"list": list[Outer]}, ["list"])
    assert msgspec.json.decode(msgspec.json.encode(document)) == document
    assert document["properties"]["list"]["type"] == "array"
