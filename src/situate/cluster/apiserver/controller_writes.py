"""Writes of controllers, made through the API like those of any client: the machinery's `Writer`.

A write that needs a webhook call is handed to the caller, which drives it to its end and settles its ticket.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_never

import msgspec

from situate.cluster.apiserver.api import Answer as ApiAnswer
from situate.cluster.apiserver.api import ApiServer, Handling
from situate.cluster.controllers.machinery.actions import Bind, Create, Delete, Finalize, Patch, Write, WriteAnswer
from situate.cluster.storage.effects import Effect, Identity
from situate.objects.messages import Request, Response

DeferWrite = Callable[[Handling, Effect, int], None]
"""Takes a request that waits for its first webhook, and the ticket for its answer."""

_GROUPS = ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated")


class ControllerWriter:
    """Writer to one API server, with the time of `clock()`."""

    def __init__(self, api: ApiServer, clock: Callable[[], float], later: DeferWrite) -> None:
        self._api = api
        self._clock = clock
        self._defer_write = later

    def perform(self, action: Write, user: str, manager: str, ticket: int) -> WriteAnswer | None:
        """Return the answer, or None if it comes later."""
        request = self._request(action, manager)
        handling = self._api.handle(request, self._clock(), Identity(user, _GROUPS))
        try:
            effect = next(handling)
        except StopIteration as done:
            answer = done.value
            # Only creations and actions with a callback need the name; other answers are not parsed.
            nameless = action.done is None and not isinstance(action, Create)
            return WriteAnswer(answer.status) if nameless and answer.status < 400 else answer_of(answer)
        self._defer_write(handling, effect, ticket)
        return None

    def _request(self, action: Write, manager: str) -> Request:
        match action:
            case Create():
                path = self._path(action.resource, action.namespace)
                return _build_request("POST", path, action.body, manager)
            case Patch():
                path = self._path(action.resource, action.namespace, action.name, action.subresource)
                return _build_request("PATCH", path, action.body, manager, "application/merge-patch+json")
            case Finalize():
                path = self._path("namespaces", "", action.namespace["metadata"]["name"], "finalize")
                return _build_request("PUT", path, action.namespace, manager)
            case Delete():
                options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1"}
                options["preconditions"] = {"uid": action.uid}
                if action.propagation:
                    options["propagationPolicy"] = action.propagation
                if action.grace_seconds is not None:
                    options["gracePeriodSeconds"] = action.grace_seconds
                return _build_request(
                    "DELETE", self._path(action.resource, action.namespace, action.name), options, manager
                )
            case Bind():
                binding = {
                    "apiVersion": "v1",
                    "kind": "Binding",
                    "metadata": {"name": action.name, "namespace": action.namespace, "uid": action.uid},
                    "target": {"kind": "Node", "name": action.node},
                }
                path = self._path("pods", action.namespace, action.name, "binding")
                return _build_request("POST", path, binding, manager)
            case _:
                assert_never(action)

    def _path(self, resource: str, namespace: str, name: str = "", subresource: str = "") -> str:
        plural, _, group = resource.partition(".")
        versions = self._api.catalog.versions_by_priority(group, plural)
        root = f"/apis/{group}/{versions[0]}" if group else f"/api/{versions[0]}"
        parts = [root]
        if namespace:
            parts += ["namespaces", namespace]
        parts.append(plural)
        if name:
            parts.append(name)
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


def _build_request(method: str, path: str, body: Any, manager: str, content_type: str = "application/json") -> Request:
    headers = {"user-agent": manager, "content-type": content_type}
    return Request(method, path, (("fieldManager", manager),), headers, msgspec.json.encode(body))


class _Cause(msgspec.Struct):
    reason: str = ""


class _Details(msgspec.Struct):
    causes: tuple[_Cause, ...] = ()


class _Status(msgspec.Struct):
    reason: str = ""
    message: str = ""
    details: _Details = msgspec.field(default_factory=_Details)


class _Metadata(msgspec.Struct):
    name: str = ""


class _Created(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


def answer_of(response: ApiAnswer) -> WriteAnswer:
    """Convert an answer of the API to the machinery's type."""
    assert isinstance(response, Response)
    if response.status < 400:
        made = msgspec.json.decode(response.body, type=_Created)
        return WriteAnswer(response.status, name=made.metadata.name)
    refused = msgspec.json.decode(response.body, type=_Status)
    causes = tuple(cause.reason for cause in refused.details.causes)
    return WriteAnswer(response.status, refused.reason, refused.message, causes=causes)
