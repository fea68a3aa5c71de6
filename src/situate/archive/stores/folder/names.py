"""Texts of anybody as the names of files and folders: one name for each text, and no text that leads elsewhere.

Lower-case letters, digits, `-` and `.` stand for themselves, which is all that names in Kubernetes have. Everything
else, a leading dot and capital letters are percent-escaped, so that neither case, nor Unicode's ways to write one
character, nor `..` make two texts meet. What would be too long for a file system ends in a digest of the whole.
"""

from __future__ import annotations

import hashlib
import re
import string
from typing import Final

from situate.archive.records.record import GroupKind

LONGEST: Final = 255
"""Bytes of a file's name on every file system that is in use."""
SUFFIX: Final = ".json"

_PLAIN: Final = frozenset((string.ascii_lowercase + string.digits + "-.").encode())
_PLAIN_KIND: Final = _PLAIN | frozenset(string.ascii_uppercase.encode())
_OF_THE_CLUSTER: Final = "_"
"""The folder of objects without a namespace; no text is escaped to it."""
_SHORTENED: Final = "%~"
"""Between the beginning of a long text and its digest; no text is escaped to it."""
_NAME: Final = re.compile(r"(?:[a-z0-9.-]|%[0-9A-F]{2})+", re.ASCII)
_KIND: Final = re.compile(r"(?:[a-z0-9.-]|%[0-9A-F]{2})*(?:_|%~)(?:[A-Za-z0-9.~-]|%[0-9A-F]{2}|%~)*", re.ASCII)
_DIGEST: Final = re.compile(r".+%~[0-9a-f]{40}", re.ASCII)


def kind_folder(kind: GroupKind) -> str:
    """`GROUP_KIND`, such as `batch.example.com_Report`; `_Pod` for the core group.

    Capitals of the kind stay: kinds of one group that differ only in them meet on some file systems, their UIDs do not.
    """
    return _short(f"{_escaped(kind.group, _PLAIN)}_{_escaped(kind.kind, _PLAIN_KIND)}", f"{kind.group}_{kind.kind}")


def namespace_folder(namespace: str) -> str:
    return name_folder(namespace) if namespace else _OF_THE_CLUSTER


def name_folder(name: str) -> str:
    return _short(_escaped(name, _PLAIN), name)


def record_file(uid: str) -> str:
    return _short(_escaped(uid, _PLAIN), uid, LONGEST - len(SUFFIX)) + SUFFIX


def text_of(folder: str) -> str | None:
    """The namespace or name that a folder stands for; None if its name does not tell.

    It was shortened then, or we did not make it.
    """
    if folder == _OF_THE_CLUSTER:
        return ""
    if not _NAME.fullmatch(folder):
        return None
    try:
        text = _unescaped(folder)
    except UnicodeDecodeError:
        return None
    return text if _escaped(text, _PLAIN) == folder else None


def is_text_folder(folder: str) -> bool:
    """Whether a namespace's or name's folder can be called so."""
    return text_of(folder) is not None or bool(_DIGEST.fullmatch(folder))


def is_kind_folder(folder: str) -> bool:
    """Whether a kind's folder can be called so."""
    return bool(_KIND.fullmatch(folder))


def _escaped(text: str, plain: frozenset[int]) -> str:
    """A dot is plain except in front, where it would hide the file or lead to a parent."""
    encoded = text.encode()
    return "".join(
        chr(byte) if byte in plain and not (byte == ord(".") and place == 0) else f"%{byte:02X}"
        for place, byte in enumerate(encoded)
    )


def _unescaped(name: str) -> str:
    head, *parts = name.split("%")
    encoded = head.encode() + b"".join(bytes((int(part[:2], 16),)) + part[2:].encode() for part in parts)
    return encoded.decode()


def _short(escaped: str, text: str, longest: int = LONGEST) -> str:
    if len(escaped) <= longest:
        return escaped
    tail = _SHORTENED + hashlib.sha256(text.encode()).hexdigest()[:40]
    return escaped[: longest - len(tail)] + tail
