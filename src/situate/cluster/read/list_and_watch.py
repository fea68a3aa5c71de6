"""Get, list and watch: select the revision, and the start of a page or stream.

After apiserver's storage/cacher and storage/etcd3. A revision that does not exist yet is refused at once. The embedded
server waits for it first, up to three seconds as upstream.
"""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from situate.cluster.errors.field_errors import Refused, bad_request
from situate.cluster.errors.go_text import quote
from situate.cluster.errors.refusals import RequestRefused, expired, not_found, too_large_revision
from situate.cluster.read.negotiation import JSON, ListView, error_frame, negotiate
from situate.cluster.storage.options import ListOptions, list_options
from situate.cluster.storage.paths import Target
from situate.cluster.storage.resources import Resource
from situate.cluster.storage.selection import parse_field_selector, parse_label_selector
from situate.cluster.storage.store import Event, Expired, Store, Table
from situate.cluster.storage.stored_object import StoredObject
from situate.cluster.storage.watch import BOOKMARK_PERIOD, Watch
from situate.objects.messages import Request, Response

_LAST_BOOKMARK_S: Final = 2.0
"""Seconds before the end of a short watch at which it gets its bookmark (storage/cacher, nextBookmarkTime)."""
_DEFAULT_TIMEOUT_S: Final = 1800
"""Seconds that a watch lasts without timeoutSeconds (kube-apiserver: --min-request-timeout, up to twice that)."""

_TOO_OLD_PAGE: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


def json_response(status: int, body: bytes) -> Response:
    """Return an answer in JSON."""
    return Response(status, body, {"content-type": JSON})


@dataclass(slots=True)
class ObjectReader:
    """Read operations on one store."""

    store: Store
    clock: Callable[[], float]
    """Returns the time of the latest request. Ages in the rows of a watched table are relative to it."""

    def get(self, resource: Resource, target: Target, request: Request) -> Response:
        """Return one object."""
        obj = self.store.get(resource.table, target.namespace, target.name)
        if obj is None:
            raise RequestRefused(not_found(resource, target.name))
        asked = _get_revision(request.parameter("resourceVersion"))
        if asked > self.store.revision:
            raise RequestRefused(too_large_revision(asked, self.store.revision))
        return json_response(200, self.build_view(resource, target, request).encode_one(obj))

    def build_view(self, resource: Resource, target: Target, request: Request) -> ListView:
        """Return the view that this request asks for."""
        view = ListView(
            resource, negotiate(request.headers.get("accept", "")), target.namespace, None, None, now=self.clock
        )
        if request.query:
            view.include = request.parameter("includeObject") or "Metadata"
        return view

    def list_or_watch(self, resource: Resource, target: Target, request: Request, now: float) -> Response | Watch:
        """Return a page of the collection, or the stream of its changes."""
        options, view = self._selection(resource, target, request)
        if options.watch:
            return self._watch(resource, view, options, now)
        return self._list(resource, view, options)

    def select_objects(self, resource: Resource, target: Target, request: Request) -> list[StoredObject]:
        """Return the objects of a collection that match the request's selectors, in order to delete them."""
        _, view = self._selection(resource, target, request)
        return [obj for obj in self.store.table(resource.table).sorted_objects(target.namespace) if view.shows(obj)]

    def _selection(self, resource: Resource, target: Target, request: Request) -> tuple[ListOptions, ListView]:
        options = list_options(request)
        view = self.build_view(resource, target, request)
        view.labels = parse_label_selector(options.label_selector) if options.label_selector else None
        view.fields = parse_field_selector(options.field_selector, resource)
        return options, view

    def _list(self, resource: Resource, view: ListView, options: ListOptions) -> Response:
        table = self.store.table(resource.table)
        limit = options.limit
        if options.token:
            if options.revision not in ("", "0"):
                raise RequestRefused(bad_request("specifying resource version is not allowed when using continue"))
            revision, after = _read_token(options.token)
            objects, revision = self._objects_after(table, revision, after, view.namespace)
        else:
            asked = _list_revision(options.revision)
            if asked > self.store.revision:
                raise RequestRefused(too_large_revision(asked, self.store.revision))
            exact = options.match == "Exact" or (limit > 0 and not options.match)
            if asked and exact and asked < self.store.revision:
                objects, revision = self._objects_at(table, asked, view.namespace), asked
            else:
                objects, revision = table.sorted_objects(view.namespace), self.store.revision
            if options.revision == "0":
                limit = 0
        return json_response(200, _page(view, objects, revision, limit))

    def _objects_at(self, table: Table, revision: int, namespace: str) -> list[StoredObject]:
        try:
            return table.sorted_objects_at(revision, namespace)
        except Expired:
            raise RequestRefused(expired("The resourceVersion for the provided list is too old.")) from None

    def _objects_after(self, table: Table, revision: int, after: str, namespace: str) -> tuple[list[StoredObject], int]:
        """Return the objects after key `after` (exclusive) at `revision`.

        -1 is the present revision, which need not be consistent with the earlier pages.
        """
        if revision < 0 or revision == self.store.revision:
            objects = table.sorted_objects(namespace)
            revision = self.store.revision
        else:
            try:
                objects = table.sorted_objects_at(revision, namespace)
            except Expired:
                raise RequestRefused(expired(_TOO_OLD_PAGE), {"continue": _continue_token(-1, after)}) from None
        return objects[bisect_left(objects, after + "\0", key=lambda obj: obj.key) :], revision

    def _watch(self, resource: Resource, view: ListView, options: ListOptions, now: float) -> Watch:
        table = self.store.table(resource.table)
        current = self.store.revision
        asked = _watch_revision(options.revision)
        timeout_s = options.timeout_s or _DEFAULT_TIMEOUT_S
        watch = Watch(
            table,
            view,
            deadline=now + timeout_s,
            bookmark_due=now + min(BOOKMARK_PERIOD, timeout_s - _LAST_BOOKMARK_S) if options.bookmarks else None,
            revision=lambda: self.store.revision,
            headers={"content-type": JSON},
        )
        if options.initial_events and asked > current:
            return _end_with_error(watch, too_large_revision(asked, current))
        if options.initial_events or (asked == 0 and options.initial_events is None):
            watch.begin(after=current, initial=_initial_frames(view, table.sorted_objects(view.namespace)))
            if options.bookmarks:
                watch.bookmark(current, initial_events_end=True)
            return watch
        if asked == 0 or asked >= current:
            watch.begin(after=max(asked, current))
            return watch
        try:
            backlog = table.events_since(asked)
        except Expired as error:
            return _end_with_error(watch, expired(str(error)))
        watch.begin(after=current, backlog=tuple(backlog))
        _drop_frames(backlog)
        return watch


def _initial_frames(view: ListView, objects: list[StoredObject]) -> Iterator[bytes]:
    return (view.frame("ADDED", obj, None) for obj in objects if view.shows(obj))


def _drop_frames(events: list[Event]) -> None:
    for event in events:
        event.drop_frames()


def _end_with_error(watch: Watch, refused: Refused) -> Watch:
    """Return a watch that only sends the error. Its HTTP status is already 200."""
    watch.push(error_frame(refused.status()))
    watch.close()
    return watch


def _page(view: ListView, objects: list[StoredObject], revision: int, limit: int) -> bytes:
    metadata: dict[str, Any] = {"resourceVersion": str(revision)}
    if view.selects:
        if limit:
            objects, more = _first_selected(view, objects, limit)
            if more:
                metadata["continue"] = _continue_token(revision, objects[-1].key)
        else:
            objects = [obj for obj in objects if view.shows(obj)]
    elif limit and len(objects) > limit:
        remaining = len(objects) - limit
        objects = objects[:limit]
        metadata["continue"] = _continue_token(revision, objects[-1].key)
        metadata["remainingItemCount"] = remaining
    return view.encode_list(objects, metadata)


def _first_selected(view: ListView, objects: list[StoredObject], limit: int) -> tuple[list[StoredObject], bool]:
    """Return the first `limit` selected objects, and whether more follow."""
    found: list[StoredObject] = []
    for obj in objects:
        if view.shows(obj):
            if len(found) == limit:
                return found, True
            found.append(obj)
    return found, False


def _continue_token(revision: int, after: str) -> str:
    """Return the continue token, as upstream: the key of the last object, and the revision of the first page."""
    token = msgspec.json.encode({"v": "meta.k8s.io/v1", "rv": revision, "start": after + "\0"})
    return base64.urlsafe_b64encode(token).decode().rstrip("=")


def _read_token(text: str) -> tuple[int, str]:
    try:
        token = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        revision, start = token["rv"], token["start"]
        if not isinstance(revision, int) or not isinstance(start, str):
            raise TypeError(text)
    except (binascii.Error, msgspec.DecodeError, KeyError, TypeError, UnicodeDecodeError):
        raise RequestRefused(bad_request("invalid continue token: continue key is not valid: " + quote(text))) from None
    return revision, start.rstrip("\0")


def _parse_number(text: str) -> int | None:
    """Parse a number as Go's ParseUint: only digits, at most 64 bits."""
    if not (text.isascii() and text.isdecimal()):
        return None
    digits = text.lstrip("0")[: _MAX_DIGITS + 1]
    return number if (number := int(digits or "0")) < 2**64 else None


_MAX_DIGITS = 20
"""Digits of a 64-bit number."""


def _syntax_error(text: str) -> str:
    why = "value out of range" if text.isascii() and text.isdecimal() else "invalid syntax"
    return f"Invalid value: {quote(text)}: strconv.ParseUint: parsing {quote(text)}: {why}"


def _get_revision(text: str) -> int:
    return _parse_number(text) or 0


def _list_revision(text: str) -> int:
    number = _parse_number(text or "0")
    if number is None:
        raise RequestRefused(bad_request(f"invalid resource version: resourceVersion: {_syntax_error(text)}"))
    return number


def _watch_revision(text: str) -> int:
    number = _parse_number(text or "0")
    if number is None:
        raise RequestRefused(Refused(500, "", f"resourceVersion: {_syntax_error(text)}"))
    return number
