"""The options of the archive: one table for flags, the environment, files and `from_mapping`.

A URL may contain a password. A flag accepts only a URL without a password, and no message shows the URL.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar, overload

import msgspec
from msgspec import Meta

from situate.archive.open_archive import ALLOWED_URLS, has_opener, open_archiver
from situate.archive.operations.retention import Retention
from situate.archive.protocol import Archiver
from situate.objects.selection.label_selectors import valid_label_key
from situate.objects.settings.flags import F, add_flags, with_flags
from situate.objects.settings.options import BadOptions, Sources, options_of, read_mapping, read_options
from situate.objects.settings.section import Duration, Mistake, PositiveDuration, format_value

_Self = TypeVar("_Self", bound="ArchiveOptions")
_Outcome = Literal["successful", "failed", "unfinished"]
GROUP: Final = "archive"
"""The group of the flags in the help, and the section in a file."""


def _key(field: str) -> str:
    """Return the key of a field in files, where it is in the section `archive`."""
    first, *rest = field.removeprefix("archive_").split("_")
    return first + "".join(map(str.title, rest))


class ArchiveOptions(msgspec.Struct, frozen=True, kw_only=True, rename=_key):
    """When and where completed objects are archived. Times are in seconds unless the field says otherwise."""

    archive_url: Annotated[
        str | None,
        Meta(
            description=f"URL of the archive: {ALLOWED_URLS}. Default: no archive. Give a URL with a password only in "
            "the environment or in --archive-url-file."
        ),
    ] = None
    archive_url_file: Annotated[
        str | None, Meta(description="File that holds the URL of the archive, such as a mounted Secret.")
    ] = None
    archive_ttl: Annotated[
        Duration | None,
        Meta(description="Time from the completion of an object to its archiving. Default: no archiving by age."),
    ] = None
    archive_ttl_successful: Annotated[
        Duration | None,
        Meta(description="Time to the archiving of successful objects. Default: the time of all objects."),
    ] = None
    archive_ttl_failed: Annotated[
        Duration | None, Meta(description="Time to the archiving of failed objects. Default: the time of all objects.")
    ] = None
    archive_keep_last: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(description="How many objects of each controlling owner, the latest completed, are not archived by age."),
    ] = None
    archive_retention: Annotated[
        PositiveDuration | dict[_Outcome, PositiveDuration] | None,
        Meta(
            description="How long records stay: one duration, or by outcome as successful=2160h,failed=8760h. Default: "
            "for ever. `situate sharding archive prune` deletes older records."
        ),
    ] = None
    archive_concurrency: Annotated[
        int, Meta(ge=1, le=1000, description="Maximum number of objects that are archived in parallel.")
    ] = 8
    archive_timeout: Annotated[
        PositiveDuration, Meta(description="Time after which a call of the archive counts as failed.")
    ] = 30.0
    archive_propagation: Annotated[
        Literal["Background", "Foreground", "Orphan"],
        Meta(description="Propagation policy for the deletion of archived objects: the treatment of their dependents."),
    ] = "Background"
    archive_on_unavailable: Annotated[
        Literal["wait", "release"],
        Meta(description="Treatment of a user's delete during an archive outage: wait, or release without a copy."),
    ] = "wait"
    archive_release_after: Annotated[
        Duration, Meta(description="How long a user's delete waits for the archive, if onUnavailable is release.")
    ] = 300.0
    delete_without_archive: Annotated[
        bool, Meta(description="Delete completed objects by age although no archive is configured.")
    ] = False
    finalizer: Annotated[str, Meta(description="Finalizer that keeps an object until it is archived.")] = (
        "sharding.situate.dev/archive"
    )

    @classmethod
    def from_namespace(
        cls: type[_Self],
        namespace: argparse.Namespace,
        *,
        prefix: str = "",
        file: object = None,
        environment: Mapping[str, str] | None = None,
    ) -> _Self:
        """Read the options of `add_archive_options`: flags, then environment, then the mapping `file`, then defaults.

        `environment` None is the environment of the process. Raises `BadOptions` with every mistake.
        """
        return _read(cls, vars(namespace), prefix, file, environment)

    @classmethod
    def from_mapping(cls: type[_Self], mapping: Mapping[str, Any], path: str = "") -> _Self:
        """Read the options from a mapping only, with keys such as `ttl`, `archiveTtl` or `archive_ttl`.

        Raises `BadOptions`, with paths below `path`.
        """
        try:
            return read_mapping(cls, mapping, path)
        except BadOptions as bad:
            raise BadOptions(map(hide_url, bad.mistakes)) from None

    def mistakes(self) -> Iterable[Mistake]:
        """Yield the mistakes between fields, and those that types cannot express."""
        if self.archive_url is not None and not has_opener(self.archive_url):
            yield Mistake("url", _HIDDEN_TEXT, ALLOWED_URLS)
        if self.archive_url is not None and self.archive_url_file is not None:
            yield Mistake(
                "urlFile", format_value(self.archive_url_file), "no file together with url", "set only one of them"
            )
        if self.archive_url_file is not None and "://" in self.archive_url_file:
            yield Mistake(
                "urlFile", _HIDDEN_TEXT, "the path of a file that holds the URL", "this looks like a URL itself"
            )
        if not valid_label_key(self.finalizer) or "/" not in self.finalizer:
            yield Mistake(
                "finalizer",
                format_value(self.finalizer),
                "a DNS name, '/', and a name, such as sharding.situate.dev/archive",
            )

    def url(self) -> str | None:
        """Return the URL with its secrets; None: no archive. Raises `BadOptions` for a file without a URL."""
        if self.archive_url_file is None:
            return self.archive_url
        try:
            text = Path(self.archive_url_file).read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as problem:
            said = problem.strerror if isinstance(problem, OSError) else "the file is not text"
            found = format_value(self.archive_url_file)
            raise BadOptions([Mistake("urlFile", found, "a readable file", said or "")]) from None
        if not has_opener(text):
            raise BadOptions([Mistake("urlFile", _HIDDEN_TEXT, f"a file with one URL: {ALLOWED_URLS}")])
        return text

    def open(self, environment: Mapping[str, str] | None = None) -> Archiver | None:
        """Return the archiver, not yet connected; None: no archive.

        Raises `BadOptions`, and `BadArchiveUrl` if the URL opens no store.
        """
        url = self.url()
        return None if url is None else open_archiver(url, os.environ if environment is None else environment)

    @property
    def ttl_successful(self) -> float | None:
        return self.archive_ttl if self.archive_ttl_successful is None else self.archive_ttl_successful

    @property
    def ttl_failed(self) -> float | None:
        return self.archive_ttl if self.archive_ttl_failed is None else self.archive_ttl_failed

    @property
    def retention(self) -> Retention:
        """The retention for `prune`."""
        given = self.archive_retention
        ages = dict.fromkeys(Retention.__slots__, given) if not isinstance(given, dict) else dict(given)
        return Retention(**{name: None if age is None else timedelta(seconds=age) for name, age in ages.items()})

    def __repr__(self) -> str:
        return f"ArchiveOptions({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        url = None if self.archive_url is None else _HIDDEN_TEXT
        return [(name, url if name == "archive_url" else getattr(self, name)) for name in self.__struct_fields__]


_HIDDEN_TEXT: Final = "a text that is not shown"


def add_archive_options(parser: argparse.ArgumentParser, prefix: str = "") -> None:
    """Add the flags; `ArchiveOptions.from_namespace` reads them."""
    add_flags(parser, ArchiveOptions, GROUP, prefix)


@overload
def with_archive_options(function: F, /) -> F: ...
@overload
def with_archive_options(*, prefix: str = "") -> Callable[[F], F]: ...
def with_archive_options(function: F | None = None, /, *, prefix: str = "") -> F | Callable[[F], F]:
    """Decorate a typer command: its parameter of the type `ArchiveOptions` becomes the flags."""

    def read(given: Mapping[str, object]) -> ArchiveOptions:
        return _read(ArchiveOptions, given, prefix, None, None)

    decorate: Callable[[F], F] = with_flags(ArchiveOptions, read, prefix)
    return decorate if function is None else decorate(function)


def _read(
    kind: type[_Self], flags: Mapping[str, object], prefix: str, file: object, environment: Mapping[str, str] | None
) -> _Self:
    sources = Sources(flags, os.environ if environment is None else environment, file)
    options, mistakes = read_options(kind, sources, prefix)
    secret = [*_secret_flags(kind, flags, prefix)]
    if options is None or secret:
        raise BadOptions([*secret, *map(hide_url, mistakes)])
    return options


def _secret_flags(kind: type[Any], flags: Mapping[str, object], prefix: str) -> Iterable[Mistake]:
    """Yield a mistake for a URL with a password in a flag: every user who may list processes sees flags."""
    option = next(each for each in options_of(kind, prefix) if each.field == "archive_url")
    given = flags.get(option.dest)
    if isinstance(given, str) and has_secret(given):
        hint = f"give the URL in a file with {option.flag}-file, or in the environment with {option.variable}"
        yield Mistake(option.flag, "a URL with a password", "a URL without a password", hint)


def secret_mistakes(options: ArchiveOptions) -> Iterable[Mistake]:
    """Yield a mistake for a URL with a password in a file that many users may read."""
    if options.archive_url is not None and has_secret(options.archive_url):
        hint = "set urlFile to a file that holds the URL, such as a mounted Secret"
        yield Mistake("url", "a URL with a password", "a URL without a password", hint)


def has_secret(url: str) -> bool:
    """Return whether a URL contains a password, or may: some drivers accept one with a slash or a question mark."""
    _, slashes, rest = url.partition("://")
    user, at, _ = (rest if slashes else url).partition("@")
    query = url.partition("?")[2].lower()
    return (at != "" and ":" in user and not user.startswith("/")) or "password" in query or "secret" in query


def hide_url(mistake: Mistake) -> Mistake:
    """Return a mistake without the URL in it."""
    named = mistake.path.lower().replace("-", "").replace("_", "")
    of_url = named.endswith(("archiveurl", ".url")) or named == "url"
    return replace(mistake, found=_HIDDEN_TEXT) if of_url and mistake.found else mistake
