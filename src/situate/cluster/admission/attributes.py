"""Attributes of one write, as admission sees it."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from situate.cluster.storage.effects import Effect, Identity, Reply
from situate.cluster.storage.resources import Resource

T = TypeVar("T")

Steps: TypeAlias = Generator[Effect, Reply, T]
"""A part of a request that may call webhooks."""

Operation: TypeAlias = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


class Attributes(msgspec.Struct):
    """Attributes of one write. Mutating admission replaces `object`."""

    operation: Operation
    resource: Resource
    subresource: str
    kind: tuple[str, str, str]
    """Group, version and kind of the object."""
    namespace: str
    name: str
    """Empty until a name was generated from generateName."""
    object: dict[str, Any] | None
    """None for deletions."""
    old: dict[str, Any] | None
    """None for creations."""
    options: Mapping[str, Any]
    """CreateOptions, UpdateOptions, PatchOptions or DeleteOptions, as sent."""
    dry_run: bool
    identity: Identity
    now: float
    warnings: list[str] = []
    """Warnings for the client."""
