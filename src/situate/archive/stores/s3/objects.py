"""Atomic operations on single objects of a bucket, with the client's errors translated to errors of the archive.

No upload has several parts: one request with a checksum puts a record, so that no partial upload can remain. The
client's error text is not passed on, because it quotes requests and signatures; the server's code is passed on.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Final

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    NotFoundError,
    NotSupportedError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

from situate.archive.protocol import ArchiveError, ArchiveRefused, ArchiveTooLarge, ArchiveUnavailable
from situate.archive.stores.folder.tree import LARGEST

if TYPE_CHECKING:
    from obstore import PutMode
    from obstore.store import S3Store

_CODE: Final = re.compile(r"<Code>([A-Za-z0-9]{1,60})</Code>")
_STATUS: Final = re.compile(r"status code: ([0-9]{3})")
_UNREADABLE_CREDENTIALS: Final = re.compile(r"credential provider: ValueError: ([^\n]{1,400})")
"""The error of `situate.archive.stores.s3.settings` about a credentials file."""
_ABSENT: Final = (NotFoundError, FileNotFoundError)
_TOO_LARGE: Final = ("EntityTooLarge", "KeyTooLongError", "MaxMessageLengthExceeded")
_CONFLICT_CODES: Final = ("ConditionalRequestConflict", "OperationAborted")
_TEMPORARY_STATUSES: Final = (408, 409, 425, 429)


class PutResult(Enum):
    """The result of a conditional put."""

    DONE = "done"
    REFUSED = "refused"
    """The condition did not hold, or it is unknown because of concurrent writes."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object as read."""

    body: bytes
    tag: str
    """Identifies this content for `replace`."""


class BucketObjects:
    """The objects below the archive's prefix. At most `parallel` requests run at the same time."""

    def __init__(self, store: S3Store, name: str, parallel: int) -> None:
        self.name = name
        self._store = store
        self._turns = asyncio.Semaphore(parallel)

    async def create(self, key: str, body: bytes) -> PutResult:
        """Put an object if there is none."""
        return await self._put(key, body, "create")

    async def replace(self, key: str, body: bytes, tag: str) -> PutResult:
        """Put an object if its content is still the one that the tag identifies."""
        return await self._put(key, body, {"e_tag": tag})

    async def overwrite(self, key: str, body: bytes) -> None:
        await self._put(key, body, "overwrite")

    async def read(self, key: str) -> StoredObject | None:
        """Return an object; None if there is none. The body of an object larger than any record is not read."""
        async with self._request_slot(f"get {key}"):
            try:
                found = await obstore.get_async(self._store, key)
                if found.meta["size"] > LARGEST:
                    return StoredObject(b"", found.meta["e_tag"] or "")
                return StoredObject(bytes(await found.bytes_async()), found.meta["e_tag"] or "")
            except _ABSENT as error:
                if _code(error) == "NoSuchBucket":
                    raise
                return None

    async def delete(self, keys: Sequence[str]) -> None:
        """Delete objects. Absent ones count as deleted."""
        for key in keys:
            async with self._request_slot(f"delete {key}"):
                try:
                    await obstore.delete_async(self._store, key)
                except _ABSENT as error:
                    if _code(error) == "NoSuchBucket":
                        raise

    async def keys_below(self, prefix: str) -> list[str]:
        """Return all keys below a prefix of whole parts; below the empty prefix, all keys of records' kinds."""
        if not prefix:
            async with self._request_slot("list kinds"):
                kinds = (await obstore.list_with_delimiter_async(self._store))["common_prefixes"]
            found = [await self.keys_below(kind) for kind in kinds if not kind.startswith(".")]
            return [key for keys in found for key in keys]
        async with self._request_slot(f"list {prefix}"):
            return [entry["path"] async for batch in obstore.list(self._store, prefix) for entry in batch]

    async def keys_with_times(self, prefix: str) -> list[tuple[str, datetime]]:
        """Return the keys below a prefix, and the time of each write by the server's clock."""
        async with self._request_slot(f"list {prefix}"):
            return [
                (entry["path"], entry["last_modified"])
                async for batch in obstore.list(self._store, prefix)
                for entry in batch
            ]

    async def _put(self, key: str, body: bytes, mode: PutMode) -> PutResult:
        async with self._request_slot(f"put {key}"):
            try:
                await obstore.put_async(
                    self._store,
                    key,
                    body,
                    attributes={"Content-Type": "application/json"},
                    mode=mode,
                    use_multipart=False,
                )
            except (AlreadyExistsError, PreconditionError):
                return PutResult.REFUSED
            except _ABSENT as error:
                # An object to be replaced is gone by now; without a bucket, no put is possible.
                if mode in ("create", "overwrite") or _code(error) == "NoSuchBucket":
                    raise
                return PutResult.REFUSED
            except BaseError as error:
                if mode != "overwrite" and _code(error) in _CONFLICT_CODES:
                    return PutResult.REFUSED
                raise
            return PutResult.DONE

    @asynccontextmanager
    async def _request_slot(self, what: str) -> AsyncIterator[None]:
        async with self._turns:
            try:
                yield
            except (BaseError, OSError) as error:
                raise _failure(f"{self.name}: {what}", error) from None


def _failure(where: str, error: Exception) -> ArchiveError:
    code, status = _code(error), _status(error)
    said = " ".join(filter(None, (code, f"({status})" if status else "")))
    if code in _TOO_LARGE or status == 413:
        return ArchiveTooLarge(f"{where}: {said}: the object or its key is too large for the server")
    match error:
        case UnauthenticatedError() if unread := _UNREADABLE_CREDENTIALS.search(str(error)):
            return ArchiveRefused(f"{where}: {unread[1]}")
        case PermissionDeniedError() | UnauthenticatedError():
            return ArchiveRefused(
                f"{where}: {said or 'no credentials'}; check keys, permissions and the clock of this machine"
            )
        case NotSupportedError():
            return ArchiveRefused(
                f"{where}: the server does not support conditional puts; use a server that supports them"
            )
        case NotFoundError() | FileNotFoundError():
            return ArchiveRefused(f"{where}: {said or 'not found'}; check bucket and endpoint")
        case _ if 400 <= status < 500 and status not in _TEMPORARY_STATUSES:
            return ArchiveRefused(f"{where}: {said}; check bucket, endpoint and permissions")
        case _:
            return ArchiveUnavailable(f"{where}: {said or 'no answer'}; check that the server runs and is reachable")


def _code(error: Exception) -> str:
    found = _CODE.search(str(error))
    return found[1] if found else ""


def _status(error: Exception) -> int:
    found = _STATUS.search(str(error))
    return int(found[1]) if found else 0
