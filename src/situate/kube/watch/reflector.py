"""Keeps a store equal to the API server: list, watch, and start again after every failure.

Follows client-go's reflector (`tools/cache/reflector.go`): WatchList where the server supports it (KEP-3157), else a
paged list and a watch. A watch continues from the last resourceVersion. After 410 everything is listed again, and
handlers are notified of objects deleted meanwhile. This module decides the order of lists and watches.
`situate.kube.watch.stream` parses lines, and `situate.kube.watch.store` notifies handlers.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Generic, TypeVar

import structlog

from situate.kube.client import Client
from situate.kube.errors import (
    ApiError,
    BadRequest,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    MethodNotAllowed,
    NotFound,
    Unauthorized,
    UnreadableAnswer,
)
from situate.kube.retry.backoff import Backoff
from situate.kube.watch.resource_versions import VersionHistory, is_older
from situate.kube.watch.store import Store, is_unchanged
from situate.kube.watch.stream import WatchScope, WatchSilent, WatchTimeouts, open_watch, read_bookmark, read_error
from situate.objects.decoding.codec import Malformed, changes_decoder, decode, decode_event, decode_metadata
from situate.objects.kinds.meta import KubernetesObject
from situate.objects.resources import ResourceType

T = TypeVar("T", bound=KubernetesObject)

RECONNECT: Final = Backoff(initial_s=0.8, cap_s=30.0, jitter=1.0)
"""As client-go's reflector, but reset by anything received and not by time."""
REFUSED: Final = Backoff(initial_s=10.0, cap_s=60.0, jitter=0.5)
"""For a missing permission, CRD or login: an operator must correct it first, and expects a quick effect then."""
WATCH_S: Final = (300, 600)
"""A watch is asked to end after a random time in this range, so that many clients do not reconnect together."""
STARTING_REFUSALS: Final = 4
"""Refusals in a row that count as ordinary failures if the request was once allowed.

An API server that starts refuses requests until it has read its roles and definitions.
"""
FRUITLESS_WATCHES: Final = 3
"""After this many watches in a row with only errors, the resourceVersion is not trusted and everything is listed."""
SOON_S: Final = 10.0
"""A watch that expires or ends without an event within this time counts as failed."""
MOST_MALFORMED: Final = 1000
"""Unreadable objects that are remembered individually."""


class WatchOutcome(Enum):
    """Why an attempt to follow the server ended; a label of the metrics."""

    ENDED = "ended"
    EXPIRED = "expired"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    SILENT = "silent"
    MALFORMED = "malformed"


@dataclass(slots=True)
class WatchCounts:
    """Totals since the start."""

    events: int = 0
    bookmarks: int = 0
    listings: int = 0
    malformed: int = 0
    stale: int = 0
    """Events older than the known state, which were dropped."""


class _StaleListing(KubeError):
    """A listing older than an earlier one: it comes from a replica of the server that lags behind."""

    retriable = True


class Reflector(Generic[T]):
    """A service: `run` until cancelled."""

    def __init__(
        self,
        client: Client,
        resource: ResourceType[T],
        store: Store[T],
        *,
        rng: random.Random,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        shard_selector: str = "",
        observe: Callable[[WatchOutcome], None] = lambda _: None,
    ) -> None:
        """`observe` is called whenever a connection has ended, and must not block."""
        self.scope = WatchScope(resource, namespace, label_selector, field_selector, shard_selector)
        self.name = f"watch {self.scope}"
        self.store = store
        self.counts = WatchCounts()
        self.problem: str | None = None
        """Why the store is not current, in a sentence; None while it is."""
        self.not_served = asyncio.Event()
        """Set while the server reports that it does not serve the resource."""
        self.malformed: dict[str, Malformed] = {}
        """Objects that cannot be read, by `namespace/name`; the store has their last readable state."""
        self._client = client
        self._resource = resource
        self._decode_changes = changes_decoder(resource)
        self._rng = rng
        self._observe = observe
        self._versions = VersionHistory()
        self._must_list = True
        self._watch_list = True  # until the server shows that it does not support WatchList
        self._failures = 0
        self._fruitless = 0
        self._refusals = 0
        self._old_listings = 0
        self._cut_short = 0
        self._listed_at = float("-inf")
        self._quick_expiries = 0
        self._opened_at = 0.0
        self._log = structlog.get_logger().bind(resource=resource.group_resource)

    def not_ready(self) -> str | None:
        """Return why the store is not complete yet, for readiness; None once everything was listed."""
        if self.store.synced:
            return None
        return self.problem or f"{self.scope} is not listed yet"

    async def run(self) -> None:
        """Follow the server until cancelled; no answer of the server ends it."""
        while True:
            outcome, problem = await self._follow_once()
            self._observe(outcome)
            await asyncio.sleep(self._delay_s(outcome, problem))

    async def relist(self) -> None:
        """Compare the store with a fresh listing during the running watch, and repair differences.

        For callers that do not trust a watch for ever. Raises the client's errors.
        """
        await self._list()

    def learn(self, new: T) -> None:
        """Take an object from the answer to one of this process's writes, earlier than its event.

        A late event from before the write then changes nothing. The resourceVersion of the watch stays as it is,
        because writes of other clients in between are still to arrive.
        """
        known = self.store.get(new.metadata.name, new.metadata.namespace)
        if self._versions.is_news(known, new):
            self.store.put(new)

    async def _follow_once(self) -> tuple[WatchOutcome, Exception | None]:
        """Run one listing if one is due, then one watch; return why it ended."""
        try:
            if self._must_list and not self._watch_list:
                await self._list()
            await self._watch()
        except Gone as problem:
            self._must_list = True
            soon = _loop_time() - self._listed_at < SOON_S
            self._quick_expiries = self._quick_expiries + 1 if soon else 0
            self._log.info("watch expired, listing again", reason=problem.message)
            return WatchOutcome.EXPIRED, problem
        except WatchSilent as problem:
            if self._must_list:
                self._disable_watch_list("the initial events did not end")
            return WatchOutcome.SILENT, self._count_failure(problem)
        except ApiError as problem:
            return WatchOutcome.REFUSED, self._count_failure(problem)
        except (Malformed, UnreadableAnswer) as problem:
            return WatchOutcome.MALFORMED, self._count_failure(problem)
        except KubeError as problem:
            return WatchOutcome.UNREACHABLE, self._count_failure(problem)
        return WatchOutcome.ENDED, None

    def _count_failure(self, problem: Exception) -> Exception:
        self._failures += 1
        self._fruitless += 1
        if isinstance(problem, NotFound):
            self.not_served.set()
        if self._fruitless >= FRUITLESS_WATCHES:
            self._must_list = True
        if str(problem) != self.problem:
            self.problem = str(problem)
            self._log.warning("watch interrupted", error=self.problem)
        return problem

    def _delay_s(self, outcome: WatchOutcome, problem: Exception | None) -> float:
        match outcome:
            case WatchOutcome.ENDED:
                # Without a delay, a server that ends watches at once would be called without a pause.
                brief = _loop_time() - self._opened_at < 1.0
                return RECONNECT.delay_s(max(1, self._failures), self._rng) if brief or self._failures else 0.0
            case WatchOutcome.EXPIRED:
                # The server works, but listing everything again and again would overload it.
                return RECONNECT.delay_s(self._quick_expiries, self._rng) if self._quick_expiries else 0.0
            case _ if isinstance(problem, Forbidden | NotFound | Unauthorized):
                self._refusals += 1
                if self.counts.listings and self._refusals <= STARTING_REFUSALS:
                    return RECONNECT.delay_s(self._refusals, self._rng)
                return REFUSED.delay_s(self._failures, self._rng)
            case _:
                return max(RECONNECT.delay_s(self._failures, self._rng), getattr(problem, "after_s", None) or 0.0)

    def _reset_failures(self) -> None:
        self._failures = 0
        self._fruitless = 0
        self._refusals = 0
        self.not_served.clear()
        if self.problem is not None:
            self.problem = None
            self._log.info("watch resumed")

    async def _list(self) -> None:
        since = self.store.resource_version
        page = await self._client.list_all(
            self._resource,
            self.scope.namespace,
            label_selector=self.scope.label_selector,
            field_selector=self.scope.field_selector,
            shard_selector=self.scope.shard_selector,
            kept=self._reuse_known,
        )
        for problem in page.malformed:
            self._report(problem)
        unreadable = {_key_of(each) for each in page.malformed}
        self._replace(page.items, page.resource_version, unreadable, since)

    def _reuse_known(self, new: T) -> T:
        """Use the store's object if it is equal, so that a listing does not hold two copies."""
        known = self.store.get(new.metadata.name, new.metadata.namespace)
        return known if known is not None and is_unchanged(known, new) else new

    async def _watch(self) -> None:
        """Run one watch until it ends; as WatchList if everything must be listed and the server supports it."""
        received = _InitialEvents[T](self.store.resource_version) if self._must_list else None
        timeout_s = self._rng.randint(*WATCH_S)
        patience = WatchTimeouts(timeout_s, initial=received is not None)
        version = "" if received is not None else self.store.resource_version
        self._opened_at = _loop_time()
        heard = False
        try:
            async with open_watch(
                self._client,
                self.scope,
                patience,
                resource_version=version,
                initial=received is not None,
                timeout_s=timeout_s,
            ) as batches:
                async for lines in batches:
                    patience.record_data()
                    heard = True
                    received = self._read(lines, received, patience)
        except (BadRequest, Invalid, MethodNotAllowed) as refusal:
            if received is None or heard:
                raise
            self._disable_watch_list(refusal.message)
            await self._list()
            await self._watch()
            return
        if received is not None:
            self._cut_short += 1
            if self._cut_short > 1:
                self._disable_watch_list("the watch ended twice before the end of the initial events")
        quick = _loop_time() - self._opened_at < SOON_S
        self._failures = self._failures + 1 if quick and not heard else 0

    def _disable_watch_list(self, why: str) -> None:
        self._watch_list = False
        self._log.info("WatchList not usable, listing in pages", reason=why)

    def _read(
        self, lines: Sequence[bytes], received: _InitialEvents[T] | None, patience: WatchTimeouts
    ) -> _InitialEvents[T] | None:
        """Apply lines that arrived together, in order; return the new value of `received`."""
        for line, change in zip(lines, self._decode_changes(lines), strict=True):
            if change is None:
                received = self._read_other(line, received, patience)
                continue
            if self._failures or self.problem:
                self._reset_failures()
            self.counts.events += 1
            self._change(change[0], change[1], received)
        return received

    def _read_other(
        self, line: bytes, received: _InitialEvents[T] | None, patience: WatchTimeouts
    ) -> _InitialEvents[T] | None:
        """Handle a line that is not an ordinary change."""
        try:
            event = decode_event(line)
        except Malformed as problem:
            self._report(problem)
            return received
        match event.type:
            case "ADDED" | "MODIFIED" | "DELETED":
                if self._failures or self.problem:
                    self._reset_failures()
                self._read_change(event.type, event.object, received)
            case "BOOKMARK":
                return self._read_bookmark(event.object, received, patience)
            case "ERROR":
                raise read_error(event.object)
            case other:
                self._report(Malformed("a watch event", "type", f"found {other!r}, allowed: ADDED, MODIFIED, DELETED"))
        return received

    def _read_bookmark(
        self, body: bytes, received: _InitialEvents[T] | None, patience: WatchTimeouts
    ) -> _InitialEvents[T] | None:
        """Handle a bookmark; return None if it ended the initial events."""
        bookmark = read_bookmark(body)
        self.counts.bookmarks += 1
        if received is None:
            self._reset_failures()
            self._advance(bookmark.resource_version)
        elif bookmark.ends_initial_events:
            self._replace(received.objects.values(), bookmark.resource_version, received.unreadable, received.since)
        else:
            return received
        patience.expect_bookmarks()
        return None

    def _read_change(self, kind: str, body: bytes, received: _InitialEvents[T] | None) -> None:
        self.counts.events += 1
        try:
            new = decode(self._resource, body)
        except Malformed as problem:
            self._read_unreadable(kind, body, problem, received)
            return
        self._change(kind, new, received)

    def _change(self, kind: str, new: T, received: _InitialEvents[T] | None) -> None:
        meta = new.metadata
        if self.malformed:
            self.malformed.pop(_key(meta.namespace, meta.name), None)
        if received is not None:
            received.change(kind, meta.namespace, meta.name, new)
        elif kind == "DELETED":
            self._delete(meta.namespace, meta.name, meta.resource_version)
        else:
            known = self.store.get(meta.name, meta.namespace)
            if self._versions.is_news(known, new):
                self._advance(meta.resource_version)
                self.store.put(new)
            else:
                self.counts.stale += 1

    def _read_unreadable(self, kind: str, body: bytes, problem: Malformed, received: _InitialEvents[T] | None) -> None:
        """Record an unreadable object; the store keeps its last readable state, unless the event is its deletion."""
        self._report(problem)
        meta = decode_metadata(body, problem.object)
        if received is not None:
            received.change(kind, meta.namespace, meta.name, None)
        elif kind == "DELETED":
            self.malformed.pop(_key(meta.namespace, meta.name), None)
            self._delete(meta.namespace, meta.name, meta.resource_version)
        else:
            self._advance(meta.resource_version)

    def _delete(self, namespace: str, name: str, version: str) -> None:
        known = self.store.get(name, namespace)
        if known is not None and is_older(version, known.metadata.resource_version):
            self.counts.stale += 1
            return
        self._versions.record_deleted(namespace, name, version)
        self._advance(version)
        self.store.remove(name, namespace)

    def _advance(self, version: str) -> None:
        """Advance the resourceVersion, never back: a server may repeat events, but a watch must not repeat them."""
        known = self.store.resource_version
        if (version > known and len(version) == len(known)) or (version and not is_older(version, known)):
            self.store.resource_version = version

    def _replace(self, objects: Iterable[T], version: str, unreadable: set[str], since: str) -> None:
        """Apply a listing that was requested when the store was at `since`.

        Events and answers to writes may be newer than the listing: their later states stay (`_replace_overtaken`).
        """
        newest = self.store.resource_version
        if is_older(version, since):
            self._old_listings += 1
            if self._old_listings <= FRUITLESS_WATCHES:
                raise _StaleListing(
                    f"the listing of {self.scope} has resourceVersion {version}, older than "
                    f"the known {since}; a new listing follows"
                )
            self._log.warning("older state of the server accepted, as after a restored backup")
            kept, newest = [*objects], version
        elif self._versions.is_listed_since(version):
            return  # two listings ran at once, and the later one was applied first
        else:
            kept = self._replace_overtaken(objects, version)
            newest = newest if is_older(version, newest) else version
        self._old_listings = 0
        self.counts.listings += 1
        self.malformed = {key: each for key, each in self.malformed.items() if key in unreadable}
        self._versions.record_listed(version)
        self.store.resource_version = newest
        self.store.replace(kept, lambda old: _key(old.metadata.namespace, old.metadata.name) in unreadable)
        self._must_list = False
        self._listed_at = _loop_time()
        self._cut_short = 0
        self._reset_failures()

    def _replace_overtaken(self, objects: Iterable[T], version: str) -> list[T]:
        """Return a listing of this version with each object replaced by its later known state, if there is one."""
        versions = self._versions
        listed = {(each.metadata.namespace, each.metadata.name): each for each in objects}
        kept = [each for key, each in listed.items() if not versions.is_deleted_since(*key, version)]
        for number, each in enumerate(kept):
            known = self.store.get(each.metadata.name, each.metadata.namespace)
            if known is not None and is_older(each.metadata.resource_version, known.metadata.resource_version):
                kept[number] = known
        for known in self.store.list():
            meta = known.metadata
            if (meta.namespace, meta.name) not in listed and is_older(version, meta.resource_version):
                kept.append(known)
        return kept

    def _report(self, problem: Malformed) -> None:
        self.counts.malformed += 1
        key = _key_of(problem)
        known = self.malformed.get(key)
        if known is not None and str(known) == str(problem):
            return
        if known is not None or len(self.malformed) < MOST_MALFORMED:
            self.malformed[key] = problem
        self._log.warning(
            "decoding of an object failed", object=problem.object, path=problem.path, error=problem.problem
        )


class _InitialEvents(Generic[T]):
    """The events of a WatchList before the end of the initial events."""

    def __init__(self, since: str) -> None:
        self.since = since  # the store's version when the request was sent
        self.objects: dict[tuple[str, str], T] = {}
        self.unreadable: set[str] = set()

    def change(self, kind: str, namespace: str, name: str, new: T | None) -> None:
        """Apply one event; `new` is None when the object cannot be read."""
        self.unreadable.discard(_key(namespace, name))
        self.objects.pop((namespace, name), None)
        if kind == "DELETED":
            return
        if new is None:
            self.unreadable.add(_key(namespace, name))
        else:
            self.objects[namespace, name] = new


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


def _key(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def _key_of(problem: Malformed) -> str:
    """Return the object's key: `default/web-0` for `pods default/web-0`."""
    return problem.object.rpartition(" ")[2]
