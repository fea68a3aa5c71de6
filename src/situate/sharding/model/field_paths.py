"""Read and write the assignment and the marks of completion of a custom resource (KSched's `object.Object`).

The functions never change their argument: writers return a copy. Reading is strict, because any client may have written
any value. The caller decides how to treat an unreadable field.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

from situate.objects.settings.section import format_value
from situate.objects.values.timestamps import BadTime, parse_time, rfc3339

Content = Mapping[str, Any]
"""An object as plain data."""

_PATH: Final = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+", re.ASCII)
_LONGEST_ID: Final = 512  # a namespace, a slash and a pod's name are 317 at most


class UnreadableField(ValueError):
    """A field of an object has an invalid value; the message names object, field, value and allowed values."""


class BadFieldPath(ValueError):
    """A path that no adapter can use; the message names the option, the value and the allowed values."""


class ObjectAdapter(Protocol):
    """Access to the fields that every kind of object must have. Reading may raise `UnreadableField`."""

    def assigned_to(self, obj: Content) -> str | None:
        """Return the executor's id; None if the field is absent or empty, which means unassigned."""

    def assign_to(self, obj: Content, executor: str | None) -> Content:
        """Return the object assigned to `executor`; None unassigns it."""

    def complete(self, obj: Content, now: datetime, successful: bool) -> Content:
        """Return the object completed at `now`."""

    def completed_at(self, obj: Content) -> datetime | None:
        """Return the time of completion, by the clock of the process that completed it; None while it is open."""

    def successful(self, obj: Content) -> bool | None:
        """Return whether the object succeeded; None if the field is absent."""


@dataclass(frozen=True, slots=True)
class FieldPaths:
    """Adapter for fields at dotted paths, such as `spec.assignedTo`."""

    assigned_to_path: str = "spec.assignedTo"
    completed_at_path: str = "status.completedAt"
    successful_path: str = "status.successful"

    def __post_init__(self) -> None:
        """Raises `BadFieldPath`."""
        paths = {name: getattr(self, name) for name in self.__slots__}
        for name, path in paths.items():
            if not isinstance(path, str) or not _PATH.fullmatch(path) or path.split(".")[0] in _RESERVED:
                raise BadFieldPath(
                    f"{name} is {format_value(path)}, allowed: two or more field names joined by dots outside of "
                    f"{', '.join(_RESERVED)}, such as spec.assignedTo"
                )
        for name, path in paths.items():
            for other, longer in paths.items():
                if name != other and f"{longer}.".startswith(f"{path}."):
                    raise BadFieldPath(
                        f"{other} is {format_value(longer)}, which equals or lies below {name} {format_value(path)}; "
                        "allowed: three fields of which none contains another"
                    )

    def assigned_to(self, obj: Content) -> str | None:
        value = _value_at(obj, self.assigned_to_path)
        if value is None or value == "":
            return None
        if not isinstance(value, str) or len(value) > _LONGEST_ID:
            raise unreadable_field_error(
                obj, self.assigned_to_path, value, f"the id of an executor, at most {_LONGEST_ID} characters"
            )
        return value

    def assign_to(self, obj: Content, executor: str | None) -> Content:
        return _set_value(obj, self.assigned_to_path, executor or None)

    def complete(self, obj: Content, now: datetime, successful: bool) -> Content:
        return _set_value(_set_value(obj, self.completed_at_path, rfc3339(now)), self.successful_path, successful)

    def completed_at(self, obj: Content) -> datetime | None:
        value = _value_at(obj, self.completed_at_path)
        if value is None or value == "":
            return None
        try:
            if isinstance(value, str):
                return parse_time(value)
        except BadTime:
            pass  # raised below, with the object's name
        raise unreadable_field_error(obj, self.completed_at_path, value, "a time such as 2024-01-31T12:00:00Z")

    def successful(self, obj: Content) -> bool | None:
        value = _value_at(obj, self.successful_path)
        if value is None or isinstance(value, bool):
            return value
        raise unreadable_field_error(obj, self.successful_path, value, "true and false")


_RESERVED: Final = ("apiVersion", "kind", "metadata")


def unreadable_field_error(obj: Content, field: str, value: object, allowed: str) -> UnreadableField:
    """Return the error for a field whose value is not allowed."""
    metadata = obj.get("metadata")
    named = metadata if isinstance(metadata, Mapping) else {}
    name = "/".join(str(part) for part in (named.get("namespace"), named.get("name")) if part)
    return UnreadableField(
        f"{obj.get('kind') or 'object'} {name or '(without a name)'}: {field} is {format_value(value)}, allowed: "
        f"{allowed}; "
        "correct or remove it"
    )


def _value_at(obj: Content, path: str) -> object:
    """Return the value at the path; None if a field on the path is absent or null."""
    found: object = obj
    walked: list[str] = []
    for step in path.split("."):
        if found is None:
            return None
        if not isinstance(found, Mapping):
            raise unreadable_field_error(obj, ".".join(walked), found, f"an object with the fields of {path}")
        found = found.get(step)
        walked.append(step)
    return found


def _set_value(obj: Content, path: str, value: object) -> Content:
    """Return a copy with the value at the path; None removes only that field."""
    step, _, rest = path.partition(".")
    if not rest:
        return {key: each for key, each in obj.items() if key != step} | ({} if value is None else {step: value})
    below = obj.get(step)
    if value is None and not isinstance(below, Mapping):
        return obj
    return {**obj, step: _set_value(below if isinstance(below, Mapping) else {}, rest, value)}
