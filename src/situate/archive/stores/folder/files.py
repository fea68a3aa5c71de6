"""Records as files below one folder, by blocking calls. A crash at any point leaves only whole or hidden files.

Records are at `ROOT/GROUP_KIND/NAMESPACE/NAME/UID.json`, and unfinished files are in `ROOT/.partial`. A put writes the
file there, syncs it, renames it into place, and syncs the folders. Readers therefore see a record whole or not at all.
The lock of a name's folder prevents two concurrent puts of one object. The system drops the lock when a process dies.

Only `situate.archive.stores.folder.archiver` calls this module, and it supplies the threads. System errors are not
translated here.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from situate.archive.protocol import ArchiveRefused, ArchiveTooLarge, ArchiveUnavailable, NotArchived
from situate.archive.records.query import Page, Query, page_of, position_of
from situate.archive.records.record import BadRecord, ByName, ByUid, Record, encode_record
from situate.archive.stores.folder.names import record_file
from situate.archive.stores.folder.pages import search_in_order
from situate.archive.stores.folder.tree import FOLDER, LARGEST, Leaf, leaves, read_file, records_in, way_of
from situate.archive.stores.stored_bytes import check_replaces, corrupt

_PARTIAL: Final = ".partial"
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ATTEMPTS: Final = 100
"""A delete may remove an empty folder that a put enters, and a sweep may remove a new file before it is locked.
By chance this happens five times in a row if many records come and go under one name."""
_LOCK_POLL_S: Final = 0.01


class RecordFolder:
    """The folder ROOT. It must exist: a folder created in place of a missing volume would lose records."""

    def __init__(self, root: Path, lock_s: float) -> None:
        """`lock_s`: how long a call waits for another process that writes the same name."""
        self._root = root
        self._lock_s = lock_s

    def put(self, record: Record) -> None:
        encoded = encode_record(record)
        if len(encoded) > LARGEST:
            raise ArchiveTooLarge(f"{record.subject.key}: its record has {len(encoded)} bytes, allowed: {LARGEST}")
        for _ in range(_ATTEMPTS):
            with self._open_root() as root, suppress(FileNotFoundError):
                return self._put(root, record, encoded)
        raise ArchiveUnavailable(f"{record.subject.key}: its folder vanished {_ATTEMPTS} times; retry the put")

    def get(self, key: ByUid | ByName) -> Record:
        bad: list[BadRecord] = []
        with self._open_root() as root:
            query = _query(key)
            found = [record for leaf in leaves(root, query, bad) for record in records_in(leaf, query, bad)]
        if bad and (not found or isinstance(key, ByName)):  # an unreadable record of a name may be the newest
            raise corrupt(bad[0])
        if not found:
            raise NotArchived(key)
        return min(found, key=lambda record: position_of(record).order)

    def search(self, query: Query) -> Page:
        with self._open_root() as root:
            if query.limit is not None:
                return search_in_order(root, query, query.limit)
            bad: list[BadRecord] = []
            records = (record for leaf in leaves(root, query, bad) for record in records_in(leaf, query, bad))
            return page_of(records, query, bad)

    def delete(self, key: ByUid) -> None:
        file = record_file(key.uid)
        bad: list[BadRecord] = []
        with self._open_root() as root:
            for leaf in leaves(root, _query(key), bad):
                with suppress(FileNotFoundError):
                    os.stat(file, dir_fd=leaf.handle, follow_symlinks=False)
                    with _lock_folder(leaf.handle, self._lock_s, str(key)):
                        os.unlink(file, dir_fd=leaf.handle)
                        os.fsync(leaf.handle)
                        _remove_if_empty(leaf)
                    return
        if bad:
            raise corrupt(bad[0])

    def check(self) -> None:
        """Check that a file can be written and synced. Remove the files of writers that died."""
        with self._open_root() as root, _partial_folder(root) as partial:
            _sweep(partial)
            with _new_file(partial) as (_, file):
                _write(file, b"{}")
                os.fsync(file)

    def _put(self, root: int, record: Record, encoded: bytes) -> None:
        """Store a record. `FileNotFoundError` if a folder or the new file was removed meanwhile: the caller retries."""
        file = record_file(record.subject.uid)
        with ExitStack() as stack:
            folders = [root]
            way = way_of(record.subject)
            for name in way:
                folders.append(stack.enter_context(_open_subfolder(folders[-1], name, way)))
            leaf = Leaf(way, folders[-1], (folders[1], folders[2]))
            stack.enter_context(_lock_folder(leaf.handle, self._lock_s, str(record.subject.key)))
            with suppress(BadRecord):  # an unreadable record is replaced
                stored = read_file(leaf, file)
                if stored is not None:
                    check_replaces(record, stored, leaf.where(file))
            partial = stack.enter_context(_partial_folder(root))
            with _new_file(partial) as (name, handle):
                _write(handle, encoded)
                os.fsync(handle)
                os.rename(name, file, src_dir_fd=partial, dst_dir_fd=leaf.handle)
            for folder in reversed(folders):  # old ones too: their creator may have died before syncing
                os.fsync(folder)

    @contextmanager
    def _open_root(self) -> Iterator[int]:
        """Open ROOT. ROOT itself may be a link, because the administrator configured it."""
        try:
            root = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise ArchiveUnavailable(f"folder {self._root} does not exist: mount its volume, or create it") from error
        except NotADirectoryError as error:
            raise ArchiveRefused(f"{self._root} is not a folder: name another one") from error
        try:
            yield root
        finally:
            os.close(root)


@contextmanager
def _open_subfolder(parent: int, name: str, way: tuple[str, ...]) -> Iterator[int]:
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=parent)
    try:
        handle = os.open(name, FOLDER, dir_fd=parent)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
        raise ArchiveRefused(f"{'/'.join(way)}: {name} is a link or a file, allowed: a folder; remove it") from error
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def _partial_folder(root: int) -> Iterator[int]:
    with _open_subfolder(root, _PARTIAL, (_PARTIAL,)) as handle:
        yield handle


@contextmanager
def _new_file(partial: int) -> Iterator[tuple[str, int]]:
    """A hidden file of this process alone, open and locked while its writer lives, and removed at the end."""
    name = secrets.token_hex(16)
    handle = os.open(name, _NEW, 0o600, dir_fd=partial)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield name, handle
    finally:
        os.close(handle)
        with suppress(FileNotFoundError):  # it was renamed
            os.unlink(name, dir_fd=partial)


def _write(handle: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]


def _sweep(partial: int) -> None:
    """Remove the files of dead writers. The file of a live writer is locked."""
    for name in os.listdir(partial):
        with suppress(FileNotFoundError):
            handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=partial)
            try:
                with suppress(BlockingIOError):
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(name, dir_fd=partial)
            finally:
                os.close(handle)


@contextmanager
def _lock_folder(folder: int, patience_s: float, whom: str) -> Iterator[None]:
    """Lock the folder of one name for this call; `ArchiveUnavailable` if another process holds the lock.

    A process that is stopped during a put holds the lock until it continues or is killed. Its object waits, because a
    late write of an old version over a newer one would be worse.
    """
    deadline = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError as error:
            if time.monotonic() >= deadline:
                raise ArchiveUnavailable(
                    f"{whom}: another process has been writing records of this name for {patience_s:g} s; if "
                    "that process hangs, end it"
                ) from error
            time.sleep(_LOCK_POLL_S)
    try:
        yield
    finally:
        fcntl.flock(folder, fcntl.LOCK_UN)


def _remove_if_empty(leaf: Leaf) -> None:
    """Remove the empty folders of name and namespace, so that a pruned archive does not hold millions of them."""
    for folder, parent in ((leaf.way[2], leaf.parents[1]), (leaf.way[1], leaf.parents[0])):
        try:
            os.rmdir(folder, dir_fd=parent)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
                raise
            return


def _query(key: ByUid | ByName) -> Query:
    """Return the query for the record; it opens no folder that cannot contain it."""
    if isinstance(key, ByName):
        return Query(kind=key.kind, namespaces=(key.namespace,), names=(key.name,))
    if key.place is None:
        return Query(kind=key.kind, uid=key.uid)
    namespace, name = key.place
    return Query(kind=key.kind, uid=key.uid, namespaces=(namespace,), names=(name,))
