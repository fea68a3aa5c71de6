"""The four ways to change a part of an object (apimachinery types/patch.go)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias


@dataclass(frozen=True, slots=True)
class MergePatch:
    """RFC 7386: null removes, lists are replaced. Safe to repeat."""

    content_type: ClassVar[str] = "application/merge-patch+json"
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class JsonPatch:
    """RFC 6902: operations in order, all or none; `test` makes it conditional. Not always safe to repeat."""

    content_type: ClassVar[str] = "application/json-patch+json"
    body: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class StrategicMergePatch:
    """Lists merge by key; for built-in kinds only. Safe to repeat."""

    content_type: ClassVar[str] = "application/strategic-merge-patch+json"
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ApplyPatch:
    """Server-side apply: all fields that the field manager owns. Safe to repeat."""

    content_type: ClassVar[str] = "application/apply-patch+yaml"  # JSON is YAML
    body: Mapping[str, Any]


Patch: TypeAlias = MergePatch | JsonPatch | StrategicMergePatch | ApplyPatch
