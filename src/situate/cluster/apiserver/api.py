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
from situate.cluster.errors.field_errors import Refused, bad_request
from situate.cluster.errors.refusals import Declined, accepted, method_not_allowed, no_such_path, not_found
from situate.cluster.kinds.custom_resources import CustomResources
from situate.cluster.kinds.rules import Obj
from situate.cluster.kinds.schemas.bodies import decode
from situate.cluster.kinds.semantics import Semantics, built_in, built_in_kind, custom
from situate.cluster.read.list_and_watch import Reading, json_response
from situate.cluster.read.negotiation import JSON, Form, decoded, negotiate, shown
from situate.cluster.storage.builtin_resources import BUILT_IN, LEFT_OUT, LEFT_OUT_SUBRESOURCES
from situate.cluster.storage.effects import ADMIN, Effect, Identity, Reply, unreachable
from situate.cluster.storage.names import Names
from situate.cluster.storage.options import delete_options, write_options
from situate.cluster.storage.paths import Target, target
from situate.cluster.storage.resources import Catalog, Origin, Resource
from situate.cluster.storage.store import Store
from situate.cluster.storage.stored_object import Stored
from situate.cluster.storage.watch import Watch
from situate.cluster.write import Writing
from situate.cluster.write.bootstrap import bootstrap
from situate.cluster.write.calls import Call, Written
from situate.cluster.write.deletion import Deleting, Deletion
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
        names: Names,
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
        self.writing = Writing(self.store, names, admission, self.semantics_of, tracks_managers=tracks_managers)
        self._reading = Reading(self.store, lambda: self._now)
        self._deleting = Deleting(self.store, admission, self.writing)
        self._subresources = Subresources(self.store, self.writing)
        self._evictions = Evictions(self.store, self.catalog, self.writing, self._deleting)
        self._custom = CustomResources(self.store, self.catalog, self.writing.storing.put)
        self._documents = Documents(self.catalog, self._custom)
        bootstrap(self.catalog, self.store, self.writing, now)
        self._custom.settle(now)

    def handle(self, request: Request, now: float, identity: Identity = ADMIN) -> Handling:
        """Answer a request that arrived at `now` (Unix seconds). Every refusal is a `Response` with a Status."""
        self._now = now
        try:
            wanted = target(request.path)
            if wanted is None:
                return self._document(request)
            return (yield from self._resource(request, wanted, now, identity))
        except Declined as declined:
            return _with_warnings(refused_response(declined.refused, declined.metadata), declined.warnings)

    def answer(self, request: Request, now: float, identity: Identity = ADMIN) -> Answer:
        """Run `handle` without a network: webhooks count as unreachable."""
        handling = self.handle(request, now, identity)
        try:
            effect = next(handling)
            while True:
                effect = handling.send(unreachable(effect))
        except StopIteration as done:
            answer: Answer = done.value
            return answer

    def semantics_of(self, resource: Resource) -> Semantics:
        """Return the semantics of the resource's objects."""
        key = (resource.group, resource.version, resource.plural)
        known = self._semantics.get(key)
        if known is None or known[0] is not resource:
            made = custom(resource) if resource.origin is Origin.CUSTOM else built_in(resource)
            known = self._semantics[key] = (resource, made)
        return known[1]

    def _semantics_of_kind(self, resource: Resource, api_version: str, kind: str) -> Semantics:
        """Return the semantics of an object written to the resource, or of another kind written to a subresource."""
        if (api_version, kind) == (resource.api_version, resource.kind):
            return self.semantics_of(resource)
        return built_in_kind(api_version, kind)

    def _resource(self, request: Request, wanted: Target, now: float, identity: Identity) -> Handling:
        resource = self.catalog.find(wanted.group, wanted.version, wanted.plural)
        if resource is None:
            return self._not_served(wanted)
        # Custom resources have no protobuf messages. Their protobuf bodies are refused when the body is read.
        if resource.origin is not Origin.CUSTOM and _is_protobuf(request):
            body = accepted(protobuf.to_json(request.body))
            request = msgspec.structs.replace(request, headers={**request.headers, "content-type": JSON}, body=body)
        if wanted.subresource:
            return (yield from self._subresource(request, resource, wanted, now, identity))
        method = request.method
        if method == "GET":
            if "get" not in resource.verbs:
                raise Declined(method_not_allowed())
            if wanted.name:
                self._check_scope(resource, wanted)
                return self._reading.get(resource, wanted, request)
            return self._reading.list_or_watch(resource, wanted, request, now)
        verb = _VERBS.get(method, ("", ""))[not wanted.name]
        if verb not in resource.verbs:
            raise Declined(method_not_allowed())
        self._check_scope(resource, wanted)
        if resource.origin is Origin.REVIEW:
            return self._review(request, resource, now, identity)
        if method == "DELETE":
            return (yield from self._delete(request, resource, wanted, now, identity))
        call = self._call(request, resource, wanted, now, identity)
        with _ShownBesideRefusals(call.warnings):
            if method == "POST":
                written = yield from self.writing.create(call)
            elif method == "PUT":
                written = yield from self.writing.update(call, "")
            else:
                written = yield from self.writing.patch(call, "")
        return self._written(call, written)

    def _subresource(
        self, request: Request, resource: Resource, wanted: Target, now: float, identity: Identity
    ) -> Handling:
        name = wanted.subresource
        sub = resource.subresource(name)
        if sub is None:
            if resource.origin is Origin.CUSTOM:
                raise Declined(not_found(resource, wanted.name))
            raise Declined(no_such_path(LEFT_OUT_SUBRESOURCES.get((resource.plural, name), "")))
        verb = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch"}.get(request.method, "")
        if verb not in sub.verbs:
            raise Declined(method_not_allowed())
        self._check_scope(resource, wanted)
        if verb == "get":
            if name != "scale":
                return self._reading.get(resource, wanted, request)
            present = self.store.get(resource.table, wanted.namespace, wanted.name)
            if present is None:
                raise Declined(not_found(resource, wanted.name))
            return json_response(200, _encode(self._subresources.read_scale(resource, decoded(resource, present))))
        if name == "token":
            issued = self.tokens.issue(resource, wanted.namespace, wanted.name, request.body, now)
            return json_response(201, _encode(accepted(issued)))
        call = self._call(request, resource, wanted, now, identity)
        with _ShownBesideRefusals(call.warnings):
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
                    write = self.writing.update if request.method == "PUT" else self.writing.patch
                    written = yield from write(call, name)
        return self._written(call, written)

    def _call(self, request: Request, resource: Resource, wanted: Target, now: float, identity: Identity) -> Call:
        kind = {"POST": "CreateOptions", "PUT": "UpdateOptions"}.get(request.method, "PatchOptions")
        return Call(request, now, identity, resource, wanted, write_options(request, kind))

    def _delete(self, request: Request, resource: Resource, wanted: Target, now: float, identity: Identity) -> Handling:
        body: Any = None
        if request.body:
            body = accepted(decode(request.body))
            if not isinstance(body, dict) or body.get("kind", "DeleteOptions") != "DeleteOptions":
                raise Declined(bad_request("the body is not a DeleteOptions"))
        options = delete_options(request, body)
        warnings: list[str] = []
        if wanted.name:
            deletion = Deletion(resource, wanted.namespace, wanted.name, options, identity, now)
            with _ShownBesideRefusals(warnings):
                written = yield from self._deleting.delete(deletion, warnings)
            return self._written_object(request, resource, written, warnings)
        page = self._reading.selected(resource, wanted, request)
        for stored in page:
            if self.store.get(resource.table, stored.namespace, stored.name) is None:
                continue
            deletion = Deletion(resource, stored.namespace, stored.name, options, identity, now, one_of_many=True)
            with _ShownBesideRefusals(warnings):
                yield from self._deleting.delete(deletion, warnings)
        self._custom.settle(now)
        view = self._reading.view(resource, wanted, request)
        return json_response(200, view.many(page, {"resourceVersion": str(self.store.revision)}))

    def _review(self, request: Request, resource: Resource, now: float, identity: Identity) -> Response:
        return json_response(201, _encode(accepted(review(resource, request.body, identity, now, self.tokens))))

    def _written(self, call: Call, written: Written) -> Response:
        return self._written_object(call.request, call.resource, written, call.warnings)

    def _written_object(self, request: Request, resource: Resource, written: Written, warnings: list[str]) -> Response:
        self._custom.settle(self._now)
        obj = written.object
        if isinstance(obj, Stored):
            form = negotiate(request.headers.get("accept", ""))
            if form is Form.WHOLE:
                body = shown(resource, obj)
            else:
                view = self._reading.view(resource, _EVERYWHERE, request)
                body = view.one(obj)
        else:
            body = _encode(obj)
        return _with_warnings(json_response(written.status, body), warnings)

    def _check_scope(self, resource: Resource, wanted: Target) -> None:
        """Check that the path has a namespace exactly if the resource is namespaced."""
        if resource.namespaced is not bool(wanted.namespace) and (wanted.name or resource.namespaced):
            raise Declined(no_such_path() if wanted.name else method_not_allowed())

    def _not_served(self, wanted: Target) -> Response:
        why = LEFT_OUT.get((wanted.group, wanted.plural), "")
        if not why and not self.catalog.of(wanted.group, wanted.version):
            return Response(404, b"404 page not found\n", {"content-type": "text/plain; charset=utf-8"})
        raise Declined(
            no_such_path(f"situate's embedded API server does not serve {wanted.plural}: {why}" if why else "")
        )

    def _document(self, request: Request) -> Response:
        path = request.path.rstrip("/") or "/"
        if request.method not in ("GET", "HEAD"):
            raise Declined(method_not_allowed())
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


_EVERYWHERE: Final = Target("", "", "", "", "", "")

_PLAIN_DETAILS: Final = frozenset({"MethodNotAllowed", "NotAcceptable"})
"""Reasons with empty but present details, as in upstream's generic errors."""


def refused_response(refused: Refused, metadata: Mapping[str, Any] | None = None) -> Response:
    """Return the answer for a refusal."""
    status: Obj = refused.status()
    if metadata:
        status["metadata"] = dict(metadata)
    generic = refused.code == 404 and refused.message.startswith("the server could not find")
    if "details" not in status and (generic or refused.reason in _PLAIN_DETAILS or refused.message.startswith("415:")):
        code = status.pop("code")
        status["details"] = {}
        status["code"] = code
    headers = {"content-type": JSON}
    retry = refused.details.get("retryAfterSeconds")
    if retry:
        headers["retry-after"] = str(retry)
    return Response(refused.code, _encode(status), headers)


class _ShownBesideRefusals:
    """Context that adds the warnings to a refusal. It is a class for speed, because every write enters it."""

    __slots__ = ("_warnings",)

    def __init__(self, warnings: Sequence[str]) -> None:
        self._warnings = warnings

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, Declined):
            error.warnings = self._warnings


def _with_warnings(answer: Response, warnings: Sequence[str]) -> Response:
    if not warnings:
        return answer
    shown_warnings = ", ".join(_warning(text) for text in dict.fromkeys(warnings))
    return Response(answer.status, answer.body, {**answer.headers, "warning": shown_warnings})


@lru_cache(maxsize=256)
def _warning(text: str) -> str:
    """Return the value of a Warning header (RFC 7234 5.5, as in apimachinery util/net)."""
    safe = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'299 - "{safe}"'
