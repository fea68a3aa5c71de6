"""Semantics of one kind: a common interface for built-in kinds and custom resources.

`schemas`, `defaults`, `validation` and `structural` do the actual work.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Protocol

from situate.cluster.errors.field_errors import FieldError, Refused
from situate.cluster.kinds import validation
from situate.cluster.kinds.defaults import apply_defaults
from situate.cluster.kinds.rules import Obj, read_string_data
from situate.cluster.kinds.schemas import Schema, built_in_schema
from situate.cluster.kinds.schemas.bodies import duplicate_fields
from situate.cluster.kinds.schemas.decoding import DecodedObject, Strictness, decode_object
from situate.cluster.kinds.structural import schema as structural
from situate.cluster.storage.resources import Resource


class Semantics(Protocol):
    """Decoding, defaulting and validation for objects of one kind at one version."""

    @property
    def schema(self) -> Schema: ...

    def check(self, obj: Obj, strictness: Strictness, raw: bytes | None) -> DecodedObject | Refused:
        """Return the object without unknown fields. `raw` is the request body, or None for a patch."""
        ...

    def default(self, obj: Obj) -> None:
        """Set defaults in place."""
        ...

    def validate_create(self, obj: Obj) -> list[FieldError]: ...

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]: ...

    def validate_status(self, new: Obj, old: Obj) -> list[FieldError]: ...


@dataclass(frozen=True, slots=True)
class BuiltInSemantics:
    """Semantics of Kubernetes' own kinds."""

    schema: Schema

    def check(self, obj: Obj, strictness: Strictness, raw: bytes | None) -> DecodedObject | Refused:
        duplicates = () if raw is None else duplicate_fields(raw, obj)
        return decode_object(obj, self.schema, strictness, duplicates)

    def default(self, obj: Obj) -> None:
        if obj["kind"] == "Secret":
            read_string_data(obj)
        apply_defaults(obj)

    def validate_create(self, obj: Obj) -> list[FieldError]:
        return validation.validate_create(obj)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        return validation.validate_update(new, old)

    def validate_status(self, new: Obj, old: Obj) -> list[FieldError]:
        return validation.validate_status(new, old)


@dataclass(frozen=True, slots=True)
class CustomSemantics:
    """Semantics of the kinds of a CustomResourceDefinition."""

    compiled: structural.CompiledVersion

    @property
    def schema(self) -> Schema:
        return self.compiled.schema

    def check(self, obj: Obj, strictness: Strictness, raw: bytes | None) -> DecodedObject | Refused:
        return self.compiled.check(obj, strictness, raw)

    def default(self, obj: Obj) -> None:
        self.compiled.default(obj)

    def validate_create(self, obj: Obj) -> list[FieldError]:
        return self.compiled.validate(obj)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        return self.compiled.validate(new, old)

    def validate_status(self, new: Obj, old: Obj) -> list[FieldError]:
        return self.compiled.validate_status(new, old)


@dataclass(frozen=True, slots=True)
class DefinitionSemantics(BuiltInSemantics):
    """Semantics of CustomResourceDefinitions, whose schemas need their own validation."""

    def default(self, obj: Obj) -> None:
        structural.default_crd(obj)

    def validate_create(self, obj: Obj) -> list[FieldError]:
        return structural.validate_crd(obj)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        return structural.validate_crd_update(new, old)


def built_in_semantics(resource: Resource) -> Semantics:
    """Return the semantics of a built-in resource."""
    return semantics_of_kind(resource.api_version, resource.kind)


@cache
def semantics_of_kind(api_version: str, kind: str) -> Semantics:
    """Return the semantics of a built-in kind. Every served kind has a schema."""
    schema = built_in_schema(api_version, kind)
    if schema is None:
        raise LookupError(f"no schema for {api_version} {kind}")
    return DefinitionSemantics(schema) if kind == "CustomResourceDefinition" else BuiltInSemantics(schema)


def custom_semantics(resource: Resource) -> Semantics:
    """Return the semantics of one version of a CustomResourceDefinition."""
    assert resource.definition is not None
    return CustomSemantics(structural.compile_version(resource.definition, resource.version))
