"""Keys of records in a bucket, and the keys that may match a query: pure functions without I/O.

Records are at `GROUP_KIND/NAMESPACE/NAME/UID.json` below the archive's prefix, each part escaped as in a folder of
files. For each record, `.uids/GROUP_KIND/UID.json` contains its key, for reads by UID alone. No kind's name begins with
a dot. Therefore these objects and the probes in `.checks` never count as records.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from situate.archive.records.query import Query
from situate.archive.records.record import GroupKind, Subject
from situate.archive.stores.folder.names import kind_folder, name_folder, namespace_folder, record_file, text_of

UIDS: Final = ".uids"
CHECKS: Final = ".checks"
_MOST_LISTINGS: Final = 64
"""A listing returns 1,000 keys: for more names than this, their namespaces are listed instead."""


@dataclass(frozen=True, slots=True)
class CandidateKeys:
    """The keys that may match a query: one of the listings returns them, and `wanted` accepts them."""

    prefixes: tuple[str, ...]
    """Without overlap. The empty prefix means all kinds."""
    wanted: Callable[[str], bool]


def record_key(subject: Subject) -> str:
    return name_prefix(subject.group_kind, subject.namespace, subject.name) + "/" + record_file(subject.uid)


def name_prefix(kind: GroupKind, namespace: str, name: str) -> str:
    return "/".join((kind_folder(kind), namespace_folder(namespace), name_folder(name)))


def uid_key(kind: GroupKind, uid: str) -> str:
    return "/".join((UIDS, kind_folder(kind), record_file(uid)))


def pointer_target(content: bytes, kind: GroupKind, uid: str) -> str | None:
    """Return the record's key in a `.uids/…` object; None if it contains anything else."""
    try:
        key = content.decode("ascii")
    except UnicodeDecodeError:
        return None
    return key if is_record(key) and is_key_of_uid(key, kind, uid) else None


def is_record(key: str) -> bool:
    return key.count("/") == 3 and not key.startswith(".") and key.endswith(".json")


def is_key_of_uid(key: str, kind: GroupKind, uid: str) -> bool:
    return key.startswith(kind_folder(kind) + "/") and key.endswith("/" + record_file(uid))


def candidate_keys(query: Query) -> CandidateKeys:
    """Return the keys that may match by their text; the record itself decides the rest."""
    kind = "" if query.kind is None else kind_folder(query.kind)
    namespaces = None if query.namespaces is None else sorted({namespace_folder(each) for each in query.namespaces})
    names = None if query.names is None else sorted({name_folder(each) for each in query.names})
    file = None if query.uid is None else record_file(query.uid)

    def wanted(key: str) -> bool:
        if not is_record(key):
            return False
        _, namespace, name, uid = key.split("/")
        return (
            (namespaces is None or namespace in namespaces)
            and (names is None or name in names)
            and (file is None or uid == file)
            and _may_match_name(query, name)
        )

    prefixes: tuple[str, ...] = (kind,)
    if kind and namespaces is not None:
        prefixes = tuple(f"{kind}/{namespace}" for namespace in namespaces)
        if names is not None and len(prefixes) * len(names) <= _MOST_LISTINGS:
            prefixes = tuple(f"{prefix}/{name}" for prefix in prefixes for name in names)
    if namespaces == [] or names == []:
        prefixes = ()
    return CandidateKeys(prefixes, wanted)


def _may_match_name(query: Query, folder: str) -> bool:
    """Return whether the name may match. A shortened name may always match."""
    name = text_of(folder)
    return name is None or (query.substring in name and name.startswith(query.prefix) and name.endswith(query.suffix))
