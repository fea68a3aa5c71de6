"""Archives in databases of one server of MongoDB's protocol."""

from __future__ import annotations

import gc
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pymongo
import pytest

from situate.archive.open_archive import open_archiver
from situate.archive.protocol import Archiver
from situate.archive.records.record import Record
from situate.archive.stores.mongodb.archiver import COLLECTION
from tests.archive.servers.mongodb import MongoServer
from tests.archive.store_fixtures import edited

forgets_sockets = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
"""For every test that closes an `AsyncMongoClient`: pymongo 4.20 does not close the socket of a connection that is
being made while its client closes (pool_shared.py, `_async_create_connection`), and Python warns when it is collected.
"""


def collect_forgotten_sockets() -> None:
    """After such a test, so that no later one is blamed for them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "unclosed <socket", ResourceWarning)
        gc.collect()


class MongoDB:
    def __init__(self, server: MongoServer) -> None:
        self.server = server
        self.database = f"t{uuid.uuid4().hex[:12]}"
        self.url = server.url.replace("/?", f"/{self.database}?")

    def archiver(self, timeout_s: float = 60.0) -> Archiver:
        """Patient unless told: on a busy machine SecantusDB is slow, and few tests are about time."""
        return open_archiver(f"{self.url}&timeoutMS={int(timeout_s * 1000)}", {})

    async def edit(self, record: Record) -> None:
        self.set_text(record, edited(record).decode())

    async def spoil(self, record: Record) -> None:
        self.set_text(record, "\0\0\0")

    def set_text(self, record: Record, text: str) -> None:
        with self.collection() as records:
            assert records.update_one({"uid": record.subject.uid}, {"$set": {"record": text}}).matched_count == 1

    @contextmanager
    def collection(self) -> Iterator[Any]:
        """The archive's collection, past the archive."""
        with pymongo.MongoClient[dict[str, Any]](self.url, serverMonitoringMode="poll") as client:
            yield client[self.database][COLLECTION]
