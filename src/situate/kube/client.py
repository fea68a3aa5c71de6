"""Typed calls of the Kubernetes API over any transport.

Each call builds a `Request`, waits for the limiter and sends it. The call decodes the answer, or raises the matching
error of `situate.kube.errors`. Watches with relists, stores and election are built on top by their own modules.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec

from situate.kube.errors import Expired, Unreachable, UnreadableAnswer, failure, refusal
from situate.kube.patches import ApplyPatch, JsonPatch, MergePatch, Patch, StrategicMergePatch
from situate.kube.retry.rate_limiter import RateLimiter
from situate.kube.retry.retries import Retries
from situate.kube.transport.lines import LineSplitter
from situate.kube.transport.protocol import Stream, Transport
from situate.objects.decoding.codec import Malformed, decode, decode_page
from situate.objects.kinds.pods import Pod
from situate.objects.kinds.workloads import Scale
from situate.objects.messages import Request, Response
from situate.objects.resources import PODS, SELFSUBJECTACCESSREVIEWS, ResourceType
from situate.objects.reviews.authorization import ResourceAttributes, SelfSubjectAccessReview, SubjectAccessReviewStatus

T = TypeVar("T")

PAGE_SIZE: Final = 500
"""Objects per page in `list_all`: client-go's choice."""

_JSON: Final = {"accept": "application/json", "content-type": "application/json"}
_ACCEPT: Final = {"accept": "application/json"}
_PATCH_HEADERS: Final[Mapping[type, Mapping[str, str]]] = {
    kind: {"accept": "application/json", "content-type": kind.content_type}
    for kind in (MergePatch, JsonPatch, StrategicMergePatch, ApplyPatch)
}

Query: TypeAlias = tuple[tuple[str, str], ...]


class Page(msgspec.Struct, Generic[T], frozen=True):
    """A part of a list, or all of it if `continue_` is empty."""

    items: list[T]
    resource_version: str
    """Version of the whole list, from which a watch continues."""
    continue_: str = ""
    remaining: int | None = None
    """Objects after this page; None where the server gives no number, as under a field selector."""
    malformed: tuple[Malformed, ...] = ()
    """Objects that could not be read; `items` holds all others."""


class Client:
    """The API of one server."""

    def __init__(
        self,
        transport: Transport,
        *,
        limiter: RateLimiter | None = None,
        retries: Retries | None = None,
        may_write: Callable[[], None] | None = None,
        server: str = "",
    ) -> None:
        """Take the transport and the rules for its calls.

        Without a limiter calls leave at once; without retries each call is tried once. `may_write` is called before
        every write and raises to stop it; None allows every write. `server` is the URL shown in errors.
        """
        self._transport = transport
        self._limiter = limiter
        self._retries = retries
        self._may_write = may_write
        self.server = server

    def with_write_check(self, may_write: Callable[[], None]) -> Client:
        """Return a client with the same connections and rate that calls `may_write` right before each write leaves.

        A check made earlier is not enough: a write may wait for the limiter or for a retry after it.
        """
        return Client(
            self._transport, limiter=self._limiter, retries=self._retries, may_write=may_write, server=self.server
        )

    async def get(self, resource: ResourceType[T], name: str, namespace: str | None = None) -> T:
        """Return the object of this name; `NotFound` if there is none."""
        response = await self.raw(Request("GET", resource.path(namespace, name), (), _ACCEPT))
        return _decode_answer(resource, response.body)

    async def list(
        self,
        resource: ResourceType[T],
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        shard_selector: str = "",
        limit: int | None = None,
        continue_: str = "",
        resource_version: str = "",
        resource_version_match: str = "",
    ) -> Page[T]:
        """Return one page of the objects of a namespace, or of all namespaces; `Expired` if `continue_` is too old.

        A server that does not know `shard_selector` (KEP-5866) returns the objects of all shards.
        """
        query = _query(
            labelSelector=label_selector,
            fieldSelector=field_selector,
            shardSelector=shard_selector,
            limit="" if limit is None else str(limit),
            **{"continue": continue_},
            resourceVersion=resource_version,
            resourceVersionMatch=resource_version_match,
        )
        response = await self.raw(Request("GET", resource.path(namespace), query, _ACCEPT))
        try:
            page = decode_page(resource, response.body)
        except Malformed as problem:
            raise UnreadableAnswer(str(problem)) from problem
        meta = page.metadata
        return Page(page.items, meta.resource_version, meta.continue_, meta.remaining_item_count, page.malformed)

    async def list_all(
        self,
        resource: ResourceType[T],
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        shard_selector: str = "",
        page_size: int = PAGE_SIZE,
        kept: Callable[[T], T] = lambda found: found,
    ) -> Page[T]:
        """Return all objects as of one resourceVersion, fetched in pages; `kept` maps each object as its page arrives.

        If the continue token expires between pages, everything is fetched again in one piece, as client-go's pager
        does. Fetching in pages again could expire without end.
        """
        items: list[T] = []
        malformed: list[Malformed] = []
        continue_ = ""
        limit: int | None = page_size
        while True:
            try:
                page = await self.list(
                    resource,
                    namespace,
                    label_selector=label_selector,
                    field_selector=field_selector,
                    shard_selector=shard_selector,
                    limit=limit,
                    continue_=continue_,
                )
            except Expired:
                if not continue_:
                    raise
                items, malformed, continue_, limit = [], [], "", None
                continue
            items += map(kept, page.items)
            malformed += page.malformed
            continue_ = page.continue_
            if not continue_:
                return Page(items, page.resource_version, malformed=tuple(malformed))

    async def create(
        self,
        resource: ResourceType[T],
        content: Mapping[str, Any],
        namespace: str | None = None,
        *,
        field_manager: str = "",
        dry_run: bool = False,
    ) -> T:
        """Create an object and return it as the server stored it; `AlreadyExists` if the name is taken.

        `apiVersion` and `kind` may be left out.
        """
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **content}
        query = _query(fieldManager=field_manager, dryRun="All" if dry_run else "")
        response = await self.raw(Request("POST", resource.path(namespace), query, _JSON, msgspec.json.encode(body)))
        return _decode_answer(resource, response.body)

    async def replace(
        self,
        resource: ResourceType[T],
        name: str,
        content: Mapping[str, Any],
        namespace: str | None = None,
        *,
        subresource: str | None = None,
        field_manager: str = "",
        dry_run: bool = False,
    ) -> T:
        """Replace the whole object and return the result.

        `content` must have every field of the object: use `Unstructured.content`, never a struct. `Conflict` if
        `metadata.resourceVersion` is given and differs from the object's.
        """
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **content}
        query = _query(fieldManager=field_manager, dryRun="All" if dry_run else "")
        path = resource.path(namespace, name, subresource)
        response = await self.raw(Request("PUT", path, query, _JSON, msgspec.json.encode(body)))
        return _decode_answer(resource, response.body)

    async def delete(
        self,
        resource: ResourceType[Any],
        name: str,
        namespace: str | None = None,
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: str = "",
        grace_period_s: int | None = None,
        dry_run: bool = False,
    ) -> None:
        """Request the deletion of an object; finalizers and the grace period may delay it.

        `Conflict` if `uid` or `resource_version` is given and differs from the object's. `propagation` is `Orphan`,
        `Background` or `Foreground`; empty uses the default of the resource. A grace period of None uses the default of
        the object.
        """
        options = _delete_options(uid, resource_version, propagation, grace_period_s)
        query = _query(dryRun="All" if dry_run else "")
        await self.raw(Request("DELETE", resource.path(namespace, name), query, _JSON, msgspec.json.encode(options)))

    async def patch(
        self,
        resource: ResourceType[T],
        name: str,
        patch: Patch,
        namespace: str | None = None,
        subresource: str | None = None,
        field_manager: str | None = None,
        force: bool = False,
        dry_run: bool = False,
    ) -> T:
        """Patch an object and return it after the change.

        An `ApplyPatch` needs a field manager; `force`, which takes fields from other managers, works only with it. A
        subresource that returns another kind, such as scale, has its own method.
        """
        query = _query(fieldManager=field_manager or "", force="true" if force else "", dryRun="All" if dry_run else "")
        path = resource.path(namespace, name, subresource)
        headers = _PATCH_HEADERS[type(patch)]
        response = await self.raw(Request("PATCH", path, query, headers, msgspec.json.encode(patch.body)))
        return _decode_answer(resource, response.body)

    async def patch_status(
        self,
        resource: ResourceType[T],
        name: str,
        patch: Patch,
        namespace: str | None = None,
        *,
        field_manager: str | None = None,
    ) -> T:
        """Patch the status subresource; the server ignores all other fields of the patch."""
        return await self.patch(resource, name, patch, namespace, "status", field_manager)

    async def get_scale(self, resource: ResourceType[Any], name: str, namespace: str | None = None) -> Scale:
        """Read how many replicas are requested and how many exist."""
        path = resource.path(namespace, name, "scale")
        response = await self.raw(Request("GET", path, (), _ACCEPT))
        return _decode_answer(_scale_of(resource), response.body)

    async def update_scale(
        self,
        resource: ResourceType[Any],
        name: str,
        replicas: int,
        namespace: str | None = None,
        *,
        resource_version: str = "",
    ) -> Scale:
        """Set the number of replicas; `Conflict` if `resource_version` is given and differs from the object's."""
        metadata = {"name": name, "namespace": namespace or "", "resourceVersion": resource_version}
        body = {
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": {key: value for key, value in metadata.items() if value},
            "spec": {"replicas": replicas},
        }
        path = resource.path(namespace, name, "scale")
        response = await self.raw(Request("PUT", path, (), _JSON, msgspec.json.encode(body)))
        return _decode_answer(_scale_of(resource), response.body)

    async def bind(self, pod: Pod, node: str, *, unchanged: bool = False) -> None:
        """Bind the pod to a node; `Conflict` if the pod is bound, gated or terminating, or its UID differs.

        With `unchanged`, also `Conflict` if the pod has changed in any way.
        """
        meta = pod.metadata
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        metadata = {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid}
        if unchanged:
            metadata["resourceVersion"] = meta.resource_version
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        path = PODS.path(meta.namespace, meta.name, "binding")
        await self.raw(Request("POST", path, (), _JSON, msgspec.json.encode(body)))

    async def evict(self, pod: Pod, *, grace_period_s: int | None = None, dry_run: bool = False) -> None:
        """Request the eviction of a pod; `TooManyRequests` while a disruption budget forbids it. Never retries.

        `Conflict` if another pod has taken the name.
        """
        meta = pod.metadata
        options = _delete_options(meta.uid, "", "", grace_period_s)
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": meta.name, "namespace": meta.namespace},
            "deleteOptions": options | ({"dryRun": ["All"]} if dry_run else {}),
        }
        path = PODS.path(meta.namespace, meta.name, "eviction")
        await self._send(Request("POST", path, (), _JSON, msgspec.json.encode(body)), retries=None)

    async def resize(self, pod: Pod, containers: Sequence[Mapping[str, Any]]) -> Pod:
        """Change the resources of a running pod's containers, each given as `{"name": …, "resources": {…}}`."""
        meta = pod.metadata
        patch = StrategicMergePatch({"spec": {"containers": containers}})
        return await self.patch(PODS, meta.name, patch, meta.namespace, "resize")

    async def review_access(self, attributes: ResourceAttributes) -> SubjectAccessReviewStatus:
        """Ask whether this client's account may perform the action."""
        body = {
            "apiVersion": SELFSUBJECTACCESSREVIEWS.api_version,
            "kind": SELFSUBJECTACCESSREVIEWS.kind,
            "spec": {"resourceAttributes": attributes},
        }
        request = Request("POST", SELFSUBJECTACCESSREVIEWS.path(), (), _JSON, msgspec.json.encode(body))
        response = await self.raw(request)
        review: SelfSubjectAccessReview = _decode_answer(SELFSUBJECTACCESSREVIEWS, response.body)
        return review.status

    @asynccontextmanager
    async def watch(
        self,
        resource: ResourceType[Any],
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        shard_selector: str = "",
        resource_version: str = "",
        send_initial_events: bool = False,
        timeout_s: int | None = None,
    ) -> AsyncIterator[AsyncIterator[Sequence[bytes]]]:
        """Open one watch and yield its lines, each an event for `decode_event`, until the server ends the watch.

        Lines that arrive together are yielded together, and may still have their line break. Bookmarks are always
        requested. `send_initial_events` makes it a WatchList. The server ends the watch after `timeout_s`; None leaves
        the duration to the server. A refusal is raised, but most refusals arrive as an ERROR event of the watch.
        """
        query = _query(
            watch="true",
            allowWatchBookmarks="true",
            labelSelector=label_selector,
            fieldSelector=field_selector,
            shardSelector=shard_selector,
            resourceVersion=resource_version,
            sendInitialEvents="true" if send_initial_events else "",
            resourceVersionMatch="NotOlderThan" if send_initial_events else "",
            timeoutSeconds="" if timeout_s is None else str(timeout_s),
        )
        request = Request("GET", resource.path(namespace), query, _ACCEPT)
        if self._limiter:
            await self._limiter.wait()
        async with self._transport.stream(request) as stream:
            if stream.status != 200:
                body = b"".join([piece async for pieces in stream.batches() for piece in pieces])
                answer = Response(stream.status, body, stream.headers)
                raise failure(answer, request, self.server) or refusal(answer, request)
            yield _line_batches(stream)

    async def raw(self, request: Request, *, timeout_s: float = 30.0) -> Response:
        """Send any request: wait for the limiter, retry calls that are safe to repeat, and raise refusals as errors."""
        return await self._send(request, self._retries, timeout_s)

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    async def _send(self, request: Request, retries: Retries | None, timeout_s: float = 30.0) -> Response:
        attempt = 0
        while True:
            if self._limiter:
                await self._limiter.wait()
            if self._may_write and request.method != "GET":
                self._may_write()
            try:
                response = await self._transport.send(request, timeout_s=timeout_s)
                error = failure(response, request, self.server)
                if error is None:
                    return response
            except Unreachable as unreachable:
                error = unreachable
            delay_s = retries.delay_s(request, error, attempt) if retries else None
            if delay_s is None:
                raise error
            attempt += 1
            await asyncio.sleep(delay_s)


async def _line_batches(stream: Stream) -> AsyncIterator[Sequence[bytes]]:
    lines = LineSplitter()
    async for pieces in stream.batches():
        if ended := lines.complete_lines(pieces):
            yield ended


def _decode_answer(resource: ResourceType[T], body: bytes) -> T:
    """Decode the server's answer; bytes that cannot be decoded raise `UnreadableAnswer`, a `KubeError`."""
    try:
        return decode(resource, body)
    except Malformed as problem:
        raise UnreadableAnswer(str(problem)) from problem


def _query(**parameters: str) -> Query:
    return tuple((key, value) for key, value in parameters.items() if value)


def _delete_options(uid: str, resource_version: str, propagation: str, grace_period_s: int | None) -> dict[str, Any]:
    """Build meta/v1 `DeleteOptions`."""
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if preconditions := dict(_query(uid=uid, resourceVersion=resource_version)):
        options["preconditions"] = preconditions
    if propagation:
        options["propagationPolicy"] = propagation
    if grace_period_s is not None:
        options["gracePeriodSeconds"] = grace_period_s
    return options


def _scale_of(resource: ResourceType[Any]) -> ResourceType[Scale]:
    return ResourceType(resource.group, resource.version, "Scale", resource.plural, resource.namespaced, Scale)
