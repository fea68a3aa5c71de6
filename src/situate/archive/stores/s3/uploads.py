"""Uploads in parts that somebody began below the archive's prefix and never ended: none is an object, and they cost.

We make none ourselves. Those of other tools, of a copy that broke off, are ended when they are older than `ABANDONED`.
Whoever may not list or end uploads leaves them to a lifecycle rule of the bucket; so does who has no keys of his own,
but roles that only the client library understands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import quote
from xml.etree import ElementTree

import aiohttp
from yarl import URL

from situate.archive.protocol import ArchiveUnavailable
from situate.archive.stores.s3.settings import S3Settings
from situate.archive.stores.s3.signing import Keys, signed
from situate.objects.values.timestamps import BadTime, parse_time

ABANDONED: Final = timedelta(days=1)
"""Nobody uploads an object for so long."""
_PAGES: Final = 100
"""Of a thousand uploads each: what is left is swept the next time."""
_LARGEST: Final = 4 << 20
"""Bytes of one page."""
_DONE: Final = (200, 204, 404)
"""404: somebody else was quicker."""


class NotSwept(Exception):
    """The server does not let its uploads be listed or ended, or does not know how; trying again changes nothing."""


@dataclass(frozen=True, slots=True)
class Upload:
    """One that has begun."""

    key: str
    """From the bucket's root."""
    id: str
    begun: datetime
    """By the server's clock."""


@dataclass(frozen=True, slots=True)
class Uploads:
    """Those below the archive's prefix."""

    settings: S3Settings
    keys: Callable[[], Keys | None]
    """Asked for each time, since files with keys are rotated; None: there are none."""
    region: str
    timeout_s: float

    async def sweep(self, now: datetime) -> int:
        """Ends the abandoned ones, and says how many. `NotSwept`; `ArchiveUnavailable`."""
        keys = self.keys()
        if keys is None:
            raise NotSwept("there are no keys but those of the client library")
        timeout = aiohttp.ClientTimeout(total=self.timeout_s)
        async with aiohttp.ClientSession(timeout=timeout, trust_env=True) as session:
            ended = 0
            for upload in await self._begun(session, keys):
                if now - upload.begun > ABANDONED:
                    path = f"{self._bucket}/{quote(upload.key, safe='/-_.~')}"
                    await self._ask(session, keys, "DELETE", path, [("uploadId", upload.id)])
                    ended += 1
            return ended

    async def _begun(self, session: aiohttp.ClientSession, keys: Keys) -> list[Upload]:
        prefix = f"{self.settings.prefix}/" if self.settings.prefix else ""
        query = [("uploads", ""), ("prefix", prefix)]
        found: list[Upload] = []
        marker: list[tuple[str, str]] = []
        for _ in range(_PAGES):
            page = _page(await self._ask(session, keys, "GET", self._bucket, [*query, *marker]))
            found += (upload for upload in page.uploads if upload.key.startswith(prefix))
            if not page.further:
                break
            marker = page.further
        return found

    @property
    def _bucket(self) -> str:
        base = self.settings.endpoint or f"https://s3.{self.region}.amazonaws.com"
        return f"{base.rstrip('/')}/{quote(self.settings.bucket, safe='-_.~')}"

    async def _ask(
        self, session: aiohttp.ClientSession, keys: Keys, method: str, url: str, query: list[tuple[str, str]]
    ) -> bytes:
        sent, headers = signed(method, url, query, keys, self.region, datetime.now(UTC))
        try:
            async with session.request(method, URL(sent, encoded=True), headers=headers) as answer:
                body = await answer.content.read(_LARGEST)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ArchiveUnavailable(
                f"{self.settings.name}: list uploads: no answer ({type(error).__name__}); see whether the server runs"
            ) from None
        if answer.status in _DONE:
            return body
        if answer.status >= 500 and answer.status != 501:
            raise ArchiveUnavailable(f"{self.settings.name}: list uploads: {answer.status}; see the server's log")
        raise NotSwept(f"{self.settings.name}: {answer.status} when uploads are listed and ended")


@dataclass(frozen=True, slots=True)
class _Page:
    uploads: list[Upload]
    further: list[tuple[str, str]]
    """Parameters of the next page; empty on the last."""


def _page(body: bytes) -> _Page:
    """Of a `ListMultipartUploadsResult`; `NotSwept` for anything else."""
    try:
        root = ElementTree.fromstring(body)  # noqa: S314 - of the archive's own server; expat bounds what it expands
        uploads = [
            Upload(_text(each, "Key"), _text(each, "UploadId"), parse_time(_text(each, "Initiated")))
            for each in root
            if _name(each) == "Upload"
        ]
    except (ElementTree.ParseError, BadTime, LookupError) as error:
        raise NotSwept(
            f"the server answers a listing of uploads with something else ({type(error).__name__})"
        ) from None
    further: list[tuple[str, str]] = []
    if any(_name(each) == "IsTruncated" and (each.text or "").strip() == "true" for each in root):
        marks = {_name(each): each.text or "" for each in root}
        further = [
            ("key-marker", marks.get("NextKeyMarker", "")),
            ("upload-id-marker", marks.get("NextUploadIdMarker", "")),
        ]
    return _Page(uploads, further if all(value for _, value in further) else [])


def _name(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _text(element: ElementTree.Element, name: str) -> str:
    """`LookupError` if it is not there."""
    found = {_name(each): each.text or "" for each in element}
    return found[name]
