"""Records in one collection of MongoDB, through `AsyncMongoClient`; the extra `mongo` installs it.

Writes are acknowledged by a majority and its journals, reads are of what a majority has. A record is one document,
replaced whole under a unique index on group, kind and UID, and never by an older version: the server compares, so that
no two supervisors need to agree. What stands in documents and filters is in `situate.archive.stores.mongodb.documents`.
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
from situate.archive.records.query import Page, Query, place_of, token
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
    replaceable,
)
from situate.archive.stores.stored_bytes import conflict, corrupt

DATABASE: Final = "situate"
COLLECTION: Final = "archive"

_TOO_LARGE: Final = frozenset({10334, 17419, 17420, 17280})
"""BSONObjectTooLarge, and its old numbers for updates, upserts and index keys."""
_TROUBLED: Final = frozenset({1, 14031})
"""InternalError, OutOfDiskSpace: the server's own trouble, which may pass. SecantusDB says the first on a full disk."""
_ATTEMPTS: Final = 50
"""Each that fails means that another put of the same object was done, or a delete."""
_FAREWELL_S: Final = 1.0
"""For telling the server which sessions end; the driver would look for one that is down for half a minute."""
_BATCH: Final = 100
"""Documents of one answer, each up to some megabytes."""


class MongoArchiver:
    """One collection: `mongodb://HOST/DATABASE`, where the database is `situate` unless the URL names one."""

    def __init__(self, url: str, *, collection: str = COLLECTION, timeout_s: float = 10.0) -> None:
        """Connects when it is first used. `ValueError` for a URL that is none, without what it holds."""
        own: dict[str, Any] = {} if "timeoutms=" in url.lower() else {"timeoutMS": int(timeout_s * 1000)}
        try:
            with warnings.catch_warnings():
                # Of options that it does not know or understand the driver only warns, and quotes them.
                warnings.simplefilter("error", UserWarning)
                self._client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(
                    url,
                    w="majority",
                    journal=True,
                    readConcernLevel="majority",
                    readPreference="primary",
                    retryWrites=True,
                    # A second connection that waits for news of elections: a call that fails asks at once anyway.
                    serverMonitoringMode="poll",
                    appname="situate",
                    **own,
                )
        except (InvalidURI, ConfigurationError, ValueError, TypeError, UserWarning) as error:
            # What the driver says may quote the URL, and with it the password.
            raise ValueError(
                f"archive URL: no URL that MongoDB's driver accepts ({type(error).__name__}), allowed: "
                "mongodb://USER:PASSWORD@HOST:PORT/DATABASE?OPTIONS or mongodb+srv://…, with options that it knows "
                "and what is special in the others percent-escaped"
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
            with self._failures(what):
                await self._lay_out()
                try:
                    await self._records.replace_one(replaceable(record), document, upsert=True)
                except DuplicateKeyError:
                    if not await self._replace_older(record, document):
                        continue
                return
        raise ArchiveUnavailable(f"{self._name}: {what}: others wrote it {_ATTEMPTS} times meanwhile; put it again")

    async def get(self, key: ByUid | ByName) -> Record:
        wanted: dict[str, Any]
        match key:
            case ByUid(kind, uid, place):
                wanted = identity(kind, uid)
                if place is not None:
                    wanted |= {"namespace": place[0], "name": place[1]}
            case ByName(kind, namespace, name):
                wanted = {"group": kind.group, "kind": kind.kind, "namespace": namespace, "name": name}
        with self._failures(f"get {key}"):
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
        with self._failures("search"):
            async with self._records.find(filter_of(query), sort=list(ORDER), batch_size=_batch(query)) as found:
                async for document in found:
                    if query.limit is not None and len(records) == query.limit:
                        return Page(tuple(records), token(query, place_of(records[-1])), tuple(unreadable))
                    try:
                        records.append(record_in(document, self._where(document)))
                    except BadRecord as error:
                        unreadable.append(error)
        return Page(tuple(records), corrupt=tuple(unreadable))

    async def delete(self, key: ByUid) -> None:
        with self._failures(f"delete {key}"):
            await self._records.delete_one(identity(key.kind, key.uid))

    async def check(self) -> None:
        with self._failures("check"):
            self._laid_out = False
            await self._lay_out()
            # Changes nothing, since no document has this id, and is refused to whoever may not write.
            await self._records.update_one({"_id": ObjectId()}, {"$set": {"checked": True}})

    async def close(self) -> None:
        with pymongo.timeout(_FAREWELL_S):
            await self._client.close()

    async def _replace_older(self, record: Record, document: Mapping[str, Any]) -> bool:
        """The unique index stood in the way: the record that is there is newer, was put just now, or cannot be read.

        False if it is gone or has changed, and the put begins anew.
        """
        present = await self._records.find_one(identity(record.subject.group_kind, record.subject.uid))
        if present is None:
            return False
        try:
            newer = not record.replaces(record_in(present, self._where(present)))
        except BadRecord:
            newer = False  # what cannot be read is worth less than any record
        if newer:
            raise conflict(record)
        same = {"_id": present["_id"], "record": present.get("record"), "version": present.get("version")}
        done = await self._records.replace_one(same, document)
        return done.matched_count == 1

    async def _lay_out(self) -> None:
        """Without the unique index two first puts at once would make two records."""
        if self._laid_out:
            return
        if await self._missing_indexes():  # asked outside of the lock: where nobody answers, no call waits for another
            async with self._laying_out:
                if missing := await self._missing_indexes():
                    await self._records.create_indexes(missing)
        self._laid_out = True

    async def _missing_indexes(self) -> list[IndexModel]:
        present = {tuple(index["key"]): index for index in (await self._records.index_information()).values()}
        unique = present.get(tuple((name, 1) for name in UNIQUE))
        if unique is not None and not unique.get("unique"):
            raise ArchiveRefused(
                f"{self._name}: its index on {', '.join(UNIQUE)} is not unique; drop it, and it is made anew"
            )
        missing = [IndexModel(list(keys)) for keys in INDEXES if keys not in present]
        if unique is None:
            missing.append(IndexModel([(name, 1) for name in UNIQUE], unique=True))
        return missing

    def _where(self, document: Mapping[str, Any]) -> str:
        return f"{name_in(document)} in {self._name}"

    @contextmanager
    def _failures(self, what: str) -> Iterator[None]:
        try:
            yield
        except (PyMongoError, BSONError, OverflowError) as error:
            raise _failure(f"{self._name}: {what}", error) from error


def _batch(query: Query) -> int:
    return _BATCH if query.limit is None else min(query.limit + 1, _BATCH)


def _failure(where: str, error: Exception) -> ArchiveError:
    """Of the driver's own words only the name of the error and the server's short message: they hold no address."""
    match error:
        case DocumentTooLarge():
            return _too_large(where)
        case OperationFailure(code=int(code)) if code in _TOO_LARGE:
            return _too_large(where)
        case InvalidDocument() | BSONError() | OverflowError():
            return ArchiveRefused(f"{where}: BSON cannot say it: {error!s:.200}")
        case AutoReconnect() | ConnectionFailure() | ExecutionTimeout() | WTimeoutError() | WaitQueueTimeoutError():
            return ArchiveUnavailable(f"{where}: no answer in time ({type(error).__name__}); see whether it runs")
        case OperationFailure(code=code) if code in _TROUBLED or _passes(error):
            return ArchiveUnavailable(f"{where}: {_said(error)}")
        case OperationFailure():
            return ArchiveRefused(f"{where}: {_said(error)}; see the rights of its user and the server's log")
        case _ if isinstance(error, PyMongoError) and error.timeout:
            return ArchiveUnavailable(f"{where}: no answer in time ({type(error).__name__}); see whether it runs")
        case _:
            return ArchiveRefused(f"{where}: {type(error).__name__}")


def _passes(error: OperationFailure) -> bool:
    """Elections, shutting down, and write concerns that failed: the server says that trying again may help."""
    labels = ("RetryableWriteError", "TransientTransactionError", "RetryableError", "SystemOverloadedError")
    return any(error.has_error_label(label) for label in labels) or "writeConcernErrors" in (error.details or {})


def _said(error: OperationFailure) -> str:
    details = error.details or {}
    return f"{details.get('codeName') or type(error).__name__} ({error.code}): {details.get('errmsg', '')!s:.200}"


def _too_large(where: str) -> ArchiveTooLarge:
    return ArchiveTooLarge(f"{where}: MongoDB takes no document of more than 16 MiB")
