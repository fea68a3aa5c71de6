"""Check at the start of a process that the API server answers.

Without this check, every watch would report a wrong address or credential itself.
"""

from __future__ import annotations

import asyncio
import random
from typing import Final

import structlog

from situate.kube.client import Client
from situate.kube.errors import Forbidden, KubeError
from situate.kube.queries.server_version import server_version
from situate.kube.retry.backoff import Backoff

_RETRY: Final = Backoff(initial_s=0.5, cap_s=10.0)


class ConnectionCheck:
    """Service for the manager. Later services start when `wait_reached` returns."""

    name = "connection"

    def __init__(self, client: Client, rng: random.Random) -> None:
        self._client = client
        self._rng = rng
        self._answered = asyncio.Event()
        self._log = structlog.get_logger()

    async def wait_reached(self) -> None:
        await self._answered.wait()

    def not_ready(self) -> str | None:
        """Return why the service is not ready, or None."""
        return None if self._answered.is_set() else "the API server has not answered yet"

    async def run(self) -> None:
        """Wait without a limit for a server that cannot be reached, and log that once.

        Raises `KubeError` for a permanent failure: a refused certificate or credential, a server of another kind.
        """
        failures = 0
        while not await self._is_answering(failures):
            failures += 1
            await asyncio.sleep(_RETRY.delay_s(failures, self._rng))
        if failures:
            self._log.info("API server is reachable")
        self._answered.set()
        await asyncio.get_running_loop().create_future()  # until cancelled: a service runs as long as the process

    async def _is_answering(self, failures: int) -> bool:
        try:
            await server_version(self._client)
        except Forbidden:
            return True  # the server answered; some clusters hide their version
        except KubeError as problem:
            if not problem.retriable:
                raise
            if not failures:
                self._log.warning("API server is not reachable, retrying", error=str(problem))
            return False
        return True
