"""One watch connection: its lines, their meaning, and its time-outs.

Detects a dead connection that was not closed. `situate.kube.watch.reflector` applies the events and decides the next
step after the connection ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from situate.kube.client import Client
from situate.kube.errors import ApiError, KubeError, from_status
from situate.objects.decoding.codec import Malformed, decode_metadata
from situate.objects.kinds.status import Status
from situate.objects.resources import ResourceType

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
"""Annotation of the bookmark that ends the initial events of a WatchList (KEP-3157)."""

SILENCE_S: Final = 180.0
"""A server that sends bookmarks sends one about every minute; after three minutes of silence the connection is dead."""
INITIAL_SILENCE_S: Final = 30.0
"""Initial events come from memory, without pauses; a server that ignores sendInitialEvents never sends their end."""
MARGIN_S: Final = 30.0
"""How much later than its timeoutSeconds a server may end a watch before the connection counts as dead."""


class WatchSilent(KubeError):
    """A watch received nothing for longer than a working server pauses."""

    retriable = True


@dataclass(frozen=True, slots=True)
class WatchScope:
    """The objects of a watch."""

    resource: ResourceType[Any]
    namespace: str | None = None
    """None for all namespaces."""
    label_selector: str = ""
    field_selector: str = ""
    shard_selector: str = ""
    """Servers that do not support it return the objects of all shards, so the caller must filter."""

    def __str__(self) -> str:
        where = f" in namespace {self.namespace}" if self.namespace else ""
        which = " ".join(filter(None, (self.label_selector, self.field_selector)))
        return f"{self.resource.group_resource}{where}{f' with {which}' if which else ''}"


@dataclass(frozen=True, slots=True)
class Bookmark:
    """The server's progress, without a change."""

    resource_version: str
    ends_initial_events: bool


class WatchTimeouts:
    """The time-outs of a watch's reader: one for the whole connection, and one for silence, which each batch resets."""

    def __init__(self, timeout_s: float, *, initial: bool) -> None:
        """`timeout_s` is the limit sent to the server; `initial`: initial events are expected."""
        loop = asyncio.get_running_loop()
        self._time = loop.time
        self._end = loop.time() + timeout_s + MARGIN_S
        self._silence_s = INITIAL_SILENCE_S if initial else None
        self._renewed = loop.time()
        self.limit = asyncio.timeout_at(self._deadline())

    def record_data(self) -> None:
        """Note that data arrived. Cheap: the timer moves only when a tenth of the silence has passed."""
        if self._silence_s is not None and self._time() - self._renewed > self._silence_s / 10:
            self._renew()

    def expect_bookmarks(self) -> None:
        """Expect regular bookmarks from now on, because the server has sent one: silence now counts as a failure."""
        self._silence_s = SILENCE_S
        self._renew()

    def _renew(self) -> None:
        self._renewed = self._time()
        self.limit.reschedule(self._deadline())

    def _deadline(self) -> float:
        return self._end if self._silence_s is None else min(self._end, self._renewed + self._silence_s)


@asynccontextmanager
async def open_watch(
    client: Client, scope: WatchScope, patience: WatchTimeouts, *, resource_version: str, initial: bool, timeout_s: int
) -> AsyncIterator[AsyncIterator[Sequence[bytes]]]:
    """Open a watch and yield its lines in batches until the server ends it; the reader calls `patience.heard` for each.

    Raises `WatchSilent`, and the client's errors: a refusal or `Unreachable`.
    """
    try:
        async with (
            patience.limit,
            client.watch(
                scope.resource,
                scope.namespace,
                label_selector=scope.label_selector,
                field_selector=scope.field_selector,
                shard_selector=scope.shard_selector,
                resource_version=resource_version,
                send_initial_events=initial,
                timeout_s=timeout_s,
            ) as batches,
        ):
            yield batches
    except TimeoutError:
        raise WatchSilent(f"the watch of {scope} received no data in time; a new watch follows") from None


def read_bookmark(body: bytes) -> Bookmark:
    """Decode a bookmark. Raises `Malformed`."""
    metadata = decode_metadata(body, "a bookmark")
    return Bookmark(metadata.resource_version, metadata.annotations.get(INITIAL_EVENTS_END) == "true")


def read_error(body: bytes) -> ApiError:
    """Return the error of an ERROR event. Raises `Malformed`."""
    try:
        return from_status(_STATUS.decode(body))
    except (msgspec.MsgspecError, ValueError) as error:
        raise Malformed("the Status of an ERROR event", "", str(error)) from error


_STATUS: Final = msgspec.json.Decoder(Status)
