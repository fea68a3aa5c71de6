"""The folders of an archive of files: open them, and read their files, without trust in their content.

Every folder is opened relative to its parent, and no link is followed. Folders that cannot match a query stay closed.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from situate.archive.records.query import Query
from situate.archive.records.record import BadRecord, Record, Subject, parse_record
from situate.archive.stores.folder.names import (
    SUFFIX,
    is_kind_folder,
    is_text_folder,
    kind_folder,
    name_folder,
    namespace_folder,
    record_file,
    text_of,
)
from situate.objects.values.timestamps import BadTime, parse_time

LARGEST: Final = 16 << 20
"""Maximum bytes of a record: eight times the limit of an API server. A larger file is not a record and is not read."""

FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FEW: Final = 100
"""Up to this many folders are opened by name; for more, the parent is listed first."""
_HEAD_BYTES: Final = 128
_HEAD: Final = re.compile(rb'\{"apiVersion":"archive\.situate\.dev/v1","archivedAt":"([0-9TZ:.-]{1,40})"')
"""The beginning of the output of `encode_record`."""
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe in a file's place must not block


@dataclass(frozen=True, slots=True)
class Leaf:
    """The folder of one name, which contains its records."""

    way: tuple[str, str, str]
    """The folders of kind, namespace and name."""
    handle: int
    """Open while the leaf is in use, as are those of its parents."""
    parents: tuple[int, int]
    """The folders of kind and namespace."""

    def where(self, file: str) -> str:
        """Return the name of one of its files for messages."""
        return "/".join((*self.way, file))


def way_of(subject: Subject) -> tuple[str, str, str]:
    """Return the folders of the subject's record, from the root."""
    return kind_folder(subject.group_kind), namespace_folder(subject.namespace), name_folder(subject.name)


def leaves(root: int, query: Query, bad: list[BadRecord]) -> Iterator[Leaf]:
    """Yield the folders whose records may match the query. Other files in place of a folder are added to `bad`."""
    kinds = None if query.kind is None else [kind_folder(query.kind)]
    namespaces = None if query.namespaces is None else sorted(set(map(namespace_folder, query.namespaces)))
    names = None if query.names is None else sorted(set(map(name_folder, query.names)))
    for kind, in_kind in _folders(root, (), kinds, is_kind_folder, bad):
        for namespace, in_namespace in _folders(in_kind, (kind,), namespaces, is_text_folder, bad):
            for name, leaf in _folders(in_namespace, (kind, namespace), names, _name_test(query), bad):
                yield Leaf((kind, namespace, name), leaf, (in_kind, in_namespace))


@contextmanager
def open_leaf(root: int, way: tuple[str, str, str]) -> Iterator[Leaf | None]:
    """Open the folder of one name; None if it no longer exists, or is not a folder."""
    with ExitStack() as stack:
        handles = [root]
        for name in way:
            try:
                handles.append(os.open(name, FOLDER, dir_fd=handles[-1]))
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.ELOOP, errno.ENOTDIR):
                    raise
                yield None
                return
            stack.callback(os.close, handles[-1])
        yield Leaf(way, handles[3], (handles[1], handles[2]))


def files_in(leaf: Leaf, query: Query) -> list[str]:
    """Return the files of records that may match the query."""
    files = _entries(leaf.handle) if query.uid is None else [record_file(query.uid)]
    return [file for file in files if file.endswith(SUFFIX) and not file.startswith(".")]


def read_archiving_time(leaf: Leaf, file: str) -> datetime | None:
    """Return the archiving time from the first bytes of a file; None if they differ from our format."""
    try:
        handle = os.open(file, _FILE, dir_fd=leaf.handle)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENXIO):
            return None
        raise
    try:
        head = _HEAD.match(os.read(handle, _HEAD_BYTES) if stat.S_ISREG(os.fstat(handle).st_mode) else b"")
        return None if head is None else parse_time(head[1].decode())
    except BadTime:
        return None
    finally:
        os.close(handle)


def records_in(leaf: Leaf, query: Query, bad: list[BadRecord]) -> Iterator[Record]:
    """Yield the records of one name. Unreadable ones are added to `bad`; files that vanish are skipped."""
    for file in files_in(leaf, query):
        try:
            record = read_record(leaf, file)
        except BadRecord as error:
            bad.append(error)
        else:
            if record is not None:
                yield record


def read_record(leaf: Leaf, file: str) -> Record | None:
    """Read a record. None if the file does not exist; `BadRecord` also if it was moved here from elsewhere."""
    found = read_file(leaf, file)
    if found is None:
        return None
    record = parse_record(found, leaf.where(file))
    if (*leaf.way, file) != (*way_of(record.subject), record_file(record.subject.uid)):
        raise BadRecord(
            leaf.where(file), "subject", f"found the record of {record.subject.key}, which has another place"
        )
    return record


def read_file(leaf: Leaf, file: str) -> bytes | None:
    """Return the bytes of a file; None if it does not exist. `BadRecord` if it is not a file, or too large."""
    try:
        handle = os.open(file, _FILE, dir_fd=leaf.handle)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise BadRecord(leaf.where(file), "", "found a link or a socket, allowed: a file") from error
        raise
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise BadRecord(leaf.where(file), "", "found no regular file, allowed: a regular file")
        if status.st_size > LARGEST:
            raise BadRecord(leaf.where(file), "", f"found {status.st_size} bytes, allowed: {LARGEST}")
        with open(handle, "rb", closefd=False) as stream:
            return stream.read(LARGEST)
    finally:
        os.close(handle)


def _name_test(query: Query) -> Callable[[str], bool]:
    """Return a test whether a name's folder may match the query. A shortened name may always match."""

    def wanted(folder: str) -> bool:
        name = text_of(folder)
        if name is None:
            return is_text_folder(folder)
        return query.substring in name and name.startswith(query.prefix) and name.endswith(query.suffix)

    return wanted


def _folders(
    parent: int,
    way: Sequence[str],
    candidates: Sequence[str] | None,
    fits: Callable[[str], bool],
    bad: list[BadRecord],
) -> Iterator[tuple[str, int]]:
    """Yield the existing candidates, open, one after the other. `candidates` None: all folders that fit."""
    if candidates is None or len(candidates) > _FEW:
        entries = _entries(parent)
        candidates = entries if candidates is None else sorted(set(candidates).intersection(entries))
    for name in candidates:
        if not fits(name):
            continue
        try:
            handle = os.open(name, FOLDER, dir_fd=parent)
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                raise
            bad.append(BadRecord("/".join((*way, name)), "", "found a link or a file, allowed: a folder"))
            continue
        try:
            yield name, handle
        finally:
            os.close(handle)


def _entries(folder: int) -> list[str]:
    """Return the entries sorted, so that equal folders give equal results."""
    return sorted(os.listdir(folder))
