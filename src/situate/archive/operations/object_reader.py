"""Read objects through the archive: live objects from the cluster, and completed ones from the archive.

Live objects are always read first. An object moves from the cluster to the archive, and never back under its UID. A
reader in this order therefore misses no object that exists throughout. A list contains live objects first, in the API
server's order, and then archived ones, newest first. A list contains each UID once. There is one exception over several
pages. An object that is archived within `SKEW` after the list began may appear live on an early page and archived on a
late one.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from situate.archive.concurrent_calls import gather_calls
from situate.archive.protocol import Archiver, NotArchived
from situate.archive.records.canonical_json import canonical_json, mapping_at, read_json
from situate.archive.records.query import BadQuery, Query, page_token, position_of
from situate.archive.records.record import BadRecord, ByName, ByUid, GroupKind, Record
from situate.objects.kinds.selectors import LabelSelectorRequirement
from situate.objects.selection.field_selectors import EVERY_FIELD, FieldSelector, field_text
from situate.objects.selection.label_selectors import EVERYTHING, Selector
from situate.objects.values.timestamps import BadTime, micro_time, parse_time

SKEW: Final = timedelta(seconds=5)
"""How far the archiving process's clock may be ahead of ours. A record that is newer than the start of the list
by more than this was live at the start, and was listed live."""
_OPERATORS: Final = {
    "=": "In",
    "==": "In",
    "in": "In",
    "!=": "NotIn",
    "notin": "NotIn",
    "exists": "Exists",
    "!": "DoesNotExist",
}
"""Archives do not compare numbers; this module checks such conditions for each object."""
_LEAST_RECORDS: Final = 200
"""Minimum records per page if this module filters further: some archives read all their records for each page."""
_NAME: Final = "metadata.name"
_NAMESPACE: Final = "metadata.namespace"


@dataclass(frozen=True, slots=True)
class Selection:
    """The conditions for objects of the kind."""

    namespace: str | None = None
    """None: all namespaces."""
    labels: Selector = EVERYTHING
    fields: FieldSelector = EVERY_FIELD

    @property
    def names(self) -> frozenset[str] | None:
        """Names that `metadata.name` asks for; None: any."""
        asked = {each.value for each in self.fields.requirements if each.equal and each.field == _NAME}
        return frozenset(asked) if asked else None

    @property
    def has_extra_conditions(self) -> bool:
        """Whether there are conditions that archives do not support."""
        fields = any(each.field != _NAME or not each.equal for each in self.fields.requirements)
        return fields or any(each.operator not in _OPERATORS for each in self.labels.requirements)

    def matches(self, record: Record) -> bool:
        """Return whether labels and fields match.

        A field of another version than the archived one counts as absent, because nothing here converts objects.
        """
        if not self.labels.matches(record.subject.labels):
            return False
        wanted = {each.field for each in self.fields.requirements}
        if not wanted:
            return True
        subject = record.subject
        known = {_NAME: subject.name, _NAMESPACE: subject.namespace}
        content = record.object if wanted - known.keys() else {}
        return self.fields.matches({field: known.get(field, field_text(content, field)) for field in wanted})


@dataclass(frozen=True, slots=True)
class LivePage:
    """A page of the API server."""

    items: tuple[Mapping[str, Any], ...]
    continue_: str
    """Empty on the last page."""
    resource_version: str


class LiveObjects(Protocol):
    """The objects of one kind in the cluster. `ReadThrough` passes on their errors unchanged."""

    async def get(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        """Return the object; None if it does not exist."""

    async def list(self, selection: Selection, limit: int | None, continue_: str) -> LivePage:
        """List as the API server does: all pages show the same moment."""


@dataclass(frozen=True, slots=True)
class FoundObject:
    """An object, and its record if it is archived."""

    content: Mapping[str, Any]
    record: Record | None
    """None for a live object."""


@dataclass(frozen=True, slots=True)
class ObjectPage:
    """One page of a list."""

    items: tuple[FoundObject, ...]
    continue_: str
    resource_version: str
    """The resource version of the live objects; empty on pages without any."""
    corrupt: tuple[BadRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class _PagePosition:
    """The position at which a page begins."""

    began: datetime
    live: bool
    token: str


class ReadThrough:
    """The live and archived objects of one kind. Without an archiver there are only live objects."""

    def __init__(
        self, kind: GroupKind, live: LiveObjects, archiver: Archiver | None, clock: Callable[[], datetime]
    ) -> None:
        self._kind = kind
        self._live = live
        self._archiver = archiver
        self._clock = clock

    async def get(self, namespace: str, name: str, uid: str = "") -> FoundObject:
        """Return the live object, else the newest archived one of the name; with a UID, only that. `NotArchived`."""
        present = await self._live.get(namespace, name)
        if present is not None and uid in ("", _uid(present)):
            return FoundObject(present, None)
        key = ByUid(self._kind, uid, (namespace, name)) if uid else ByName(self._kind, namespace, name)
        if self._archiver is None:
            raise NotArchived(key)
        record = await self._archiver.get(key)
        return FoundObject(record.object, record)

    async def list(self, selection: Selection, limit: int | None = None, continue_: str = "") -> ObjectPage:
        """Return a page of at most `limit` objects; a shorter page need not be the last. `BadQuery` for a bad token."""
        if limit is not None and limit < 1:
            raise BadQuery(f"limit: found {limit}, allowed: 1 or more, or none")
        place = _read_token(continue_, selection) if continue_ else _PagePosition(self._clock(), True, "")
        if not place.live:
            return await self._archived_page(selection, limit, place, None)
        page = await self._live.list(selection, limit, place.token)
        items = tuple(FoundObject(content, None) for content in page.items)
        if page.continue_:
            token = _token(replace(place, token=page.continue_), selection)
            return ObjectPage(items, token, page.resource_version)
        behind = _PagePosition(place.began, False, "")
        room = None if limit is None else limit - len(items)
        if self._archiver is None:
            return ObjectPage(items, "", page.resource_version)
        if room is not None and room <= 0:
            return ObjectPage(items, _token(behind, selection), page.resource_version)
        known = None if place.token else {_uid(content) for content in page.items}
        rest = await self._archived_page(selection, room, behind, known)
        return ObjectPage((*items, *rest.items), rest.continue_, page.resource_version, rest.corrupt)

    async def _archived_page(
        self, selection: Selection, limit: int | None, place: _PagePosition, live: Collection[str] | None
    ) -> ObjectPage:
        """Return a page of archived objects. `live`: UIDs of all live objects of the selection; None: not known."""
        items: list[FoundObject] = []
        corrupt: list[BadRecord] = []
        if self._archiver is None or selection.labels.nothing:
            return ObjectPage((), "", "")
        while True:
            room = None if limit is None else limit - len(items)
            query = _query(self._kind, selection, room, place)
            page = await self._archiver.search(query)
            corrupt += page.corrupt
            fitting = [record for record in page.records if selection.matches(record)]
            taken = fitting[:room]
            if live is None:
                gone = await self._records_without_object(taken)
            else:
                gone = tuple(record for record in taken if record.subject.uid not in live)
            items += (FoundObject(record.object, record) for record in gone)
            further = page.continue_ if len(taken) == len(fitting) else page_token(query, position_of(taken[-1]))
            if not further:
                return ObjectPage(tuple(items), "", "", tuple(corrupt))
            place = replace(place, token=further)
            if limit is not None and len(items) >= limit:
                return ObjectPage(tuple(items), _token(place, selection), "", tuple(corrupt))

    async def _records_without_object(self, records: Sequence[Record]) -> tuple[Record, ...]:
        """Return the records whose objects are no longer live."""
        subjects = [record.subject for record in records]
        present = await gather_calls(self._live.get(subject.namespace, subject.name) for subject in subjects)
        return tuple(
            record
            for record, content in zip(records, present, strict=True)
            if content is None or _uid(content) != record.subject.uid
        )


def _query(kind: GroupKind, selection: Selection, limit: int | None, place: _PagePosition) -> Query:
    return Query(
        kind=kind,
        namespaces=None if selection.namespace is None else (selection.namespace,),
        names=None if selection.names is None else tuple(sorted(selection.names)),
        match_expressions=archive_expressions(
            Selector(tuple(each for each in selection.labels.requirements if each.operator in _OPERATORS))
        ),
        archived_before=None if limit is None else place.began + SKEW,
        limit=limit if limit is None or not selection.has_extra_conditions else max(limit, _LEAST_RECORDS),
        continue_=place.token,
    )


def archive_expressions(selector: Selector) -> tuple[LabelSelectorRequirement, ...]:
    """Return a selector in the form of queries. `BadQuery` if it compares numbers, which no archive does."""
    for each in selector.requirements:
        if each.operator not in _OPERATORS:
            raise BadQuery(f"labels: found {each}, allowed: =, !=, in, notin, exists and !")
    return tuple(
        LabelSelectorRequirement(each.key, _OPERATORS[each.operator], tuple(sorted(each.values)))
        for each in selector.requirements
    )


def _token(place: _PagePosition, selection: Selection) -> str:
    body = [1, _selection_words(selection), micro_time(place.began), place.live, place.token]
    return base64.urlsafe_b64encode(canonical_json(body)).decode().rstrip("=")


def _read_token(text: str, selection: Selection) -> _PagePosition:
    try:
        body = read_json(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
        version, words, began, live, token = body
        place = _PagePosition(parse_time(began), live, token)
    except (binascii.Error, BadTime, ValueError, TypeError) as error:
        raise BadQuery(f"continue: found {text!a:.80}, allowed: the token of the previous page") from error
    if version != 1 or words != _selection_words(selection) or not isinstance(live, bool) or not isinstance(token, str):
        raise BadQuery(f"continue: found {text!a:.80}, allowed: the token of the previous page of the same list")
    return place


def _selection_words(selection: Selection) -> list[Any]:
    return [selection.namespace, str(selection.fields), str(selection.labels), selection.labels.nothing]


def _uid(content: Mapping[str, Any]) -> str:
    return str(mapping_at(content, "metadata").get("uid", ""))
