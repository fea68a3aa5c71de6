"""Custom resources as vpods: how many vreplicas they want and where their status says they are.

Pure functions on decoded objects. Whatever bytes somebody wrote into a spec, a status or an annotation, reading gives
a vpod and a list of faults, never an exception (B12); what cannot be read changes nothing for the vpod.
Source of the numbers: eventing-kafka-broker, ConsumerGroup and KafkaSource.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from situate.objects.kinds.unstructured import Unstructured
from situate.objects.values.counts import counted
from situate.vpod.config.settings import KIND_LABEL, KINDS_OF_STATEFULSETS, SourceSettings
from situate.vpod.model.vpod import (
    INT32_MAX,
    PRIORITY_ANNOTATION_KEY,
    WEIGHT_ANNOTATION_KEY,
    Key,
    Placement,
    Placements,
    PlainVPod,
    total_vreplicas,
)

_MOST_SHOWN = 80  # characters of a wrong value that a message repeats


class NoSchedulerFoundError(Exception):
    """No StatefulSet runs the consumers of this kind of source."""

    def __init__(self, kind: object) -> None:
        super().__init__(
            f"no scheduler found for {_shown(kind)} in label {KIND_LABEL}; "
            f"known are {', '.join(sorted(KINDS_OF_STATEFULSETS.values()))}: correct the label, or name the kind as "
            "sourceKind of an entry's sources"
        )


def statefulset_for(labels: object) -> str:
    """Which of Knative's StatefulSets runs a ConsumerGroup with these labels."""
    kind = labels.get(KIND_LABEL) if isinstance(labels, Mapping) else None
    for statefulset, served in KINDS_OF_STATEFULSETS.items():
        if isinstance(kind, str) and kind.lower() == served:
            return statefulset
    raise NoSchedulerFoundError(kind)


def nobodys(settings: SourceSettings, found: Unstructured, served: Container[str]) -> str:
    """What to say of an object whose kind nobody schedules; empty if somebody does. `served`: the kinds, lower case."""
    metadata = _mapping(found.content.get("metadata"))
    kind = _mapping(metadata.get("labels")).get(KIND_LABEL)
    if settings.source_kind is None or (isinstance(kind, str) and kind.lower() in served):
        return ""
    return str(NoSchedulerFoundError(kind))


def elsewhere(settings: SourceSettings, found: Unstructured) -> str:
    """Why an object is no vpod of `settings`, in a sentence. Raises NoSchedulerFoundError if it is nobody's."""
    labels = _mapping(_mapping(found.content.get("metadata")).get("labels"))
    kind = labels.get(KIND_LABEL)
    told = f"label {KIND_LABEL} is {_shown(kind)}, this StatefulSet runs {_shown(settings.source_kind)}"
    return f"{told}; StatefulSet {statefulset_for(labels)} runs that, and no entry is about it"


def read_vpod(settings: SourceSettings, found: Unstructured, prefix: str = "") -> PlainVPod | None:
    """The vpod that an object is; None if its kind label says that another StatefulSet serves it."""
    return vpod_of(settings, found.content, prefix)


def vpod_of(settings: SourceSettings, content: Mapping[str, Any], prefix: str = "") -> PlainVPod | None:
    """As `read_vpod`, of plain data. `prefix` goes before the name in the key."""
    metadata = _mapping(content.get("metadata"))
    labels = _mapping(metadata.get("labels"))
    if settings.source_kind is not None and str(labels.get(KIND_LABEL, "")).lower() != settings.source_kind:
        return None
    faults: list[str] = []
    placements = read_placements(at_path(content, settings.placements_path), settings.placements_path or "", faults)
    annotations = _mapping(metadata.get("annotations"))
    deleted = metadata.get("deletionTimestamp")
    return PlainVPod(
        key=Key(_text(metadata.get("namespace")), prefix + _text(metadata.get("name"))),
        vreplicas=_wanted(settings, content, placements, faults),
        placements=placements,
        resource_version=_text(metadata.get("resourceVersion")),
        deletion_timestamp=None if deleted is None else _text(deleted) or "deleted",
        weight=_annotated(annotations, WEIGHT_ANNOTATION_KEY, 1, 1, faults),
        priority=_annotated(annotations, PRIORITY_ANNOTATION_KEY, 0, -INT32_MAX - 1, faults),
        faults=tuple(faults),
    )


def vreplicas_wanted(value: int | None, most: int | None = None, unset: int = 1) -> int:
    """What a resource asks for: `unset` if it does not say, 0 is kept, at most `most` where that is set."""
    wanted = unset if value is None else value
    return wanted if most is None else min(wanted, most)


def read_placements(value: object, path: str, faults: list[str]) -> Placements:
    """The entries of a status that can be read; what cannot is named in `faults` and left out."""
    if value is None:
        return ()
    if not isinstance(value, list):
        faults.append(f"{path} is {_shown(value)}, allowed is a list of podName and vreplicas")
        return ()
    placements = []
    unreadable: list[int] = []
    for index, entry in enumerate(value):
        name = entry.get("podName") if isinstance(entry, Mapping) else None
        vreplicas = _integer(entry.get("vreplicas", 0)) if isinstance(entry, Mapping) else None
        if not isinstance(name, str) or vreplicas is None or abs(vreplicas) > INT32_MAX:
            unreadable.append(index)
        else:
            placements.append(Placement(name, vreplicas))
    if unreadable:
        first = unreadable[0]
        faults.append(
            f"{counted(len(unreadable), 'entry', 'entries')} of {path} cannot be read, the first: {path}[{first}] is "
            f"{_shown(value[first])}, allowed are a podName and 32-bit vreplicas"
        )
    return tuple(placements)


def at_path(content: object, path: str | None) -> Any:
    """What lies at `spec.replicas` and the like; None where anything on the way is missing or no mapping."""
    for name in path.split(".") if path else ():
        if not isinstance(content, Mapping):
            return None
        content = content.get(name)
    return content if path else None


def _wanted(settings: SourceSettings, content: Mapping[str, Any], placements: Placements, faults: list[str]) -> int:
    value = at_path(content, settings.vreplicas_path)
    wanted = _count(value, settings.vreplicas_path or "", faults)
    if wanted is None and value is not None:
        # unreadable: go on with what runs, rather than stop it or start one
        return max(0, min(INT32_MAX, total_vreplicas(p for p in placements if p.vreplicas > 0)))
    most = _count(at_path(content, settings.max_vreplicas_path), settings.max_vreplicas_path or "", faults)
    return vreplicas_wanted(wanted, most, settings.default_vreplicas)


def _count(value: object, path: str, faults: list[str]) -> int | None:
    """A number of vreplicas, or None if it is absent or cannot be read."""
    if value is None:
        return None
    number = _integer(value)
    if number is None or not 0 <= number <= INT32_MAX:
        faults.append(f"{path} is {_shown(value)}, allowed are integers from 0 to {INT32_MAX}")
        return None
    return number


def _annotated(annotations: Mapping[str, Any], name: str, default: int, least: int, faults: list[str]) -> int:
    """The integer in an annotation, or the default."""
    text = annotations.get(name)
    if text is None:
        return default
    digits = text[1:] if isinstance(text, str) and text.startswith("-") else text
    # the length is checked first: an annotation may hold 256 KiB of digits
    if isinstance(digits, str) and len(digits) <= 10 and digits.isascii() and digits.isdecimal():
        number = int(text)
        if least <= number <= INT32_MAX:
            return number
    faults.append(f"annotation {name} is {_shown(text)}, allowed are integers from {least} to {INT32_MAX}")
    return default


def _integer(value: object) -> int | None:
    """A JSON number without a fraction; true and false are none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) else None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _shown(value: object) -> str:
    """A wrong value as a message repeats it: short, whatever it is."""
    if isinstance(value, int) and value.bit_length() > 128:
        return "a number of more than 38 digits"  # repr() refuses numbers of thousands of digits
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        return f"a {type(value).__name__} too large to show"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
