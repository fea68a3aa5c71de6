"""Archivers that wrap another archiver: one forwards each call, one fails calls as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

from situate.archive.protocol import (
    ArchiveCorrupt,
    Archiver,
    ArchiveRefused,
    ArchiveTooLarge,
    ArchiveUnavailable,
    NotArchived,
)
from situate.archive.records.query import Page, Query
from situate.archive.records.record import ByName, ByUid, Record


class Fault(Enum):
    """A way in which a call fails."""

    ERROR = "the call is not executed, and may be retried"
    LOST = "the call is executed, and its answer is lost"
    HANG = "the call is not executed, and never ends"
    REFUSED = "the call is refused, also when it is retried"
    TOO_LARGE = "the record is too large"
    MISSING = "the record does not exist"
    CORRUPT = "the record cannot be read"
    OTHER = "the record differs from the stored one"


PUT_FAULTS = (Fault.ERROR, Fault.LOST, Fault.REFUSED, Fault.TOO_LARGE)
"""Faults that a put can have and that return."""
GET_FAULTS = (Fault.ERROR, Fault.LOST, Fault.REFUSED, Fault.MISSING, Fault.CORRUPT)
"""Faults that a get can have and that return."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call to an archiver."""

    method: str
    """`put`, `get`, `search`, `delete` or `check`."""
    uid: str = ""
    """UID of the record. Empty if the call did not name the record by UID."""
    resource_version: str = ""
    """Resource version of the record of a put. Empty for other calls."""
    fault: Fault | None = None


class ForwardingArchiver:
    """Forwards every call. A base for archivers that change some calls."""

    def __init__(self, archiver: Archiver) -> None:
        self._archiver = archiver

    async def put(self, record: Record) -> None:
        await self._archiver.put(record)

    async def get(self, key: ByUid | ByName) -> Record:
        return await self._archiver.get(key)

    async def search(self, query: Query) -> Page:
        return await self._archiver.search(query)

    async def delete(self, key: ByUid) -> None:
        await self._archiver.delete(key)

    async def check(self) -> None:
        await self._archiver.check()

    async def close(self) -> None:
        await self._archiver.close()


class FaultyArchiver(ForwardingArchiver):
    """Calls `fault` with each call and its number before the call is made. The result None lets the call pass."""

    def __init__(self, archiver: Archiver, fault: Callable[[Call, int], Fault | None]) -> None:
        super().__init__(archiver)
        self._fault = fault
        self.calls: list[Call] = []

    async def put(self, record: Record) -> None:
        call = await self._begin_call(Call("put", record.subject.uid, record.subject.resource_version))
        if call.fault is Fault.TOO_LARGE:
            raise ArchiveTooLarge(f"{record.subject.key}: injected fault: the record is too large")
        await self._archiver.put(record)
        self._end_call(call)

    async def get(self, key: ByUid | ByName) -> Record:
        call = await self._begin_call(Call("get", key.uid if isinstance(key, ByUid) else ""))
        if call.fault is Fault.MISSING:
            raise NotArchived(key)
        if call.fault is Fault.CORRUPT:
            raise ArchiveCorrupt(str(key), "digest", "injected fault: the digest differs")
        record = await self._archiver.get(key)
        self._end_call(call)
        return replace(record, digest="sha256:0") if call.fault is Fault.OTHER else record

    async def search(self, query: Query) -> Page:
        call = await self._begin_call(Call("search", query.uid or ""))
        page = await self._archiver.search(query)
        self._end_call(call)
        return page

    async def delete(self, key: ByUid) -> None:
        call = await self._begin_call(Call("delete", key.uid))
        await self._archiver.delete(key)
        self._end_call(call)

    async def check(self) -> None:
        call = await self._begin_call(Call("check"))
        await self._archiver.check()
        self._end_call(call)

    async def _begin_call(self, call: Call) -> Call:
        fault = self._fault(call, len(self.calls) + 1)
        call = Call(call.method, call.uid, call.resource_version, fault)
        self.calls.append(call)
        if fault is Fault.ERROR:
            raise ArchiveUnavailable(f"injected fault: the archive is unavailable for {call.method}; retry the call")
        if fault is Fault.REFUSED:
            raise ArchiveRefused(f"injected fault: the archive refuses {call.method}")
        if fault is Fault.HANG:
            await asyncio.get_running_loop().create_future()
        return call

    def _end_call(self, call: Call) -> None:
        if call.fault is Fault.LOST:
            raise ArchiveUnavailable(f"injected fault: the answer to {call.method} is lost; retry the call")
