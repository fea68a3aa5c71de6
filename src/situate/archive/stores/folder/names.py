"""Safe file and folder names for any text: one name for each text, and no name that leads outside its folder.

Lower-case letters, digits, `-` and `.` stay as they are; names in Kubernetes have no other characters. All other
characters, a leading dot and capital letters are percent-escaped. Two texts therefore never share a name because of
case, Unicode forms or `..`. A name that is too long for a file system ends in a digest of the whole text.
"""

from __future__ import annotations

import hashlib
import re
import string
from typing import Final

from situate.archive.records.record import GroupKind

LONGEST: Final = 255
"""Maximum bytes of a file name on all common file systems."""
SUFFIX: Final = ".json"

_PLAIN: Final = frozenset((string.ascii_lowercase + string.digits + "-.").encode())
_PLAIN_KIND: Final = _PLAIN | frozenset(string.ascii_uppercase.encode())
_CLUSTER_SCOPED: Final = "_"
"""The folder of objects without a namespace; escaping never yields this name."""
_SHORTENED_NAME: Final = "%~"
"""Separates the beginning of a long text from its digest; escaping never yields it."""
_NAME: Final = re.compile(r"(?:[a-z0-9.-]|%[0-9A-F]{2})+", re.ASCII)
_KIND: Final = re.compile(r"(?:[a-z0-9.-]|%[0-9A-F]{2})*(?:_|%~)(?:[A-Za-z0-9.~-]|%[0-9A-F]{2}|%~)*", re.ASCII)
_DIGEST: Final = re.compile(r".+%~[0-9a-f]{40}", re.ASCII)


def kind_folder(kind: GroupKind) -> str:
    """Return `GROUP_KIND`, such as `batch.example.com_Report`; `_Pod` for the core group.

    Capitals of the kind stay. Kinds that differ only in case share a folder on some file systems, but their UIDs
    differ.
    """
    return _shorten(f"{_escape(kind.group, _PLAIN)}_{_escape(kind.kind, _PLAIN_KIND)}", f"{kind.group}_{kind.kind}")


def namespace_folder(namespace: str) -> str:
    return name_folder(namespace) if namespace else _CLUSTER_SCOPED


def name_folder(name: str) -> str:
    return _shorten(_escape(name, _PLAIN), name)


def record_file(uid: str) -> str:
    return _shorten(_escape(uid, _PLAIN), uid, LONGEST - len(SUFFIX)) + SUFFIX


def text_of(folder: str) -> str | None:
    """Return the namespace or name of a folder; None if the folder's name does not contain it.

    Then the name was shortened, or another program made the folder.
    """
    if folder == _CLUSTER_SCOPED:
        return ""
    if not _NAME.fullmatch(folder):
        return None
    try:
        text = _unescape(folder)
    except UnicodeDecodeError:
        return None
    return text if _escape(text, _PLAIN) == folder else None


def is_text_folder(folder: str) -> bool:
    """Return whether a folder of a namespace or name can have this name."""
    return text_of(folder) is not None or bool(_DIGEST.fullmatch(folder))


def is_kind_folder(folder: str) -> bool:
    """Return whether a folder of a kind can have this name."""
    return bool(_KIND.fullmatch(folder))


def _escape(text: str, plain: frozenset[int]) -> str:
    """Escape a text. A dot stays except at the beginning, where it would hide the file or lead to a parent."""
    encoded = text.encode()
    return "".join(
        chr(byte) if byte in plain and not (byte == ord(".") and place == 0) else f"%{byte:02X}"
        for place, byte in enumerate(encoded)
    )


def _unescape(name: str) -> str:
    head, *parts = name.split("%")
    encoded = head.encode() + b"".join(bytes((int(part[:2], 16),)) + part[2:].encode() for part in parts)
    return encoded.decode()


def _shorten(escaped: str, text: str, longest: int = LONGEST) -> str:
    if len(escaped) <= longest:
        return escaped
    tail = _SHORTENED_NAME + hashlib.sha256(text.encode()).hexdigest()[:40]
    return escaped[: longest - len(tail)] + tail
