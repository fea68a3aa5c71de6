"""Decode untrusted bytes of the API to values.

Null counts as absent, as in Go's decoder: servers write `"containers":null` and `"creationTimestamp":null`. Any other
fault of an object becomes a `Malformed` with the object and the path of the field. An object of a page that does not
decode is set aside, and the other objects are returned.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar, cast

import msgspec

from situate.objects.decoding.pod_wire import ChangedPodWire, PodReader, PodWire
from situate.objects.decoding.storage_wire import ClaimWire, StorageReader, VolumeWire
from situate.objects.kinds.meta import ListMeta, ObjectMeta
from situate.objects.kinds.pods import Pod
from situate.objects.kinds.status import Status
from situate.objects.kinds.storage import PersistentVolume, PersistentVolumeClaim
from situate.objects.kinds.unstructured import Unstructured
from situate.objects.resources import ResourceType
from situate.objects.values.quantity import decode_quantity

T = TypeVar("T")

ChangeType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED"]


class Malformed(ValueError):
    """Bytes that do not hold the expected object."""

    def __init__(self, object_: str, path: str, problem: str) -> None:
        """Build the message. `object_` is such as `pods default/web-0`.

        `path` is such as `spec.priority`, or empty for the whole object.
        """
        super().__init__(f"{object_} cannot be read: {path + ': ' if path else ''}{problem}; correct the object")
        self.object = object_
        self.path = path
        self.problem = problem


@dataclass(frozen=True, slots=True)
class DecodedPage(Generic[T]):
    """One page of a list."""

    items: list[T]
    metadata: ListMeta
    malformed: tuple[Malformed, ...] = ()
    """The errors of the objects that could not be read, in the order of the page."""


@dataclass(frozen=True, slots=True)
class RawEvent:
    """One line of a watch; its object is not decoded yet."""

    type: str
    """`ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`."""
    object: bytes


def decode(resource: ResourceType[T], body: bytes) -> T:
    """Decode one object. Raises `Malformed` if the bytes hold no such object."""
    return _decoder_of(resource).decode(body)


def decode_page(resource: ResourceType[T], body: bytes) -> DecodedPage[T]:
    """Decode the objects of a list. Raises `Malformed` if the bytes hold no list."""
    return _decoder_of(resource).decode_page(body)


def decode_event(line: bytes) -> RawEvent:
    """Decode one line of a watch. Raises `Malformed` if the bytes hold no event."""
    try:
        event = _EVENT.decode(line)
    except _UNREADABLE as error:
        raise Malformed("a watch event", *_path_and_problem(error)) from error
    return RawEvent(event.type, bytes(event.object))


def changes_decoder(resource: ResourceType[T]) -> Callable[[Iterable[bytes]], list[tuple[ChangeType, T] | None]]:
    """Return a function that decodes type and object of the lines of a watch in one pass.

    The function gives None for every line that is no readable change: a bookmark, an ERROR, an unreadable object. Use
    `decode_event` for such a line.
    """
    return _decoder_of(resource).decode_changes


def decode_metadata(body: bytes, what: str) -> ObjectMeta:
    """Decode only the metadata of any object, such as a bookmark. Raises `Malformed` with `what` as the object."""
    try:
        return _decode_ignoring_nulls(_WITH_METADATA, body).metadata
    except _UNREADABLE as error:
        raise Malformed(what, *_path_and_problem(error)) from error


def decode_status(body: bytes) -> Status:
    """Decode the body of an error response, or the object of an ERROR event. Raises `Malformed` if it is no Status."""
    try:
        return _decode_ignoring_nulls(_STATUS, body)
    except _UNREADABLE as error:
        raise Malformed("a Status", *_path_and_problem(error)) from error


class _EventWire(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


class _ChangeWire(msgspec.Struct, Generic[T], gc=False):
    type: ChangeType
    object: T


class _WithMetadata(msgspec.Struct, gc=False, rename="camel"):
    metadata: ObjectMeta = ObjectMeta()
    kind: str = ""


class _ListWire(msgspec.Struct, Generic[T], gc=False):
    metadata: ListMeta = ListMeta()
    items: list[T] = []


_UNREADABLE: Final = (msgspec.MsgspecError, ValueError, RecursionError)
_EVENT: Final = msgspec.json.Decoder(_EventWire)
_STATUS: Final = msgspec.json.Decoder(Status)
_WITH_METADATA: Final = msgspec.json.Decoder(_WithMetadata)
_RAW_PAGE: Final = msgspec.json.Decoder(_ListWire[msgspec.Raw])


@dataclass(frozen=True, slots=True)
class _ResourceDecoder(Generic[T]):
    """The decoders of one resource: from a wire type to the value."""

    resource: ResourceType[T]
    one: msgspec.json.Decoder[Any]
    page: msgspec.json.Decoder[Any]
    change: msgspec.json.Decoder[Any]
    build: Callable[[Any], T] | None
    """None if the wire type is the model itself."""
    build_changed: Callable[[Any], T] | None
    """The same for the wire type of `change`."""

    def decode(self, body: bytes) -> T:
        try:
            return self._build_value(self.one.decode(body))
        except _UNREADABLE:
            return self._decode_again(body)

    def decode_page(self, body: bytes) -> DecodedPage[T]:
        try:
            page = self.page.decode(body)
            items = page.items if self.build is None else [self.build(item) for item in page.items]
        except _UNREADABLE:
            return self._decode_one_by_one(body)
        return DecodedPage(items, page.metadata)

    def decode_changes(self, lines: Iterable[bytes]) -> list[tuple[ChangeType, T] | None]:
        decode, build = self.change.decode, self.build_changed
        changes: list[tuple[ChangeType, T] | None] = []
        for line in lines:
            try:
                change = decode(line)
                changes.append((change.type, change.object if build is None else build(change.object)))
            except _UNREADABLE:
                changes.append(None)
        return changes

    def _build_value(self, wire: Any) -> T:
        return cast(T, wire) if self.build is None else self.build(wire)

    def _decode_again(self, body: bytes) -> T:
        """Decode with nulls as absent. A failure now is a fault of the object."""
        try:
            return self._build_value(self.one.decode(_remove_nulls(body)))
        except _UNREADABLE as error:
            raise Malformed(self._describe_object(body), *_path_and_problem(error)) from error

    def _decode_one_by_one(self, body: bytes) -> DecodedPage[T]:
        try:
            page = _decode_ignoring_nulls(_RAW_PAGE, body)
        except _UNREADABLE as error:
            raise Malformed(f"the list of {self.resource.group_resource}", *_path_and_problem(error)) from error
        items, malformed = [], []
        for raw in page.items:
            try:
                items.append(self.decode(bytes(raw)))
            except Malformed as error:
                malformed.append(error)
        return DecodedPage(items, page.metadata, tuple(malformed))

    def _describe_object(self, body: bytes) -> str:
        """Return the resource and, if readable, the object's namespace and name."""
        try:
            content = msgspec.json.decode(body)
            metadata = content["metadata"]
            parts = [str(metadata[key])[:253] for key in ("namespace", "name") if metadata.get(key)]
        except (*_UNREADABLE, LookupError, TypeError, AttributeError):
            parts = []
        return (
            f"{self.resource.group_resource} {'/'.join(parts)}"
            if parts
            else f"an object of {self.resource.group_resource}"
        )


_DECODERS: Final[dict[ResourceType[Any], _ResourceDecoder[Any]]] = {}
_POD_READER: Final = PodReader()
_STORAGE_READER: Final = StorageReader()


def _decoder_of(resource: ResourceType[T]) -> _ResourceDecoder[T]:
    shape = _DECODERS.get(resource)
    if shape is None:
        shape = _DECODERS[resource] = _build_decoder(resource)
    return shape


def _build_decoder(resource: ResourceType[Any]) -> _ResourceDecoder[Any]:
    wire: Any = resource.model
    build: Callable[[Any], Any] | None = None
    changed_wire: Any = wire
    build_changed: Callable[[Any], Any] | None = None
    if resource.model is Pod:
        wire, build = PodWire, _POD_READER.pod
        changed_wire, build_changed = ChangedPodWire, _POD_READER.changed_pod
    elif resource.model is PersistentVolumeClaim:
        wire, build = ClaimWire, _STORAGE_READER.claim
        changed_wire, build_changed = wire, build
    elif resource.model is PersistentVolume:
        wire, build = VolumeWire, _STORAGE_READER.volume
        changed_wire, build_changed = wire, build
    elif resource.model is Unstructured:
        wire, build = msgspec.Raw, _unstructured_builder(resource)
        changed_wire, build_changed = wire, build
    one: msgspec.json.Decoder[Any] = msgspec.json.Decoder(wire, dec_hook=decode_quantity)
    page: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_ListWire[wire], dec_hook=decode_quantity)
    change: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_ChangeWire[changed_wire], dec_hook=decode_quantity)
    return _ResourceDecoder(resource, one, page, change, build, build_changed)


def _unstructured_builder(resource: ResourceType[Any]) -> Callable[[msgspec.Raw], Unstructured]:
    """Return a builder that adds `apiVersion` and `kind`: items of a list may lack them, but the object needs them."""
    kind = msgspec.json.encode({"apiVersion": resource.api_version, "kind": resource.kind})[:-1] + b","

    def build(raw: msgspec.Raw) -> Unstructured:
        body = bytes(raw)
        seen = _decode_ignoring_nulls(_WITH_METADATA, body)
        if not seen.kind:
            content = body.lstrip()[1:].lstrip()
            body = (kind if content != b"}" else kind[:-1]) + content
        return Unstructured(seen.metadata, body)

    return build


def _decode_ignoring_nulls(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    try:
        return decoder.decode(body)
    except msgspec.ValidationError:
        return decoder.decode(_remove_nulls(body))


def _remove_nulls(body: bytes) -> bytes:
    return msgspec.json.encode(_remove_nested_nulls(msgspec.json.decode(body)))


def _remove_nested_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _remove_nested_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_remove_nested_nulls(item) for item in value]
    return value


_AT: Final = re.compile(r"(?s)(.*) - at `(?:key in )?\$\.?(.*)`")


def _path_and_problem(error: Exception) -> tuple[str, str]:
    if isinstance(error, RecursionError):
        return "", "the object has too many nested levels"
    match = _AT.fullmatch(str(error))
    return (match[2], match[1]) if match else ("", str(error))
