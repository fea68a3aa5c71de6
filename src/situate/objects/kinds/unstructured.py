"""Objects of any kind with all their fields.

Used for custom resources, and for objects that are passed on: a struct would lose unknown fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from situate.objects.kinds.meta import ObjectMeta


class Unstructured(msgspec.Struct, frozen=True, gc=False):
    """The metadata as a struct, and the whole object as received."""

    metadata: ObjectMeta
    raw: bytes
    """The object's JSON, unchanged."""

    @property
    def content(self) -> dict[str, Any]:
        """The whole object as plain data: a new copy at each call. Store it before you change it or read it again."""
        content: dict[str, Any] = msgspec.json.decode(self.raw)
        return content

    @property
    def api_version(self) -> str:
        return _TYPE_META.decode(self.raw).api_version

    @property
    def kind(self) -> str:
        return _TYPE_META.decode(self.raw).kind


class TypeMeta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The API version and kind of an object."""

    api_version: str = ""
    kind: str = ""


_TYPE_META = msgspec.json.Decoder(TypeMeta)


def unstructured_from(content: Mapping[str, Any]) -> Unstructured:
    """Build the object from plain data."""
    raw = msgspec.json.encode(content)
    return Unstructured(msgspec.convert(content.get("metadata", {}), ObjectMeta), raw)
