"""Build JSON patches (RFC 6902) that apply only to the version of the object they were computed from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from situate.sharding.model.field_paths import Content
from situate.sharding.model.names import EPOCH, EXECUTOR_UID

Operations = tuple[Mapping[str, Any], ...]


def guarded_patch(before: Content, after: Content) -> Operations:
    """Return the patch from `before` to `after`; empty if they are equal. A changed list is replaced whole.

    The patch tests the UID: the API server refuses a later object of the same name as invalid (422). The patch writes
    the resourceVersion back as it was read: any change since is a conflict (409).
    """
    changes = tuple(_differences(before, after, ""))
    if not changes:
        return ()
    metadata = before.get("metadata", {})
    return (
        {"op": "test", "path": "/metadata/uid", "value": metadata.get("uid")},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": metadata.get("resourceVersion")},
        *changes,
    )


def fenced_patch(before: Content, after: Content, epoch: int, executor_uid: str) -> Operations:
    """Return the patch of an executor: a `guarded_patch` that also tests its epoch and incarnation."""
    changes = guarded_patch(before, after)
    if not changes:
        return ()
    return (
        {"op": "test", "path": _annotation(EPOCH), "value": str(epoch)},
        {"op": "test", "path": _annotation(EXECUTOR_UID), "value": executor_uid},
        *changes,
    )


def _annotation(name: str) -> str:
    return f"/metadata/annotations/{_escape_step(name)}"


def _differences(before: Content, after: Content, path: str) -> Iterator[Mapping[str, Any]]:
    for key in before:
        if key not in after:
            yield {"op": "remove", "path": f"{path}/{_escape_step(key)}"}
    for key, value in after.items():
        here = f"{path}/{_escape_step(key)}"
        old = before.get(key)
        if key not in before:
            yield {"op": "add", "path": here, "value": value}
        elif old is value:
            continue
        elif isinstance(old, Mapping) and isinstance(value, Mapping):
            yield from _differences(old, value, here)
        elif old != value or type(old) is not type(value):
            yield {"op": "replace", "path": here, "value": value}


def _escape_step(step: str) -> str:
    return step.replace("~", "~0").replace("/", "~1")
