"""Fixtures for pytest: register them with `pytest_plugins = ["situate.testing.builders.fixtures"]` in a conftest.py.

situate does not install pytest.
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
    """Provide processes on virtual time. At the end, each must have no complaints."""
    with World() as world:
        yield world
        for process in world.processes:
            assert not process.complaints, f"{process.name}: {process.complaints[0]}"


@pytest_asyncio.fixture
async def embedded_server() -> AsyncIterator[EmbeddedServer]:
    """Provide an API server with controllers on a free port of this machine. It ends with the test."""
    async with EmbeddedServer(Settings(seed=0)) as server:
        yield server


@pytest_asyncio.fixture
async def embedded_client(embedded_server: EmbeddedServer) -> AsyncIterator[Client]:
    """Provide a client of `embedded_server` with administrator rights."""
    client = connect(Connection(embedded_server.url, "the fixture embedded_client"), random.Random(0))
    yield client
    await client.close()
