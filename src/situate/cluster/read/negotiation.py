"""Encode objects as whole objects, PartialObjectMetadata or Table rows, and select them for a client."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import msgspec

from situate.cluster.errors.refusals import RequestRefused, not_acceptable
from situate.cluster.read.table_cells import Columns
from situate.cluster.read.tables import columns_of
from situate.cluster.storage.resources import Origin, Resource
from situate.cluster.storage.store import Event
from situate.cluster.storage.stored_object import StoredObject

_encode: Final = msgspec.json.Encoder().encode

JSON: Final = "application/json"


class Form(Enum):
    WHOLE = "whole"
    METADATA = "PartialObjectMetadata"
    TABLE = "Table"


def negotiate(accept: str) -> Form:
    """Return the first form of the Accept header that can be written.

    Raises `RequestRefused` (406) if there is none.
    """
    if not accept or accept in (JSON, "*/*"):
        return Form.WHOLE
    for choice in accept.split(","):
        media, *parameters = [part.strip() for part in choice.split(";")]
        if media not in (JSON, "*/*", "application/*"):
            continue
        options = dict(part.split("=", 1) for part in parameters if "=" in part)
        kind = options.get("as", "")
        if not kind:
            return Form.WHOLE
        if options.get("v") != "v1" or options.get("g") != "meta.k8s.io":
            continue
        if kind == "Table":
            return Form.TABLE
        if kind in ("PartialObjectMetadata", "PartialObjectMetadataList"):
            return Form.METADATA
    raise RequestRefused(not_acceptable())


def encode_whole(resource: Resource, obj: StoredObject) -> bytes:
    """Return the JSON of the whole object at the resource's version."""
    if resource.from_stored is not None:
        return _encode(resource.from_stored(obj.object_with_managers()))
    body = obj.json()
    if resource.version == resource.stored_version:
        return body
    was = b'"apiVersion":"%b"' % resource.stored_api_version.encode()
    return body.replace(was, b'"apiVersion":"%b"' % resource.api_version.encode(), 1)


def decode_whole(resource: Resource, obj: StoredObject) -> dict[str, Any]:
    """Return the whole object at the resource's version, newly decoded."""
    value: dict[str, Any] = msgspec.json.decode(encode_whole(resource, obj))
    return value


def _encode_metadata_only(obj: StoredObject, kind: bool = True) -> bytes:
    """Return the object with only `metadata`."""
    body = obj.json()
    end = len(body) - len(obj.tail) + 1
    head = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",' if kind else b"{"
    return b"".join((head, b'"metadata":', body[obj.start - 1 : end], b"}"))


def error_frame(status: Mapping[str, Any]) -> bytes:
    """Return the last line of a watch that ends with an error."""
    return b'{"type":"ERROR","object":%b}\n' % _encode(status)


_EMPTY_TAILS: Final[Mapping[str, bytes]] = {
    "Pod": b',"spec":{"containers":null},"status":{}',
    "Node": b',"spec":{},"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":0}},"nodeInfo":{"machineID":"",'
    b'"systemUUID":"","bootID":"","kernelVersion":"","osImage":"","containerRuntimeVersion":"","kubeletVersion":"",'
    b'"kubeProxyVersion":"","operatingSystem":"","architecture":""}}',
    "Namespace": b',"spec":{},"status":{}',
    "Service": b',"spec":{},"status":{"loadBalancer":{}}',
    "Deployment": b',"spec":{"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"strategy":{}}'
    b',"status":{}',
    "ReplicaSet": b',"spec":{"selector":null,"template":{"metadata":{},"spec":{"containers":null}}}'
    b',"status":{"replicas":0}',
    "StatefulSet": b',"spec":{"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"serviceName":""'
    b',"updateStrategy":{}},"status":{"replicas":0,"availableReplicas":0}',
    "Lease": b',"spec":{}',
}
"""JSON after the metadata of an empty object, as Go encodes it for each kind. Bookmarks are such objects."""


@dataclass(slots=True)
class ListView:
    """Selection and form of one list or watch. Implements `situate.cluster.storage.watch.View`."""

    resource: Resource
    form: Form
    namespace: str
    """Empty for all namespaces."""
    labels: Callable[[Mapping[str, str]], bool] | None
    fields: Callable[[StoredObject], bool] | None
    include: str = "Metadata"
    """Object next to a row's cells: `Metadata`, `Object` or `None`."""
    now: Callable[[], float] = lambda: 0.0
    """Clock for ages in tables."""
    headers_sent: bool = False
    """True after the first table of a watch, the only one with column definitions."""

    def shows(self, obj: StoredObject) -> bool:
        """Return whether the object is selected."""
        if self.namespace and obj.namespace != self.namespace:
            return False
        if self.labels is not None and not self.labels(obj.labels):
            return False
        return self.fields is None or self.fields(obj)

    @property
    def selects(self) -> bool:
        """True if the request selects by labels or fields."""
        return self.labels is not None or self.fields is not None

    def frame(self, type_: str, obj: StoredObject, event: Event | None) -> bytes:
        """Return one line of a watch. All watches of an event share the same line, built once."""
        if event is None or self.form is Form.TABLE:
            return self._frame(type_, obj)
        return event.frame((type_, self.form, self.resource.api_version), lambda: self._frame(type_, obj))

    def _frame(self, type_: str, obj: StoredObject) -> bytes:
        return b"".join((b'{"type":"', type_.encode(), b'","object":', self.encode_one(obj), b"}\n"))

    def bookmark(self, revision: int, *, initial_events_end: bool) -> bytes:
        """Return the line for a bookmark at a revision."""
        annotations = b',"annotations":{"k8s.io/initial-events-end":"true"}' if initial_events_end else b""
        metadata = b'"metadata":{"resourceVersion":"%d"%b}' % (revision, annotations)
        if self.form is Form.TABLE:
            inner = b'"kind":"Table","apiVersion":"meta.k8s.io/v1",%b,"columnDefinitions":null,"rows":[]' % metadata
        elif self.form is Form.METADATA:
            inner = b'"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",' + metadata
        else:
            kind, version = self.resource.kind.encode(), self.resource.api_version.encode()
            built_in = self.resource.origin is Origin.BUILT_IN
            tail = _EMPTY_TAILS.get(self.resource.kind, b"") if built_in else b""
            inner = b'"kind":"%b","apiVersion":"%b",%b%b' % (kind, version, metadata, tail)
        return b'{"type":"BOOKMARK","object":{%b}}\n' % inner

    def encode_one(self, obj: StoredObject) -> bytes:
        """Return a single object, for the answer to a get or inside a frame."""
        if self.form is Form.WHOLE:
            return encode_whole(self.resource, obj)
        if self.form is Form.METADATA:
            return _encode_metadata_only(obj)
        return self.encode_list([obj], {"resourceVersion": str(obj.revision)})

    def encode_list(self, objects: list[StoredObject], metadata: Mapping[str, Any]) -> bytes:
        """Return the answer to a list."""
        head = _encode(metadata)
        if self.form is Form.TABLE:
            return self._table(objects, head)
        if self.form is Form.METADATA:
            kind, api_version = b"PartialObjectMetadataList", b"meta.k8s.io/v1"
            items = [_encode_metadata_only(obj) for obj in objects]
        else:
            kind, api_version = self.resource.list_kind.encode(), self.resource.api_version.encode()
            items = self._items(objects)
        return b'{"kind":"%b","apiVersion":"%b","metadata":%b,"items":[%b]}' % (
            kind,
            api_version,
            head,
            b",".join(items),
        )

    def _items(self, objects: list[StoredObject]) -> list[bytes]:
        resource = self.resource
        if resource.origin is Origin.CUSTOM:
            return [encode_whole(resource, obj) for obj in objects]
        # Items of a typed list have no kind and apiVersion of their own.
        if resource.from_stored is not None:
            return [_encode(_without_type(resource.from_stored(obj.object_with_managers()))) for obj in objects]
        skip = len(b'{"kind":"","apiVersion":"",') + len(resource.kind) + len(resource.stored_api_version)
        return [b"{" + obj.json()[skip:] for obj in objects]

    def _table(self, objects: list[StoredObject], metadata: bytes) -> bytes:
        columns: Columns = columns_of(self.resource)
        now = self.now()
        rows = [self._row(columns, obj, now) for obj in objects]
        definitions = b"null" if self.headers_sent else _encode(columns.definitions)
        self.headers_sent = True
        return b'{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":%b,"columnDefinitions":%b,"rows":[%b]}' % (
            metadata,
            definitions,
            b",".join(rows),
        )

    def _row(self, columns: Columns, obj: StoredObject, now: float) -> bytes:
        cells = columns.cells(decode_whole(self.resource, obj), now)
        if self.include == "Object":
            beside = encode_whole(self.resource, obj)
        elif self.include == "None":
            beside = b"null"
        else:
            beside = _encode_metadata_only(obj)
        return b'{"cells":%b,"object":%b}' % (_encode(cells), beside)


def _without_type(obj: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in obj.items() if key not in ("kind", "apiVersion")}
