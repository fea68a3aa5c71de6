"""Persist the store in one append-only file of changes, so that a killed process loses no acknowledged write.

The journal writes each change before the request is answered and before watchers are notified. So every answered write
survives `kill -9`. The file is synced once a second (`sync`), so a power failure can lose the last second.

The file begins with its format. Records are length, CRC-32 and MessagePack. A torn record at the end, left by a crash,
is cut off. Damage anywhere else is an error, never a silent loss.

Compaction drops history: it writes the present state to a second file, which then replaces the first. A thread writes
the snapshot, because objects never change. Changes made meanwhile are appended to it.
"""

from __future__ import annotations

import fcntl
import os
import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final, Protocol, TypeVar

import msgspec

from situate.cluster.storage.store import Event, Store
from situate.cluster.storage.stored_object import (
    ManagedFieldsEntry,
    StoredObject,
    share_fields,
    share_labels,
    share_tail,
)

_MAGIC: Final = b"situate-journal 2\n"
_RECORD_HEADER: Final = struct.Struct("<II")
_NAME: Final = "cluster.journal"
_MIN_COMPACT_BYTES: Final = 64 << 20
"""Bytes; a smaller journal is not rewritten while the server runs."""
_MAX_FINAL_WRITE_BYTES: Final = 256 << 10
"""Largest number of bytes of changes that are written while requests wait, before the new file replaces the old one."""
_BATCH: Final = 200
"""Number of records in one write."""


T = TypeVar("T")


class RunInThread(Protocol):
    """Runner of a function in another thread."""

    async def __call__(self, work: Callable[[], T], /) -> T: ...


class UnusableDirectory(Exception):
    """The data directory cannot be used. The text gives the reason and the remedy."""


class _Change(msgspec.Struct, array_like=True):
    """One record: an object's new version, or None for its removal."""

    table: str
    key: str
    revision: int
    new: StoredObject | None


_encode: Final = msgspec.msgpack.Encoder().encode
_decoder: Final = msgspec.msgpack.Decoder(_Change)


class Journal:
    """The file of one data directory, and the lock on it."""

    def __init__(self, directory: Path) -> None:
        """Lock the directory; create it if needed. Raises `UnusableDirectory`."""
        self._path = directory / _NAME
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise UnusableDirectory(
                f"--data {directory}: {error.strerror}; name a directory that can be written"
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise UnusableDirectory(
                f"--data {directory} is in use by another server; stop that server or name another directory"
            ) from error
        self.on_failure: Callable[[UnusableDirectory], None] = lambda _: None
        """Called if a change could not be written. The server must then stop."""
        self._file = -1
        self._size = 0
        self._base = 0
        self._store: Store | None = None
        self._meanwhile: list[bytes] | None = None
        """Records since the start of a compaction; None if none is running."""
        self._abandoned = threading.Event()
        self._broken: UnusableDirectory | None = None

    def load(self, window: int = 10_000) -> Store:
        """Return the store after its last written change. From now on every change of the store is recorded."""
        store = Store(window=window)
        for change in self._read_records():
            if change.new is None:
                store.restore_deletion(change.table, change.key, change.revision)
            else:
                store.restore(change.table, _share_parts(change.new))
        # Revisions from before a restart are not available, like those of a real API server's watch cache.
        store.revision += 1
        store.compact(pages=True)
        self._store = store
        try:
            file, size = self._write_snapshot(_objects_by_table(store), store.revision)
        except OSError as error:
            raise self._write_error(error) from error
        self._switch_file(file, size)
        store.subscribe(self._record)
        return store

    def sync(self) -> None:
        """Flush all written data to the disk. May be called from another thread."""
        try:
            os.fsync(self._file)
        except OSError as error:
            raise self._write_error(error) from error

    @property
    def wants_compaction(self) -> bool:
        """True if most of the file is history."""
        return self._size > max(_MIN_COMPACT_BYTES, 2 * self._base)

    async def compact(self, aside: RunInThread) -> str:
        """Replace the history by the present state while changes continue.

        `aside` runs a function in another thread. Return the reason if it failed, for example a full disk; the old file
        then stays.
        """
        assert self._store is not None
        self._meanwhile = []
        self._abandoned.clear()
        file = -1
        try:
            objects, revision = _objects_by_table(self._store), self._store.revision
            file, size = await aside(lambda: self._write_snapshot(objects, revision))
            while sum(map(len, self._meanwhile)) > _MAX_FINAL_WRITE_BYTES and not self._abandoned.is_set():
                some, self._meanwhile = b"".join(self._meanwhile), []
                size += await aside(partial(_write, file, some))
            if self._abandoned.is_set():
                return "the server stops"
            size += _write(file, b"".join(self._meanwhile))
            old, file = self._switch_file(file, size), -1
            await aside(partial(os.close, old))
        except OSError as error:
            self._base = self._size  # wait for the same growth before the next attempt
            return error.strerror or str(error)
        finally:
            self._meanwhile = None
            if file >= 0:
                os.close(file)
                self._new_path.unlink(missing_ok=True)
        return ""

    def abandon(self) -> None:
        """Make a running compaction end soon, without effect."""
        self._abandoned.set()

    def close(self) -> None:
        """Release the directory."""
        if self._file >= 0:
            if self._broken is None:
                self.sync()
            os.close(self._file)
            self._file = -1
        os.close(self._lock)

    def _record(self, event: Event) -> None:
        if self._broken is not None:
            # Records after a torn record would be lost with it.
            raise self._broken
        record = _frame_record(_Change(event.resource, event.last.key, event.revision, event.new))
        try:
            self._size += _write(self._file, record)
        except OSError as error:
            # Memory is now ahead of the disk, so no more requests may be answered from it.
            self._broken = self._write_error(error)
            self.on_failure(self._broken)
            raise self._broken from error
        if self._meanwhile is not None:
            self._meanwhile.append(record)

    def _write_error(self, error: OSError) -> UnusableDirectory:
        return UnusableDirectory(f"{self._path} cannot be written: {error.strerror}; free disk space and start again")

    @property
    def _new_path(self) -> Path:
        return self._path.with_suffix(".new")

    def _read_records(self) -> Iterator[_Change]:
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return
        if not data:
            return
        if not data.startswith(_MAGIC):
            found = data[:40].split(b"\n")[0].decode(errors="replace")
            raise UnusableDirectory(
                f"{self._path} begins with {found!r}, allowed: {_MAGIC.decode().strip()!r}; the file is no journal of "
                "this version, so start with an empty directory"
            )
        at = len(_MAGIC)
        while at + _RECORD_HEADER.size <= len(data):
            size, crc = _RECORD_HEADER.unpack_from(data, at)
            end = at + _RECORD_HEADER.size + size
            payload = data[at + _RECORD_HEADER.size : end]
            whole = end <= len(data) and zlib.crc32(payload) == crc
            if not whole and end < len(data):
                raise UnusableDirectory(
                    f"{self._path} is damaged at byte {at} of {len(data)}; restore it from a copy, or start with an "
                    "empty directory"
                )
            if not whole:
                return
            yield _decoder.decode(payload)
            at = end

    def _write_snapshot(self, objects: list[tuple[str, list[StoredObject]]], revision: int) -> tuple[int, int]:
        """Write a new file with these objects, flush it to the disk, and return it with its size.

        Raises `OSError` and then leaves no file.
        """
        file = os.open(self._new_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            size = _write(file, _MAGIC)
            records = (
                _frame_record(_Change(table, stored.key, stored.revision, stored))
                for table, stored_objects in objects
                for stored in stored_objects
            )
            while batch := b"".join(islice(records, _BATCH)):
                if self._abandoned.is_set():
                    break
                size += _write(file, batch)
            # The removal of an object with an empty key stores the counter, which may be ahead of every object.
            size += _write(file, _frame_record(_Change("", "", revision, None)))
            os.fsync(file)
        except OSError:
            os.close(file)
            self._new_path.unlink(missing_ok=True)
            raise
        return file, size

    def _switch_file(self, file: int, size: int) -> int:
        """Switch to the new file. Return the old one; the caller closes it, which can take long."""
        os.replace(self._new_path, self._path)
        directory = os.open(self._path.parent, os.O_RDONLY)
        os.fsync(directory)
        os.close(directory)
        old, self._file = self._file, file
        self._size = self._base = size
        return old


def _objects_by_table(store: Store) -> list[tuple[str, list[StoredObject]]]:
    """Return the objects by table, unsorted, because sorting this many would delay requests."""
    return [(table.resource, list(table.objects.values())) for table in store.tables()]


def _frame_record(change: _Change) -> bytes:
    payload = _encode(change)
    return _RECORD_HEADER.pack(len(payload), zlib.crc32(payload)) + payload


def _write(file: int, data: bytes) -> int:
    """Write all data.

    After a short write, as on a nearly full disk, continue until the data is written or a write fails.
    """
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
    return len(data)


def _share_parts(stored: StoredObject) -> StoredObject:
    """Make a loaded object share its parts with equal objects again."""
    managed = tuple(
        ManagedFieldsEntry(e.manager, e.operation, e.api_version, e.time, e.subresource, share_fields(e.fields))
        for e in stored.managed
    )
    labels, tail = share_labels(stored.labels), share_tail(stored.tail)
    return msgspec.structs.replace(stored, managed=managed, labels=labels, tail=tail)
