"""Store versioned objects and the log of their changes, as etcd and the watch cache of a real API server do.

One counter numbers all revisions, as in etcd. The store is single-threaded and has no locks. When a write returns, it
is complete and every listener was called, so the same calls give the same store. `situate.cluster.write` decides the
meaning of an object (defaults, generation, admission).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Literal, Protocol, TypeAlias

from situate.cluster.storage.stored_object import ManagedFieldsEntry, StoredObject, encode_object, encode_object_parts

EventType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED"]


class Event:
    """One change of one object."""

    __slots__ = ("_frames", "_last", "new", "old", "resource", "revision", "type")

    def __init__(
        self, type_: EventType, resource: str, revision: int, old: StoredObject | None, new: StoredObject | None
    ) -> None:
        self.type: EventType = type_
        self.resource = resource
        """Plural and group: `pods`, `deployments.apps`."""
        self.revision = revision
        self.old = old
        """None if the object was created."""
        self.new = new
        """None if the object was deleted."""
        self._last: StoredObject | None = new
        self._frames: dict[Any, bytes] = {}

    @property
    def last(self) -> StoredObject:
        """Return the object that the event shows; a deleted one has the revision of its deletion."""
        if self._last is None:
            assert self.old is not None
            self._last = self.old.with_revision(self.revision)
        return self._last

    def frame(self, key: Any, build: Callable[[], bytes]) -> bytes:
        """Return the bytes for watchers. They are built once per `key` and shared while the event is delivered."""
        frame = self._frames.get(key)
        if frame is None:
            frame = self._frames[key] = build()
        return frame

    def drop_frames(self) -> None:
        """Drop the shared bytes. The log holds only the objects."""
        self._frames.clear()
        if self.new is None:
            self._last = None


Listener: TypeAlias = Callable[[Event], None]


class Watcher(Protocol):
    """Receiver of each change of one resource, in order, during the write."""

    def notify(self, event: Event) -> None: ...


class Expired(Exception):
    """The requested revision is no longer in the log."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {asked} ({oldest})")
        self.asked = asked
        self.oldest = oldest


class Table:
    """All objects of one resource by key (`namespace/name` or `name`), and the log of their latest changes."""

    def __init__(self, resource: str, floor: int, window: int) -> None:
        self.resource = resource
        self.objects: dict[str, StoredObject] = {}
        self.floor = floor
        """Oldest revision from which the log can serve a watch."""
        self._history = floor
        self.watchers: list[Watcher] = []
        self._log: deque[Event] = deque()
        self._window = window
        self._order: list[str] = []
        self._is_sorted = True

    def keys(self, namespace: str = "") -> list[str]:
        """Return the keys in order, with a namespace only those in it. The caller must not change the list."""
        if not self._is_sorted:
            self._order = sorted(self.objects)
            self._is_sorted = True
        if not namespace:
            return self._order
        # "0" is the character after "/", so the range holds exactly the keys that begin with "namespace/".
        first = bisect_left(self._order, namespace + "/")
        return self._order[first : bisect_left(self._order, namespace + "0", first)]

    def sorted_objects(self, namespace: str = "") -> list[StoredObject]:
        """Return the objects in the order of their keys, as etcd does."""
        objects = self.objects
        return [objects[key] for key in self.keys(namespace)]

    def objects_at(self, revision: int) -> dict[str, StoredObject]:
        """Return the objects at an earlier revision. Raises `Expired` if the log does not reach back that far."""
        if revision < self._history:
            raise Expired(revision, self._history)
        objects = dict(self.objects)
        for event in reversed(self._log):
            if event.revision <= revision:
                break
            if event.old is None:
                del objects[event.last.key]
            else:
                objects[event.old.key] = event.old
        return objects

    def sorted_objects_at(self, revision: int, namespace: str = "") -> list[StoredObject]:
        """Return the objects of `objects_at` in the order of their keys, with a namespace only those in it."""
        past = self.objects_at(revision)
        return [past[key] for key in sorted(past) if not namespace or past[key].namespace == namespace]

    def events_since(self, revision: int) -> list[Event]:
        """Return the changes after `revision`, oldest first.

        Raises `Expired` if the log does not reach back that far.
        """
        if revision < self.floor:
            raise Expired(revision, self.floor)
        events: list[Event] = []
        for event in reversed(self._log):
            if event.revision <= revision:
                break
            events.append(event)
        events.reverse()
        return events

    def compact(self, revision: int, *, pages: bool) -> None:
        """Answer watches from before `revision` with 410 from now on; with `pages` also lists at older revisions."""
        self.floor = revision
        if pages:
            self._log.clear()
            self._history = revision

    def restore(self, key: str, new: StoredObject | None) -> None:
        """Set or remove an object without logging a change. Only the store calls it."""
        self._is_sorted = False
        if new is None:
            self.objects.pop(key, None)
        else:
            self.objects[key] = new

    def append(self, event: Event) -> None:
        """Apply a change. Only the store calls it."""
        last = event.last
        key = last.key
        if event.new is None:
            del self.objects[key]
            self._is_sorted = False
        else:
            if event.old is None:
                self._is_sorted = False
            self.objects[key] = event.new
        self._log.append(event)
        if len(self._log) > self._window:
            self._history = self._log.popleft().revision
            self.floor = max(self.floor, self._history)


class Store:
    """The tables, and the counter that orders all changes.

    `window` is the number of changes that the log of each resource holds.
    """

    def __init__(self, *, window: int = 10_000, revision: int = 1) -> None:
        self.revision = revision
        """Revision of the latest change."""
        self.start = revision
        """First revision of the log; earlier revisions count as compacted."""
        self._window = window
        self._tables: dict[str, Table] = {}
        self._listeners: list[Listener] = []

    def table(self, resource: str) -> Table:
        """Return the table of a resource; it is empty if the resource has no objects yet."""
        table = self._tables.get(resource)
        if table is None:
            table = self._tables[resource] = Table(resource, self.start, self._window)
        return table

    def tables(self) -> Iterator[Table]:
        """Yield every table, sorted by resource."""
        for resource in sorted(self._tables):
            yield self._tables[resource]

    def get(self, resource: str, namespace: str, name: str) -> StoredObject | None:
        """Return the object, or None."""
        table = self._tables.get(resource)
        if table is None:
            return None
        return table.objects.get(f"{namespace}/{name}" if namespace else name)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every change, in order, before the write returns. The result unsubscribes.

        A listener must not write: other listeners would then get the changes out of order.
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def put(
        self,
        resource: str,
        obj: dict[str, Any],
        *,
        managed: tuple[ManagedFieldsEntry, ...] = (),
        fields: tuple[str, ...] = (),
    ) -> StoredObject:
        """Create or replace an object as given, at the next revision.

        The caller has checked that the write is allowed.
        """
        new = encode_object(obj, self.revision + 1, managed=managed, fields=fields)
        self._commit(resource, new)
        return new

    def put_encoded(
        self,
        resource: str,
        kind: str,
        api_version: str,
        metadata: dict[str, Any],
        rest: bytes,
        *,
        managed: tuple[ManagedFieldsEntry, ...] = (),
        fields: tuple[str, ...] = (),
    ) -> StoredObject:
        """Do the same as `put` for an object of which everything except its metadata is already JSON."""
        new = encode_object_parts(kind, api_version, metadata, rest, self.revision + 1, managed, fields)
        self._commit(resource, new)
        return new

    def remove(self, resource: str, namespace: str, name: str) -> Event:
        """Delete an object that exists."""
        table = self.table(resource)
        old = table.objects[f"{namespace}/{name}" if namespace else name]
        self.revision += 1
        event = Event("DELETED", resource, self.revision, old, None)
        self._publish(table, event)
        return event

    def restore(self, resource: str, new: StoredObject) -> None:
        """Restore an object from a journal or a snapshot without notifying listeners. Only before the first request."""
        self.table(resource).restore(new.key, new)
        self.revision = max(self.revision, new.revision)

    def restore_deletion(self, resource: str, key: str, revision: int) -> None:
        """Restore a deletion from a journal."""
        self.table(resource).restore(key, None)
        self.revision = max(self.revision, revision)

    def compact(self, *, pages: bool = False) -> None:
        """Answer every watch from an earlier revision with 410 from now on.

        Lists in progress can still continue, as after a compaction of etcd, unless `pages` is set.
        """
        self.start = self.revision
        for table in self._tables.values():
            table.compact(self.revision, pages=pages)

    def _commit(self, resource: str, new: StoredObject) -> None:
        table = self.table(resource)
        old = table.objects.get(new.key)
        self.revision = new.revision
        self._publish(table, Event("ADDED" if old is None else "MODIFIED", resource, new.revision, old, new))

    def _publish(self, table: Table, event: Event) -> None:
        table.append(event)
        # A listener that records the change may fail. Then no watcher is notified of a change that is not recorded.
        for listener in self._listeners:
            listener(event)
        for watcher in tuple(table.watchers):
            watcher.notify(event)
        event.drop_frames()
