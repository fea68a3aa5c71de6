"""Strategic merge patch: lists of objects merge by key, and directives express changes that values cannot.

After `k8s.io/apimachinery/pkg/util/strategicpatch`. The types define which lists merge, and by which key. Directives:
`$patch: replace|delete|merge`, `$retainKeys`, `$deleteFromPrimitiveList/<field>`, `$setElementOrder/<field>`.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from situate.cluster.errors.field_errors import Refused, bad_request
from situate.cluster.errors.go_text import format_go_value
from situate.cluster.kinds.schemas.nodes import UNTYPED, Schema
from situate.cluster.patch.fieldmanager_values import child_schema
from situate.cluster.patch.patches import copy_json

DIRECTIVE: Final = "$patch"
RETAIN_KEYS: Final = "$retainKeys"
DELETE_PREFIX: Final = "$deleteFromPrimitiveList/"
ORDER_PREFIX: Final = "$setElementOrder/"

_Object = dict[str, Any]


class _BadPatchError(Exception):
    """The patch contradicts itself or the types. The answer is a 500, as upstream."""


def strategic_merge_patch(document: _Object, patch: Any, schema: Schema) -> _Object | Refused:
    """Return the patched object before decoding, or the 400 for a patch that is not an object.

    Arguments are not changed.
    """
    if not isinstance(patch, dict):
        kind = {list: "array", str: "string", bool: "bool"}.get(type(patch), "number")
        return bad_request(f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}")
    try:
        return _merge_objects(copy_json(document), copy_json(patch), schema)
    except _BadPatchError as error:
        return Refused(500, "", str(error))


def _merge_objects(original: _Object, patch: _Object, schema: Schema) -> _Object:
    """Merge into `original`. `patch` is consumed."""
    if DIRECTIVE in patch:
        return _apply_object_directive(patch)
    _retain_keys(original, patch)
    for key in [key for key in patch if key.startswith(ORDER_PREFIX)]:
        _merge_ordered_list(original, patch, key, schema)
    for key, value in patch.items():
        if key.startswith(DELETE_PREFIX):
            _delete_from_list(original, key.removeprefix(DELETE_PREFIX), value)
        elif value is None:
            original.pop(key, None)
        else:
            _merge_field(original, key, value, schema)
    return original


def _apply_object_directive(patch: _Object) -> _Object:
    directive = patch.pop(DIRECTIVE)
    if directive == "replace":
        return patch
    if directive == "delete":
        return {}
    raise _BadPatchError(f"unknown patch type: {directive} in map: {format_go_value({DIRECTIVE: directive, **patch})}")


def _retain_keys(original: _Object, patch: _Object) -> None:
    """Drop the members that the directive does not list. It must list every member that the patch sets."""
    if RETAIN_KEYS not in patch:
        return
    keep = patch.pop(RETAIN_KEYS)
    if not isinstance(keep, list):
        raise _BadPatchError("invalid patch format of retainKeys")
    for key, value in patch.items():
        if value is not None and not key.startswith((DELETE_PREFIX, ORDER_PREFIX)) and key not in keep:
            raise _BadPatchError("invalid patch format of retainKeys")
    for key in [key for key in original if key not in keep]:
        del original[key]


def _delete_from_list(original: _Object, name: str, values: Any) -> None:
    if isinstance(original.get(name), list) and isinstance(values, list):
        original[name] = [item for item in original[name] if item not in values]


def _merge_field(original: _Object, key: str, value: Any, schema: Schema) -> None:
    present = original.get(key)
    if isinstance(present, dict) and isinstance(value, dict):
        field = child_schema(schema, key)
        if "replace" in field.patch_strategies:
            original[key] = value
        else:
            original[key] = _merge_objects(present, value, field)
    elif isinstance(present, list) and isinstance(value, list):
        field = child_schema(schema, key)
        original[key] = _merge_lists(present, value, field) if "merge" in field.patch_strategies else value
    else:
        _set_without_directives(original, key, value)


def _set_without_directives(original: _Object, key: str, value: Any) -> None:
    cleaned, keep = _without_directives(value)
    if keep:
        original[key] = cleaned
    else:
        original.pop(key, None)


def _without_directives(value: Any) -> tuple[Any, bool]:
    """Return the value without nulls and directives, for a place without a value.

    The second result is False if the value itself is a directive.
    """
    if isinstance(value, dict):
        if DIRECTIVE in value:
            return None, False
        members = {
            key: _without_directives(item)
            for key, item in value.items()
            if item is not None and key != RETAIN_KEYS and not key.startswith((DELETE_PREFIX, ORDER_PREFIX))
        }
        return {key: item for key, (item, keep) in members.items() if keep}, True
    if isinstance(value, list):
        return [item for item, keep in map(_without_directives, value) if keep], True
    return value, True


def _merge_lists(original: list[Any], patch: list[Any], field: Schema) -> list[Any]:
    if not original and not patch:
        return original
    if not all(isinstance(item, dict) for item in original + patch):
        merged = list({msgspec.json.encode(item): item for item in original + patch}.values())
        return _sort_by_order(merged, patch, original, "")
    key = field.patch_merge_key
    if not key:
        raise _BadPatchError("cannot merge lists without merge key for " + (field.go.type if field.go else "list"))
    kept, additions = _apply_list_directives(original, patch, key)
    merged = list(kept)
    for item in additions:
        value = _merge_key(item, key)
        position = next((index for index, other in enumerate(merged) if other.get(key) == value), None)
        if position is None:
            merged.append(_without_directives(item)[0])
        else:
            merged[position] = _merge_objects(merged[position], item, field.items or UNTYPED)
    return _sort_by_order(merged, additions, kept, key)


def _apply_list_directives(original: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """Return the remaining items of the original, and the items that the patch adds or merges."""
    additions: list[Any] = []
    replace = False
    for item in patch:
        directive = item.get(DIRECTIVE)
        if directive is None:
            additions.append(item)
        elif directive == "delete":
            value = _merge_key(item, key)
            original = [other for other in original if other.get(key) != value]
        elif directive == "replace":
            replace = True
        elif directive == "merge":
            raise _BadPatchError("merging lists cannot yet be specified in the patch")
        else:
            raise _BadPatchError(f"unknown patch type: {directive} in map: {format_go_value(item)}")
    return ([], additions) if replace else (original, additions)


def _merge_key(item: _Object, key: str) -> Any:
    if key not in item:
        raise _BadPatchError(f"map: {format_go_value(item)} does not contain declared merge key: {key}")
    return item[key]


def _merge_ordered_list(original: _Object, patch: _Object, directive: str, schema: Schema) -> None:
    """Merge the list that an order names, then sort it. Items that only the server has stay between the listed ones."""
    order = patch.pop(directive)
    name = directive.removeprefix(ORDER_PREFIX)
    if not isinstance(order, list):
        raise _BadPatchError(f"expected a []interface {{}}, but received a {type(order).__name__}")
    field = child_schema(schema, name)
    key = field.patch_merge_key
    server = original.get(name)
    changes = patch.pop(name, None)
    if changes is not None:
        _require_order(changes, order, key)
    if server is None and changes is None:
        return
    if server is None:
        merged = _without_directives(changes)[0]
    elif changes is None:
        merged = list(server)
    else:
        merged = _merge_lists(server, changes, field) if "merge" in field.patch_strategies else changes
    original[name] = _sort_by_order(merged, order, server or [], key)


def _require_order(changes: list[Any], order: list[Any], key: str) -> None:
    """Check that the patch's items occur in the order list, in the same order."""
    wanted = [_identity(item, key) for item in order]
    position = 0
    for item in changes:
        if isinstance(item, dict) and item.get(DIRECTIVE) == "delete":
            continue
        identity = _identity(item, key)
        while position < len(wanted) and wanted[position] != identity:
            position += 1
        if position == len(wanted):
            raise _BadPatchError(
                f"The order in patch list:\n{format_go_value(changes)}\n"
                f" doesn't match $setElementOrder list:\n{format_go_value(order)}\n"
            )
        position += 1


def _identity(item: Any, key: str) -> bytes:
    return msgspec.json.encode(item.get(key) if key and isinstance(item, dict) else item)


def _sort_by_order(merged: list[Any], order: list[Any], server: list[Any], key: str) -> list[Any]:
    """Return the items of `order` in that order.

    Each other item stays before the ordered item that it preceded on the server.
    """
    wanted = {_identity(item, key): index for index, item in reversed(list(enumerate(order)))}
    had = {_identity(item, key): index for index, item in reversed(list(enumerate(server)))}
    ordered = sorted(
        (item for item in merged if _identity(item, key) in wanted), key=lambda item: wanted[_identity(item, key)]
    )
    others = sorted(
        (item for item in merged if _identity(item, key) not in wanted),
        key=lambda item: had.get(_identity(item, key), len(had)),
    )
    result: list[Any] = []
    left, right = 0, 0
    while left < len(others) and right < len(ordered):
        left_at, right_at = had.get(_identity(others[left], key)), had.get(_identity(ordered[right], key))
        if left_at is not None and right_at is not None and left_at < right_at:
            result.append(others[left])
            left += 1
        else:
            result.append(ordered[right])
            right += 1
    return result + others[left:] + ordered[right:]
