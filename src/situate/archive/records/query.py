"""Queries of an archive by page: plain values, and the pure function whose results every store must return.

The order is newest first by `archived_at`, then by UID, then by group and kind. A page ends at a place in that order,
not at a number, so that new records do not shift the pages. A record that existed at the first page, and is not put
again, appears exactly once. Text is literal. Each store translates a query to SQL or to filters.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from situate.archive.records.canonical_json import canonical_json, read_json
from situate.archive.records.record import BadRecord, GroupKind, Record
from situate.objects.kinds.meta import NO_LABELS
from situate.objects.kinds.selectors import LabelSelector, LabelSelectorRequirement
from situate.objects.selection.label_selectors import BadSelector, Selector, selector_of
from situate.objects.values.timestamps import BadTime, micro_time, parse_time

_TOKEN_VERSION: Final = 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class BadQuery(ValueError):
    """An invalid query; the message names the field, the value and the allowed values."""


@dataclass(frozen=True, slots=True)
class RecordPosition:
    """The position of a record in the order."""

    archived_at: datetime
    uid: str
    group: str
    kind: str

    @property
    def order(self) -> tuple[int, str, str, str]:
        """The sort key; smaller comes first. Texts compare by code points, which is the order of their UTF-8 bytes."""
        return (_EPOCH - self.archived_at) // timedelta(microseconds=1), self.uid, self.group, self.kind


@dataclass(frozen=True, slots=True)
class Query:
    """All given conditions must hold. Raises `BadQuery` for invalid values."""

    kind: GroupKind | None = None
    """None: any kind."""
    namespaces: tuple[str, ...] | None = None
    """None: any namespace; empty: none."""
    names: tuple[str, ...] | None = None
    """None: any name; empty: none."""
    substring: str = ""
    """Part of the name; prefix and suffix also apply to the name."""
    prefix: str = ""
    suffix: str = ""
    match_labels: Mapping[str, str] = field(default_factory=lambda: NO_LABELS, hash=False)
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()
    uid: str | None = None
    owner_uid: str | None = None
    """UID of the controlling owner; empty: records without one."""
    successful: bool | None = None
    """None: any outcome."""
    reason: str | None = None
    completed_since: datetime | None = None
    """Inclusive. Objects that never completed match no range of completion."""
    completed_before: datetime | None = None
    """Exclusive."""
    archived_since: datetime | None = None
    """Inclusive."""
    archived_before: datetime | None = None
    """Exclusive."""
    limit: int | None = None
    """Records per page; None: all at once."""
    continue_: str = ""
    """The `continue_` of the previous page; the rest of the query must be unchanged. Empty for the first page."""
    selector: Selector = field(init=False, compare=False)
    """The meaning of the two label fields."""
    after: RecordPosition | None = field(init=False, compare=False)
    """The page begins after this place; None: at the beginning."""

    def __post_init__(self) -> None:
        _check(self)
        wire = LabelSelector(match_labels=self.match_labels, match_expressions=self.match_expressions)
        try:
            object.__setattr__(self, "selector", selector_of(wire, "query"))
        except BadSelector as error:
            raise BadQuery(str(error)) from error
        object.__setattr__(self, "after", _read_token(self) if self.continue_ else None)


@dataclass(frozen=True, slots=True)
class Page:
    """Part of the result, in order."""

    records: tuple[Record, ...] = ()
    continue_: str = ""
    """Token for the next page; empty on the last page."""
    corrupt: tuple[BadRecord, ...] = ()
    """Records that might match and cannot be read; each is reported on one page."""


def position_of(record: Record) -> RecordPosition:
    """Return the position of a record in the order."""
    subject = record.subject
    return RecordPosition(record.archived_at, subject.uid, subject.group, subject.kind)


def matches(record: Record, query: Query) -> bool:
    """Return whether the record matches the query, on any page."""
    subject = record.subject
    return (
        (query.kind is None or query.kind == subject.group_kind)
        and (query.namespaces is None or subject.namespace in query.namespaces)
        and (query.names is None or subject.name in query.names)
        and query.substring in subject.name
        and subject.name.startswith(query.prefix)
        and subject.name.endswith(query.suffix)
        and (query.uid is None or query.uid == subject.uid)
        and (query.owner_uid is None or query.owner_uid == subject.owner_uid)
        and (query.successful is None or query.successful == record.successful)
        and (query.reason is None or query.reason == record.reason)
        and _is_within(record.completed_at, query.completed_since, query.completed_before)
        and _is_within(record.archived_at, query.archived_since, query.archived_before)
        and query.selector.matches(subject.labels)
    )


def page_of(records: Iterable[Record], query: Query, corrupt: Iterable[BadRecord] = ()) -> Page:
    """Return the page that the query asks for. `corrupt` is reported on the first page, because its place is unknown.

    `corrupt` is read after the records, so reading the records may fill it.
    """
    after = None if query.after is None else query.after.order
    found = (
        record for record in records if matches(record, query) and (after is None or position_of(record).order > after)
    )
    if query.limit is None:
        return Page(tuple(sorted(found, key=_order)), "", _corrupt_of_page(query, corrupt))
    page = heapq.nsmallest(query.limit + 1, found, key=_order)  # limits memory for a large archive
    continue_ = page_token(query, position_of(page[query.limit - 1])) if len(page) > query.limit else ""
    return Page(tuple(page[: query.limit]), continue_, _corrupt_of_page(query, corrupt))


def _order(record: Record) -> tuple[int, str, str, str]:
    return position_of(record).order


def _corrupt_of_page(query: Query, corrupt: Iterable[BadRecord]) -> tuple[BadRecord, ...]:
    return tuple(corrupt) if query.after is None else ()


def page_token(query: Query, last: RecordPosition) -> str:
    """Return `continue_` for the page after this place. It contains only the place, and fits only this query."""
    body = [_TOKEN_VERSION, _fingerprint(query), micro_time(last.archived_at), last.uid, last.group, last.kind]
    return base64.urlsafe_b64encode(canonical_json(body)).decode().rstrip("=")


def _read_token(query: Query) -> RecordPosition:
    text = query.continue_
    try:
        body = read_json(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
        version, fingerprint, archived_at, uid, group, kind = body
        place = RecordPosition(parse_time(archived_at), uid, group, kind)
        fits = version == _TOKEN_VERSION and all(isinstance(part, str) and "\0" not in part for part in body[1:])
    except (binascii.Error, BadTime, ValueError, TypeError) as error:
        raise BadQuery(f"continue: found {text!a:.80}, allowed: the token of the previous page") from error
    if not fits or fingerprint != _fingerprint(query):
        raise BadQuery(f"continue: found {text!a:.80}, allowed: the token of the previous page of the same query")
    return place


def _fingerprint(query: Query) -> str:
    """Return a digest of the conditions, without limit and place. A token of another query would skip records."""
    conditions: dict[str, Any] = {
        "kind": None if query.kind is None else [query.kind.group, query.kind.kind],
        "namespaces": None if query.namespaces is None else sorted(query.namespaces),
        "names": None if query.names is None else sorted(query.names),
        "text": [query.substring, query.prefix, query.suffix],
        "labels": str(query.selector),
        "exact": [query.uid, query.owner_uid, query.successful, query.reason],
        "times": [None if moment is None else micro_time(moment) for moment in _times(query).values()],
    }
    return hashlib.sha256(canonical_json(conditions)).hexdigest()[:16]


def _is_within(moment: datetime | None, since: datetime | None, before: datetime | None) -> bool:
    if since is None and before is None:
        return True
    return moment is not None and (since is None or moment >= since) and (before is None or moment < before)


def _times(query: Query) -> dict[str, datetime | None]:
    return {
        "completed_since": query.completed_since,
        "completed_before": query.completed_before,
        "archived_since": query.archived_since,
        "archived_before": query.archived_before,
    }


def _check(query: Query) -> None:
    """Check that texts have no zero bytes and no half characters, because no store can search for them."""
    texts = {
        "namespaces": query.namespaces or (),
        "names": query.names or (),
        "kind": () if query.kind is None else (query.kind.group, query.kind.kind),
        "substring": (query.substring,),
        "prefix": (query.prefix,),
        "suffix": (query.suffix,),
        "uid": (query.uid or "",),
        "owner_uid": (query.owner_uid or "",),
    }
    for name, values in texts.items():
        for value in values:
            if "\0" in value or not _is_storable(value):
                raise BadQuery(f"{name}: found {value!a:.80}, allowed: valid Unicode text without NUL")
    if not _is_storable(query.reason or ""):
        raise BadQuery(f"reason: found {query.reason!a:.80}, allowed: valid Unicode text")
    for name, moment in _times(query).items():
        if moment is not None and moment.tzinfo is None:
            raise BadQuery(f"{name}: found {moment}, allowed: a time with its zone, such as UTC")
    if query.limit is not None and query.limit < 1:
        raise BadQuery(f"limit: found {query.limit}, allowed: 1 or more, or none")


def _is_storable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
