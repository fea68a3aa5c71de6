"""An archive of files: `situate.archive.stores.folder.files` in threads, with system errors translated to errors of
the archive.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from situate.archive.protocol import ArchiveRefused, ArchiveTooLarge, ArchiveUnavailable
from situate.archive.records.query import Page, Query
from situate.archive.records.record import ByName, ByUid, Record
from situate.archive.stores.folder.files import RecordFolder

A = TypeVar("A")
T = TypeVar("T")

_THREADS: Final = 8
"""As many threads as the supervisor archives at once (`--archive-concurrency`). They are the archive's own, so
that a hanging disk blocks nothing else."""

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_REFUSED: Final = {
    errno.EACCES: "grant this process read and write access",
    errno.EPERM: "grant this process read and write access",
    errno.EROFS: "mount the volume read-write",
    errno.EISDIR: "a folder is in the place of a file; remove the folder",
    errno.ENOTDIR: "a file is in the place of a folder; remove the file",
    errno.ENAMETOOLONG: "use a file system that allows names of 255 bytes",
}


class FilesystemArchiver:
    """Files below `root`, which must exist. The constructor does not touch it; `check` says whether it can be used.

    The file system needs rename, fsync and flock as in POSIX, as local file systems and NFS 4 have them.
    """

    def __init__(self, root: Path, *, lock_s: float = 5.0) -> None:
        """`lock_s`: how long a call waits for another process that writes records of the same name."""
        self._root = root
        self._folder = RecordFolder(root, lock_s)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="archive")
        self._swept = False

    def __repr__(self) -> str:
        return f"FilesystemArchiver({str(self._root)!r})"

    async def put(self, record: Record) -> None:
        if not self._swept:
            await self.check()
        await self._call(self._folder.put, record)

    async def get(self, key: ByUid | ByName) -> Record:
        return await self._call(self._folder.get, key)

    async def search(self, query: Query) -> Page:
        return await self._call(self._folder.search, query)

    async def delete(self, key: ByUid) -> None:
        await self._call(self._folder.delete, key)

    async def check(self) -> None:
        await self._call(lambda _: self._folder.check(), None)
        self._swept = True

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _call(self, function: Callable[[A], T], argument: A) -> T:
        """Run a call in a thread. A cancelled call continues to its end, which is a whole record or none."""
        with _translate_errors(self._root):
            return await asyncio.get_running_loop().run_in_executor(self._threads, function, argument)


@contextmanager
def _translate_errors(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        what = f"the archive in {root}: {error.strerror or error}"
        if error.errno in _FULL:
            raise ArchiveUnavailable(f"{what}; free some space there") from error
        if error.errno == errno.EFBIG:
            raise ArchiveTooLarge(f"{what}; raise the limit of a file's size") from error
        if error.errno in _REFUSED:
            raise ArchiveRefused(f"{what}; {_REFUSED[error.errno]}") from error
        raise ArchiveUnavailable(f"{what}; a retry may succeed") from error
