"""The interface of a handler to its object: fenced writes only.

Each write is a JSON patch that tests the object's uid, epoch and incarnation. The patch carries the resourceVersion
from which it was computed. The server therefore refuses every write of a process that is no longer the holder. After a
conflict, the writer reads the object and computes the change again, as long as the object is still owned.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, ParamSpec, TypeVar

import msgspec

from situate.kube.client import Client
from situate.kube.errors import Conflict, Invalid, KubeError, NotFound
from situate.kube.patches import JsonPatch
from situate.objects.kinds.unstructured import Unstructured
from situate.objects.resources import ResourceType
from situate.sharding.executor.next_step import Incarnation, owns
from situate.sharding.model.field_paths import Content, ObjectAdapter
from situate.sharding.model.object_view import ObjectView, released_content, view_of
from situate.sharding.model.patches import fenced_patch

CHECKPOINT_LIMIT: Final = 16 * 1024
"""Maximum size of a checkpoint, in bytes of JSON."""
_P = ParamSpec("_P")
_T = TypeVar("_T")


class NotOwner(Exception):
    """The executor may not write the object: it is completed, reassigned or deleted, or the lease is lost.

    Handlers need not catch this error: the executor is about to cancel them.
    """


class CheckpointTooLarge(ValueError):
    """The checkpoint exceeds the limit; the message gives both sizes."""


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """The resource of the objects, and the rules for writing them."""

    resource: ResourceType[Unstructured]
    adapter: ObjectAdapter
    status_subresource: bool = True


class FencedWriter:
    """Fenced writes of one executor."""

    def __init__(
        self,
        client: Client,
        kind: ObjectKind,
        me: Incarnation,
        *,
        wall: Callable[[], datetime],
        learn: Callable[[Unstructured], None] = lambda _: None,
    ) -> None:
        """`learn` receives every object that the server returns."""
        self._client = client
        self._kind = kind
        self._incarnation = me
        self._wall = wall
        self._learn = learn

    async def read(self, namespace: str, name: str) -> Content | None:
        """Return the object as the server has it now; None if it does not exist."""
        try:
            found = await self._client.get(self._kind.resource, name, namespace or None)
        except NotFound:
            return None
        self._learn(found)
        return found.content

    def completed_content(self, content: Content, successful: bool, reason: str) -> Content:
        """Return the object with terminal marks of the current time."""
        done = self._kind.adapter.complete(content, self._wall(), successful)
        return {**done, "status": {**done.get("status", {}), "reason": reason}}

    def released_content(self, content: Content) -> Content:
        """Return the object without its assignment."""
        return released_content(content, self._kind.adapter)

    async def write(
        self,
        content: Content,
        epoch: int,
        change: Callable[[Content], Content],
        may_write: Callable[[], None] = lambda: None,
    ) -> Content:
        """Apply `change` to the object and return the stored result. After a conflict, read the object and try again.

        `may_write` is called directly before each request, and raises an error to prevent the request. Raises
        `NotOwner`, and the errors of the client.
        """
        uid = content["metadata"]["uid"]
        self._check_ownership(content, uid, epoch)
        while True:
            try:
                return await self._write_change(content, change(content), epoch, may_write)
            except (Conflict, Invalid, NotFound) as refusal:
                metadata = content["metadata"]
                fresh = await self.read(metadata.get("namespace", ""), metadata["name"])
                if fresh is None:
                    raise NotOwner(f"{metadata['name']} no longer exists") from refusal
                self._check_ownership(fresh, uid, epoch)
                if isinstance(refusal, NotFound):
                    raise KubeError(_missing_subresource_text(self._kind.resource)) from refusal
                if isinstance(refusal, Invalid) and fresh["metadata"].get("resourceVersion") == metadata.get(
                    "resourceVersion"
                ):
                    raise  # nothing changed in the meantime, so the content of the write is invalid
                content = fresh

    def _check_ownership(self, content: Content, uid: str, epoch: int) -> None:
        view = view_of(content, self._kind.adapter)
        if view.uid != uid or view.epoch != epoch or not owns(view, self._incarnation):
            raise NotOwner(
                f"{_display_name(view)}: epoch {epoch} of {self._incarnation.id} ({self._incarnation.uid}) is over; "
                f"{_assignment_text(view)}"
            )

    async def _write_change(
        self, before: Content, after: Content, epoch: int, may_write: Callable[[], None]
    ) -> Content:
        """Write the change. With a status subresource, write the status in a first request of its own."""
        if self._kind.status_subresource:
            before = await self._send(before, _copy_status(before, after), epoch, "status", may_write)
            after = _copy_status(after, before)
        return await self._send(before, after, epoch, None, may_write)

    async def _send(
        self, before: Content, after: Content, epoch: int, subresource: str | None, may_write: Callable[[], None]
    ) -> Content:
        """Send one request, if there is a difference."""
        operations = fenced_patch(before, _copy_server_fields(after, before), epoch, self._incarnation.uid)
        if not operations:
            return before
        may_write()
        metadata = before["metadata"]
        namespace = metadata.get("namespace") or None
        patch = JsonPatch(operations)
        written = await self._client.patch(self._kind.resource, metadata["name"], patch, namespace, subresource)
        self._learn(written)
        return written.content


def _copy_status(content: Content, other: Content) -> Content:
    rest = {key: value for key, value in content.items() if key != "status"}
    return {**rest, "status": other["status"]} if "status" in other else rest


def _copy_server_fields(content: Content, other: Content) -> Content:
    """Copy the fields that the server itself counts, so that they are no part of the second request of a change."""
    counted = ("resourceVersion", "generation", "managedFields")
    metadata = {key: value for key, value in content["metadata"].items() if key not in counted}
    kept = {key: other["metadata"][key] for key in counted if key in other["metadata"]}
    return {**content, "metadata": {**metadata, **kept}}


def _display_name(view: ObjectView) -> str:
    return f"{view.namespace}/{view.name}" if view.namespace else view.name


def _assignment_text(view: ObjectView) -> str:
    if view.completed:
        return "the object is completed"
    if view.faults:
        return view.faults[0]
    holder = f"{view.executor or 'no executor'} ({view.executor_uid or 'no UID'})"
    return f"the object is assigned to {holder} with epoch {view.epoch}"


def _missing_subresource_text(resource: ResourceType[Unstructured]) -> str:
    return (
        f"{resource.group_resource} has no status subresource: declare one in its CustomResourceDefinition, or "
        "configure the executor with status_subresource=False"
    )


class Work:
    """The right of one handler call to write one object under one epoch."""

    def __init__(
        self,
        writer: FencedWriter,
        content: Content,
        view: ObjectView,
        *,
        may_write: Callable[[], None],
        now: Callable[[], float],
    ) -> None:
        self.uid = view.uid
        self.epoch = view.epoch
        self.stopping = threading.Event()
        """Set when the handler must stop; for threads, which cannot be cancelled."""
        self.finishing = False
        """The handler is completing the object, or has completed it: the completion does not cancel the handler."""
        self.gives_up = False
        """The handler has asked for the release of the object."""
        self.beat_at = now()
        self._writer = writer
        self._content = content
        self._may_write = may_write
        self._now = now
        self._one_at_a_time = asyncio.Lock()
        self._over = False
        self._held: set[asyncio.Future[Any]] = set()

    @property
    def object(self) -> Content:
        """The object as last seen in a watch event or in the response to an own write."""
        return self._content

    @property
    def token(self) -> str:
        """`UID:EPOCH`, for outside systems. They should refuse a token if they have seen a higher epoch."""
        return f"{self.uid}:{self.epoch}"

    @property
    def last_checkpoint(self) -> Any:
        """The last stored checkpoint, of this holder or an earlier one; None if there is none."""
        return (self._content.get("status") or {}).get("checkpoint")

    async def patch_status(self, change: Mapping[str, Any] | Callable[[dict[str, Any]], Mapping[str, Any]]) -> Content:
        """Set these fields of the status (None removes a field), or replace the status by the result of the function.

        Raises `NotOwner`, and the errors of the client.
        """
        return await self._write(
            lambda content: {**content, "status": _change_status(content.get("status") or {}, change)}
        )

    async def complete(self, successful: bool, reason: str = "") -> Content:
        """Write the terminal marks. After that, this handler writes nothing more to the object."""
        self.finishing = True
        try:
            written = await self._write(lambda content: self._writer.completed_content(content, successful, reason))
        except BaseException:
            self.finishing = False
            raise
        self._over = True
        return written

    async def release(self) -> None:
        """Request the release of the object. The executor releases it only after the handler has returned."""
        self.gives_up = True

    async def checkpoint(self, data: Any) -> Content:
        """Store up to 16 KiB, counted as JSON, in `status.checkpoint` for the next holder.

        Raises `CheckpointTooLarge`, and the errors of `patch_status`.
        """
        size = len(msgspec.json.encode(data))
        if size > CHECKPOINT_LIMIT:
            raise CheckpointTooLarge(
                f"the checkpoint has {size} bytes, allowed: {CHECKPOINT_LIMIT}; store the data elsewhere"
            )
        return await self.patch_status(lambda status: {**status, "checkpoint": data})

    def heartbeat(self) -> None:
        """Report progress. Needed only if the executor has a `progress_timeout`."""
        self.beat_at = self._now()

    async def in_thread(self, call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run a function in a thread. Cancelled or not, the handler counts as running until the thread has ended.

        The function should check `stopping` regularly: a thread cannot be cancelled.
        """
        running = asyncio.ensure_future(asyncio.to_thread(call, *args, **kwargs))
        self.hold(running)
        return await asyncio.shield(running)

    def hold(self, running: asyncio.Future[Any]) -> None:
        """Count the handler as running until this future is done too, such as a call in a process pool."""
        self._held.add(running)
        running.add_done_callback(self._drop_future)

    async def wait_held(self) -> None:
        """Wait until every held future is done. For the executor."""
        while self._held:
            await asyncio.wait(self._held)

    def update_content(self, content: Content) -> None:
        """Take over a later state of the object from the watch. For the executor."""
        if content["metadata"].get("uid") == self.uid:
            self._content = content

    async def _write(self, change: Callable[[Content], Content]) -> Content:
        async with self._one_at_a_time:
            if self._over:
                raise NotOwner("the handler completed the object, so it cannot write any more")
            self._content = await self._writer.write(self._content, self.epoch, change, self._may_write)
            self.heartbeat()
            return self._content

    def _drop_future(self, running: asyncio.Future[Any]) -> None:
        self._held.discard(running)
        if not running.cancelled():
            running.exception()  # mark the exception as retrieved: the handler received it, unless it was cancelled


def _change_status(
    status: Mapping[str, Any], change: Mapping[str, Any] | Callable[[dict[str, Any]], Mapping[str, Any]]
) -> Mapping[str, Any]:
    if callable(change):
        return change(dict(status))
    return {key: value for key, value in {**status, **change}.items() if value is not None}
