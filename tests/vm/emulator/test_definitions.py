"""Our definitions beside what is known of NeonVM's, path by path: its controller finds on objects what it expects.

What ours do not name they keep as it comes, and upstream's fill nothing in there but the zero value of its type.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from situate.vm.emulator.crds import definitions

KNOWN: Mapping[str, Any] = yaml.safe_load(Path(__file__).with_name("neonvm_a4bce09e.yaml").read_text())
OURS = {each["metadata"]["name"]: each["spec"] for each in definitions()}
ZERO = {'default:""', "default:false", "default:0"}
ON_PURPOSE = {
    # without a specification, or without sizes, there is nothing to place
    ".": {"required:spec"},
    ".spec.guest": {"required:cpus,memorySlots"},
    ".spec.guest.ports[].port": {"int32"},
    # a status that says less is taken too; one condition of a type
    ".status.conditions": {"keys:type"},
    ".status.conditions[]": {"required:status,type", "required:lastTransitionTime,message,reason,status,type"},
    ".status.conditions[].status": {"one-of:True,False,Unknown"},
}
"""Words that one of both says and the other does not."""


def facts(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str, bool]]:
    """Each path, what is said of it in the words of the table, and whether it keeps what it does not name."""
    loose = schema.get("x-kubernetes-int-or-string")
    words = ["int-or-string" if loose else schema.get("type", ""), "" if loose else schema.get("format", "")]
    if "default" in schema:
        value = schema["default"]
        words.append("default:" + (value if isinstance(value, str) and value else json.dumps(value)))
    for word, key in (("one-of", "enum"), ("required", "required"), ("keys", "x-kubernetes-list-map-keys")):
        if key in schema:
            words.append(f"{word}:" + ",".join(schema[key] if key == "enum" else sorted(schema[key])))
    yield path or ".", " ".join(filter(None, words)), bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    for name, each in schema.get("properties", {}).items():
        yield from facts(each, f"{path}.{name}")
    if "items" in schema:
        yield from facts(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from facts(schema["additionalProperties"], f"{path}{{}}")


def above(path: str, known: Mapping[str, Any]) -> str:
    """The nearest path above that is known."""
    while path not in known:
        path = path[: max(path.rfind(each) for each in (".", "[", "{"))] or "."
    return path


@pytest.mark.parametrize("name", KNOWN)
def test_names_scope_and_version(name: str) -> None:
    ours, theirs = OURS[name], KNOWN[name]
    assert [ours[key] for key in ("group", "names", "scope")] == [theirs[key] for key in ("group", "names", "scope")]
    (version,) = ours["versions"]
    assert (version["name"], version["served"], version["storage"]) == (theirs["version"], True, True)
    assert version["subresources"] == {"status": {}}
    assert OURS.keys() == KNOWN.keys()


@pytest.mark.parametrize("name", KNOWN)
def test_every_field_is_there_or_kept_and_filled_in_alike(name: str) -> None:
    theirs = KNOWN[name]["fields"]
    (version,) = OURS[name]["versions"]
    read = list(facts(version["schema"]["openAPIV3Schema"]))
    ours, kept = {path: said for path, said, _ in read}, {path for path, _, keeps in read if keeps}
    assert ours.keys() <= theirs.keys(), "nothing of our own"
    for path, said in theirs.items():
        words = set(said.split())
        if path in ours:
            differ = words ^ set(ours[path].split())
            assert differ <= ON_PURPOSE.get(path, set()), (path, differ)
        else:
            assert above(path, ours) in kept, f"{path} is dropped"
            filled = {word for word in words if word.startswith("default:")}
            assert filled <= ZERO, f"{path} is not filled in"
