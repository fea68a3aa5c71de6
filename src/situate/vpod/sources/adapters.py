"""Custom resources as vpods: the vreplicas that they want and the placements in their status.

All functions are pure and read decoded objects. Any content of a spec, a status or an annotation gives a vpod and a
list of faults, never an exception (B12). An unreadable field changes nothing for the vpod. Source of the numbers:
eventing-kafka-broker, ConsumerGroup and KafkaSource.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from situate.objects.kinds.unstructured import Unstructured
from situate.objects.values.counts import format_count
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

_MOST_SHOWN = 80  # characters of a wrong value in a message


class NoSchedulerFoundError(Exception):
    """No StatefulSet runs the consumers of this kind of source."""

    def __init__(self, kind: object) -> None:
        super().__init__(
            f"no scheduler found for {_shorten(kind)} in label {KIND_LABEL}; correct the label (known kinds: "
            f"{', '.join(sorted(KINDS_OF_STATEFULSETS.values()))}), or set sourceKind in the sources of an entry to "
            "this kind"
        )


def statefulset_for(labels: object) -> str:
    """Return the Knative StatefulSet that runs a ConsumerGroup with these labels. Raises NoSchedulerFoundError."""
    kind = labels.get(KIND_LABEL) if isinstance(labels, Mapping) else None
    for statefulset, served in KINDS_OF_STATEFULSETS.items():
        if isinstance(kind, str) and kind.lower() == served:
            return statefulset
    raise NoSchedulerFoundError(kind)


def unserved_message(settings: SourceSettings, found: Unstructured, served: Container[str]) -> str:
    """Return the message for an object of a kind without a scheduler; empty if its kind is in `served` (lower case)."""
    metadata = _as_mapping(found.content.get("metadata"))
    kind = _as_mapping(metadata.get("labels")).get(KIND_LABEL)
    if settings.source_kind is None or (isinstance(kind, str) and kind.lower() in served):
        return ""
    return str(NoSchedulerFoundError(kind))


def foreign_object_message(settings: SourceSettings, found: Unstructured) -> str:
    """Explain in a sentence why an object is no vpod of `settings`. Raises NoSchedulerFoundError for unknown kinds."""
    labels = _as_mapping(_as_mapping(found.content.get("metadata")).get("labels"))
    kind = labels.get(KIND_LABEL)
    told = f"label {KIND_LABEL} is {_shorten(kind)}, but this StatefulSet runs {_shorten(settings.source_kind)}"
    return f"{told}; StatefulSet {statefulset_for(labels)} runs that kind, and the configuration has no entry for it"


def read_vpod(settings: SourceSettings, found: Unstructured, prefix: str = "") -> PlainVPod | None:
    """Read an object as a vpod; None if its kind label names another StatefulSet."""
    return vpod_of(settings, found.content, prefix)


def vpod_of(settings: SourceSettings, content: Mapping[str, Any], prefix: str = "") -> PlainVPod | None:
    """Do the same as `read_vpod` for plain data. `prefix` precedes the name in the key."""
    metadata = _as_mapping(content.get("metadata"))
    labels = _as_mapping(metadata.get("labels"))
    if settings.source_kind is not None and str(labels.get(KIND_LABEL, "")).lower() != settings.source_kind:
        return None
    faults: list[str] = []
    placements = read_placements(
        value_at_path(content, settings.placements_path), settings.placements_path or "", faults
    )
    annotations = _as_mapping(metadata.get("annotations"))
    deleted = metadata.get("deletionTimestamp")
    return PlainVPod(
        key=Key(_as_text(metadata.get("namespace")), prefix + _as_text(metadata.get("name"))),
        vreplicas=_wanted_vreplicas(settings, content, placements, faults),
        placements=placements,
        resource_version=_as_text(metadata.get("resourceVersion")),
        deletion_timestamp=None if deleted is None else _as_text(deleted) or "deleted",
        weight=_annotation_integer(annotations, WEIGHT_ANNOTATION_KEY, 1, 1, faults),
        priority=_annotation_integer(annotations, PRIORITY_ANNOTATION_KEY, 0, -INT32_MAX - 1, faults),
        faults=tuple(faults),
    )


def vreplicas_wanted(value: int | None, most: int | None = None, unset: int = 1) -> int:
    """Return the number that a resource asks for: `unset` without a value, at most `most` if given; 0 stays 0."""
    wanted = unset if value is None else value
    return wanted if most is None else min(wanted, most)


def read_placements(value: object, path: str, faults: list[str]) -> Placements:
    """Return the readable entries of a status. The others are left out and named in `faults`."""
    if value is None:
        return ()
    if not isinstance(value, list):
        faults.append(f"{path} is {_shorten(value)}, allowed: a list of entries with podName and vreplicas")
        return ()
    placements = []
    unreadable: list[int] = []
    for index, entry in enumerate(value):
        name = entry.get("podName") if isinstance(entry, Mapping) else None
        vreplicas = _json_integer(entry.get("vreplicas", 0)) if isinstance(entry, Mapping) else None
        if not isinstance(name, str) or vreplicas is None or abs(vreplicas) > INT32_MAX:
            unreadable.append(index)
        else:
            placements.append(Placement(name, vreplicas))
    if unreadable:
        first = unreadable[0]
        faults.append(
            f"{format_count(len(unreadable), 'entry', 'entries')} of {path} cannot be read, such as {path}[{first}], "
            "which "
            f"is {_shorten(value[first])}, allowed: a podName and 32-bit vreplicas"
        )
    return tuple(placements)


def value_at_path(content: object, path: str | None) -> Any:
    """Return the value at a path such as `spec.replicas`; None if a step is missing or no mapping."""
    for name in path.split(".") if path else ():
        if not isinstance(content, Mapping):
            return None
        content = content.get(name)
    return content if path else None


def _wanted_vreplicas(
    settings: SourceSettings, content: Mapping[str, Any], placements: Placements, faults: list[str]
) -> int:
    value = value_at_path(content, settings.vreplicas_path)
    wanted = _read_count(value, settings.vreplicas_path or "", faults)
    if wanted is None and value is not None:
        # unreadable: continue with the running vreplicas, neither stop them nor start one
        return max(0, min(INT32_MAX, total_vreplicas(p for p in placements if p.vreplicas > 0)))
    most = _read_count(value_at_path(content, settings.max_vreplicas_path), settings.max_vreplicas_path or "", faults)
    return vreplicas_wanted(wanted, most, settings.default_vreplicas)


def _read_count(value: object, path: str, faults: list[str]) -> int | None:
    """Return a number of vreplicas, or None if it is absent or unreadable."""
    if value is None:
        return None
    number = _json_integer(value)
    if number is None or not 0 <= number <= INT32_MAX:
        faults.append(f"{path} is {_shorten(value)}, allowed: integers from 0 to {INT32_MAX}")
        return None
    return number


def _annotation_integer(annotations: Mapping[str, Any], name: str, default: int, least: int, faults: list[str]) -> int:
    """Return the integer in an annotation, or the default."""
    text = annotations.get(name)
    if text is None:
        return default
    digits = text[1:] if isinstance(text, str) and text.startswith("-") else text
    # the length is checked first: an annotation may hold 256 KiB of digits
    if isinstance(digits, str) and len(digits) <= 10 and digits.isascii() and digits.isdecimal():
        number = int(text)
        if least <= number <= INT32_MAX:
            return number
    faults.append(f"annotation {name} is {_shorten(text)}, allowed: integers from {least} to {INT32_MAX}")
    return default


def _json_integer(value: object) -> int | None:
    """Return a JSON number without a fraction; None for any other value, also for true and false."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) else None


def _as_mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _shorten(value: object) -> str:
    """Shorten a wrong value of any kind for a message."""
    if isinstance(value, int) and value.bit_length() > 128:
        return "a number of more than 38 digits"  # repr() refuses numbers of thousands of digits
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        return f"a {type(value).__name__} too large to show"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
