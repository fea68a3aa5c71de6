"""Make an archiver from a URL. The module of a store, and the libraries of its extra, are imported on demand."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from situate.archive.protocol import Archiver

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}:")
ALLOWED_URLS: Final = (
    "file:///FOLDER, sqlite:///FILE, postgresql://HOST/DATABASE, s3://BUCKET/PREFIX, mongodb://HOST/DATABASE"
)


class BadArchiveUrl(ValueError):
    """The URL opens no archive. The message names the allowed URLs, and never quotes the URL."""


class ExtraMissing(BadArchiveUrl):
    """A library for this kind of archive is not installed. The message contains the command that installs it."""


def open_archiver(url: str, environment: Mapping[str, str]) -> Archiver:
    """Return the archiver for a URL, which may contain a password. It does not touch the store; `check` does.

    `environment` supplies credentials and endpoints, as each store documents.
    """
    scheme = scheme_of(url)
    opener = _OPENERS.get(scheme)
    if opener is None:
        what = f"the scheme {scheme!r}" if scheme else "no scheme"
        raise BadArchiveUrl(f"archive URL: found {what}, allowed: {ALLOWED_URLS}")
    try:
        return opener(url, environment)
    except ImportError as error:
        extra = _EXTRAS.get(scheme)
        if extra is None:
            raise
        raise ExtraMissing(
            f"archive URL: archives at {scheme}:// need {error.name or 'more'}, which is not installed; run: "
            f"pip install 'situate[{extra}]'"
        ) from error


def scheme_of(url: str) -> str:
    """Return the scheme in lower case; empty if there is none."""
    found = _SCHEME.match(url)
    return found[0][:-1].lower() if found else ""


def has_opener(url: str) -> bool:
    """Return whether there is a kind of archive for the URL's scheme."""
    return scheme_of(url) in _OPENERS


def _open_folder(url: str, _: Mapping[str, str]) -> Archiver:
    from situate.archive.stores.folder.archiver import FilesystemArchiver

    try:
        parts = urlsplit(url)
        path = unquote(parts.path, errors="strict")
    except ValueError:  # the error quotes the URL
        raise BadArchiveUrl("archive URL: found no valid URL, allowed: file:///FOLDER") from None
    if parts.netloc not in ("", "localhost") or parts.query or parts.fragment:
        raise BadArchiveUrl("archive URL: found a host or a question mark, allowed: file:///FOLDER")
    if not path.startswith("/") or "\0" in path:
        raise BadArchiveUrl("archive URL: found no absolute path, allowed: file:///FOLDER")
    return FilesystemArchiver(Path(path))


def _open_sql(url: str, _: Mapping[str, str]) -> Archiver:
    from situate.archive.stores.sql.archiver import SqlArchiver

    try:
        return SqlArchiver.from_url(url)
    except ValueError as error:
        raise BadArchiveUrl(str(error)) from None


def _open_s3(url: str, environment: Mapping[str, str]) -> Archiver:
    from situate.archive.stores.s3.archiver import S3Archiver

    try:
        return S3Archiver.from_url(url, environment)
    except ValueError as error:
        raise BadArchiveUrl(str(error)) from None


def _open_mongodb(url: str, _: Mapping[str, str]) -> Archiver:
    from situate.archive.stores.mongodb.archiver import MongoArchiver

    try:
        return MongoArchiver(url)
    except ValueError as error:
        raise BadArchiveUrl(str(error)) from None


_OPENERS: Final[Mapping[str, Callable[[str, Mapping[str, str]], Archiver]]] = {
    "file": _open_folder,
    "sqlite": _open_sql,
    "postgresql": _open_sql,
    "postgres": _open_sql,
    "s3": _open_s3,
    "mongodb": _open_mongodb,
    "mongodb+srv": _open_mongodb,
}
_EXTRAS: Final[Mapping[str, str]] = {
    "sqlite": "sql",
    "postgresql": "sql",
    "postgres": "sql",
    "s3": "s3",
    "mongodb": "mongo",
    "mongodb+srv": "mongo",
}
