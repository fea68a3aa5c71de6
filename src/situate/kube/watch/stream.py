"""One watch connection: its lines in time, and what each of them says.

Knows when a connection is dead although nobody closed it. What is done with the events, and what happens after the
connection ends, is `situate.kube.watch.reflector`'s.
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
"""A server that sends bookmarks sends one about every minute; after three minutes of nothing the line is dead."""
INITIAL_SILENCE_S: Final = 30.0
"""Initial events come from memory, without pauses; a server that ignores sendInitialEvents never sends their end."""
MARGIN_S: Final = 30.0
"""How much later than its timeoutSeconds a server may end a watch before it is taken for dead."""


class Silent(KubeError):
    """A watch said nothing for longer than a living server does."""

    retriable = True


@dataclass(frozen=True, slots=True)
class WatchScope:
    """What is watched."""

    resource: ResourceType[Any]
    namespace: str | None = None
    """None for all namespaces."""
    label_selector: str = ""
    field_selector: str = ""
    shard_selector: str = ""
    """Servers that do not know it give the objects of all shards: whoever asks must look."""

    def __str__(self) -> str:
        where = f" in namespace {self.namespace}" if self.namespace else ""
        which = " ".join(filter(None, (self.label_selector, self.field_selector)))
        return f"{self.resource.group_resource}{where}{f' with {which}' if which else ''}"


@dataclass(frozen=True, slots=True)
class Bookmark:
    """How far the server has come, without a change."""

    resource_version: str
    ends_initial_events: bool


class Patience:
    """When the reader of a watch gives up. The connection's own limit is set once, silence is counted anew."""

    def __init__(self, timeout_s: float, *, initial: bool) -> None:
        """`timeout_s` is what the server was told; `initial`: that initial events are awaited."""
        loop = asyncio.get_running_loop()
        self._time = loop.time
        self._end = loop.time() + timeout_s + MARGIN_S
        self._silence_s = INITIAL_SILENCE_S if initial else None
        self._renewed = loop.time()
        self.limit = asyncio.timeout_at(self._when())

    def heard(self) -> None:
        """Something has arrived. Cheap: the timer is moved when a tenth of the silence has passed."""
        if self._silence_s is not None and self._time() - self._renewed > self._silence_s / 10:
            self._renew()

    def expect_bookmarks(self) -> None:
        """The server has sent a bookmark, so it will send more: silence now means something."""
        self._silence_s = SILENCE_S
        self._renew()

    def _renew(self) -> None:
        self._renewed = self._time()
        self.limit.reschedule(self._when())

    def _when(self) -> float:
        return self._end if self._silence_s is None else min(self._end, self._renewed + self._silence_s)


@asynccontextmanager
async def open_watch(
    client: Client, scope: WatchScope, patience: Patience, *, resource_version: str, initial: bool, timeout_s: int
) -> AsyncIterator[AsyncIterator[Sequence[bytes]]]:
    """The lines of one watch until the server ends it, in batches; the reader calls `patience.heard` for each batch.

    Raises `Silent`, and whatever the client raises: a refusal or `Unreachable`.
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
        raise Silent(f"the watch of {scope} fell silent; it is opened again") from None


def read_bookmark(body: bytes) -> Bookmark:
    """Raises `Malformed`."""
    metadata = decode_metadata(body, "a bookmark")
    return Bookmark(metadata.resource_version, metadata.annotations.get(INITIAL_EVENTS_END) == "true")


def read_error(body: bytes) -> ApiError:
    """What an ERROR event means. Raises `Malformed`."""
    try:
        return from_status(_STATUS.decode(body))
    except (msgspec.MsgspecError, ValueError) as error:
        raise Malformed("the Status of an ERROR event", "", str(error)) from error


_STATUS: Final = msgspec.json.Decoder(Status)
