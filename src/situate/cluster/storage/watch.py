"""Stream one watch: the frames to send, and the deadlines that end the stream.

Sans-I/O: the shell (or the simulator) calls `take` when it can write, and `tick` when time has passed. The watch calls
`wake` when new frames are pending. All watches that show an object in the same form share the bytes of its frame.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

from situate.cluster.storage.store import Event, Table
from situate.cluster.storage.stored_object import StoredObject

BOOKMARK_PERIOD: Final = 60.0
"""Seconds between bookmarks (apiserver storage/cacher: about once a minute)."""

_TAKE_BYTES: Final = 1 << 20
"""A `take` stops after about this many bytes, so that it never doubles the backlog of a watch in memory."""

_MAX_PENDING: Final = 200_000
"""A watch that lags this many events behind is closed, as upstream closes slow watches. The client starts a new one."""


class View(Protocol):
    """The selection and format of objects in one watch."""

    def shows(self, obj: StoredObject) -> bool:
        """Return whether the object is selected."""
        ...

    def frame(self, type_: str, obj: StoredObject, event: Event | None) -> bytes:
        """Return one line of the answer."""
        ...

    def bookmark(self, revision: int, *, initial_events_end: bool) -> bytes: ...


class Watch:
    """One watch. It has ended when `closed` is set and `take` has returned everything pending."""

    def __init__(
        self,
        table: Table,
        view: View,
        *,
        deadline: float,
        bookmark_due: float | None,
        revision: Callable[[], int],
        headers: Mapping[str, str],
    ) -> None:
        self.status = 200
        self.headers = headers
        self.wake: Callable[[], None] = lambda: None
        """Called when frames are pending or the watch was closed, at most once until the next `take`."""
        self.deadline = deadline
        """Unix seconds at which the server ends the watch."""
        self.closed = False
        self._table = table
        self._view = view
        self._after = 0
        self._revision = revision
        self._bookmark_due = bookmark_due
        self._initial: Iterator[bytes] | None = None
        self._pending: deque[bytes] = deque()
        self._awake = True

    def begin(self, *, after: int, initial: Iterator[bytes] | None = None, backlog: tuple[Event, ...] = ()) -> None:
        """Start to listen. The `initial` frames come first, then the `backlog`, then changes after revision `after`."""
        self._initial = initial
        self._after = after
        for event in backlog:
            self._append_frame(event)
        self._table.watchers.append(self)

    def notify(self, event: Event) -> None:
        """Receive a change from the table."""
        if event.revision <= self._after:
            return
        before = len(self._pending)
        self._append_frame(event)
        if len(self._pending) > before:
            if len(self._pending) > _MAX_PENDING:
                self.close()
            self._wake()

    @property
    def pending(self) -> bool:
        """Return whether `take` would return frames."""
        return bool(self._pending) or self._initial is not None

    def take(self) -> bytes:
        """Return pending frames, about a mebibyte at most; empty if there are none."""
        self._awake = False
        if self._initial is not None:
            first = self._take_initial()
            if first:
                return first
        pending = self._pending
        if not pending:
            return b""
        if len(pending) <= 64:
            joined = b"".join(pending)
            pending.clear()
            return joined
        frames: list[bytes] = []
        size = 0
        while pending and size < _TAKE_BYTES:
            frame = pending.popleft()
            size += len(frame)
            frames.append(frame)
        return b"".join(frames)

    def tick(self, now: float) -> float:
        """Send a bookmark if one is due, end the watch at its deadline, and return the time of the next tick."""
        if now >= self.deadline:
            self.close()
            return self.deadline
        if self._bookmark_due is None:
            return self.deadline
        if now >= self._bookmark_due:
            self._bookmark_due = now + BOOKMARK_PERIOD
            self.bookmark(self._revision())
        return min(self._bookmark_due, self.deadline)

    def bookmark(self, revision: int, *, initial_events_end: bool = False) -> None:
        """Send a bookmark: everything up to `revision` was sent."""
        self.push(self._view.bookmark(revision, initial_events_end=initial_events_end))

    def push(self, frame: bytes) -> None:
        """Send a frame that is not a change."""
        self._pending.append(frame)
        self._wake()

    def close(self) -> None:
        """Send no more events. Repeated calls have no effect."""
        if self.closed:
            return
        self.closed = True
        if self in self._table.watchers:
            self._table.watchers.remove(self)
        self._wake()

    def _append_frame(self, event: Event) -> None:
        view = self._view
        was = event.old is not None and view.shows(event.old)
        now = event.new is not None and view.shows(event.new)
        if now:
            self._pending.append(view.frame("MODIFIED" if was else "ADDED", event.last, event))
        elif was:
            assert event.old is not None
            gone = event.last if event.new is None else event.old.with_revision(event.revision)
            self._pending.append(view.frame("DELETED", gone, event if event.new is None else None))

    def _take_initial(self) -> bytes:
        assert self._initial is not None
        frames: list[bytes] = []
        size = 0
        for frame in self._initial:
            frames.append(frame)
            size += len(frame)
            if size >= _TAKE_BYTES:
                return b"".join(frames)
        self._initial = None
        return b"".join(frames)

    def _wake(self) -> None:
        if not self._awake:
            self._awake = True
            self.wake()
