"""The interface that carries a request to an API server and its answer back.

All callers (`Client`, reflector, election) depend on this protocol only. The shipped controllers run unchanged over
HTTP (`situate.kube.transport.http`) and over an in-process cluster on the virtual clock (`situate.testing`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from situate.objects.messages import Request, Response


class Stream(Protocol):
    """An answer that is read as it arrives."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Names in lower case."""
        ...

    def batches(self) -> AsyncIterator[Sequence[bytes]]:
        """Yield the body in pieces of any size, grouped by arrival, until the server ends it."""
        ...


class Transport(Protocol):
    """Sends requests. Every answer, also a refusal, is returned; `situate.kube.errors.Unreachable` if none arrives."""

    async def send(self, request: Request, *, timeout_s: float = 30.0) -> Response:
        """Send a request and return the whole answer. After a time-out the request may have been carried out."""
        ...

    def stream(self, request: Request, *, timeout_s: float = 30.0) -> AbstractAsyncContextManager[Stream]:
        """Open a watch. `timeout_s` bounds the time until the answer's head, not the body."""
        ...

    async def close(self) -> None:
        """Close every open connection; further calls raise `Unreachable`."""
        ...
