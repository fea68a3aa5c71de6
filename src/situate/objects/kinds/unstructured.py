"""Objects of any kind with every field that they came with.

For custom resources, and for whatever is passed on: a struct would lose the fields that it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from situate.objects.kinds.meta import ObjectMeta


class Unstructured(msgspec.Struct, frozen=True, gc=False):
    """The metadata that everybody reads, and the object as it arrived."""

    metadata: ObjectMeta
    raw: bytes
    """The object's JSON, unchanged."""

    @property
    def content(self) -> dict[str, Any]:
        """The whole object as plain data: a new copy at each call, to be kept by whoever changes or rereads it."""
        content: dict[str, Any] = msgspec.json.decode(self.raw)
        return content

    @property
    def api_version(self) -> str:
        return _TYPE_META.decode(self.raw).api_version

    @property
    def kind(self) -> str:
        return _TYPE_META.decode(self.raw).kind


class TypeMeta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Which kind of object this is."""

    api_version: str = ""
    kind: str = ""


_TYPE_META = msgspec.json.Decoder(TypeMeta)


def with_content(content: Mapping[str, Any]) -> Unstructured:
    """The object that plain data describes."""
    raw = msgspec.json.encode(content)
    return Unstructured(msgspec.convert(content.get("metadata", {}), ObjectMeta), raw)
