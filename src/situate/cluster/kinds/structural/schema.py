"""Decode, prune, default and validate custom resources of one version by their CustomResourceDefinition.

After `apiextensions-apiserver/pkg/apiserver/schema/{pruning,defaulting,objectmeta}` and `pkg/registry/customresource`.
`definitions` validates the definition itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

from situate.cluster.errors.field_errors import FieldError, Refused, invalid
from situate.cluster.errors.go_text import quote
from situate.cluster.kinds.schemas import leaves
from situate.cluster.kinds.schemas.bodies import duplicate_fields
from situate.cluster.kinds.schemas.catalog import component_schema
from situate.cluster.kinds.schemas.custom import OBJECT_META, custom_schema
from situate.cluster.kinds.schemas.decoding import (
    DecodedObject,
    Strictness,
    WrongTypeError,
    cannot_handle,
    struct_decoder,
    with_problems,
)
from situate.cluster.kinds.schemas.nodes import Schema
from situate.cluster.kinds.structural.definitions import (
    default_crd,
    validate_crd,
    validate_crd_update,
)
from situate.cluster.kinds.structural.paths import ScalePaths, get_path, set_path
from situate.cluster.kinds.structural.values import is_extended, validate_extensions, validate_value
from situate.cluster.kinds.validation.metadata import validate_metadata, validate_metadata_update, with_general_update

__all__ = [
    "CompiledVersion",
    "ScalePaths",
    "compile_version",
    "default_crd",
    "get_path",
    "set_path",
    "validate_crd",
    "validate_crd_update",
]

_Object = dict[str, Any]
_MAX_INT32: Final = 2**31 - 1
_EMPTY: Final[Mapping[str, Any]] = {}
_SCALARS: Final = frozenset({str, int, bool, type(None)})
_COMMON_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata"})
_ANY_OBJECT_SCHEMA: Final[Mapping[str, Any]] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@dataclass(frozen=True, slots=True)
class CompiledVersion:
    """One served version of a definition."""

    schema: Schema
    raw: Mapping[str, Any]
    """The version's openAPIV3Schema."""
    namespaced: bool
    scale: ScalePaths | None
    content: Mapping[str, Any]
    """`raw` without the fields that every object has: apiVersion, kind and metadata."""
    extended: bool
    """True if any part of the schema needs `validate_extensions`."""
    defaults: Mapping[int, Mapping[str, Any]]
    """Defaults of properties, by the `id` of the part of `raw` that declares them."""

    def check(
        self, obj: _Object, strictness: Strictness = Strictness.WARN, raw: bytes | None = None
    ) -> DecodedObject | Refused:
        """Return the object without unknown fields. `raw` is the request body, or None for a patch."""
        duplicates = () if raw is None else duplicate_fields(raw, obj)
        unknown: list[str] = []
        try:
            pruned = _prune_resource(obj, self.content, "", unknown)
        except (WrongTypeError, leaves.LeafError) as error:
            return cannot_handle(obj, str(error))
        problems = [f"duplicate field {quote(path)}" for path in duplicates]
        problems += [f"unknown field {quote(path)}" for path in sorted(unknown)]
        return with_problems(obj, pruned, problems, strictness)

    def default(self, obj: _Object) -> None:
        """Set defaults in place. A null in a field that is not nullable counts as absent."""
        _set_defaults(obj, self.raw, self.defaults)

    def validate(self, obj: _Object, old: _Object | None = None) -> list[FieldError]:
        """Validate a new object, or an object that replaces `old`."""
        if old is None:
            errors = validate_metadata(obj["metadata"], namespaced=self.namespaced, custom=True)
        else:
            errors = validate_metadata_update(obj["metadata"], old["metadata"], custom=True)
            errors = with_general_update(obj, old, self.namespaced, errors)
        return errors + self._validate_content(obj, old) + self._validate_replicas(obj, "spec")

    def validate_status(self, obj: _Object, old: _Object) -> list[FieldError]:
        """Validate a write to the subresource status."""
        errors = validate_metadata_update(obj["metadata"], old["metadata"], custom=True)
        errors = with_general_update(obj, old, self.namespaced, errors)
        return errors + self._validate_content(obj, old) + self._validate_replicas(obj, "status")

    def _validate_content(self, obj: _Object, old: _Object | None) -> list[FieldError]:
        content, before = _without_metadata(obj), _without_metadata(old) if old is not None else None
        previous = {} if before is None else {"old": before}
        errors = validate_value(content, self.raw, "", **previous)
        if not self.extended:
            return errors
        # Rules can read an object's name, which no schema restricts.
        named = {**content, "metadata": obj["metadata"]}
        if old is not None:
            previous = {"old": {**_without_metadata(old), "metadata": old["metadata"]}}
        return errors + validate_extensions(named, self.raw, "", **previous)

    def _validate_replicas(self, obj: _Object, part: str) -> list[FieldError]:
        if self.scale is None:
            return []
        path = self.scale.spec_replicas if part == "spec" else self.scale.status_replicas
        found = get_path(obj, path)
        if found is None:
            return []
        if isinstance(found, bool) or not isinstance(found, int):
            return [invalid(path, 0, f"{path} accessor error: {_go_text(found)}, expected int64")]
        if found < 0:
            return [invalid(path, found, "should be a non-negative integer")]
        if found > _MAX_INT32:
            return [invalid(path, found, f"should be less than or equal to {_MAX_INT32}")]
        return []


def _without_metadata(obj: _Object) -> _Object:
    return {key: value for key, value in obj.items() if key != "metadata"}


def _go_text(value: Any) -> str:
    if isinstance(value, str):
        return f"{value} is of the type string"
    if isinstance(value, bool):
        return f"{str(value).lower()} is of the type bool"
    return f"{value} is of the type {'float64' if isinstance(value, float) else 'map[string]interface {}'}"


def compile_version(definition: Mapping[str, Any], version: str) -> CompiledVersion:
    """Compile one version of a valid definition. Raises `KeyError` if the definition has no such version."""
    spec = definition["spec"]
    found = next((each for each in spec["versions"] if each["name"] == version), None)
    if found is None:
        raise KeyError(f"{definition['metadata']['name']} has no version {version}")
    raw = found.get("schema", {}).get("openAPIV3Schema") or _ANY_OBJECT_SCHEMA
    scale = (found.get("subresources") or {}).get("scale")
    return CompiledVersion(
        schema=custom_schema(raw),
        raw=raw,
        namespaced=spec.get("scope") == "Namespaced",
        scale=None if scale is None else ScalePaths.from_subresource(scale),
        content=_content_schema(raw),
        extended=is_extended(raw),
        defaults=_defaults_of(raw),
    )


def _content_schema(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema without apiVersion, kind and metadata, for the rest of an object."""
    properties = {key: value for key, value in schema.get("properties", {}).items() if key not in _COMMON_FIELDS}
    return {**schema, "properties": properties, "x-kubernetes-embedded-resource": False}


def _prune_resource(obj: _Object, content: Mapping[str, Any], path: str, unknown: list[str]) -> _Object:
    """Prune an object with apiVersion, kind and metadata: a whole object or an embedded one."""
    rest = {key: value for key, value in obj.items() if key not in _COMMON_FIELDS}
    pruned: _Object = {key: obj[key] for key in ("apiVersion", "kind") if key in obj}
    metadata = obj.get("metadata")
    if metadata is not None:
        pruned["metadata"] = _decode_metadata(metadata, f"{path}metadata", unknown)
    pruned.update(_prune(rest, content, path, unknown))
    return pruned


def _decode_metadata(metadata: Any, path: str, unknown: list[str]) -> Any:
    problems: list[str] = []
    decoded = struct_decoder(component_schema(OBJECT_META))(metadata, (), problems)
    prefix = 'unknown field "'
    unknown += [f"{path}.{problem.removeprefix(prefix).removesuffix(chr(34))}" for problem in problems]
    return decoded


def _prune(value: Any, schema: Mapping[str, Any], path: str, unknown: list[str]) -> Any:
    """Prune a value. `path` is empty or ends in a dot, so that a name can follow."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        items = schema.get("items")
        below = items if isinstance(items, dict) else _ANY_OBJECT_SCHEMA if _preserves_unknown(schema) else {}
        here = path.removesuffix(".")
        return [_prune(item, below, f"{here}[{index}].", unknown) for index, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    if schema.get("x-kubernetes-embedded-resource"):
        return _prune_resource(value, _content_schema(schema), path, unknown)
    properties, additional = schema.get("properties", {}), schema.get("additionalProperties")
    kept: _Object = {}
    for name, item in value.items():
        below = properties.get(name)
        if below is None and isinstance(additional, dict):
            below = additional
        if below is None and (additional is True or _preserves_unknown(schema)):
            below = _ANY_OBJECT_SCHEMA
        if below is None:
            unknown.append(f"{path}{name}")
        elif type(item) in _SCALARS:
            kept[name] = item
        else:
            kept[name] = _prune(item, below, f"{path}{name}.", unknown)
    return kept


def _preserves_unknown(schema: Mapping[str, Any]) -> bool:
    return bool(schema.get("x-kubernetes-preserve-unknown-fields"))


def _defaults_of(schema: Any) -> dict[int, Mapping[str, Any]]:
    """Return the defaults of a schema and of all parts that apply to values."""
    if not isinstance(schema, dict):
        return {}
    properties = schema.get("properties", _EMPTY)
    own = {name: below["default"] for name, below in properties.items() if "default" in below}
    found: dict[int, Mapping[str, Any]] = {id(schema): own} if own else {}
    for below in (*properties.values(), schema.get("additionalProperties"), schema.get("items")):
        found |= _defaults_of(below)
    return found


def _set_defaults(value: Any, schema: Mapping[str, Any], defaults: Mapping[int, Mapping[str, Any]]) -> None:
    if isinstance(value, list):
        items = schema.get("items")
        if isinstance(items, dict):
            for item in value:
                _set_defaults(item, items, defaults)
        return
    if not isinstance(value, dict):
        return
    properties, additional = schema.get("properties", _EMPTY), schema.get("additionalProperties")
    if None in value.values():
        for name in [name for name, item in value.items() if item is None]:
            if name in properties and not properties[name].get("nullable"):
                del value[name]
    if defaults:
        for name, default in defaults.get(id(schema), _EMPTY).items():
            if name not in value:
                value[name] = deepcopy(default)
    for name, item in value.items():
        if type(item) in _SCALARS:
            continue
        below = properties.get(name, additional)
        if isinstance(below, dict):
            _set_defaults(item, below, defaults)
