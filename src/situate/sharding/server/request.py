"""Parse a request for one object, a list, discovery or the version; refuse all other requests.

Paths and parameters are those of the Kubernetes API (https://kubernetes.io/docs/reference/using-api/api-concepts).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from situate.archive.operations.object_reader import Selection
from situate.objects.messages import Request
from situate.objects.reviews.authorization import NonResourceAttributes, ResourceAttributes
from situate.objects.selection.field_selectors import parse_field_selector
from situate.objects.selection.label_selectors import BadSelector, parse_selector
from situate.runtime.serving.status_answers import Declined, bad_request, method_not_allowed, no_such_path
from situate.sharding.server.discovery import ServedResource

NO_WATCH: Final = "this server does not support watch: list again, or watch live objects at the API server"
READ_ONLY: Final = "this server is read-only, allowed: get and list; write to the API server"
_TRUE: Final = ("1", "t", "true")
_LONGEST_LIMIT: Final = 18
"""Maximum number of digits: Kubernetes' limits are 64-bit integers."""


class Form(Enum):
    """The form in which objects are returned."""

    WHOLE = "whole"
    TABLE = "Table"


class Include(Enum):
    """The object data that each row of a table includes (meta/v1 `IncludeObjectPolicy`)."""

    NONE = "None"
    METADATA = "Metadata"
    OBJECT = "Object"


@dataclass(frozen=True, slots=True)
class Shape:
    form: Form
    include: Include = Include.METADATA


@dataclass(frozen=True, slots=True)
class Get:
    """A request for one object."""

    served: ServedResource
    namespace: str
    """Empty for cluster-scoped objects."""
    name: str
    uid: str
    """Empty: the live object, else the newest archived one. This parameter is not part of the Kubernetes API."""
    shape: Shape

    @property
    def action(self) -> ResourceAttributes:
        return _resource_attributes("get", self.served, self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class List:
    """A request for one page of a list."""

    served: ServedResource
    selection: Selection
    limit: int | None
    continue_: str
    shape: Shape

    @property
    def action(self) -> ResourceAttributes:
        """Return the access to check; a field selector for one name needs access to that name only."""
        names = self.selection.names or frozenset()
        return _resource_attributes(
            "list", self.served, self.selection.namespace or "", next(iter(names)) if len(names) == 1 else ""
        )


@dataclass(frozen=True, slots=True)
class Document:
    """A request for a discovery document, or for the version."""

    path: str

    @property
    def action(self) -> NonResourceAttributes:
        return NonResourceAttributes(self.path, "get")


ParsedRequest: TypeAlias = Get | List | Document


def parse_request(request: Request, served: Sequence[ServedResource]) -> ParsedRequest:
    """Parse a request. Raises `Declined`. A HEAD is parsed like a GET."""
    if request.method not in ("GET", "HEAD"):
        raise method_not_allowed(READ_ONLY)
    steps = request.path.split("/")[1:]
    if any(step in (".", "..") or "%" in step for step in steps):
        raise no_such_path()  # such a name is invalid, and a path with it may lead to another resource
    match steps:
        case ["apis", group, version, "watch", plural, *_] if _find(served, group, version, plural):
            raise method_not_allowed(NO_WATCH)
        case ["apis", group, version, plural] if found := _find(served, group, version, plural):
            return _parse_list(request, found, None)
        case ["apis", group, version, plural, name] if name and (found := _find(served, group, version, plural)):
            if found.type.namespaced:
                raise no_such_path()
            return _parse_get(request, found, "", name)
        case ["apis", group, version, "namespaces", namespace, plural, *rest] if namespace:
            found = _find(served, group, version, plural)
            if found is None or not found.type.namespaced:
                raise no_such_path()
            match rest:
                case []:
                    return _parse_list(request, found, namespace)
                case [name] if name:
                    return _parse_get(request, found, namespace, name)
            raise no_such_path()  # archived objects have no subresources
        case ["apis", _, _, _, *_]:
            raise no_such_path()
        case ["api", "v1", "namespaces", _]:
            # kubectl requests the namespace after each 404, and would report it missing instead of the object
            raise Declined(403, "Forbidden", "this server does not serve namespaces; request them from the API server")
    return Document(request.path)


def _find(served: Sequence[ServedResource], group: str, version: str, plural: str) -> ServedResource | None:
    return next((each for each in served if each.place == (group, version, plural)), None)


def _parse_get(request: Request, found: ServedResource, namespace: str, name: str) -> Get:
    return Get(found, namespace, name, request.parameter("uid"), _parse_shape(request))


def _parse_list(request: Request, found: ServedResource, namespace: str | None) -> List:
    if request.parameter("watch").lower() in _TRUE:
        raise method_not_allowed(NO_WATCH)
    if request.parameter("resourceVersionMatch") == "Exact":
        raise bad_request(
            "resourceVersionMatch: found 'Exact', allowed: 'NotOlderThan' or none; the archive keeps no past states"
        )
    try:
        labels = parse_selector(request.parameter("labelSelector"))
        fields = parse_field_selector(request.parameter("fieldSelector"))
    except BadSelector as problem:
        raise bad_request(str(problem)) from problem
    limit = _parse_limit(request.parameter("limit"))
    return List(
        found, Selection(namespace, labels, fields), limit, request.parameter("continue"), _parse_shape(request)
    )


def _parse_limit(text: str) -> int | None:
    if text in ("", "0"):
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= _LONGEST_LIMIT):
        raise bad_request(f"limit: found {text[:40]!r}, allowed: an integer from 0; 0 means no limit")
    return int(text) or None


def _parse_shape(request: Request) -> Shape:
    include = request.parameter("includeObject") or Include.METADATA.value
    try:
        return Shape(_parse_form(request.headers.get("accept", "")), Include(include))
    except ValueError:
        allowed = ", ".join(each.value for each in Include)
        raise bad_request(f"includeObject: found {include[:40]!r}, allowed: {allowed}") from None


def _parse_form(accept: str) -> Form:
    """Return the first accepted form that this server can write."""
    for choice in accept.split(",") if accept.strip() else ["*/*"]:
        media, *rest = [part.strip().lower() for part in choice.split(";")]
        if media not in ("application/json", "application/*", "*/*"):
            continue
        parameters = dict(part.split("=", 1) for part in rest if "=" in part)
        if "as" not in parameters:
            return Form.WHOLE
        if (parameters["as"], parameters.get("g"), parameters.get("v")) == ("table", "meta.k8s.io", "v1"):
            return Form.TABLE
    raise Declined(
        406,
        "NotAcceptable",
        "only the following media types are accepted: application/json, and Tables of meta.k8s.io/v1",
    )


def _resource_attributes(verb: str, served: ServedResource, namespace: str, name: str) -> ResourceAttributes:
    kind = served.type
    return ResourceAttributes(namespace, verb, kind.group, kind.version, kind.plural, "", name)
