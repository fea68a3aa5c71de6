"""A request to write and what comes of it: the values that pass between the rooms of writing."""

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
from situate.cluster.storage.stored import Stored
from situate.objects.messages import Request


class Call(msgspec.Struct):
    """One request to write."""

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
    """What a write came to: the object, and the HTTP status."""

    status: int
    object: Stored | Obj
    """As stored; after a dry run, or if it is gone, as plain JSON at the request's version."""


Change: TypeAlias = Callable[[Obj | None], Obj]
"""The new object, decoded and with defaults, from the present one (None if there is none)."""

Prepare: TypeAlias = Callable[[Obj, Obj], None]
"""Changes the new object in place so that only what may be written differs from the old one."""

Validate: TypeAlias = Callable[[Obj, Obj], list[FieldError]]
"""What is wrong with the new object, given the old one."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How admission sees a subresource that is an object of another kind, and what it may change of it."""

    kind: tuple[str, str, str]
    """Group, version, kind."""
    show: Callable[[Obj], Obj]
    take: Callable[[Obj, Obj], None]
    """Puts into the object (first) what admission made of its shown form (second)."""


_OPTION_KINDS: Final[Mapping[str, str]] = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions"}


def operation_options(call: Call, operation: str) -> Mapping[str, Any]:
    """The options object that admission reviews carry."""
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
