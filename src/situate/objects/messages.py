"""HTTP messages of the Kubernetes API as frozen values.

The client builds requests, the in-memory cluster answers them, and a transport carries them. Tests of these three parts
therefore need no socket. `situate.kube` and `situate.embedded` send the messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Request(msgspec.Struct, frozen=True):
    """One call of the API."""

    method: str
    """GET, POST, PUT, PATCH or DELETE."""
    path: str
    """Percent-decoded path without query, starting with a slash."""
    query: tuple[tuple[str, str], ...] = ()
    """Decoded parameters in the order in which they are sent."""
    headers: Mapping[str, str] = _NO_HEADERS
    """Names in lower case."""
    body: bytes = b""

    def parameter(self, name: str, default: str = "") -> str:
        """Return the first value of a query parameter."""
        for key, value in self.query:
            if key == name:
                return value
        return default


class Response(msgspec.Struct, frozen=True):
    """The whole answer to one call; the answer to a watch is a stream instead."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = _NO_HEADERS
    """Names in lower case."""
