"""The API server without I/O: a request in, an answer or a watch out, and the webhook calls in between.

This file only finds out what a request asks for; reading, writing, deleting and the rest are files of their own. The
embedded server puts HTTP around it, the simulator calls it in process on virtual time.
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
from situate.cluster.storage.stored import Stored
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
"""The verb for an object and for a collection."""

_encode: Final = msgspec.json.Encoder().encode

NO_TOKENS: Final[Mapping[str, Identity]] = MappingProxyType({})


class ApiServer:
    """Answers requests from one store.

    Deterministic: names come from `names`, the time with each request. Requests may interleave only where they yield
    an effect; everything else happens within one `send`.
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
        """With a store that holds nothing, the objects of a fresh cluster are made as of `now`.

        Without `tracks_managers` there are no managedFields: a fifth less work for those who neither apply nor look.
        `tokens` are known from the start; those of service accounts are issued.
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
        """Answers a request that arrived at `now` (Unix seconds). Every refusal is a `Response` with a Status."""
        self._now = now
        try:
            wanted = target(request.path)
            if wanted is None:
                return self._document(request)
            return (yield from self._resource(request, wanted, now, identity))
        except Declined as declined:
            return _with_warnings(refused_response(declined.refused, declined.metadata), declined.warnings)

    def answer(self, request: Request, now: float, identity: Identity = ADMIN) -> Answer:
        """`handle` for callers without a network: a webhook that would be called counts as unreachable."""
        handling = self.handle(request, now, identity)
        try:
            effect = next(handling)
            while True:
                effect = handling.send(unreachable(effect))
        except StopIteration as done:
            answer: Answer = done.value
            return answer

    def semantics_of(self, resource: Resource) -> Semantics:
        """What the resource's objects may hold."""
        key = (resource.group, resource.version, resource.plural)
        known = self._semantics.get(key)
        if known is None or known[0] is not resource:
            made = custom(resource) if resource.origin is Origin.CUSTOM else built_in(resource)
            known = self._semantics[key] = (resource, made)
        return known[1]

    def _semantics_of_kind(self, resource: Resource, api_version: str, kind: str) -> Semantics:
        """Of an object that is written to the resource or, being of another kind, below it."""
        if (api_version, kind) == (resource.api_version, resource.kind):
            return self.semantics_of(resource)
        return built_in_kind(api_version, kind)

    def _resource(self, request: Request, wanted: Target, now: float, identity: Identity) -> Handling:
        resource = self.catalog.find(wanted.group, wanted.version, wanted.plural)
        if resource is None:
            return self._not_served(wanted)
        # Custom resources have no messages: theirs is refused where the body is read.
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
        """An object is reached through its namespace, or without one if it has none."""
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
"""Reasons whose details are empty but present, as upstream's generic errors have them."""


def refused_response(refused: Refused, metadata: Mapping[str, Any] | None = None) -> Response:
    """The answer that carries a refusal."""
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
    """What was to be warned of is told even if the request is refused then. A class, as every write enters it."""

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
    """A Warning header's value (RFC 7234 5.5, as apimachinery util/net writes it)."""
    safe = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'299 - "{safe}"'
