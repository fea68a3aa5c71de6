"""One watch: frames waiting to be sent, and the deadlines that end it.

Sans-I/O: the shell (or the simulator) calls `take` when it can write, is called back through `wake` when there is
something new, and calls `tick` when time has passed. The bytes of a frame are shared by all watches that show an
object in the same form.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

from situate.cluster.storage.store import Event, Table
from situate.cluster.storage.stored import Stored

BOOKMARK_PERIOD: Final = 60.0
"""Seconds between bookmarks (apiserver storage/cacher: about once a minute)."""

_TAKE_BYTES: Final = 1 << 20
"""A `take` stops after about so many bytes, so that one watcher's backlog is not doubled in memory at once."""

_MOST_PENDING: Final = 200_000
"""A watcher that lags so many events behind is cut off, as upstream's slow watchers are; it starts anew."""


class View(Protocol):
    """How one watch selects and shows objects."""

    def shows(self, obj: Stored) -> bool:
        """Whether the object is selected."""
        ...

    def frame(self, type_: str, obj: Stored, event: Event | None) -> bytes:
        """One line of the answer."""
        ...

    def bookmark(self, revision: int, *, initial_events_end: bool) -> bytes: ...


class Watch:
    """Ends when `closed` and everything pending was taken."""

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
        """Called when something is pending or the watch was closed, at most once until the next `take`."""
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
        """Starts to listen: first the `initial` frames, then the `backlog`, then changes after revision `after`."""
        self._initial = initial
        self._after = after
        for event in backlog:
            self._see(event)
        self._table.watchers.append(self)

    def notify(self, event: Event) -> None:
        """The table's callback."""
        if event.revision <= self._after:
            return
        before = len(self._pending)
        self._see(event)
        if len(self._pending) > before:
            if len(self._pending) > _MOST_PENDING:
                self.close()
            self._wake()

    @property
    def pending(self) -> bool:
        """Whether `take` would give anything."""
        return bool(self._pending) or self._initial is not None

    def take(self) -> bytes:
        """Frames that wait to be sent, about a mebibyte at most; empty if there are none."""
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
        """Sends a bookmark if one is due, ends the watch at its deadline; returns when to tick again."""
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
        """Says that everything up to `revision` was sent."""
        self.push(self._view.bookmark(revision, initial_events_end=initial_events_end))

    def push(self, frame: bytes) -> None:
        """Sends a frame that is not a change."""
        self._pending.append(frame)
        self._wake()

    def close(self) -> None:
        """No more events. Harmless when repeated."""
        if self.closed:
            return
        self.closed = True
        if self in self._table.watchers:
            self._table.watchers.remove(self)
        self._wake()

    def _see(self, event: Event) -> None:
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
