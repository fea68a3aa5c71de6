"""A wire that counts the network faults that a process of vpod notices: no answer, a refusal, a conflict."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from situate.kube.errors import Unreachable
from situate.kube.transport.protocol import Stream
from situate.objects.messages import Request, Response
from situate.testing.virtual_time.network import Wire

if TYPE_CHECKING:
    from situate.testing.vpod.world.world import VPodWorld


class CountingWire:
    """A `Transport` that changes nothing. A fault of a message whose sender no longer waits is not counted."""

    def __init__(self, wire: Wire, world: VPodWorld) -> None:
        self._wire = wire
        self._world = world
        self.pending_calls = 0
        """Number of requests without an answer yet, watches excluded."""
        self.watches = 0
        """Number of open watches."""

    async def send(self, request: Request, *, timeout_s: float = 30.0) -> Response:
        world = self._world
        down = world.network.down
        world.executed_requests[id(request)] = False
        self.pending_calls += 1
        try:
            answer = await self._wire.send(request, timeout_s=timeout_s)
        except Unreachable as problem:
            if problem.outcome_unknown:
                self._count_lost_answer(request, down=down, carried_out=world.executed_requests[id(request)])
            raise
        finally:
            self.pending_calls -= 1
            del world.executed_requests[id(request)]
        if answer.status == 503:
            self._count_failure(request, "request refused")
        elif answer.status == 409 and request.method in ("PUT", "PATCH"):
            world.happened["write in conflict"] += 1
            world.happened["scale write in conflict"] += request.path.endswith("/scale")
        return answer

    @asynccontextmanager
    async def stream(self, request: Request, *, timeout_s: float = 30.0) -> AsyncIterator[Stream]:
        async with self._wire.stream(request, timeout_s=timeout_s) as stream:
            self.watches += 1
            try:
                yield stream
            finally:
                self.watches -= 1

    async def close(self) -> None:
        await self._wire.close()

    def _count_lost_answer(self, request: Request, *, down: bool, carried_out: bool) -> None:
        if carried_out:
            self._world.happened["answer lost"] += 1
            written = request.method != "GET" and request.path.endswith("/scale")
            self._world.happened["answer of the scale write lost"] += written
        else:
            self._count_failure(request, "server down" if down else "request lost")

    def _count_failure(self, request: Request, how: str) -> None:
        happened = self._world.happened
        happened[how] += 1
        if request.path.endswith("/scale"):
            happened["scale read failed" if request.method == "GET" else "scale write failed"] += 1
        elif request.headers.get("content-type") == "application/json-patch+json":
            happened["eviction failed"] += 1
