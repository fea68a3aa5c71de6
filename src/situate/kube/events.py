"""Records Events on objects, aggregated and in the background.

Events are written as core/v1, because `kubectl describe` reads core/v1. It sorts by `lastTimestamp` and prints `5s (x12
over 3m)` from `count`, `firstTimestamp` and `lastTimestamp`. An Event written through events.k8s.io/v1 has no
`lastTimestamp` and is sorted before all others. An Event that names an action is still written there, as kube-scheduler
does.

A repeated Event is a series: one Event whose count grows, as in client-go's correlator. In events.k8s.io/v1 the note of
an Event cannot change, so a different message starts a new Event.

`record` never waits and never fails; an Event that cannot be stored or written is dropped and counted.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol, TypeAlias

import structlog

from situate.kube.client import Client
from situate.kube.errors import AlreadyExists, KubeError, NotFound
from situate.kube.patches import MergePatch
from situate.kube.retry.backoff import Backoff
from situate.objects.kinds.events import ObjectReference
from situate.objects.kinds.meta import KubernetesObject
from situate.objects.resources import CORE_EVENTS, EVENTS, ResourceType
from situate.objects.values.timestamps import micro_time, rfc3339

WINDOW_S: Final = 600.0
"""A reason not repeated on an object for this long starts a new Event (client-go: ten minutes)."""
BURST: Final = 25
"""Writes about one object that may leave at once (client-go's spam filter)."""
REFILL_S: Final = 30.0
"""After its burst, one write about an object per this time; counts that wait are written together."""
MOST_SENTENCES: Final = 10
"""Different messages of one reason that are separate Events in the window (client-go: ten); others share one Event."""
MOST_SERIES: Final = 4096
"""Default number of Events that may wait or grow at one time."""
ATTEMPTS: Final = 5
RETRY: Final = Backoff(initial_s=1.0, cap_s=30.0)
FLUSH_S: Final = 2.0
"""How long the end of the process waits for Events to be written."""
_LEAST_WAIT_S: Final = 1e-6
"""Shortest sleep: without it, an Event due within a rounding error would be checked again without time passing."""
LONGEST_MESSAGE: Final = 1024

NORMAL: Final = "Normal"
WARNING: Final = "Warning"


RecordEvent: TypeAlias = Callable[[ObjectReference, str, str, str], object]
"""Records an Event: object, `NORMAL` or `WARNING`, reason, message. Never blocks and never raises."""


class RecordActionEvent(Protocol):
    """Records an Event that may name an action. Never blocks and never raises."""

    def __call__(
        self,
        regarding: ObjectReference,
        type_: str,
        reason: str,
        message: str,
        action: str = "",
        related: ObjectReference | None = None,
        reporter: str = "",
    ) -> None: ...


@dataclass(slots=True)
class EventCounts:
    """Totals since the start."""

    recorded: int = 0
    written: int = 0
    dropped_full: int = 0
    """Too many Events at one time."""
    dropped_refused: int = 0
    """Refused by the server, as in a namespace that is being deleted."""
    dropped_failed: int = 0
    """Not written within `ATTEMPTS` attempts, or before the end of the process."""


def reference(resource: ResourceType[Any], regarding: KubernetesObject) -> ObjectReference:
    """Return a reference to an object for `EventRecorder.record`."""
    meta = regarding.metadata
    return ObjectReference(
        resource.api_version, resource.kind, meta.namespace, meta.name, meta.uid, meta.resource_version
    )


_ObjectKey = tuple[str, str, str, str]
_ReasonKey = tuple[_ObjectKey, str, str]
_SeriesKey = tuple[_ObjectKey, str, str, str]
"""Object, type, reason, and the message if each message is a separate Event."""


@dataclass(slots=True)
class _Series:
    """One reason on one object, with its count."""

    regarding: ObjectReference
    type: str
    reason: str
    message: str
    first: datetime
    last: datetime
    seen_at: float
    action: str = ""
    """Empty: written as core/v1."""
    related: ObjectReference | None = None
    """None if the Event concerns only one object."""
    reporter: str = ""
    """Empty: the recorder's component."""
    count: int = 1
    name: str = ""
    """Name of the Event on the server; empty before it is created."""
    not_before: float = 0.0
    failures: int = 0
    writing: bool = False


@dataclass(slots=True)
class _Bucket:
    """The remaining writes about one object."""

    tokens: float = float(BURST)
    counted_at: float = field(default=0.0)

    def free_at(self, now: float) -> float:
        """Return when the next write may leave."""
        self.tokens = min(float(BURST), self.tokens + (now - self.counted_at) / REFILL_S)
        self.counted_at = now
        return now if self.tokens >= 1 else now + (1 - self.tokens) * REFILL_S


class EventRecorder:
    """A service: call `record` from anywhere on the loop; `run` writes until `stop`.

    Pass a client whose rate limit other work does not need.
    """

    name = "events"

    def __init__(
        self,
        client: Client,
        component: str,
        instance: str,
        *,
        wall_clock: Callable[[], datetime],
        rng: random.Random,
        writers: int = 4,
        most: int = MOST_SERIES,
    ) -> None:
        """Take the client and the source of the Events.

        `kubectl describe` shows `component` under From; `instance` identifies the process. `most` bounds the Events
        that may wait or grow at one time.
        """
        self.counts = EventCounts()
        self._client = client
        self._component = component
        self._instance = instance
        self._wall_clock = wall_clock
        self._rng = rng
        self._writers = writers
        self._most = most
        self._series: dict[_SeriesKey, _Series] = {}  # ordered by the time of the last occurrence
        self._waiting: dict[_SeriesKey, _Series] = {}
        self._sentences: dict[_ReasonKey, set[str]] = {}  # messages that are separate Events
        self._buckets: dict[_ObjectKey, _Bucket] = {}
        self._idle: deque[asyncio.Future[None]] = deque()
        """One future for each writer that waits for work."""
        self._stopping = asyncio.Event()
        self._log = structlog.get_logger()

    def record(
        self,
        regarding: ObjectReference,
        type_: str,
        reason: str,
        message: str,
        action: str = "",
        related: ObjectReference | None = None,
        reporter: str = "",
    ) -> None:
        """Record an Event on an object. `type_` is `NORMAL` or `WARNING`, `reason` one word in CamelCase.

        With an `action`, also one word, the Event is written through events.k8s.io/v1 with `reporter` as its
        controller.
        """
        about = (regarding.kind, regarding.namespace, regarding.name, regarding.uid)
        message = _shorten(message)
        self._record((about, type_, reason, ""), regarding, message, action, related, reporter)

    def record_separately(self, regarding: ObjectReference, type_: str, reason: str, message: str) -> None:
        """Record an Event as `record` does, but with a separate Event for each message.

        Beyond `MOST_SENTENCES` messages of one reason in the window, further messages share one Event.
        """
        about = (regarding.kind, regarding.namespace, regarding.name, regarding.uid)
        message = _shorten(message)
        words = message if self._count_separate_message((about, type_, reason), message) else ""
        self._record((about, type_, reason, words), regarding, message)

    def _record(
        self,
        key: _SeriesKey,
        regarding: ObjectReference,
        message: str,
        action: str = "",
        related: ObjectReference | None = None,
        reporter: str = "",
    ) -> None:
        self.counts.recorded += 1
        now, wall = _loop_time(), self._wall_clock()
        _, type_, reason, _ = key
        series = self._series.pop(key, None)
        same = series is not None and (not action or message == series.message)
        if series is not None and same and now - series.seen_at < WINDOW_S:
            series.count += 1
            series.last, series.seen_at, series.message = wall, now, message
        elif len(self._series) >= self._most and not self._forget_one():
            self.counts.dropped_full += 1
            self._forget_words(key)
            return
        else:
            series = _Series(regarding, type_, reason, message, wall, wall, now, action, related, reporter)
        self._series[key] = series
        if not series.writing:
            self._waiting[key] = series
            self._wake_one()

    async def run(self) -> None:
        """Write recorded Events until `stop`; then, for up to `FLUSH_S`, those that may be written at once."""
        async with asyncio.TaskGroup() as group:
            writers = [group.create_task(self._write_until_stop()) for _ in range(self._writers)]
            group.create_task(self._stop_in_time(writers))

    def stop(self) -> None:
        """End `run` soon."""
        self._stopping.set()
        while self._idle:
            self._wake_one()

    async def _stop_in_time(self, writers: list[asyncio.Task[None]]) -> None:
        await self._stopping.wait()
        _, cut_short = await asyncio.wait(writers, timeout=FLUSH_S)
        for writer in cut_short:
            writer.cancel()
        dropped = len(self._waiting) + sum(series.writing for series in self._series.values())
        self.counts.dropped_failed += dropped
        if dropped:
            self._log.warning("events not written before the process ended", dropped=dropped)

    async def _write_until_stop(self) -> None:
        while True:
            key, due = self._next_event()
            now = _loop_time()
            if key is not None and due <= now:
                await self._write(key)
            elif self._stopping.is_set():
                return
            else:
                await self._wait_for_event(None if key is None else max(due - now, _LEAST_WAIT_S))

    async def _wait_for_event(self, seconds: float | None) -> None:
        """Wait for a new Event to write, at most this long."""
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._idle.append(woken)
        try:
            async with asyncio.timeout(seconds):
                await woken
        except TimeoutError:
            if woken in self._idle:
                self._idle.remove(woken)

    def _wake_one(self) -> None:
        """Wake one writer for each Event: the others would find nothing to write."""
        while self._idle:
            woken = self._idle.popleft()
            if not woken.done():
                woken.set_result(None)
                return

    def _next_event(self) -> tuple[_SeriesKey | None, float]:
        """Return the Event that may be written first, and when."""
        now = _loop_time()
        best: _SeriesKey | None = None
        best_at = float("inf")
        for key, series in self._waiting.items():
            at = max(series.not_before, self._bucket(key[0]).free_at(now))
            if at < best_at:
                best, best_at = key, at
            if at <= now:
                break
        return best, best_at

    def _bucket(self, about: _ObjectKey) -> _Bucket:
        bucket = self._buckets.get(about)
        if bucket is None:
            if len(self._buckets) >= 2 * MOST_SERIES:
                self._buckets.clear()  # with this many objects none of them is a spammer
            bucket = self._buckets[about] = _Bucket(counted_at=_loop_time())
        return bucket

    async def _write(self, key: _SeriesKey) -> None:
        series = self._waiting.pop(key)
        count = series.count
        self._bucket(key[0]).tokens -= 1
        series.writing = True
        try:
            await self._send(series)
        except KubeError as problem:
            self._record_failure(key, series, problem)
            return
        finally:
            series.writing = False
        self.counts.written += 1
        series.failures = 0
        if series.count != count:
            self._waiting.setdefault(key, series)

    async def _send(self, series: _Series) -> None:
        namespace = series.regarding.namespace or "default"  # Events about cluster-scoped objects belong here
        resource: ResourceType[Any] = EVENTS if series.action else CORE_EVENTS
        if series.name:
            try:
                await self._client.patch(resource, series.name, MergePatch(_repetition_patch(series)), namespace)
                return
            except NotFound:  # an API server deletes Events after an hour
                series.name = ""
        name = f"{series.regarding.name[:200]}.{self._rng.getrandbits(64):016x}"
        content = self._content if series.action else self._core_content
        await self._client.create(resource, content(series, name, namespace), namespace)
        series.name = name

    def _content(self, series: _Series, name: str, namespace: str) -> dict[str, Any]:
        content = {
            "metadata": {"name": name, "namespace": namespace},
            "regarding": _reference_fields(series.regarding),
            "type": series.type,
            "action": series.action,
            "reason": series.reason,
            "note": series.message,
            "reportingController": series.reporter or self._component,
            "reportingInstance": self._instance,
            "eventTime": micro_time(series.first),
        }
        if series.related is not None:
            content["related"] = _reference_fields(series.related)
        if series.count > 1:
            content |= _repetition_patch(series)
        return content

    def _core_content(self, series: _Series, name: str, namespace: str) -> dict[str, Any]:
        return {
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": _reference_fields(series.regarding),
            "type": series.type,
            "reason": series.reason,
            "message": series.message,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
            "firstTimestamp": rfc3339(series.first),
            "lastTimestamp": rfc3339(series.last),
            "count": series.count,
        }

    def _record_failure(self, key: _SeriesKey, series: _Series, problem: KubeError) -> None:
        series.failures += 1
        again = isinstance(problem, AlreadyExists) or problem.retriable
        if again and series.failures < ATTEMPTS:
            series.not_before = _loop_time() + max(RETRY.delay_s(series.failures, self._rng), problem.after_s or 0.0)
            self._waiting.setdefault(key, series)
            return
        if self._series.get(key) is series:
            del self._series[key]
            self._forget_words(key)
        if again:
            self.counts.dropped_failed += 1
        else:
            self.counts.dropped_refused += 1
        about = f"{series.regarding.kind} {series.regarding.namespace}/{series.regarding.name}"
        self._log.warning("event dropped", object=about, reason=series.reason, error=str(problem))

    def _forget_one(self) -> bool:
        """Free space by removing the written series with the oldest last occurrence."""
        for key, series in self._series.items():
            if key not in self._waiting and not series.writing:
                del self._series[key]
                self._forget_words(key)
                return True
        return False

    def _count_separate_message(self, about: _ReasonKey, message: str) -> bool:
        """Whether a message gets its own Event; if so, it is counted."""
        words = self._sentences.setdefault(about, set())
        if len(words) >= MOST_SENTENCES and message not in words:
            recent = _loop_time() - WINDOW_S
            silent = {each for each in words if (found := self._series.get((*about, each))) and found.seen_at <= recent}
            words -= silent
            if len(words) >= MOST_SENTENCES:
                return False
        words.add(message)
        return True

    def _forget_words(self, key: _SeriesKey) -> None:
        words = self._sentences.get(key[:3])
        if words is not None:
            words.discard(key[3])
            if not words:
                del self._sentences[key[:3]]


def _reference_fields(what: ObjectReference) -> dict[str, str]:
    named = {
        "apiVersion": what.api_version,
        "kind": what.kind,
        "namespace": what.namespace,
        "name": what.name,
        "uid": what.uid,
        "resourceVersion": what.resource_version,
        "fieldPath": what.field_path,
    }
    return {key: value for key, value in named.items() if value}


def _repetition_patch(series: _Series) -> dict[str, Any]:
    """Build the patch for an Event that occurred again."""
    if series.action:
        return {"series": {"count": series.count, "lastObservedTime": micro_time(series.last)}}
    return {"count": series.count, "lastTimestamp": rfc3339(series.last), "message": series.message}


def _shorten(message: str) -> str:
    return message if len(message) <= LONGEST_MESSAGE else message[: LONGEST_MESSAGE - 4] + " ..."


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
