"""A whole cluster: the API server, and the controllers that write through it like any client.

Pure: whoever holds it passes requests in and calls `step` when `next_due` has come. Webhooks that a controller's write
needs are called by whoever holds it, through `CallWebhooks`; without one they count as unreachable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, assert_never

import msgspec

from situate.cluster.api import Answer as ApiAnswer
from situate.cluster.api import ApiServer, Handling
from situate.cluster.controllers import Machinery, MachinerySettings
from situate.cluster.controllers.actions import Answer, Bind, Create, Delete, Finalize, Patch, Rng, Write
from situate.cluster.effects import Identity, WebhookReply
from situate.cluster.names import Names
from situate.cluster.resources import Catalog
from situate.cluster.store import Store
from situate.objects.messages import Request, Response

CallWebhooks: TypeAlias = Callable[[Handling, Callable[[ApiAnswer], None]], None]
"""Drives a request that may call webhooks, and hands its answer to the second argument, now or later."""

_CONTROLLER_GROUPS: Final = ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated")
_encode: Final = msgspec.json.Encoder().encode


class Cluster:
    """An API server and its controllers on one store."""

    def __init__(
        self,
        names: Names,
        rng: Rng,
        settings: MachinerySettings,
        *,
        now: float,
        store: Store | None = None,
        call_webhooks: CallWebhooks | None = None,
    ) -> None:
        """`now` and all times are Unix seconds."""
        self.api = ApiServer(names, now=now, store=store)
        self._now = now
        self._call_webhooks = call_webhooks or _without_network
        self.machinery = Machinery(self, self.api.store, self.api.catalog, settings, rng)
        self.api.store.subscribe(self.machinery.observe)

    def answer(self, request: Request, now: float, identity: Identity) -> ApiAnswer:
        """One request of a client, without webhooks."""
        self._now = max(self._now, now)
        return self.api.answer(request, now, identity)

    def step(self, now: float) -> float | None:
        """Lets the controllers do what is due; when they want to be called next, None for not before a change."""
        self._now = max(self._now, now)
        self.machinery.step(self._now)
        return self.machinery.next_due()

    def perform(self, action: Write, user: str, manager: str, ticket: int) -> Answer | None:
        """A write of a controller, as the API server sees it from anybody else (`controllers.actions.Writer`)."""
        request = _request(action, manager, self.api.catalog)
        if request is None:
            return Answer(404, "NotFound", f"the cluster has no resource {getattr(action, 'resource', '')}")
        answered: list[Answer] = []
        handed_out = False

        def done(answer: ApiAnswer) -> None:
            assert isinstance(answer, Response)
            if handed_out:
                self.machinery.settle(ticket, _answer(answer))
            else:
                answered.append(_answer(answer))

        self._call_webhooks(self.api.handle(request, self._now, Identity(user, _CONTROLLER_GROUPS)), done)
        handed_out = True
        return answered[0] if answered else None


def _without_network(handling: Handling, done: Callable[[ApiAnswer], None]) -> None:
    try:
        next(handling)
        while True:
            handling.send(WebhookReply(error="there is no network"))
    except StopIteration as end:
        done(end.value)


def _request(action: Write, manager: str, catalog: Catalog) -> Request | None:
    """The REST call that an action is; None if the cluster does not know its resource (any more)."""
    query = (("fieldManager", manager),)
    match action:
        case Create():
            path = _path(catalog, action.resource, action.namespace)
            return Request("POST", path, query, _JSON, _encode(action.body)) if path else None
        case Patch():
            path = _path(catalog, action.resource, action.namespace, action.name, action.subresource)
            return Request("PATCH", path, query, _MERGE_PATCH, _encode(action.body)) if path else None
        case Finalize():
            path = f"/api/v1/namespaces/{action.namespace['metadata']['name']}/finalize"
            return Request("PUT", path, query, _JSON, _encode(action.namespace))
        case Delete():
            path = _path(catalog, action.resource, action.namespace, action.name)
            return Request("DELETE", path, query, _JSON, _encode(_delete_options(action))) if path else None
        case Bind():
            path = f"/api/v1/namespaces/{action.namespace}/pods/{action.name}/binding"
            body = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": action.name, "namespace": action.namespace, "uid": action.uid},
                "target": {"apiVersion": "v1", "kind": "Node", "name": action.node},
            }
            return Request("POST", path, query, _JSON, _encode(body))
        case _:
            assert_never(action)


_JSON: Final[Mapping[str, str]] = {"accept": "application/json", "content-type": "application/json"}
_MERGE_PATCH: Final[Mapping[str, str]] = {**_JSON, "content-type": "application/merge-patch+json"}


def _delete_options(action: Delete) -> dict[str, Any]:
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": action.uid}}
    if action.propagation:
        options["propagationPolicy"] = action.propagation
    if action.grace_seconds is not None:
        options["gracePeriodSeconds"] = action.grace_seconds
    return options


def _path(catalog: Catalog, group_resource: str, namespace: str, name: str = "", subresource: str = "") -> str | None:
    plural, _, group = group_resource.partition(".")
    served = catalog.versions_of(group, plural)
    version = next((version for version in catalog.versions(group) if version in served), None)
    if version is None:
        return None
    path = f"/apis/{group}/{version}" if group else f"/api/{version}"
    if namespace:
        path += f"/namespaces/{namespace}"
    return "/".join(part for part in (path, plural, name, subresource) if part)


def _answer(response: Response) -> Answer:
    """What the controllers need of an answer."""
    if response.status < 400:
        name = _CREATED.decode(response.body).metadata.name
        return Answer(response.status, name=name)
    refused = _REFUSED.decode(response.body)
    causes = tuple(cause.reason for cause in refused.details.causes)
    return Answer(response.status, refused.reason, refused.message, causes=causes)


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""


class _Created(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()


class _Cause(msgspec.Struct, frozen=True):
    reason: str = ""


class _Details(msgspec.Struct, frozen=True):
    causes: tuple[_Cause, ...] = ()


class _Refused(msgspec.Struct, frozen=True):
    reason: str = ""
    message: str = ""
    details: _Details = _Details()


_CREATED: Final = msgspec.json.Decoder(_Created)
_REFUSED: Final = msgspec.json.Decoder(_Refused)
