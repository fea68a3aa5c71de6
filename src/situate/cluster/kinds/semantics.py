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
from situate.cluster.kinds.schemas import Schema, builtin
from situate.cluster.kinds.schemas.bodies import duplicate_fields
from situate.cluster.kinds.schemas.decoding import Checked, Strictness, check
from situate.cluster.kinds.structural import schema as structural
from situate.cluster.storage.resources import Resource


class Semantics(Protocol):
    """Decoding, defaulting and validation for objects of one kind at one version."""

    @property
    def schema(self) -> Schema: ...

    def check(self, obj: Obj, strictness: Strictness, raw: bytes | None) -> Checked | Refused:
        """Return the object without unknown fields. `raw` is the request body, or None for a patch."""
        ...

    def default(self, obj: Obj) -> None:
        """Set defaults in place."""
        ...

    def validate_create(self, obj: Obj) -> list[FieldError]: ...

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]: ...

    def validate_status(self, new: Obj, old: Obj) -> list[FieldError]: ...


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """Semantics of Kubernetes' own kinds."""

    schema: Schema

    def check(self, obj: Obj, strictness: Strictness, raw: bytes | None) -> Checked | Refused:
        duplicates = () if raw is None else duplicate_fields(raw, obj)
        return check(obj, self.schema, strictness, duplicates)

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
class Custom:
    """Semantics of the kinds of a CustomResourceDefinition."""

    compiled: structural.Resource

    @property
    def schema(self) -> Schema:
        return self.compiled.schema

    def check(self, obj: Obj, strictness: Strictness, raw: bytes | None) -> Checked | Refused:
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
class Definition(BuiltIn):
    """Semantics of CustomResourceDefinitions, whose schemas need their own validation."""

    def default(self, obj: Obj) -> None:
        structural.default_crd(obj)

    def validate_create(self, obj: Obj) -> list[FieldError]:
        return structural.validate_crd(obj)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        return structural.validate_crd_update(new, old)


def built_in(resource: Resource) -> Semantics:
    """Return the semantics of a built-in resource."""
    return built_in_kind(resource.api_version, resource.kind)


@cache
def built_in_kind(api_version: str, kind: str) -> Semantics:
    """Return the semantics of a built-in kind. Every served kind has a schema."""
    schema = builtin(api_version, kind)
    if schema is None:
        raise LookupError(f"no schema for {api_version} {kind}")
    return Definition(schema) if kind == "CustomResourceDefinition" else BuiltIn(schema)


def custom(resource: Resource) -> Semantics:
    """Return the semantics of one version of a CustomResourceDefinition."""
    assert resource.definition is not None
    return Custom(structural.compile_version(resource.definition, resource.version))
