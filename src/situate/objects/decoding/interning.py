"""Interning: equal parts of many objects share one value in memory.

A hundred thousand Pods come from a few templates: their containers, tolerations, owner references and conditions are
mostly equal. If the bytes of a part equal an earlier part, the part is not even decoded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

import msgspec

T = TypeVar("T")

NOTHING: Final = msgspec.Raw()
"""Marks a field of a wire type that was not sent. Callers compare by identity, which is cheaper than reading it."""

LIMIT: Final = 2048
"""Number of entries after which a table is cleared, so that parts that never repeat use bounded memory."""

LONGEST: Final = 8192
"""Longest part in bytes that is stored: longer parts would make a full table large, and rarely repeat."""


class PartError(ValueError):
    """A part does not decode. The message is the decoder's, with the path in the whole object."""

    def __init__(self, error: msgspec.ValidationError, path: str) -> None:
        text = str(error)
        super().__init__(text.replace("`$", f"`$.{path}", 1) if "`$" in text else f"{text} - at `$.{path}`")


class Interner(Generic[T]):
    """A table of decoded parts, by their bytes and by the fields that situate reads.

    The second key matters if the bytes never repeat but the fields do: the names of mounted service account tokens,
    container ids.
    """

    def __init__(self, decode: Callable[[bytes], T], absent: T, path: str, *, by_content: bool = True) -> None:
        """Create a table. `absent` is the value of an absent field; `path` is the path of the field in the whole
        object.

        Without `by_content` there is no second key. It finds nothing if situate reads nearly all of the bytes.
        """
        self._decode = decode
        self._path = path
        self._with_content = by_content
        self.absent = absent
        self.by_bytes: dict[bytes, T] = {}
        """The known values, for callers that cannot afford a function call for a lookup."""
        self._by_content: dict[bytes, T] = {}

    def __call__(self, raw: msgspec.Raw) -> T:
        """Return the value of these bytes. Raises `PartError` if they do not decode."""
        key = bytes(raw)
        if not key:
            return self.absent
        known = self.by_bytes.get(key)
        if known is not None:
            return known
        try:
            value = self._decode(key)
        except msgspec.ValidationError as error:
            raise PartError(error, self._path) from error
        if len(key) > LONGEST:
            return value
        if self._with_content:
            content = _ENCODER.encode(value)
            if len(self._by_content) >= LIMIT:
                self._by_content.clear()
            value = self._by_content.setdefault(content, value)
        if len(self.by_bytes) >= LIMIT:
            self.by_bytes.clear()
        self.by_bytes[key] = value
        return value


_ENCODER: Final = msgspec.json.Encoder(enc_hook=str, order="deterministic")
"""Writes quantities as their canonical text, so that values with different notations share one key."""
