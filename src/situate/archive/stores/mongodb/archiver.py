"""An archive in one collection of MongoDB, through `AsyncMongoClient`; the extra `mongo` installs it.

A majority and its journals acknowledge each write, and reads see the data of a majority. A record is one document. A
put replaces the whole document under a unique index on group, kind and UID, and never by an older version. The server
compares the versions, so supervisors need no coordination. `situate.archive.stores.mongodb.documents` builds documents
and filters.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import pymongo
from bson.errors import BSONError, InvalidDocument
from bson.objectid import ObjectId
from pymongo import AsyncMongoClient, IndexModel
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import (
    AutoReconnect,
    ConfigurationError,
    ConnectionFailure,
    DocumentTooLarge,
    DuplicateKeyError,
    ExecutionTimeout,
    InvalidURI,
    OperationFailure,
    PyMongoError,
    WaitQueueTimeoutError,
    WTimeoutError,
)

from situate.archive.protocol import (
    ArchiveError,
    ArchiveRefused,
    ArchiveTooLarge,
    ArchiveUnavailable,
    NotArchived,
)
from situate.archive.records.query import Page, Query, page_token, position_of
from situate.archive.records.record import BadRecord, ByName, ByUid, Record
from situate.archive.stores.mongodb.documents import (
    INDEXES,
    ORDER,
    UNIQUE,
    document_of,
    filter_of,
    identity,
    name_in,
    record_in,
    replaceable_filter,
)
from situate.archive.stores.stored_bytes import conflict_error, corrupt

DATABASE: Final = "situate"
COLLECTION: Final = "archive"

_TOO_LARGE: Final = frozenset({10334, 17419, 17420, 17280})
"""BSONObjectTooLarge, and its old numbers for updates, upserts and index keys."""
_TEMPORARY_CODES: Final = frozenset({1, 14031})
"""InternalError and OutOfDiskSpace: problems of the server itself that may pass. SecantusDB returns the first one
for a full disk."""
_ATTEMPTS: Final = 50
"""Maximum attempts of a put. Each failed attempt means that another put or delete of the same object succeeded."""
_CLOSE_S: Final = 1.0
"""Limit for ending the sessions at the server; the driver would search for an absent server for 30 s."""
_BATCH: Final = 100
"""Documents per response, each up to some megabytes."""


class MongoArchiver:
    """The archive in one collection: `mongodb://HOST/DATABASE`. The database is `situate` unless the URL names one."""

    def __init__(self, url: str, *, collection: str = COLLECTION, timeout_s: float = 10.0) -> None:
        """Create a client, which connects on first use. `ValueError` for an invalid URL, without its content."""
        own: dict[str, Any] = {} if "timeoutms=" in url.lower() else {"timeoutMS": int(timeout_s * 1000)}
        try:
            with warnings.catch_warnings():
                # The driver only warns about options that it does not know or understand, and quotes them.
                warnings.simplefilter("error", UserWarning)
                self._client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(
                    url,
                    w="majority",
                    journal=True,
                    readConcernLevel="majority",
                    readPreference="primary",
                    retryWrites=True,
                    # No second connection that waits for elections: a failed call queries the server at once anyway.
                    serverMonitoringMode="poll",
                    appname="situate",
                    **own,
                )
        except (InvalidURI, ConfigurationError, ValueError, TypeError, UserWarning) as error:
            # The driver's message may quote the URL, and with it the password.
            raise ValueError(
                f"archive URL: found no URL that the MongoDB driver accepts ({type(error).__name__}), allowed: "
                "mongodb://USER:PASSWORD@HOST:PORT/DATABASE?OPTIONS or mongodb+srv://…, with known "
                "options and percent-escaped special characters"
            ) from None
        database = self._client.get_default_database(DATABASE)
        self._records: AsyncCollection[dict[str, Any]] = database[collection]
        self._name = f"MongoDB's collection {database.name}.{collection}"
        self._laid_out = False
        self._laying_out = asyncio.Lock()

    async def put(self, record: Record) -> None:
        document = document_of(record)
        what = f"put {record.subject.key}"
        for _ in range(_ATTEMPTS):
            with self._translate_errors(what):
                await self._create_indexes()
                try:
                    await self._records.replace_one(replaceable_filter(record), document, upsert=True)
                except DuplicateKeyError:
                    if not await self._replace_older(record, document):
                        continue
                return
        raise ArchiveUnavailable(f"{self._name}: {what}: other clients changed it {_ATTEMPTS} times; retry the put")

    async def get(self, key: ByUid | ByName) -> Record:
        wanted: dict[str, Any]
        match key:
            case ByUid(kind, uid, place):
                wanted = identity(kind, uid)
                if place is not None:
                    wanted |= {"namespace": place[0], "name": place[1]}
            case ByName(kind, namespace, name):
                wanted = {"group": kind.group, "kind": kind.kind, "namespace": namespace, "name": name}
        with self._translate_errors(f"get {key}"):
            document = await self._records.find_one(wanted, sort=list(ORDER))
        if document is None:
            raise NotArchived(key)
        try:
            return record_in(document, self._where(document))
        except BadRecord as error:
            raise corrupt(error) from error

    async def search(self, query: Query) -> Page:
        records: list[Record] = []
        unreadable: list[BadRecord] = []
        with self._translate_errors("search"):
            async with self._records.find(filter_of(query), sort=list(ORDER), batch_size=_batch(query)) as found:
                async for document in found:
                    if query.limit is not None and len(records) == query.limit:
                        return Page(tuple(records), page_token(query, position_of(records[-1])), tuple(unreadable))
                    try:
                        records.append(record_in(document, self._where(document)))
                    except BadRecord as error:
                        unreadable.append(error)
        return Page(tuple(records), corrupt=tuple(unreadable))

    async def delete(self, key: ByUid) -> None:
        with self._translate_errors(f"delete {key}"):
            await self._records.delete_one(identity(key.kind, key.uid))

    async def check(self) -> None:
        with self._translate_errors("check"):
            self._laid_out = False
            await self._create_indexes()
            # Changes nothing, because no document has this id. The server refuses it to clients that may not write.
            await self._records.update_one({"_id": ObjectId()}, {"$set": {"checked": True}})

    async def close(self) -> None:
        with pymongo.timeout(_CLOSE_S):
            await self._client.close()

    async def _replace_older(self, record: Record, document: Mapping[str, Any]) -> bool:
        """Handle a conflict with the unique index: the present record is newer, was just put, or is unreadable.

        Returns False if the record is gone or has changed, so that the put starts again.
        """
        present = await self._records.find_one(identity(record.subject.group_kind, record.subject.uid))
        if present is None:
            return False
        try:
            newer = not record.replaces(record_in(present, self._where(present)))
        except BadRecord:
            newer = False  # any record may replace an unreadable one
        if newer:
            raise conflict_error(record)
        same = {"_id": present["_id"], "record": present.get("record"), "version": present.get("version")}
        done = await self._records.replace_one(same, document)
        return done.matched_count == 1

    async def _create_indexes(self) -> None:
        """Create missing indexes. Without the unique index, two concurrent first puts would make two records."""
        if self._laid_out:
            return
        if await self._missing_indexes():  # outside the lock: if the server is down, calls do not wait in turn
            async with self._laying_out:
                if missing := await self._missing_indexes():
                    await self._records.create_indexes(missing)
        self._laid_out = True

    async def _missing_indexes(self) -> list[IndexModel]:
        present = {tuple(index["key"]): index for index in (await self._records.index_information()).values()}
        unique = present.get(tuple((name, 1) for name in UNIQUE))
        if unique is not None and not unique.get("unique"):
            raise ArchiveRefused(
                f"{self._name}: its index on {', '.join(UNIQUE)} is not unique; drop it, and situate creates it again"
            )
        missing = [IndexModel(list(keys)) for keys in INDEXES if keys not in present]
        if unique is None:
            missing.append(IndexModel([(name, 1) for name in UNIQUE], unique=True))
        return missing

    def _where(self, document: Mapping[str, Any]) -> str:
        return f"{name_in(document)} in {self._name}"

    @contextmanager
    def _translate_errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except (PyMongoError, BSONError, OverflowError) as error:
            raise _failure(f"{self._name}: {what}", error) from error


def _batch(query: Query) -> int:
    return _BATCH if query.limit is None else min(query.limit + 1, _BATCH)


def _failure(where: str, error: Exception) -> ArchiveError:
    """Translate an error. Of the driver's text, only the error name and the server's short message hold no address."""
    match error:
        case DocumentTooLarge():
            return _too_large_error(where)
        case OperationFailure(code=int(code)) if code in _TOO_LARGE:
            return _too_large_error(where)
        case InvalidDocument() | BSONError() | OverflowError():
            return ArchiveRefused(f"{where}: BSON cannot represent the record: {error!s:.200}")
        case AutoReconnect() | ConnectionFailure() | ExecutionTimeout() | WTimeoutError() | WaitQueueTimeoutError():
            return ArchiveUnavailable(
                f"{where}: no answer in time ({type(error).__name__}); check that the server runs"
            )
        case OperationFailure(code=code) if code in _TEMPORARY_CODES or _is_temporary(error):
            return ArchiveUnavailable(f"{where}: {_error_text(error)}")
        case OperationFailure():
            return ArchiveRefused(
                f"{where}: {_error_text(error)}; check the permissions of the user and the log of the server"
            )
        case _ if isinstance(error, PyMongoError) and error.timeout:
            return ArchiveUnavailable(
                f"{where}: no answer in time ({type(error).__name__}); check that the server runs"
            )
        case _:
            return ArchiveRefused(f"{where}: {type(error).__name__}")


def _is_temporary(error: OperationFailure) -> bool:
    """Return whether a retry may help, as the server says: elections, shutdown, failed write concerns."""
    labels = ("RetryableWriteError", "TransientTransactionError", "RetryableError", "SystemOverloadedError")
    return any(error.has_error_label(label) for label in labels) or "writeConcernErrors" in (error.details or {})


def _error_text(error: OperationFailure) -> str:
    details = error.details or {}
    return f"{details.get('codeName') or type(error).__name__} ({error.code}): {details.get('errmsg', '')!s:.200}"


def _too_large_error(where: str) -> ArchiveTooLarge:
    return ArchiveTooLarge(f"{where}: MongoDB accepts no document above 16 MiB")
