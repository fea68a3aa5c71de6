"""HTTP messages of the Kubernetes API as frozen values.

The client builds them, the in-memory cluster answers them, and a transport carries them; none of the three
needs a socket to be tested. Sending is left to `situate.kube` and `situate.embedded`.
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
        """The first value of a query parameter."""
        for key, value in self.query:
            if key == name:
                return value
        return default


class Response(msgspec.Struct, frozen=True):
    """The whole answer to one call; a watch is answered by a stream instead."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = _NO_HEADERS
    """Names in lower case."""
