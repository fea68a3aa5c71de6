"""Keeps a store equal to what the API server has: list, watch, and begin again whenever that breaks.

Follows client-go's reflector (`tools/cache/reflector.go`): WatchList where the server knows it (KEP-3157), paged list
and watch where not; a watch goes on from the last resourceVersion, and after 410 everything is listed anew, with
deletions told for what has gone meanwhile. What is read when is decided here; what a line says, in
`situate.kube.watch.stream`; who is told of changes, in `situate.kube.watch.store`.
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
from situate.kube.watch.resource_versions import Versions, older
from situate.kube.watch.store import Store, unchanged
from situate.kube.watch.stream import Patience, Silent, WatchScope, open_watch, read_bookmark, read_error
from situate.objects.decoding.codec import Malformed, changes_decoder, decode, decode_event, decode_metadata
from situate.objects.kinds.meta import KubernetesObject
from situate.objects.resources import ResourceType

T = TypeVar("T", bound=KubernetesObject)

RECONNECT: Final = Backoff(initial_s=0.8, cap_s=30.0, jitter=1.0)
"""client-go's reflector, reset here by anything that is received and not by time."""
REFUSED: Final = Backoff(initial_s=10.0, cap_s=60.0, jitter=0.5)
"""For a missing permission, CRD or login: somebody must act first, and is quick to want an effect then."""
WATCH_S: Final = (300, 600)
"""A watch is asked to end after a random time between these, so that many clients do not come back together."""
STARTING_REFUSALS: Final = 4
"""An API server that starts refuses what it allowed before, until it has read its roles and definitions: so many
refusals in a row of what was once allowed are no more than any failure."""
FRUITLESS_WATCHES: Final = 3
"""After so many watches in a row that brought only errors, the resourceVersion is doubted and all is listed."""
SOON_S: Final = 10.0
"""A watch that expires or ends without a word within this time did not help."""
MOST_MALFORMED: Final = 1000
"""Unreadable objects that are remembered one by one."""


class WatchOutcome(Enum):
    """What ended an attempt to follow the server; a label of the metrics."""

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
    """Events that were older than what was known, and were dropped."""


class _StillOld(KubeError):
    """A listing that is older than what was seen before: a replica of the server that lags behind."""

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
        """`observe` is told whenever a connection has ended, and must not block."""
        self.scope = WatchScope(resource, namespace, label_selector, field_selector, shard_selector)
        self.name = f"watch {self.scope}"
        self.store = store
        self.counts = WatchCounts()
        self.problem: str | None = None
        """Why the store is not being kept current, in a sentence; None while it is."""
        self.not_served = asyncio.Event()
        """Set while the server says that it knows no such resource."""
        self.malformed: dict[str, Malformed] = {}
        """Objects that exist and cannot be read, by `namespace/name`; the store has their last readable state."""
        self._client = client
        self._resource = resource
        self._decode_changes = changes_decoder(resource)
        self._rng = rng
        self._observe = observe
        self._versions = Versions()
        self._must_list = True
        self._watch_list = True  # until the server shows that it does not know WatchList
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
        """For readiness: why the store cannot be relied on yet; None once everything has been seen."""
        if self.store.synced:
            return None
        return self.problem or f"{self.scope} is not listed yet"

    async def run(self) -> None:
        """Follows the server until cancelled; no answer of the server ends it."""
        while True:
            outcome, problem = await self._follow_once()
            self._observe(outcome)
            await asyncio.sleep(self._delay_s(outcome, problem))

    async def relist(self) -> None:
        """Compares the store with a fresh listing beside the running watch, and repairs what differs.

        For those who do not trust a watch for ever. Raises what the client raises.
        """
        await self._list()

    def learn(self, new: T) -> None:
        """The answer to a write of ours shows this object: as good as an event, and earlier.

        An event from before the write that arrives later changes nothing. How far the watch has come stays as it is:
        what others wrote meanwhile is still to be told.
        """
        known = self.store.get(new.metadata.name, new.metadata.namespace)
        if self._versions.is_news(known, new):
            self.store.put(new)

    async def _follow_once(self) -> tuple[WatchOutcome, Exception | None]:
        """One listing if one is due, then one watch; why it ended."""
        try:
            if self._must_list and not self._watch_list:
                await self._list()
            await self._watch()
        except Gone as problem:
            self._must_list = True
            soon = _now() - self._listed_at < SOON_S
            self._quick_expiries = self._quick_expiries + 1 if soon else 0
            self._log.info("the watch has to begin again", reason=problem.message)
            return WatchOutcome.EXPIRED, problem
        except Silent as problem:
            if self._must_list:
                self._without_watch_list("the end of the initial events did not come")
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
            self._log.warning("the watch is interrupted", error=self.problem)
        return problem

    def _delay_s(self, outcome: WatchOutcome, problem: Exception | None) -> float:
        match outcome:
            case WatchOutcome.ENDED:
                # A server that ends watches at once would otherwise be asked without a pause.
                brief = _now() - self._opened_at < 1.0
                return RECONNECT.delay_s(max(1, self._failures), self._rng) if brief or self._failures else 0.0
            case WatchOutcome.EXPIRED:
                # Nothing is wrong with the server; but listing everything again and again would make it so.
                return RECONNECT.delay_s(self._quick_expiries, self._rng) if self._quick_expiries else 0.0
            case _ if isinstance(problem, Forbidden | NotFound | Unauthorized):
                self._refusals += 1
                if self.counts.listings and self._refusals <= STARTING_REFUSALS:
                    return RECONNECT.delay_s(self._refusals, self._rng)
                return REFUSED.delay_s(self._failures, self._rng)
            case _:
                return max(RECONNECT.delay_s(self._failures, self._rng), getattr(problem, "after_s", None) or 0.0)

    def _progress(self) -> None:
        self._failures = 0
        self._fruitless = 0
        self._refusals = 0
        self.not_served.clear()
        if self.problem is not None:
            self.problem = None
            self._log.info("the watch goes on")

    async def _list(self) -> None:
        since = self.store.resource_version
        page = await self._client.list_all(
            self._resource,
            self.scope.namespace,
            label_selector=self.scope.label_selector,
            field_selector=self.scope.field_selector,
            shard_selector=self.scope.shard_selector,
            kept=self._as_known,
        )
        for problem in page.malformed:
            self._report(problem)
        unreadable = {_key_of(each) for each in page.malformed}
        self._replace(page.items, page.resource_version, unreadable, since)

    def _as_known(self, new: T) -> T:
        """What the store has already need not be there twice while the rest is listed."""
        known = self.store.get(new.metadata.name, new.metadata.namespace)
        return known if known is not None and unchanged(known, new) else new

    async def _watch(self) -> None:
        """One watch until it ends; as WatchList if everything has to be seen anew and the server knows that."""
        received = _Initial[T](self.store.resource_version) if self._must_list else None
        timeout_s = self._rng.randint(*WATCH_S)
        patience = Patience(timeout_s, initial=received is not None)
        version = "" if received is not None else self.store.resource_version
        self._opened_at = _now()
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
                    patience.heard()
                    heard = True
                    received = self._read(lines, received, patience)
        except (BadRequest, Invalid, MethodNotAllowed) as refusal:
            if received is None or heard:
                raise
            self._without_watch_list(refusal.message)
            await self._list()
            await self._watch()
            return
        if received is not None:
            self._cut_short += 1
            if self._cut_short > 1:
                self._without_watch_list("the watch ended twice before the end of the initial events")
        quick = _now() - self._opened_at < SOON_S
        self._failures = self._failures + 1 if quick and not heard else 0

    def _without_watch_list(self, why: str) -> None:
        self._watch_list = False
        self._log.info("WatchList does not work here; listing in pages instead", reason=why)

    def _read(self, lines: Sequence[bytes], received: _Initial[T] | None, patience: Patience) -> _Initial[T] | None:
        """Lines that have arrived together, in their order; gives what is `received` after them."""
        for line, change in zip(lines, self._decode_changes(lines), strict=True):
            if change is None:
                received = self._read_other(line, received, patience)
                continue
            if self._failures or self.problem:
                self._progress()
            self.counts.events += 1
            self._change(change[0], change[1], received)
        return received

    def _read_other(self, line: bytes, received: _Initial[T] | None, patience: Patience) -> _Initial[T] | None:
        """A line that is no change in order."""
        try:
            event = decode_event(line)
        except Malformed as problem:
            self._report(problem)
            return received
        match event.type:
            case "ADDED" | "MODIFIED" | "DELETED":
                if self._failures or self.problem:
                    self._progress()
                self._read_change(event.type, event.object, received)
            case "BOOKMARK":
                return self._read_bookmark(event.object, received, patience)
            case "ERROR":
                raise read_error(event.object)
            case other:
                self._report(Malformed("a watch event", "type", f"{other!r} is none of ADDED, MODIFIED, DELETED"))
        return received

    def _read_bookmark(self, body: bytes, received: _Initial[T] | None, patience: Patience) -> _Initial[T] | None:
        """Gives None when it ended the initial events."""
        bookmark = read_bookmark(body)
        self.counts.bookmarks += 1
        if received is None:
            self._progress()
            self._advance(bookmark.resource_version)
        elif bookmark.ends_initial_events:
            self._replace(received.objects.values(), bookmark.resource_version, received.unreadable, received.since)
        else:
            return received
        patience.expect_bookmarks()
        return None

    def _read_change(self, kind: str, body: bytes, received: _Initial[T] | None) -> None:
        self.counts.events += 1
        try:
            new = decode(self._resource, body)
        except Malformed as problem:
            self._read_unreadable(kind, body, problem, received)
            return
        self._change(kind, new, received)

    def _change(self, kind: str, new: T, received: _Initial[T] | None) -> None:
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

    def _read_unreadable(self, kind: str, body: bytes, problem: Malformed, received: _Initial[T] | None) -> None:
        """The object stays as it was last readable, unless all that must be read is that it has gone."""
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
        if known is not None and older(version, known.metadata.resource_version):
            self.counts.stale += 1
            return
        self._versions.deleted(namespace, name, version)
        self._advance(version)
        self.store.remove(name, namespace)

    def _advance(self, version: str) -> None:
        """Never back: a server may repeat itself, but a watch must not go on from before what is known."""
        known = self.store.resource_version
        if (version > known and len(version) == len(known)) or (version and not older(version, known)):
            self.store.resource_version = version

    def _replace(self, objects: Iterable[T], version: str, unreadable: set[str], since: str) -> None:
        """Takes a listing that was asked for when the store was at `since`.

        Events and answers to writes may have overtaken it: what they told of later states stays (`_not_overtaken`).
        """
        newest = self.store.resource_version
        if older(version, since):
            self._old_listings += 1
            if self._old_listings <= FRUITLESS_WATCHES:
                raise _StillOld(
                    f"the listing of {self.scope} is of resourceVersion {version}, older than "
                    f"{since} that was seen before; it is listed again"
                )
            self._log.warning("the server has gone back in time, as after a restored backup; following it")
            kept, newest = [*objects], version
        elif self._versions.listed_since(version):
            return  # two listings were under way, and the later one is here already
        else:
            kept = self._not_overtaken(objects, version)
            newest = newest if older(version, newest) else version
        self._old_listings = 0
        self.counts.listings += 1
        self.malformed = {key: each for key, each in self.malformed.items() if key in unreadable}
        self._versions.listed(version)
        self.store.resource_version = newest
        self.store.replace(kept, lambda old: _key(old.metadata.namespace, old.metadata.name) in unreadable)
        self._must_list = False
        self._listed_at = _now()
        self._cut_short = 0
        self._progress()

    def _not_overtaken(self, objects: Iterable[T], version: str) -> list[T]:
        """A listing of this version, with what is known of later states in the place of what it says."""
        versions = self._versions
        listed = {(each.metadata.namespace, each.metadata.name): each for each in objects}
        kept = [each for key, each in listed.items() if not versions.gone_since(*key, version)]
        for number, each in enumerate(kept):
            known = self.store.get(each.metadata.name, each.metadata.namespace)
            if known is not None and older(each.metadata.resource_version, known.metadata.resource_version):
                kept[number] = known
        for known in self.store.list():
            meta = known.metadata
            if (meta.namespace, meta.name) not in listed and older(version, meta.resource_version):
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
        self._log.warning("an object cannot be read", object=problem.object, path=problem.path, error=problem.problem)


class _Initial(Generic[T]):
    """What a WatchList has sent so far, before its end."""

    def __init__(self, since: str) -> None:
        self.since = since  # the store's version when the server was asked
        self.objects: dict[tuple[str, str], T] = {}
        self.unreadable: set[str] = set()

    def change(self, kind: str, namespace: str, name: str, new: T | None) -> None:
        """`new` is None when the object cannot be read."""
        self.unreadable.discard(_key(namespace, name))
        self.objects.pop((namespace, name), None)
        if kind == "DELETED":
            return
        if new is None:
            self.unreadable.add(_key(namespace, name))
        else:
            self.objects[namespace, name] = new


def _now() -> float:
    return asyncio.get_running_loop().time()


def _key(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def _key_of(problem: Malformed) -> str:
    """`pods default/web-0` names `default/web-0`."""
    return problem.object.rpartition(" ")[2]
