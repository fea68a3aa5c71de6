"""Every store, for the tests that all of them must pass."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from situate.archive.protocol import Archiver
from tests.archive.servers import mongodb as mongodb_server
from tests.archive.servers import postgresql as postgresql_server
from tests.archive.servers.mongodb import MongoServer
from tests.archive.servers.postgresql import PostgresqlServer
from tests.archive.servers.s3 import S3Server
from tests.archive.store_fixtures import Filesystem, Memory, Postgresql, Sqlite, Store
from tests.archive.store_fixtures_mongodb import MongoDB, collect_forgotten_sockets, forgets_sockets
from tests.archive.store_fixtures_s3 import S3

STORES = (
    "memory",
    "filesystem",
    "sqlite",
    pytest.param("postgresql", marks=pytest.mark.xdist_group("postgresql")),
    pytest.param("s3", marks=[pytest.mark.xdist_group("s3"), pytest.mark.realcluster]),
    pytest.param("mongodb", marks=[pytest.mark.xdist_group("mongodb"), forgets_sockets]),
)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresqlServer]:
    """Shared by the session; whoever crashes it starts it again."""
    if reason := postgresql_server.why_not():
        pytest.skip(reason)
    with PostgresqlServer() as server:
        yield server


@pytest.fixture(scope="session")
def s3_server(s3_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """Shared by the session; whoever kills it starts it again."""
    with S3Server(s3_program, tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="session")
def mongodb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MongoServer]:
    """Shared by the session, and not killed: it syncs nothing."""
    if reason := mongodb_server.why_not():
        pytest.skip(reason)
    with MongoServer(tmp_path_factory.mktemp("mongodb")) as server:
        yield server


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """One empty store of each kind."""
    yield _store(request, tmp_path)
    if request.param == "mongodb":
        collect_forgotten_sockets()


def _store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    match request.param:
        case "memory":
            return Memory()
        case "filesystem":
            return Filesystem(tmp_path)
        case "sqlite":
            return Sqlite(tmp_path)
        case "postgresql":
            return Postgresql(request.getfixturevalue("postgresql"))
        case "s3":
            return S3(request.getfixturevalue("s3_server"), tmp_path)
        case "mongodb":
            return MongoDB(request.getfixturevalue("mongodb"))
        case other:
            raise AssertionError(f"no store is called {other}")


@pytest_asyncio.fixture
async def opened(store: Store) -> AsyncIterator[Callable[[], Archiver]]:
    """Opens the store once more, as another process would; all are closed at the end."""
    async with AsyncExitStack() as stack:

        def open_again() -> Archiver:
            archiver = store.archiver()
            stack.push_async_callback(archiver.close)
            return archiver

        yield open_again


@pytest.fixture
def archiver(opened: Callable[[], Archiver]) -> Archiver:
    return opened()
