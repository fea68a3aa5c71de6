"""What a kind's objects may hold: one face for built-in kinds and for custom resources.

The judgement itself is in `schemas`, `defaults`, `validation` and `structural`.
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
    """Reads, completes and judges objects of one kind at one version."""

    @property
    def schema(self) -> Schema: ...

    def check(self, obj: Obj, strictness: Strictness, raw: bytes | None) -> Checked | Refused:
        """The object without unknown fields. `raw` is the body it came from, None if it came from a patch."""
        ...

    def default(self, obj: Obj) -> None:
        """Fills in what is left out, in place."""
        ...

    def validate_create(self, obj: Obj) -> list[FieldError]: ...

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]: ...

    def validate_status(self, new: Obj, old: Obj) -> list[FieldError]: ...


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """Kinds of Kubernetes itself."""

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
    """Kinds of a CustomResourceDefinition."""

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
    """CustomResourceDefinitions: schemas that have to be judged as such."""

    def default(self, obj: Obj) -> None:
        structural.default_crd(obj)

    def validate_create(self, obj: Obj) -> list[FieldError]:
        return structural.validate_crd(obj)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        return structural.validate_crd_update(new, old)


def built_in(resource: Resource) -> Semantics:
    """The semantics of a built-in resource."""
    return built_in_kind(resource.api_version, resource.kind)


@cache
def built_in_kind(api_version: str, kind: str) -> Semantics:
    """The semantics of a built-in kind, of which there is a schema for each that is served."""
    schema = builtin(api_version, kind)
    if schema is None:
        raise LookupError(f"no schema for {api_version} {kind}")
    return Definition(schema) if kind == "CustomResourceDefinition" else BuiltIn(schema)


def custom(resource: Resource) -> Semantics:
    """The semantics of one version of a CustomResourceDefinition."""
    assert resource.definition is not None
    return Custom(structural.compile_version(resource.definition, resource.version))
