"""Walk typed values: find the fields that a value sets, compare two values, and merge one into another.

After `structured-merge-diff/typed`. An atomic list or map is one leaf. A list with list-type set or map is identified
by its items. Without type information maps are granular and lists atomic.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from situate.cluster.kinds.schemas.nodes import MISSING, UNTYPED, Schema
from situate.cluster.patch.fieldmanager_paths import NotAssociativeError, Path, Paths, item_element


def child_schema(schema: Schema, key: str) -> Schema:
    """Return the type of a member of an object."""
    known = schema.properties.get(key)
    if known is not None:
        return known
    return schema.additional or UNTYPED


def _is_granular(schema: Schema) -> bool:
    return schema.map_type != "atomic"


def _is_associative(schema: Schema) -> bool:
    return schema.list_type in ("set", "map")


def field_set(value: Any, schema: Schema) -> Paths:
    """Return the fields that an applied value sets."""
    found: set[Path] = set()
    _collect_fields(value, schema, (), found)
    return frozenset(found)


def _collect_fields(value: Any, schema: Schema, path: Path, found: set[Path]) -> None:
    if isinstance(value, dict) and (_is_granular(schema) or not path):
        for key, item in value.items():
            here = (*path, f"f:{key}")
            _collect_fields(item, child_schema(schema, key), here, found)
            if item is None or item == {} or key not in schema.properties:
                found.add(here)
    elif isinstance(value, list) and _is_associative(schema):
        seen: set[str] = set()
        for item in value:
            element = item_element(item, schema)
            found.add((*path, element))
            if element not in seen:
                _collect_fields(item, schema.items or UNTYPED, (*path, element), found)
            seen.add(element)
    else:
        found.add(path)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Difference between two values."""

    added: set[Path] = field(default_factory=set)
    modified: set[Path] = field(default_factory=set)
    removed: set[Path] = field(default_factory=set)


def compare(old: Any, new: Any, schema: Schema) -> Comparison:
    """Return the paths that only `new` has, that differ, and that only `old` has."""
    result = Comparison()
    _compare(old, new, schema, (), result)
    return result


def _compare(old: Any, new: Any, schema: Schema, path: Path, result: Comparison) -> None:
    """Compare two values. Null counts as an empty value of the other side's shape; two empty values are leaves."""
    shape = old if new is MISSING or new is None else new
    if (
        isinstance(shape, dict)
        and _is_granular(schema)
        and _fits_shape(old, dict)
        and _fits_shape(new, dict)
        and _any_value(old, new)
    ):
        _compare_maps(old, new, schema, path, result)
        _record_presence(old, new, path, result)
    elif (
        isinstance(shape, list)
        and _is_associative(schema)
        and _fits_shape(old, list)
        and _fits_shape(new, list)
        and _any_value(old, new)
    ):
        _compare_lists(old, new, schema, path, result)
        _record_presence(old, new, path, result)
    else:
        _compare_leaves(old, new, path, result)


def _any_value(old: Any, new: Any) -> bool:
    return (old is not MISSING and bool(old)) or (new is not MISSING and bool(new))


def _fits_shape(value: Any, shape: type) -> bool:
    return value is MISSING or value is None or isinstance(value, shape)


def _record_presence(old: Any, new: Any, path: Path, result: Comparison) -> None:
    if old is MISSING:
        result.added.add(path)
    elif new is MISSING:
        result.removed.add(path)


def _compare_leaves(old: Any, new: Any, path: Path, result: Comparison) -> None:
    if old is MISSING:
        result.added.add(path)
    elif new is MISSING:
        result.removed.add(path)
    elif old != new:
        result.modified.add(path)


def _compare_maps(old: Any, new: Any, schema: Schema, path: Path, result: Comparison) -> None:
    before = old if isinstance(old, dict) else {}
    after = new if isinstance(new, dict) else {}
    for key, value in after.items():
        previous = before.get(key, MISSING)
        if previous is not value:
            _compare(previous, value, child_schema(schema, key), (*path, f"f:{key}"), result)
    for key, value in before.items():
        if key not in after:
            _compare(value, MISSING, child_schema(schema, key), (*path, f"f:{key}"), result)


def _items_by_element(items: Any, schema: Schema) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for item in items if isinstance(items, list) else ():
        found.setdefault(item_element(item, schema), []).append(item)
    return found


def _compare_lists(old: Any, new: Any, schema: Schema, path: Path, result: Comparison) -> None:
    """Compare lists item by item. Items that occur twice have no fields of their own and are compared as a whole."""
    try:
        before, after = _items_by_element(old, schema), _items_by_element(new, schema)
    except NotAssociativeError:
        _compare_leaves(old, new, path, result)
        return
    items = schema.items or UNTYPED
    for element in {**before, **after}:
        here = (*path, element)
        left, right = before.get(element, []), after.get(element, [])
        if len(left) <= 1 and len(right) <= 1:
            _compare(left[0] if left else MISSING, right[0] if right else MISSING, items, here, result)
        elif len(left) >= 2 and len(right) >= 2:
            if left != right:
                result.modified.add(here)
        elif len(left) >= 2:
            if right:
                _compare(MISSING, right[0], items, here, result)
            result.removed.add(here)
        else:
            if left:
                _compare(left[0], MISSING, items, here, result)
            result.added.add(here)


def merge(live: Any, applied: Any, schema: Schema) -> Any:
    """Merge `applied` into `live`. The arguments are not changed, but the result shares parts of both.

    In mergeable objects and lists a null counts as empty, so it removes nothing. Elsewhere it replaces the value.
    """
    if applied is MISSING:
        return live
    if live is MISSING:
        return applied
    merging = (isinstance(live, dict) and _is_granular(schema)) or (isinstance(live, list) and _is_associative(schema))
    if applied is None and merging and live:
        return live
    if isinstance(live, dict) and isinstance(applied, dict) and _is_granular(schema):
        merged = {
            key: merge(value, applied.get(key, MISSING), child_schema(schema, key)) for key, value in live.items()
        }
        merged.update({key: value for key, value in applied.items() if key not in live})
        return merged
    if isinstance(live, list) and isinstance(applied, list) and _is_associative(schema) and (live or applied):
        return _merge_lists(live, applied, schema)
    return applied


def _merge_lists(live: list[Any], applied: list[Any], schema: Schema) -> list[Any]:
    """Return the items in the applied order. Items of `live` alone stay before the next shared item."""
    items = schema.items or UNTYPED
    left, right = [item_element(item, schema) for item in live], [item_element(item, schema) for item in applied]
    live_items = {
        element: item if left.count(element) == 1 else MISSING for element, item in zip(left, live, strict=True)
    }
    applied_items = dict(zip(right, applied, strict=True))
    shared = [element for element in right if element in live_items]
    merged: list[Any] = []
    done: set[str] = set()
    at_left = at_right = 0

    def take(element: str) -> None:
        merged.append(merge(live_items.get(element, MISSING), applied_items[element], items))
        done.add(element)
        if shared and shared[0] == element:
            shared.pop(0)

    while at_left < len(left) or at_right < len(right):
        if at_left < len(left) and at_right < len(right):
            element = left[at_left]
            if element == right[at_right]:
                take(element)
                at_left, at_right = at_left + 1, at_right + 1
                continue
            if element in applied_items and shared and shared[0] != element:
                at_left += 1
                continue
        if at_left < len(left):
            element = left[at_left]
            if element not in applied_items:
                merged.append(live[at_left])
                at_left += 1
                continue
            if element in done:
                at_left += 1
        if at_right < len(right):
            take(right[at_right])
            at_right += 1
    return merged


def remove_paths(value: Any, paths: Paths, schema: Schema) -> Any:
    """Return `value` without the fields and items at `paths`. A container that becomes empty stays."""
    return _remove(value, paths, schema, 0)


def _remove(value: Any, paths: Paths, schema: Schema, depth: int) -> Any:
    if isinstance(value, dict) and (_is_granular(schema) or depth == 0):
        kept: dict[str, Any] = {}
        for key, item in value.items():
            outcome = _remove_below(item, paths, f"f:{key}", child_schema(schema, key), depth)
            if outcome is not MISSING:
                kept[key] = outcome
        return kept
    if isinstance(value, list) and _is_associative(schema):
        items = schema.items or UNTYPED
        outcomes = [_remove_below(item, paths, item_element(item, schema), items, depth) for item in value]
        return [outcome for outcome in outcomes if outcome is not MISSING]
    return {} if isinstance(value, dict) else [] if isinstance(value, list) else value


def _remove_below(item: Any, paths: Paths, element: str, schema: Schema, depth: int) -> Any:
    below = frozenset(path for path in paths if path[depth] == element)
    if not below:
        return item
    if any(len(path) == depth + 1 for path in below):
        return MISSING
    return _remove(item, below, schema, depth + 1)


def with_named_fields(paths: Paths, schema: Schema) -> Paths:
    """Return the paths and every struct field above one of them. Map entries and items are members only if listed."""
    found = set(paths)
    for path in paths:
        node = schema
        for length, element in enumerate(path[:-1], start=1):
            key = element[2:]
            if element.startswith("f:"):
                if key in node.properties:
                    found.add(path[:length])
                node = child_schema(node, key)
            else:
                node = node.items or UNTYPED
    return frozenset(found)
