"""Write requests and their results: the values that pass between the steps of a write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from situate.cluster.errors.field_errors import FieldError
from situate.cluster.kinds.rules import Obj
from situate.cluster.storage.effects import Identity
from situate.cluster.storage.options import WriteOptions
from situate.cluster.storage.paths import Target
from situate.cluster.storage.resources import Resource
from situate.cluster.storage.stored_object import StoredObject
from situate.objects.messages import Request


class Call(msgspec.Struct):
    """One write request."""

    request: Request
    now: float
    identity: Identity
    resource: Resource
    target: Target
    options: WriteOptions
    warnings: list[str] = []

    @property
    def name(self) -> str:
        return self.target.name


class Written(msgspec.Struct, frozen=True):
    """Result of a write: the object, and the HTTP status."""

    status: int
    object: StoredObject | Obj
    """The stored object. After a dry run, or for a deleted object, plain JSON at the request's version."""


Change: TypeAlias = Callable[[Obj | None], Obj]
"""Builds the new object, decoded and defaulted, from the present one (None if there is none)."""

Prepare: TypeAlias = Callable[[Obj, Obj], None]
"""Changes the new object in place so that it differs from the old one only in writable fields."""

Validate: TypeAlias = Callable[[Obj, Obj], list[FieldError]]
"""Returns the errors of the new object, given the old one."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Conversion for admission of a subresource that is an object of another kind."""

    kind: tuple[str, str, str]
    """Group, version, kind."""
    show: Callable[[Obj], Obj]
    take: Callable[[Obj, Obj], None]
    """Writes admission's changes of the shown form (second) into the object (first)."""


_OPTION_KINDS: Final[Mapping[str, str]] = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions"}


def operation_options(call: Call, operation: str) -> Mapping[str, Any]:
    """Return the options object that admission reviews carry."""
    kind = "PatchOptions" if call.request.method == "PATCH" else _OPTION_KINDS[operation]
    options: Obj = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
    if call.options.dry_run:
        options["dryRun"] = ["All"]
    manager = call.request.parameter("fieldManager")
    if manager:
        options["fieldManager"] = manager
    validation = call.request.parameter("fieldValidation")
    if validation:
        options["fieldValidation"] = validation
    if call.options.force:
        options["force"] = True
    return options
