"""Archives in the bucket of one S3 server, each below a prefix of its own."""

from __future__ import annotations

import uuid
from pathlib import Path
from urllib.parse import quote

import obstore
from obstore.store import S3Store

from situate.archive.protocol import Archiver
from situate.archive.records.record import Record
from situate.archive.stores.s3.archiver import S3Archiver
from situate.archive.stores.s3.keys import record_key
from situate.archive.stores.s3.settings import settings_of
from tests.archive.servers.s3 import ACCESS_KEY, BUCKET, REGION, SECRET_KEY, S3Server
from tests.archive.store_fixtures import edited


class S3:
    def __init__(self, server: S3Server, folder: Path) -> None:
        self.server = server
        self.prefix = f"kept/{uuid.uuid4().hex}"
        file = folder / "credentials"
        file.write_text(f"[default]\naws_access_key_id={ACCESS_KEY}\naws_secret_access_key={SECRET_KEY}\n")
        self.url = (
            f"s3://{BUCKET}/{self.prefix}?endpoint={quote(server.endpoint)}&region={REGION}"
            f"&credentials-file={quote(str(file))}"
        )
        self.objects = S3Store(
            BUCKET,
            prefix=self.prefix,
            endpoint=server.endpoint,
            region=REGION,
            access_key_id=ACCESS_KEY,
            secret_access_key=SECRET_KEY,
            client_options={"allow_http": True},
        )
        """The archive's part of the bucket, past the archive."""

    def archiver(self, timeout_s: float = 60.0) -> Archiver:
        """Patient unless told: few tests are about time, and machines can be busy."""
        return S3Archiver(settings_of(self.url, {}), timeout_s=timeout_s)

    async def edit(self, record: Record) -> None:
        obstore.put(self.objects, record_key(record.subject), edited(record))

    async def spoil(self, record: Record) -> None:
        obstore.put(self.objects, record_key(record.subject), b"\0\0\0")
