"""The definitions of `examples/knative` beside what is known of upstream's, path by path.

On purpose they differ in two things: KafkaSource converts by name where upstream asks a webhook, and what upstream
leaves open is closed, but for what holds objects of its own type, which no structural schema can say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from situate.vpod.sources.crds import RELEASE

OURS = Path(__file__).parents[2] / "examples" / "knative" / "crds.yaml"
THEIRS = Path(__file__).with_name(f"knative_{RELEASE}.yaml")
DEFINED = {each["metadata"]["name"]: each for each in yaml.safe_load_all(OURS.read_text())}
KNOWN: Mapping[str, Any] = yaml.safe_load(THEIRS.read_text())
VERSIONS = [(name, version) for name, known in KNOWN.items() for version in known["versions"]]
_TYPES = ("string", "boolean", "integer", "int32", "int64", "array", "object")


def facts(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Each path and what is said of it, in the words of the table."""
    words = [schema.get("type", ""), schema.get("format", "")]
    if "required" in schema:
        words.append("required:" + ",".join(sorted(schema["required"])))
    words.append(schema.get("x-kubernetes-map-type", ""))
    words += [word for word, key in (("nullable", "nullable"), ("open", _OPEN)) if schema.get(key)]
    yield path or ".", " ".join(filter(None, words))
    for name, each in schema.get("properties", {}).items():
        yield from facts(each, f"{path}.{name}")
    if "items" in schema:
        yield from facts(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from facts(schema["additionalProperties"], f"{path}{{}}")


_OPEN = "x-kubernetes-preserve-unknown-fields"


def ours_and_theirs(name: str, version: str) -> tuple[Any, Any]:
    (ours,) = (each for each in DEFINED[name]["spec"]["versions"] if each["name"] == version)
    return ours, KNOWN[name]["versions"][version]


def test_nothing_is_missing_and_nothing_added() -> None:
    versions = {(name, each["name"]) for name, made in DEFINED.items() for each in made["spec"]["versions"]}
    assert versions == set(VERSIONS)


@pytest.mark.parametrize("name", KNOWN)
def test_names_and_scope(name: str) -> None:
    spec, known = DEFINED[name]["spec"], KNOWN[name]
    assert (spec["group"], spec["scope"]) == (known["group"], known["scope"])
    kind = spec["names"]["kind"]
    usual = {"singular": kind.lower(), "listKind": f"{kind}List"}  # what API servers fill in
    assert spec["names"] == {**usual, **known["names"]}


@pytest.mark.parametrize(("name", "version"), VERSIONS)
def test_what_is_served_stored_and_shown(name: str, version: str) -> None:
    ours, theirs = ours_and_theirs(name, version)
    columns = ["|".join((each["name"], each["type"], each["jsonPath"])) for each in ours["additionalPrinterColumns"]]
    quoted = [each.replace("'", '"') for each in theirs["columns"]]
    assert columns == quoted
    assert [ours[key] for key in ("served", "storage", "subresources")] == [
        theirs[key] for key in ("served", "storage", "subresources")
    ]


@pytest.mark.parametrize(("name", "version"), VERSIONS)
def test_field_paths_and_types(name: str, version: str) -> None:
    """Where upstream's schema says something, ours says the same, and keeps nothing that it drops."""
    ours, theirs = ours_and_theirs(name, version)
    made = dict(facts(ours["schema"]["openAPIV3Schema"]))
    if theirs["fields"] != {".": "object open"}:
        assert made == theirs["fields"]
        return
    said = {path: " ".join(word for word in text.split() if word in _TYPES) for path, text in made.items()}
    assert said == theirs["types"]
    assert {path for path, text in made.items() if "open" in text.split()} == {
        *theirs["recursive"],
        *(path for path in made if path.endswith(".template.metadata")),
    }
