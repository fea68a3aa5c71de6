"""The form of a recording: a cluster as a scheduler saw it, line by line, to be played again.

JSON, one value a line. First a header with the version and the time at which it began; then every object that there
was (`LISTED`), ended by `SYNCED`; then every change (`ADDED`, `MODIFIED`, `DELETED`) and every decision that was
observed (`BOUND`), with seconds since the beginning. What a scheduler does not look at is left out.

Reading and writing files is `situate.scheduler.recordings.files`, watching a cluster
`situate.scheduler.recordings.recorder`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from situate.framework.plugin_api.catalog_keeper import CATALOGED
from situate.objects.decoding.codec import Malformed, decode
from situate.objects.resources import NODES, PODS, ResourceType

VERSION: Final = 1
"""Of the form; a reader refuses others."""
RECORDED: Final[tuple[ResourceType[Any], ...]] = (NODES, *CATALOGED, PODS)
"""In the order in which they are listed: pods last, since the others decide about them."""

EntryType = Literal["LISTED", "SYNCED", "ADDED", "MODIFIED", "DELETED", "BOUND"]

_LEFT_OUT: Final = frozenset({"managedFields", "selfLink"})
_OF_CONTAINERS: Final = frozenset(
    {"name", "image", "resources", "ports", "restartPolicy", "restartPolicyRules", "allocatedResources"}
)
"""Of containers, and of what is said of them. Their environment, for one, may hold secrets."""
_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")
_STATUSES: Final = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
_TEMPLATES: Final = frozenset({"template", "volumeClaimTemplates"})
"""Of workloads: what becomes of these arrives as pods."""
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
class Seen:
    """An object was there, or has changed, or has gone."""

    at: float
    type: EntryType
    resource: ResourceType[Any]
    object: Any


@dataclass(frozen=True, slots=True)
class Synced:
    """All that was there has been listed."""

    at: float


@dataclass(frozen=True, slots=True)
class Bound:
    """Somebody has given a pod a node."""

    at: float
    pod: str
    uid: str
    node: str


Entry = Seen | Synced | Bound


class BadRecording(ValueError):
    """No recording, or one that cannot be read; the message names the line."""


def header_line(began: datetime) -> bytes:
    return msgspec.json.encode(Header(VERSION, began)) + b"\n"


def seen_line(at: float, type_: EntryType, content: Mapping[str, Any]) -> bytes:
    """`content`: the object as `essential` leaves it."""
    return msgspec.json.encode({"at": round(at, 6), "type": type_, "object": content}) + b"\n"


def synced_line(at: float) -> bytes:
    return msgspec.json.encode({"at": round(at, 6), "type": "SYNCED"}) + b"\n"


def bound_line(at: float, pod: str, uid: str, node: str) -> bytes:
    return msgspec.json.encode({"at": round(at, 6), "type": "BOUND", "pod": pod, "uid": uid, "node": node}) + b"\n"


def essential(resource: ResourceType[Any], content: Mapping[str, Any]) -> dict[str, Any]:
    """The object without what no scheduler looks at, and without what changes all the time."""
    kept = {"apiVersion": resource.api_version, "kind": resource.kind, **content}
    metadata = {key: value for key, value in (content.get("metadata") or {}).items() if key not in _LEFT_OUT}
    annotations = metadata.get("annotations")
    if annotations and _LAST_APPLIED in annotations:
        metadata["annotations"] = {key: value for key, value in annotations.items() if key != _LAST_APPLIED}
    kept["metadata"] = metadata
    status, spec = content.get("status"), content.get("spec")
    if isinstance(status, Mapping):
        kept["status"] = _narrowed(status, _STATUSES)
        if status.get("conditions"):
            kept["status"]["conditions"] = [
                {key: value for key, value in each.items() if key not in _HEARTBEATS} for each in status["conditions"]
            ]
    if isinstance(spec, Mapping):
        kept["spec"] = {key: value for key, value in _narrowed(spec, _CONTAINERS).items() if key not in _TEMPLATES}
    return kept


def _narrowed(content: Mapping[str, Any], fields: Iterable[str]) -> dict[str, Any]:
    """With only what counts of the containers that these fields list."""
    narrowed = dict(content)
    for field in fields:
        if narrowed.get(field):
            narrowed[field] = [
                {key: value for key, value in each.items() if key in _OF_CONTAINERS} for each in narrowed[field]
            ]
    return narrowed


def same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two states of one object, as `essential` leaves them, differ in nothing but their resourceVersion."""
    return _unversioned(one) == _unversioned(other)


def _unversioned(content: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in content["metadata"].items() if key != "resourceVersion"}
    return {**content, "metadata": metadata}


def read_header(line: bytes) -> Header:
    """`BadRecording` says what the line is instead."""
    try:
        header = msgspec.json.decode(line, type=Header)
    except (msgspec.MsgspecError, ValueError, RecursionError) as problem:
        raise BadRecording(
            f"line 1: no header of a recording ({problem}); `situate scheduler record` writes one"
        ) from None
    if header.situate_recording != VERSION:
        raise BadRecording(f"line 1: situateRecording: found {header.situate_recording}, allowed: {VERSION}")
    return header


def read_entries(lines: Iterable[bytes]) -> Iterator[tuple[Entry | None, str]]:
    """Each line behind the header, with what is wrong with it; None where it cannot be used: the others can.

    Raises `BadRecording` for a line that is no entry at all.
    """
    known = {(each.api_version, each.kind): each for each in RECORDED}
    last = 0.0
    for number, text in enumerate(lines, start=2):
        try:
            line = _LINES.decode(text)
        except (msgspec.MsgspecError, ValueError, RecursionError) as problem:
            raise BadRecording(f"line {number}: no entry of a recording: {problem}") from None
        at = last = max(last, line.at)  # a clock that was set back does not turn the order round
        match line.type:
            case "SYNCED":
                yield Synced(at), ""
            case "BOUND":
                yield Bound(at, line.pod, line.uid, line.node), ""
            case _:
                yield _seen(line, at, known, number)


def _seen(
    line: _Line, at: float, known: Mapping[tuple[str, str], ResourceType[Any]], number: int
) -> tuple[Seen | None, str]:
    body = bytes(line.object)
    try:
        meta = _KINDS.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as problem:
        raise BadRecording(f"line {number}: object: {problem}") from None
    resource = known.get((meta.api_version, meta.kind))
    if resource is None:
        return None, f"line {number}: left out: {meta.kind or 'an object without kind'} of {meta.api_version}"
    try:
        return Seen(at, line.type, resource, decode(resource, body)), ""
    except Malformed as problem:
        return None, f"line {number}: left out: {problem}"


class _Kind(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""


_LINES: Final = msgspec.json.Decoder(_Line)
_KINDS: Final = msgspec.json.Decoder(_Kind)
