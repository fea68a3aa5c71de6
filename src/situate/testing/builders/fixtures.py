"""Fixtures for pytest: `pytest_plugins = ["situate.testing.builders.fixtures"]` in a conftest.py makes them known.

pytest itself is not installed with situate.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from situate.embedded.embedded_server import EmbeddedServer, Settings
from situate.kube.client import Client
from situate.kube.connect import connect
from situate.kube.login.connection import Connection
from situate.testing.virtual_time.processes import World


@pytest.fixture
def virtual_world() -> Iterator[World]:
    """Processes on virtual time; each must have ended without complaint, or have been killed, at the end."""
    with World() as world:
        yield world
        for process in world.processes:
            assert not process.complaints, f"{process.name}: {process.complaints[0]}"


@pytest_asyncio.fixture
async def embedded_server() -> AsyncIterator[EmbeddedServer]:
    """An API server with controllers on a free port of this machine, gone after the test."""
    async with EmbeddedServer(Settings(seed=0)) as server:
        yield server


@pytest_asyncio.fixture
async def embedded_client(embedded_server: EmbeddedServer) -> AsyncIterator[Client]:
    """A client of `embedded_server`, as its administrator."""
    client = connect(Connection(embedded_server.url, "the fixture embedded_client"), random.Random(0))
    yield client
    await client.close()
