"""Archives in databases of one server of MongoDB's protocol."""

from __future__ import annotations

import uuid
from typing import Any

import pymongo

from situate.archive.mongodb import COLLECTION
from situate.archive.opening import open_archiver
from situate.archive.protocol import Archiver
from situate.archive.record import Record
from tests.archive.servers.mongodb import MongoServer
from tests.archive.stores import edited


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
        with pymongo.MongoClient[dict[str, Any]](self.url) as client:
            records = client[self.database][COLLECTION]
            assert records.update_one({"uid": record.subject.uid}, {"$set": {"record": text}}).matched_count == 1
