"""The API server without I/O: it takes a request and returns an answer or a watch, with webhook calls in between.

This module only determines the operation that a request asks for. Other modules read, write and delete. The embedded
server adds HTTP; the simulator calls this module in process on virtual time.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import msgspec

from situate.cluster.admission.chain import Admission
from situate.cluster.apiserver import discovery, protobuf
from situate.cluster.apiserver.api_documents import Documents
from situate.cluster.apiserver.reviews import review
from situate.cluster.apiserver.tokens import Tokens
from situate.cluster.errors.field_errors import Refused
from situate.cluster.errors.refusals import (
    RequestRefused,
    method_not_allowed,
    no_such_path,
    not_found,
    raise_if_refused,
)
from situate.cluster.kinds.custom_resources import CustomResources
from situate.cluster.kinds.rules import Obj
from situate.cluster.kinds.schemas.bodies import decode_posted
from situate.cluster.kinds.semantics import Semantics, built_in_semantics, custom_semantics, semantics_of_kind
from situate.cluster.read.list_and_watch import ObjectReader, json_response
from situate.cluster.read.negotiation import JSON, Form, decode_whole, encode_whole, negotiate
from situate.cluster.storage.builtin_resources import BUILT_IN, NOT_SERVED, SUBRESOURCES_NOT_SERVED
from situate.cluster.storage.effects import ADMIN, Effect, Identity, Reply, unreachable_replies
from situate.cluster.storage.names import NameGenerator
from situate.cluster.storage.options import delete_options, write_options
from situate.cluster.storage.paths import Target, parse_target
from situate.cluster.storage.resources import Catalog, Origin, Resource
from situate.cluster.storage.store import Store
from situate.cluster.storage.stored_object import StoredObject
from situate.cluster.storage.watch import Watch
from situate.cluster.write import ObjectWriter
from situate.cluster.write.bootstrap import bootstrap
from situate.cluster.write.calls import Call, Written
from situate.cluster.write.deletion import Deletion, ObjectDeleter
from situate.cluster.write.evictions import Evictions
from situate.cluster.write.subresources import Subresources
from situate.objects.messages import Request, Response

Answer: TypeAlias = Response | Watch
Handling: TypeAlias = Generator[Effect, Reply, Answer]

_HEALTH: Final = frozenset({"/healthz", "/livez", "/readyz"})
_VERBS: Final[Mapping[str, tuple[str, str]]] = {
    "GET": ("get", "list"),
    "POST": ("", "create"),
    "PUT": ("update", ""),
    "PATCH": ("patch", ""),
    "DELETE": ("delete", "deletecollection"),
}
"""Verbs for an object and for a collection."""

_encode: Final = msgspec.json.Encoder().encode

NO_TOKENS: Final[Mapping[str, Identity]] = MappingProxyType({})


class ApiServer:
    """API server on one store.

    It is deterministic: names come from `names`, the time comes with each request. Requests may interleave only where
    they yield an effect; all other work happens within one `send`.
    """

    def __init__(
        self,
        names: NameGenerator,
        *,
        now: float,
        store: Store | None = None,
        tracks_managers: bool = True,
        tokens: Mapping[str, Identity] = NO_TOKENS,
    ) -> None:
        """Create the objects of a new cluster as of `now` if the store is empty.

        Without `tracks_managers` there are no managedFields. This saves a fifth of the work for clients that do not
        need them. `tokens` are valid from the start; tokens of service accounts are issued later.
        """
        self.store = store if store is not None else Store()
        self.catalog = Catalog(BUILT_IN)
        self.names = names
        self.tokens = Tokens(tokens, self.store, names, self.catalog)
        self._now = now
        self._semantics: dict[tuple[str, str, str], tuple[Resource, Semantics]] = {}
        admission = Admission(self.store, names, self.catalog, self._semantics_of_kind)
        self.writer = ObjectWriter(self.store, names, admission, self.semantics_of, tracks_managers=tracks_managers)
        self._reader = ObjectReader(self.store, lambda: self._now)
        self._deleter = ObjectDeleter(self.store, admission, self.writer)
        self._subresources = Subresources(self.store, self.writer)
        self._evictions = Evictions(self.store, self.catalog, self.writer, self._deleter)
        self._custom = CustomResources(self.store, self.catalog, self.writer.storage.put)
        self._documents = Documents(self.catalog, self._custom)
        bootstrap(self.catalog, self.store, self.writer, now)
        self._custom.process_changes(now)

    def handle(self, request: Request, now: float, identity: Identity = ADMIN) -> Handling:
        """Answer a request that arrived at `now` (Unix seconds). Every refusal is a `Response` with a Status."""
        self._now = now
        try:
            wanted = parse_target(request.path)
            if wanted is None:
                return self._handle_document(request)
            return (yield from self._handle_resource(request, wanted, now, identity))
        except RequestRefused as declined:
            return _with_warnings(refusal_response(declined.refused, declined.metadata), declined.warnings)

    def answer(self, request: Request, now: float, identity: Identity = ADMIN) -> Answer:
        """Run `handle` without a network: webhooks count as unreachable."""
        handling = self.handle(request, now, identity)
        try:
            effect = next(handling)
            while True:
                effect = handling.send(unreachable_replies(effect))
        except StopIteration as done:
            answer: Answer = done.value
            return answer

    def semantics_of(self, resource: Resource) -> Semantics:
        """Return the semantics of the resource's objects."""
        key = (resource.group, resource.version, resource.plural)
        known = self._semantics.get(key)
        if known is None or known[0] is not resource:
            made = custom_semantics(resource) if resource.origin is Origin.CUSTOM else built_in_semantics(resource)
            known = self._semantics[key] = (resource, made)
        return known[1]

    def _semantics_of_kind(self, resource: Resource, api_version: str, kind: str) -> Semantics:
        """Return the semantics of an object written to the resource, or of another kind written to a subresource."""
        if (api_version, kind) == (resource.api_version, resource.kind):
            return self.semantics_of(resource)
        return semantics_of_kind(api_version, kind)

    def _handle_resource(self, request: Request, wanted: Target, now: float, identity: Identity) -> Handling:
        resource = self.catalog.find(wanted.group, wanted.version, wanted.plural)
        if resource is None:
            return self._not_served_response(wanted)
        # Custom resources have no protobuf messages. Their protobuf bodies are refused when the body is read.
        if resource.origin is not Origin.CUSTOM and _is_protobuf(request):
            body = raise_if_refused(protobuf.to_json(request.body))
            request = msgspec.structs.replace(request, headers={**request.headers, "content-type": JSON}, body=body)
        if wanted.subresource:
            return (yield from self._handle_subresource(request, resource, wanted, now, identity))
        method = request.method
        if method == "GET":
            if "get" not in resource.verbs:
                raise RequestRefused(method_not_allowed())
            if wanted.name:
                self._check_scope(resource, wanted)
                return self._reader.get(resource, wanted, request)
            return self._reader.list_or_watch(resource, wanted, request, now)
        verb = _VERBS.get(method, ("", ""))[not wanted.name]
        if verb not in resource.verbs:
            raise RequestRefused(method_not_allowed())
        self._check_scope(resource, wanted)
        if resource.origin is Origin.REVIEW:
            return self._handle_review(request, resource, now, identity)
        if method == "DELETE":
            return (yield from self._handle_delete(request, resource, wanted, now, identity))
        call = self._build_call(request, resource, wanted, now, identity)
        with _WarningsInRefusals(call.warnings):
            if method == "POST":
                written = yield from self.writer.create(call)
            elif method == "PUT":
                written = yield from self.writer.update(call, "")
            else:
                written = yield from self.writer.patch(call, "")
        return self._response_to_call(call, written)

    def _handle_subresource(
        self, request: Request, resource: Resource, wanted: Target, now: float, identity: Identity
    ) -> Handling:
        name = wanted.subresource
        sub = resource.subresource(name)
        if sub is None:
            if resource.origin is Origin.CUSTOM:
                raise RequestRefused(not_found(resource, wanted.name))
            raise RequestRefused(no_such_path(SUBRESOURCES_NOT_SERVED.get((resource.plural, name), "")))
        verb = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch"}.get(request.method, "")
        if verb not in sub.verbs:
            raise RequestRefused(method_not_allowed())
        self._check_scope(resource, wanted)
        if verb == "get":
            if name != "scale":
                return self._reader.get(resource, wanted, request)
            present = self.store.get(resource.table, wanted.namespace, wanted.name)
            if present is None:
                raise RequestRefused(not_found(resource, wanted.name))
            return json_response(200, _encode(self._subresources.read_scale(resource, decode_whole(resource, present))))
        if name == "token":
            issued = self.tokens.issue(resource, wanted.namespace, wanted.name, request.body, now)
            return json_response(201, _encode(raise_if_refused(issued)))
        call = self._build_call(request, resource, wanted, now, identity)
        with _WarningsInRefusals(call.warnings):
            match name:
                case "scale":
                    written = yield from self._subresources.write_scale(call)
                case "binding":
                    written = yield from self._subresources.bind(call)
                case "eviction":
                    written = yield from self._evictions.evict(call)
                case "resize":
                    written = yield from self._subresources.resize(call)
                case "finalize":
                    written = yield from self._subresources.finalize(call)
                case _:
                    write = self.writer.update if request.method == "PUT" else self.writer.patch
                    written = yield from write(call, name)
        return self._response_to_call(call, written)

    def _build_call(self, request: Request, resource: Resource, wanted: Target, now: float, identity: Identity) -> Call:
        kind = {"POST": "CreateOptions", "PUT": "UpdateOptions"}.get(request.method, "PatchOptions")
        return Call(request, now, identity, resource, wanted, write_options(request, kind))

    def _handle_delete(
        self, request: Request, resource: Resource, wanted: Target, now: float, identity: Identity
    ) -> Handling:
        body = raise_if_refused(decode_posted(request.body, "DeleteOptions")) if request.body else None
        options = delete_options(request, body)
        warnings: list[str] = []
        if wanted.name:
            deletion = Deletion(resource, wanted.namespace, wanted.name, options, identity, now)
            with _WarningsInRefusals(warnings):
                written = yield from self._deleter.delete(deletion, warnings)
            return self._response_to_write(request, resource, written, warnings)
        page = self._reader.select_objects(resource, wanted, request)
        for stored in page:
            if self.store.get(resource.table, stored.namespace, stored.name) is None:
                continue
            deletion = Deletion(resource, stored.namespace, stored.name, options, identity, now, one_of_many=True)
            with _WarningsInRefusals(warnings):
                yield from self._deleter.delete(deletion, warnings)
        self._custom.process_changes(now)
        view = self._reader.build_view(resource, wanted, request)
        return json_response(200, view.encode_list(page, {"resourceVersion": str(self.store.revision)}))

    def _handle_review(self, request: Request, resource: Resource, now: float, identity: Identity) -> Response:
        return json_response(201, _encode(raise_if_refused(review(resource, request.body, identity, now, self.tokens))))

    def _response_to_call(self, call: Call, written: Written) -> Response:
        return self._response_to_write(call.request, call.resource, written, call.warnings)

    def _response_to_write(
        self, request: Request, resource: Resource, written: Written, warnings: list[str]
    ) -> Response:
        self._custom.process_changes(self._now)
        obj = written.object
        if isinstance(obj, StoredObject):
            form = negotiate(request.headers.get("accept", ""))
            if form is Form.WHOLE:
                body = encode_whole(resource, obj)
            else:
                view = self._reader.build_view(resource, _NO_TARGET, request)
                body = view.encode_one(obj)
        else:
            body = _encode(obj)
        return _with_warnings(json_response(written.status, body), warnings)

    def _check_scope(self, resource: Resource, wanted: Target) -> None:
        """Check that the path has a namespace exactly if the resource is namespaced."""
        if resource.namespaced is not bool(wanted.namespace) and (wanted.name or resource.namespaced):
            raise RequestRefused(no_such_path() if wanted.name else method_not_allowed())

    def _not_served_response(self, wanted: Target) -> Response:
        why = NOT_SERVED.get((wanted.group, wanted.plural), "")
        if not why and not self.catalog.resources_of_version(wanted.group, wanted.version):
            return Response(404, b"404 page not found\n", {"content-type": "text/plain; charset=utf-8"})
        raise RequestRefused(
            no_such_path(f"situate's embedded API server does not serve {wanted.plural}: {why}" if why else "")
        )

    def _handle_document(self, request: Request) -> Response:
        path = request.path.rstrip("/") or "/"
        if request.method not in ("GET", "HEAD"):
            raise RequestRefused(method_not_allowed())
        if path in _HEALTH or path.startswith(("/healthz/", "/livez/", "/readyz/")):
            return Response(200, b"ok", {"content-type": "text/plain; charset=utf-8"})
        if path == "/version":
            return json_response(200, _encode(discovery.VERSION))
        found = self._documents.get(path, request.headers.get("accept", ""))
        if found is None:
            return Response(404, b"404 page not found\n", {"content-type": "text/plain; charset=utf-8"})
        return found


def _is_protobuf(request: Request) -> bool:
    return bool(request.body) and request.headers.get("content-type", "").startswith(protobuf.MEDIA_TYPE)


_NO_TARGET: Final = Target("", "", "", "", "", "")

_REASONS_WITH_EMPTY_DETAILS: Final = frozenset({"MethodNotAllowed", "NotAcceptable"})
"""Reasons with empty but present details, as in upstream's generic errors."""


def refusal_response(refused: Refused, metadata: Mapping[str, Any] | None = None) -> Response:
    """Return the answer for a refusal."""
    status: Obj = refused.status()
    if metadata:
        status["metadata"] = dict(metadata)
    generic = refused.code == 404 and refused.message.startswith("the server could not find")
    if "details" not in status and (
        generic or refused.reason in _REASONS_WITH_EMPTY_DETAILS or refused.message.startswith("415:")
    ):
        code = status.pop("code")
        status["details"] = {}
        status["code"] = code
    headers = {"content-type": JSON}
    retry = refused.details.get("retryAfterSeconds")
    if retry:
        headers["retry-after"] = str(retry)
    return Response(refused.code, _encode(status), headers)


class _WarningsInRefusals:
    """Context that adds the warnings to a refusal. It is a class for speed, because every write enters it."""

    __slots__ = ("_warnings",)

    def __init__(self, warnings: Sequence[str]) -> None:
        self._warnings = warnings

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, RequestRefused):
            error.warnings = self._warnings


def _with_warnings(answer: Response, warnings: Sequence[str]) -> Response:
    if not warnings:
        return answer
    shown_warnings = ", ".join(_warning_header(text) for text in dict.fromkeys(warnings))
    return Response(answer.status, answer.body, {**answer.headers, "warning": shown_warnings})


@lru_cache(maxsize=256)
def _warning_header(text: str) -> str:
    """Return the value of a Warning header (RFC 7234 5.5, as in apimachinery util/net)."""
    safe = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'299 - "{safe}"'
