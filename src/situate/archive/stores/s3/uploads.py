"""Abandoned multipart uploads below the archive's prefix: they are not objects, but cost storage.

situate itself makes none. Uploads of other tools, such as an interrupted copy, are aborted when they are older than
`ABANDONED`. Without the right to list or abort uploads, a lifecycle rule of the bucket must do it. The same holds
without own keys, if only the client library understands the role.
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
from situate.archive.stores.s3.signing import AccessKeys, sign_request
from situate.objects.values.timestamps import BadTime, parse_time

ABANDONED: Final = timedelta(days=1)
"""No upload of an object takes this long."""
_PAGES: Final = 100
"""Maximum pages of 1,000 uploads each; the next sweep handles the rest."""
_LARGEST: Final = 4 << 20
"""Maximum bytes of one page."""
_DONE: Final = (200, 204, 404)
"""404: another client was faster."""


class SweepUnsupported(Exception):
    """The server does not permit, or does not support, listing or aborting uploads. A retry changes nothing."""


@dataclass(frozen=True, slots=True)
class Upload:
    """An upload that has begun."""

    key: str
    """Key from the bucket's root."""
    id: str
    begun: datetime
    """By the server's clock."""


@dataclass(frozen=True, slots=True)
class Uploads:
    """The uploads below the archive's prefix."""

    settings: S3Settings
    keys: Callable[[], AccessKeys | None]
    """Called each time, because key files are rotated. None: there are no keys."""
    region: str
    timeout_s: float

    async def sweep(self, now: datetime) -> int:
        """Abort the abandoned uploads, and return their number. Raises `SweepUnsupported` and `ArchiveUnavailable`."""
        keys = self.keys()
        if keys is None:
            raise SweepUnsupported("the only keys are those of the client library")
        timeout = aiohttp.ClientTimeout(total=self.timeout_s)
        async with aiohttp.ClientSession(timeout=timeout, trust_env=True) as session:
            ended = 0
            for upload in await self._list_uploads(session, keys):
                if now - upload.begun > ABANDONED:
                    path = f"{self._bucket}/{quote(upload.key, safe='/-_.~')}"
                    await self._send_request(session, keys, "DELETE", path, [("uploadId", upload.id)])
                    ended += 1
            return ended

    async def _list_uploads(self, session: aiohttp.ClientSession, keys: AccessKeys) -> list[Upload]:
        prefix = f"{self.settings.prefix}/" if self.settings.prefix else ""
        query = [("uploads", ""), ("prefix", prefix)]
        found: list[Upload] = []
        marker: list[tuple[str, str]] = []
        for _ in range(_PAGES):
            page = _page(await self._send_request(session, keys, "GET", self._bucket, [*query, *marker]))
            found += (upload for upload in page.uploads if upload.key.startswith(prefix))
            if not page.further:
                break
            marker = page.further
        return found

    @property
    def _bucket(self) -> str:
        base = self.settings.endpoint or f"https://s3.{self.region}.amazonaws.com"
        return f"{base.rstrip('/')}/{quote(self.settings.bucket, safe='-_.~')}"

    async def _send_request(
        self, session: aiohttp.ClientSession, keys: AccessKeys, method: str, url: str, query: list[tuple[str, str]]
    ) -> bytes:
        sent, headers = sign_request(method, url, query, keys, self.region, datetime.now(UTC))
        try:
            async with session.request(method, URL(sent, encoded=True), headers=headers) as answer:
                body = await answer.content.read(_LARGEST)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ArchiveUnavailable(
                f"{self.settings.name}: list uploads: no answer ({type(error).__name__}); check that the server runs"
            ) from None
        if answer.status in _DONE:
            return body
        if answer.status >= 500 and answer.status != 501:
            raise ArchiveUnavailable(f"{self.settings.name}: list uploads: {answer.status}; see the log of the server")
        raise SweepUnsupported(f"{self.settings.name}: list and abort uploads: {answer.status}")


@dataclass(frozen=True, slots=True)
class _Page:
    uploads: list[Upload]
    further: list[tuple[str, str]]
    """Parameters of the next page; empty on the last."""


def _page(body: bytes) -> _Page:
    """Parse a `ListMultipartUploadsResult`; `SweepUnsupported` for anything else."""
    try:
        root = ElementTree.fromstring(body)  # noqa: S314 - of the archive's own server; expat bounds what it expands
        uploads = [
            Upload(_text(each, "Key"), _text(each, "UploadId"), parse_time(_text(each, "Initiated")))
            for each in root
            if _name(each) == "Upload"
        ]
    except (ElementTree.ParseError, BadTime, LookupError) as error:
        raise SweepUnsupported(f"the server's list of uploads is not readable ({type(error).__name__})") from None
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
    """Return the text of a child element. `LookupError` if it is missing."""
    found = {_name(each): each.text or "" for each in element}
    return found[name]
