"""Reads the one YAML file of the configuration, merges environment and flags, and returns typed settings.

It knows the keys that all products share. Each product passes a `Section` with the type of its own settings.
`situate.objects.settings.section` checks the values; `situate.runtime.configuration.reload` follows changes of the
file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar

from msgspec import inspect as types

from situate.objects.settings.overrides import Override, override_from_text, with_overrides, with_sources
from situate.objects.settings.schema import document_schema, to_plain_data
from situate.objects.settings.section import Mistake, format_value, parse_section, unknown_key
from situate.objects.settings.yaml_text import load_yaml
from situate.runtime.configuration.shared_settings import RuntimeSettings

API_VERSION = "situate.dev/v1alpha1"
KIND = "Situate"
ENVIRONMENT_PREFIX = "SITUATE_"

T = TypeVar("T")


@dataclass(frozen=True)
class Section:
    """A top-level key that belongs to a product."""

    name: str
    """Such as `vpod`."""
    kind: Any
    """A msgspec struct, or `list[…]` of one."""
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Environment variable to path: `{"POD_CAPACITY": "vpod[*].podCapacity"}`."""


@dataclass(frozen=True)
class Configuration:
    """A configuration without mistakes."""

    runtime: RuntimeSettings
    sections: Mapping[str, object]
    """Settings of the products that the file names; `spot: {}` and `spot:` name one, an absent key does not."""
    given: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}), compare=False)
    """The document with the overrides, which distinguishes written values from defaults."""

    def section(self, name: str, kind: type[T]) -> T | None:
        """Return the settings of a product; None if the file does not name it."""
        value = self.sections.get(name)
        if value is None:
            return None
        if not isinstance(value, kind):
            raise TypeError(f"section {name} contains {type(value).__name__}, expected {kind.__name__}")
        return value


class BadConfiguration(Exception):
    """Mistakes that a person must correct; `str()` has one line for each."""

    def __init__(self, source: str, mistakes: Sequence[Mistake]) -> None:
        self.source = source
        self.mistakes = tuple(mistakes)
        super().__init__(str(self))

    def __str__(self) -> str:
        return "\n".join(f"{self.source}: {each}" for each in self.mistakes)


def parse_configuration(
    text: str, sections: Sequence[Section], overrides: Sequence[Override] = ()
) -> tuple[Configuration | None, tuple[Mistake, ...]]:
    """Return the configuration, or None and all mistakes of the text and the overrides together."""
    data, mistakes = load_yaml(text)
    if mistakes:
        return None, mistakes
    data, mistakes = with_overrides({} if data is None else data, overrides)
    if not isinstance(data, Mapping):
        expected = f"a mapping that begins with apiVersion: {API_VERSION} and kind: {KIND}"
        return None, (Mistake("", format_value(data), expected),)
    found = [*mistakes, *_header_mistakes(data)]
    shared = {each.encode_name for each in _shared_fields()}
    known = {each.name: each for each in sections}
    runtime, wrong = parse_section({key: data[key] for key in data if key in shared}, RuntimeSettings)
    found.extend(wrong)
    values: dict[str, object] = {}
    for key, value in data.items():
        if key in known:
            plain = _empty(known[key].kind) if value is None else value
            values[key], wrong = parse_section(plain, known[key].kind, key)
            found.extend(wrong)
        elif key not in shared and key not in ("apiVersion", "kind"):
            found.append(unknown_key(key, ["apiVersion", "kind", *sorted(shared), *known], "", value))
    if found or runtime is None:
        return None, with_sources(found, overrides)
    return Configuration(runtime, MappingProxyType(values), MappingProxyType(dict(data))), ()


def environment_overrides(
    environment: Mapping[str, str], sections: Sequence[Section]
) -> tuple[tuple[Override, ...], tuple[Mistake, ...]]:
    """Read overrides from the environment, in the order of `environment_variables`; an empty variable is unset."""
    overrides: list[Override] = []
    mistakes: list[Mistake] = []
    for name, path in environment_variables(sections).items():
        text = environment.get(name, "")
        if not text:
            continue
        override, wrong = override_from_text(path, text, f"environment variable {name}")
        mistakes.extend(wrong)
        if override is not None:
            overrides.append(override)
    return tuple(overrides), tuple(mistakes)


def flag_overrides(assignments: Iterable[str]) -> tuple[tuple[Override, ...], tuple[Mistake, ...]]:
    """Parse the overrides of `--set path=value`."""
    overrides: list[Override] = []
    mistakes: list[Mistake] = []
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        if not equals:
            mistakes.append(
                Mistake("flag --set", format_value(assignment), "path=value, such as vpod[0].podCapacity=20")
            )
            continue
        override, wrong = override_from_text(path.strip(), text, f"flag --set {path.strip()}".rstrip())
        mistakes.extend(wrong)
        if override is not None:
            overrides.append(override)
    return tuple(overrides), tuple(mistakes)


def environment_variables(sections: Sequence[Section]) -> dict[str, str]:
    """Return every variable that is read, with the path that it sets.

    Shared keys have the prefix `SITUATE_` and their path in capitals (`SITUATE_LOG_LEVEL`); the products name their own
    variables. Other variables with that prefix are ignored: Kubernetes sets `SITUATE_PORT` for a Service named situate.
    """
    variables = {
        ENVIRONMENT_PREFIX + path.replace(".", "_").upper(): encoded for path, encoded in _paths(_shared_fields())
    }
    for section in sections:
        variables.update(section.environment)
    return variables


def configuration_schema(sections: Sequence[Section]) -> dict[str, Any]:
    """Return the JSON Schema of the whole file, for editors."""
    shared = {each.encode_name: each.type for each in _shared_fields()}
    schema = document_schema("situate configuration", {section.name: section.kind for section in sections})
    runtime = document_schema("", {"runtime": RuntimeSettings})["properties"]["runtime"]["properties"]
    header = {"apiVersion": {"const": API_VERSION}, "kind": {"const": KIND}}
    products = {name: {"anyOf": [each, {"type": "null"}]} for name, each in schema["properties"].items()}
    properties = header | {name: runtime[name] for name in shared} | products
    return {**schema, "properties": properties, "required": ["apiVersion", "kind"]}


def _header_mistakes(data: Mapping[Any, Any]) -> Iterable[Mistake]:
    for key, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        if key not in data:
            yield Mistake(key, "", wanted)
        elif data[key] != wanted:
            yield Mistake(key, format_value(data[key]), wanted)


def _empty(kind: Any) -> object:
    return {} if isinstance(types.type_info(kind), types.StructType) else []


def _shared_fields() -> tuple[types.Field, ...]:
    info = types.type_info(RuntimeSettings)
    assert isinstance(info, types.StructType)
    return info.fields


def _paths(fields: Iterable[types.Field], names: str = "", encoded: str = "") -> Iterable[tuple[str, str]]:
    for each in fields:
        if isinstance(each.type, types.StructType):
            yield from _paths(each.type.fields, f"{names}{each.name}.", f"{encoded}{each.encode_name}.")
        else:
            yield f"{names}{each.name}", f"{encoded}{each.encode_name}"


def as_plain(configuration: Configuration) -> dict[str, Any]:
    """Return every key with its value, defaults included, as `situate check` shows them."""
    runtime: dict[str, Any] = to_plain_data(configuration.runtime)
    products = {name: to_plain_data(value) for name, value in configuration.sections.items()}
    return {"apiVersion": API_VERSION, "kind": KIND} | runtime | products
