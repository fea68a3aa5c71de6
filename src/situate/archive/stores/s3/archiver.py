"""An archive in a bucket of any S3-compatible server, through obstore; the extra `s3` installs it.

A record is one object at `PREFIX/GROUP_KIND/NAMESPACE/NAME/UID.json`. Puts are conditional: they create an object only
if there is none, and replace only the version that was read. Two supervisors therefore cannot undo each other's puts.
`check` refuses a server without conditional puts.

A small object at `PREFIX/.uids/…` leads from a UID to its record. It is written before the record. If a put dies
between the two writes, it points to no record, which a read detects. If it is missing, as after a copy of records by
hand, keys are listed, 1,000 at a time. A search reads every record whose key may match. For frequent searches by other
fields than namespace, name and UID, use the SQL archive.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from situate.archive.concurrent_calls import gather_calls
from situate.archive.protocol import ArchiveRefused, ArchiveTooLarge, ArchiveUnavailable, NotArchived
from situate.archive.records.query import Page, Query, matches, page_of, position_of
from situate.archive.records.record import BadRecord, ByName, ByUid, Record, encode_record, parse_record
from situate.archive.stores.folder.names import kind_folder, record_file
from situate.archive.stores.folder.tree import LARGEST
from situate.archive.stores.s3.keys import (
    CHECKS,
    candidate_keys,
    is_key_of_uid,
    is_record,
    name_prefix,
    pointer_target,
    record_key,
    uid_key,
)
from situate.archive.stores.s3.objects import BucketObjects, PutResult, StoredObject
from situate.archive.stores.s3.settings import S3Settings, keys_for, region_of, settings_of, store_of
from situate.archive.stores.s3.uploads import SweepUnsupported, Uploads
from situate.archive.stores.stored_bytes import check_replaces, corrupt

_ATTEMPTS: Final = 50
"""Maximum attempts of a put. Each failed attempt means that another put or delete of the same object succeeded."""
_CHUNK: Final = 256
"""Records that are read before those beyond the page are dropped."""
_PROBES_STAY: Final = timedelta(hours=1)


class S3Archiver:
    """A bucket, or the part of it below a prefix. At most `parallel` requests run at the same time."""

    def __init__(
        self,
        settings: S3Settings,
        *,
        timeout_s: float = 10.0,
        parallel: int = 16,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._objects = BucketObjects(store_of(settings, timeout_s), settings.name, parallel)
        self._uploads = Uploads(settings, keys_for(settings, environment), region_of(settings, environment), timeout_s)

    @classmethod
    def from_url(cls, url: str, environment: Mapping[str, str] = os.environ) -> S3Archiver:
        """Make an archiver from a URL, as documented in `situate.archive.stores.s3.settings`. Raises `ValueError`."""
        return cls(settings_of(url, environment), environment=environment)

    async def put(self, record: Record) -> None:
        body = encode_record(record)
        if len(body) > LARGEST:
            raise ArchiveTooLarge(f"{record.subject.key}: its record has {len(body)} bytes, allowed: {LARGEST}")
        key = record_key(record.subject)
        for _ in range(_ATTEMPTS):
            former = await self._claim_pointer(record, key)
            if former is not None and (stored := await self._objects.read(former)) is not None:
                check_replaces(record, stored.body, self._where(former))
            if await self._put_record(record, key, body) is PutResult.DONE:
                if former is not None:
                    await self._objects.delete((former,))
                    await self._objects.overwrite(self._pointer(record), key.encode())
                return
        raise ArchiveUnavailable(
            f"{self._objects.name}: put {record.subject.key}: other clients changed it {_ATTEMPTS} times; retry the put"
        )

    async def get(self, key: ByUid | ByName) -> Record:
        if isinstance(key, ByUid):
            found = await self._find(key)
            if found is None:
                raise NotArchived(key)
            return self._read_back(*found)
        keys = await self._objects.keys_below(name_prefix(key.kind, key.namespace, key.name))
        records = [self._read_back(*each) for each in await self._read_all(filter(is_record, keys))]
        if not records:
            raise NotArchived(key)
        return min(records, key=lambda record: position_of(record).order)

    async def search(self, query: Query) -> Page:
        kept: list[Record] = []
        bad: list[BadRecord] = []
        after = None if query.after is None else query.after.order
        keys = await self._candidates(query)
        for start in range(0, len(keys), _CHUNK):
            for key, stored in await self._read_all(keys[start : start + _CHUNK]):
                try:
                    record = self._parse_record(key, stored)
                except BadRecord as error:
                    bad.append(error)
                    continue
                if matches(record, query) and (after is None or position_of(record).order > after):
                    kept.append(record)
            if query.limit is not None:
                kept = sorted(kept, key=lambda record: position_of(record).order)[: query.limit + 1]
        return page_of(kept, query, bad)

    async def delete(self, key: ByUid) -> None:
        """Delete the record first. A leftover pointer is harmless, and a record without one is found by listing."""
        found = await self._find(ByUid(key.kind, key.uid))
        if found is not None:
            await self._objects.delete((found[0],))
        await self._objects.delete((uid_key(key.kind, key.uid),))

    async def check(self) -> None:
        """Put a probe, and check that the server respects conditions.

        Also deletes leftover probes, and abandoned uploads below the prefix if the server permits it.
        """
        probe = f"{CHECKS}/{uuid.uuid4().hex}.json"
        problem = await self._unsuitable_reason(probe)
        await self._objects.delete((probe,))
        if problem:
            raise ArchiveRefused(
                f"{self._objects.name}: {problem}; the archive needs conditional puts: use a server that supports them"
            )
        now = datetime.now(UTC)
        long_ago = now - _PROBES_STAY
        await self._objects.delete(
            [key for key, written in await self._objects.keys_with_times(CHECKS) if written < long_ago]
        )
        with contextlib.suppress(SweepUnsupported):  # then a lifecycle rule of the bucket removes them
            await self._uploads.sweep(now)

    async def close(self) -> None:
        """Do nothing: the client closes idle connections."""

    async def _put_record(self, record: Record, key: str, body: bytes) -> PutResult:
        """Create the record, or read the present one and replace exactly that."""
        if await self._objects.create(key, body) is PutResult.DONE:
            return PutResult.DONE
        stored = await self._objects.read(key)
        if stored is None:
            return PutResult.REFUSED
        if stored.body == body:
            return PutResult.DONE
        check_replaces(record, stored.body, self._where(key))
        return await self._objects.replace(key, body, stored.tag)

    async def _claim_pointer(self, record: Record, key: str) -> str | None:
        """Point the UID to this key. Return another key if the UID points to a record there, which must be deleted.

        In Kubernetes no object changes its name, but a store must guarantee one record per UID in any case.
        """
        kind, uid = record.subject.group_kind, record.subject.uid
        pointer = self._pointer(record)
        if await self._objects.create(pointer, key.encode()) is PutResult.DONE:
            return None
        stored = await self._objects.read(pointer)
        former = None if stored is None else pointer_target(stored.body, kind, uid)
        if former == key:
            return None
        if former is None:
            await self._objects.overwrite(pointer, key.encode())
        return former

    async def _find(self, key: ByUid) -> tuple[str, StoredObject] | None:
        file = record_file(key.uid)
        if key.place is not None:
            known = f"{name_prefix(key.kind, *key.place)}/{file}"
            stored = await self._objects.read(known)
            return None if stored is None else (known, stored)
        pointer = await self._objects.read(uid_key(key.kind, key.uid))
        led = None if pointer is None else pointer_target(pointer.body, key.kind, key.uid)
        if led is not None and (stored := await self._objects.read(led)) is not None:
            return led, stored
        keys = await self._objects.keys_below(kind_folder(key.kind))
        found = await self._read_all(
            each for each in keys if is_record(each) and is_key_of_uid(each, key.kind, key.uid)
        )
        return found[0] if found else None

    async def _unsuitable_reason(self, probe: str) -> str:
        """Return why the server is unsuitable; empty if it is suitable."""
        if await self._objects.create(probe, b"1") is not PutResult.DONE:
            return "the server reports a new object as already present"
        stored = await self._objects.read(probe)
        if stored is None or stored.body != b"1":
            return "a read returns other content than was put"
        if await self._objects.create(probe, b"2") is PutResult.DONE:
            return "a put with If-None-Match replaces an existing object"
        if await self._objects.replace(probe, b"3", '"other"') is PutResult.DONE:
            return "a put with If-Match replaces an object with another tag"
        if await self._objects.replace(probe, b"4", stored.tag) is not PutResult.DONE:
            return "a put with If-Match does not replace the object with this tag"
        return ""

    async def _candidates(self, query: Query) -> list[str]:
        which = candidate_keys(query)
        listings = await gather_calls(self._objects.keys_below(prefix) for prefix in which.prefixes)
        return sorted(key for keys in listings for key in keys if which.wanted(key))

    async def _read_all(self, keys: Iterable[str]) -> list[tuple[str, StoredObject]]:
        """Read the objects, in the order of the keys. Objects that are deleted meanwhile are skipped."""
        keys = list(keys)
        found = await gather_calls(self._objects.read(key) for key in keys)
        return [(key, stored) for key, stored in zip(keys, found, strict=True) if stored is not None]

    def _read_back(self, key: str, stored: StoredObject) -> Record:
        try:
            return self._parse_record(key, stored)
        except BadRecord as error:
            raise corrupt(error) from error

    def _parse_record(self, key: str, stored: StoredObject) -> Record:
        """Parse a record. A record under a foreign key is a copy by hand, and would be a second one of its UID."""
        record = parse_record(stored.body, self._where(key))
        if record_key(record.subject) != key:
            raise BadRecord(self._where(key), "", f"found the record of {record.subject.key}, which has another key")
        return record

    def _pointer(self, record: Record) -> str:
        return uid_key(record.subject.group_kind, record.subject.uid)

    def _where(self, key: str) -> str:
        return f"{self._objects.name}/{key}"
