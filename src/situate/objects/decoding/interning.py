"""One value in memory for equal parts of many objects.

A hundred thousand pods come from a few templates: their containers, tolerations, owner references and conditions are
mostly equal. A part that arrives in the same bytes as an earlier one is not even decoded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

import msgspec

T = TypeVar("T")

NOTHING: Final = msgspec.Raw()
"""Stands in a wire type's field that was not sent: told by its identity, which is cheaper than to look inside."""

LIMIT: Final = 2048
"""Entries before a table starts afresh, so that parts that never recur cost a bounded amount of memory."""

LONGEST: Final = 8192
"""Bytes of a part that is remembered: longer ones would make a full table large, and hardly ever recur."""


class PartError(ValueError):
    """A part does not decode; the message is the decoder's with the path of the whole object."""

    def __init__(self, error: msgspec.ValidationError, path: str) -> None:
        text = str(error)
        super().__init__(text.replace("`$", f"`$.{path}", 1) if "`$" in text else f"{text} - at `$.{path}`")


class Interner(Generic[T]):
    """Remembers decoded parts by their bytes, and by what is read of them.

    The second key matters where the bytes never repeat although the fields that we read do: the names of mounted
    service account tokens, container ids.
    """

    def __init__(self, decode: Callable[[bytes], T], absent: T, path: str, *, by_content: bool = True) -> None:
        """`absent` is the value of a field that is not there; `path` is the field's in the whole object.

        Without `by_content` the second key is saved: where nearly all of the bytes are read, it finds nothing.
        """
        self._decode = decode
        self._path = path
        self._with_content = by_content
        self.absent = absent
        self.by_bytes: dict[bytes, T] = {}
        """What is known already, for callers that cannot afford a call to find out."""
        self._by_content: dict[bytes, T] = {}

    def __call__(self, raw: msgspec.Raw) -> T:
        """The value of these bytes; `PartError` if they do not decode."""
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
"""Quantities as their canonical text; what differs in notation only is one value."""
