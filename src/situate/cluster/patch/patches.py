"""JSON patch (RFC 6902) and JSON merge patch (RFC 7386) over plain values.

Where the API server's library (`gopkg.in/evanphx/json-patch.v4`) differs from the RFCs, the functions follow the
library. Replace and copy accept a member that does not exist, an index may be negative, and the document itself cannot
be replaced. For that reason the package `jsonpatch` is not used. No argument is changed. `patches_strategic` has
strategic merge patches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from situate.cluster.errors.field_errors import Refused, bad_request
from situate.cluster.errors.go_text import json_type

MAX_OPERATIONS: Final = 10_000
MAX_COPIED_BYTES: Final = 3 * 1024 * 1024
"""Total bytes of JSON that the copies of one patch may add. Without a limit each copy could double the previous one."""


class _DoesNotApplyError(Exception):
    """An operation names a missing location, or a test failed."""


def json_patch(document: Any, operations: Any) -> Any | Refused:
    """Return the document after all operations.

    The result is a 400 if the operations are malformed, a 413 for too many, and a 422 if one does not apply.
    """
    if not isinstance(operations, list):
        return _decoding_refusal(operations, "[]handlers.jsonPatchOp")
    for operation in operations:
        if not isinstance(operation, dict):
            return _decoding_refusal(operation, "handlers.jsonPatchOp")
        for key in ("op", "path", "from"):
            if not isinstance(operation.get(key, ""), str):
                return _decoding_refusal(operation[key], "string", f"struct field jsonPatchOp.{key}")
    if len(operations) > MAX_OPERATIONS:
        return Refused(
            413,
            "RequestEntityTooLarge",
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}",
        )
    patched = copy_json(document)
    left = MAX_COPIED_BYTES
    try:
        for operation in operations:
            if operation.get("op") == "copy":
                left -= len(msgspec.json.encode(_get(*_container(patched, operation.get("from", "")))))
                if left < 0:
                    raise _DoesNotApplyError
            _OPERATIONS.get(operation.get("op", ""), _refuse_unknown)(patched, operation)
    except _DoesNotApplyError:
        return Refused(422, "Invalid", "the server rejected our request due to an error in our request")
    return patched


def _decoding_refusal(value: Any, go_type: str, where: str = "value") -> Refused:
    found = "null" if value is None else json_type(value)
    return bad_request(f"error decoding patch: json: cannot unmarshal {found} into Go {where} of type {go_type}")


def _container(document: Any, pointer: str) -> tuple[Any, str]:
    """Return the object or list that contains the pointer's last step, and that step."""
    steps = pointer.split("/")
    if len(steps) < 2:
        raise _DoesNotApplyError
    holder = document
    for step in steps[1:-1]:
        holder = _get(holder, _unescape_step(step))
        if not isinstance(holder, (dict, list)):
            raise _DoesNotApplyError
    return holder, _unescape_step(steps[-1])


def _unescape_step(step: str) -> str:
    return step.replace("~1", "/").replace("~0", "~")


def _index(step: str, size: int) -> int:
    """Return a position below `size`; negative ones count from the end."""
    try:
        index = int(step)
    except ValueError:
        raise _DoesNotApplyError from None
    if index < 0:
        index += size
    if not 0 <= index < size:
        raise _DoesNotApplyError
    return index


def _get(holder: Any, step: str) -> Any:
    """Return the member, or None if an object has no such member."""
    if isinstance(holder, dict):
        return holder.get(step)
    return holder[_index(step, len(holder))]


def _insert(holder: Any, step: str, value: Any) -> None:
    if isinstance(holder, dict):
        holder[step] = value
    elif step == "-":
        holder.append(value)
    else:
        holder.insert(_index(step, len(holder) + 1), value)


def _delete(holder: Any, step: str) -> None:
    if isinstance(holder, dict):
        if step not in holder:
            raise _DoesNotApplyError
        del holder[step]
    else:
        del holder[_index(step, len(holder))]


def _add(document: Any, operation: dict[str, Any]) -> None:
    _insert(*_container(document, operation.get("path", "")), copy_json(operation.get("value")))


def _remove(document: Any, operation: dict[str, Any]) -> None:
    _delete(*_container(document, operation.get("path", "")))


def _replace(document: Any, operation: dict[str, Any]) -> None:
    holder, step = _container(document, operation.get("path", ""))
    if isinstance(holder, list):
        step_index = _index(step, len(holder))
        holder[step_index] = copy_json(operation.get("value"))
    else:
        holder[step] = copy_json(operation.get("value"))


def _move(document: Any, operation: dict[str, Any]) -> None:
    holder, step = _container(document, operation.get("from", ""))
    value = _get(holder, step)
    _delete(holder, step)
    _insert(*_container(document, operation.get("path", "")), value)


def _copy(document: Any, operation: dict[str, Any]) -> None:
    value = _get(*_container(document, operation.get("from", "")))
    _insert(*_container(document, operation.get("path", "")), copy_json(value))


def _test(document: Any, operation: dict[str, Any]) -> None:
    if not _equal_json(_get(*_container(document, operation.get("path", ""))), operation.get("value")):
        raise _DoesNotApplyError


def _equal_json(left: Any, right: Any) -> bool:
    """Return whether two values are equal as JSON: true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal_json(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal_json, left, right))
    return bool(left == right)


def _refuse_unknown(_document: Any, _operation: dict[str, Any]) -> None:
    raise _DoesNotApplyError


_OPERATIONS: Final[dict[str, Callable[[Any, dict[str, Any]], None]]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}


def merge_patch(document: Any, patch: Any) -> Any:
    """Apply a merge patch (RFC 7386): members replace, null removes, objects merge.

    A patch of another type replaces all.
    """
    if not isinstance(patch, dict):
        return copy_json(patch)
    merged = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def copy_json(value: Any) -> Any:
    """Return a copy of a JSON value that shares nothing with it; many times faster than `copy.deepcopy`."""
    if isinstance(value, dict):
        return {key: copy_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copy_json(item) for item in value]
    return value
