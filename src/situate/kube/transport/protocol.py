"""What carries a request to an API server and its answer back.

Everything above (`Client`, reflector, election) depends on this protocol only, so the shipped controllers run
unchanged over HTTP (`situate.kube.transport.http`) and over an in-process cluster on the virtual clock
(`situate.testing`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from situate.objects.messages import Request, Response


class Stream(Protocol):
    """An answer that is read while it arrives."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Names in lower case."""
        ...

    def batches(self) -> AsyncIterator[Sequence[bytes]]:
        """The body in pieces of any size, those together that arrived together; ends when the server ends it."""
        ...


class Transport(Protocol):
    """Raises `situate.kube.errors.Unreachable` when no answer came; every answer, also a refusal, is returned."""

    async def send(self, request: Request, *, timeout_s: float = 30.0) -> Response:
        """The whole answer. After a time-out the request may or may not have been carried out."""
        ...

    def stream(self, request: Request, *, timeout_s: float = 30.0) -> AbstractAsyncContextManager[Stream]:
        """Opens a watch. `timeout_s` bounds the time until the answer's head, not the body."""
        ...

    async def close(self) -> None:
        """Ends every open connection; further calls raise `Unreachable`."""
        ...
