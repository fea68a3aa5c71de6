"""Both servers answer, can be killed, and come back at the same place with what they held."""

from __future__ import annotations

from pathlib import Path

import obstore
import pymongo
import pytest
from obstore.store import S3Store

from tests.archive.servers import mongodb
from tests.archive.servers.mongodb import MongoServer
from tests.archive.servers.programs import S3_SERVER, VERSITYGW
from tests.archive.servers.s3 import ACCESS_KEY, BUCKET, REGION, SECRET_KEY, S3Server


def test_the_version_agrees_with_the_module() -> None:
    assert f"github.com/versity/versitygw v{VERSITYGW}" in (S3_SERVER.folder / "go.mod").read_text()


def test_s3(s3_program: Path, tmp_path: Path) -> None:
    with S3Server(s3_program, tmp_path) as server:
        store = S3Store(
            BUCKET,
            endpoint=server.endpoint,
            region=REGION,
            access_key_id=ACCESS_KEY,
            secret_access_key=SECRET_KEY,
            client_options={"allow_http": True},
        )
        obstore.put(store, "a/b", b"kept")
        server.process.kill()
        server.start()
        assert bytes(obstore.get(store, "a/b").bytes()) == b"kept"


@pytest.mark.skipif(bool(mongodb.why_not()), reason=mongodb.why_not() or "there is one")
def test_mongodb(tmp_path: Path) -> None:
    with MongoServer(tmp_path, durable=True) as server, pymongo.MongoClient[dict[str, str]](server.url) as client:
        client.archive.records.insert_one({"kept": "yes"})
        server.process.kill()
        server.start()
        assert [each["kept"] for each in client.archive.records.find()] == ["yes"]
