"""The format of a recording: a cluster as a scheduler saw it, line by line, for a replay.

JSON, one value per line. The header has the version and the start time. Then comes every existing object (`LISTED`),
ended by `SYNCED`. Then come every change (`ADDED`, `MODIFIED`, `DELETED`) and every observed decision (`BOUND`), with
seconds since the start. Fields that no scheduler reads are left out.

`situate.scheduler.recordings.files` reads and writes files; `situate.scheduler.recordings.recorder` watches a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from situate.framework.plugin_api.catalog_keeper import CATALOG_RESOURCES
from situate.objects.decoding.codec import Malformed, decode
from situate.objects.resources import NODES, PODS, ResourceType

VERSION: Final = 1
"""Version of the format; a reader refuses others."""
RECORDED_RESOURCES: Final[tuple[ResourceType[Any], ...]] = (NODES, *CATALOG_RESOURCES, PODS)
"""In the order of listing: pods last, because the other objects affect decisions about them."""

EntryType = Literal["LISTED", "SYNCED", "ADDED", "MODIFIED", "DELETED", "BOUND"]

_OMITTED_METADATA: Final = frozenset({"managedFields", "selfLink"})
_CONTAINER_FIELDS: Final = frozenset(
    {"name", "image", "resources", "ports", "restartPolicy", "restartPolicyRules", "allocatedResources"}
)
"""Fields kept of containers and of their statuses. The environment, for example, may hold secrets."""
_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")
_STATUSES: Final = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
_TEMPLATES: Final = frozenset({"template", "volumeClaimTemplates"})
"""Fields of workloads that are left out: their effect arrives as pods."""
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_HEARTBEATS: Final = frozenset({"lastHeartbeatTime", "lastProbeTime"})


class Header(msgspec.Struct, frozen=True, rename="camel"):
    """The first line."""

    situate_recording: int
    began: datetime


class _Line(msgspec.Struct, frozen=True, rename="camel"):
    at: float
    type: EntryType
    object: msgspec.Raw = msgspec.Raw()
    node: str = ""
    pod: str = ""
    uid: str = ""


@dataclass(frozen=True, slots=True)
class ObjectEntry:
    """An object that existed, changed or was deleted."""

    at: float
    type: EntryType
    resource: ResourceType[Any]
    object: Any


@dataclass(frozen=True, slots=True)
class SyncedEntry:
    """The end of the initial listing."""

    at: float


@dataclass(frozen=True, slots=True)
class BindingEntry:
    """A binding by the recorded scheduler."""

    at: float
    pod: str
    uid: str
    node: str


Entry = ObjectEntry | SyncedEntry | BindingEntry


class BadRecording(ValueError):
    """The file is not a recording, or cannot be read; the message names the line."""


def header_line(began: datetime) -> bytes:
    return msgspec.json.encode(Header(VERSION, began)) + b"\n"


def object_line(at: float, type_: EntryType, content: Mapping[str, Any]) -> bytes:
    """Encode an object; `content` is the result of `essential_fields`."""
    return msgspec.json.encode({"at": round(at, 6), "type": type_, "object": content}) + b"\n"


def synced_line(at: float) -> bytes:
    return msgspec.json.encode({"at": round(at, 6), "type": "SYNCED"}) + b"\n"


def binding_line(at: float, pod: str, uid: str, node: str) -> bytes:
    return msgspec.json.encode({"at": round(at, 6), "type": "BOUND", "pod": pod, "uid": uid, "node": node}) + b"\n"


def essential_fields(resource: ResourceType[Any], content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object without the fields that no scheduler reads, and without those that change all the time."""
    kept = {"apiVersion": resource.api_version, "kind": resource.kind, **content}
    metadata = {key: value for key, value in (content.get("metadata") or {}).items() if key not in _OMITTED_METADATA}
    annotations = metadata.get("annotations")
    if annotations and _LAST_APPLIED in annotations:
        metadata["annotations"] = {key: value for key, value in annotations.items() if key != _LAST_APPLIED}
    kept["metadata"] = metadata
    status, spec = content.get("status"), content.get("spec")
    if isinstance(status, Mapping):
        kept["status"] = _narrow_containers(status, _STATUSES)
        if status.get("conditions"):
            kept["status"]["conditions"] = [
                {key: value for key, value in each.items() if key not in _HEARTBEATS} for each in status["conditions"]
            ]
    if isinstance(spec, Mapping):
        kept["spec"] = {
            key: value for key, value in _narrow_containers(spec, _CONTAINERS).items() if key not in _TEMPLATES
        }
    return kept


def _narrow_containers(content: Mapping[str, Any], fields: Iterable[str]) -> dict[str, Any]:
    """Reduce the containers in these fields to the recorded fields."""
    narrowed = dict(content)
    for field in fields:
        if narrowed.get(field):
            narrowed[field] = [
                {key: value for key, value in each.items() if key in _CONTAINER_FIELDS} for each in narrowed[field]
            ]
    return narrowed


def equal_except_version(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two states of one object, as `essential_fields` returns them, differ only in their resourceVersion."""
    return _without_version(one) == _without_version(other)


def _without_version(content: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in content["metadata"].items() if key != "resourceVersion"}
    return {**content, "metadata": metadata}


def read_header(line: bytes) -> Header:
    """Parse the header; `BadRecording` describes the mistake."""
    try:
        header = msgspec.json.decode(line, type=Header)
    except (msgspec.MsgspecError, ValueError, RecursionError) as problem:
        raise BadRecording(
            f"line 1: not the header of a recording ({problem}); `situate scheduler record` writes recordings"
        ) from None
    if header.situate_recording != VERSION:
        raise BadRecording(f"line 1: situateRecording: found {header.situate_recording}, allowed: {VERSION}")
    return header


def read_entries(lines: Iterable[bytes]) -> Iterator[tuple[Entry | None, str]]:
    """Parse each line after the header; yield an entry with a remark, None for a line that cannot be used.

    Raises `BadRecording` for a line that is no entry at all.
    """
    known = {(each.api_version, each.kind): each for each in RECORDED_RESOURCES}
    last = 0.0
    for number, text in enumerate(lines, start=2):
        try:
            line = _LINES.decode(text)
        except (msgspec.MsgspecError, ValueError, RecursionError) as problem:
            raise BadRecording(f"line {number}: not an entry of a recording: {problem}") from None
        at = last = max(last, line.at)  # a clock that was set back does not change the order
        match line.type:
            case "SYNCED":
                yield SyncedEntry(at), ""
            case "BOUND":
                yield BindingEntry(at, line.pod, line.uid, line.node), ""
            case _:
                yield _object_entry(line, at, known, number)


def _object_entry(
    line: _Line, at: float, known: Mapping[tuple[str, str], ResourceType[Any]], number: int
) -> tuple[ObjectEntry | None, str]:
    body = bytes(line.object)
    try:
        meta = _KINDS.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as problem:
        raise BadRecording(f"line {number}: object: {problem}") from None
    resource = known.get((meta.api_version, meta.kind))
    if resource is None:
        return None, f"line {number}: left out: {meta.kind or 'an object without kind'} of {meta.api_version}"
    try:
        return ObjectEntry(at, line.type, resource, decode(resource, body)), ""
    except Malformed as problem:
        return None, f"line {number}: left out: {problem}"


class _Kind(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""


_LINES: Final = msgspec.json.Decoder(_Line)
_KINDS: Final = msgspec.json.Decoder(_Kind)
