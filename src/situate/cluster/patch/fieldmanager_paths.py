"""Sets of field paths, and their form on objects (`fieldsV1`).

A path is a tuple of elements in the syntax of fieldsV1: `f:spec`, `k:{"name":"a"}`, `v:"x"`, `i:0`. A set of paths is a
frozenset, so union, difference and intersection are Python's own. After `structured-merge-diff/fieldpath`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from situate.cluster.errors.go_text import quote
from situate.cluster.kinds.schemas.nodes import MISSING, Schema

Path = tuple[str, ...]
Paths = frozenset[Path]
EMPTY: Final[Paths] = frozenset()
_ORDER: Final = {"f": 0, "k": 1, "v": 2, "i": 3}


class NotAssociativeError(ValueError):
    """An item of a set or keyed list cannot be distinguished from the others. The text is upstream's."""


def item_element(item: Any, schema: Schema) -> str:
    """Return the element of an item in a list with list-type set or map."""
    if schema.list_type == "set":
        if isinstance(item, dict):
            raise NotAssociativeError("associative list without keys has an element that's a map type")
        if isinstance(item, list):
            raise NotAssociativeError("not supported: associative list with lists as elements")
        if item is None:
            raise NotAssociativeError("associative list without keys has an element that's an explicit null")
        return "v:" + msgspec.json.encode(item).decode()
    if item is None:
        raise NotAssociativeError("associative list with keys may not have a null element")
    if not isinstance(item, dict):
        raise NotAssociativeError("associative list with keys may not have non-map elements")
    keys: dict[str, Any] = {}
    for key in sorted(schema.list_map_keys):
        value = item.get(key, MISSING)
        if value is MISSING and schema.items is not None and key in schema.items.properties:
            value = schema.items.properties[key].default
        if value is not MISSING:
            keys[key] = value
    if not keys:
        names = " ".join(map(quote, schema.list_map_keys))
        raise NotAssociativeError(
            f"associative list with keys has an element that omits all key fields [{names}] "
            "(and doesn't have default values for any key fields)"
        )
    return "k:" + msgspec.json.encode(keys).decode()


def to_fields_v1(paths: Iterable[Path]) -> dict[str, Any]:
    """Return the nested form. `.` marks a member that also has members below it."""
    root: dict[str, Any] = {}
    for path in sorted(paths, key=_sort_key):
        node = root
        for element in path[:-1]:
            below = node.setdefault(element, {})
            node = below
        node.setdefault(path[-1], {})
    members = set(paths)
    _mark_members(root, (), members)
    return root


def _mark_members(node: dict[str, Any], path: Path, members: set[Path]) -> None:
    for element, below in node.items():
        if below:
            here = (*path, element)
            _mark_members(below, here, members)
            if here in members:
                node[element] = {".": {}, **below}


def _sort_key(path: Path) -> list[tuple[int, str]]:
    return [(_ORDER.get(element[0], 9), element) for element in path]


def from_fields_v1(fields: Any) -> Paths:
    """Return the set in a fieldsV1 value. Raises `ValueError` if the value is malformed."""
    found: set[Path] = set()
    _collect(fields, (), found)
    return frozenset(found)


def _collect(node: Any, path: Path, found: set[Path]) -> None:
    if not isinstance(node, dict):
        raise ValueError(f"fieldsV1 at {'/'.join(path) or 'its root'} must be an object")
    for element, below in node.items():
        if element == ".":
            found.add(path)
            continue
        if element[:2] not in ("f:", "k:", "v:", "i:"):
            raise ValueError(f"fieldsV1 has the unknown element {quote(element)}")
        here = (*path, element)
        if below == {}:
            found.add(here)
        else:
            _collect(below, here, found)


def without_prefixes(paths: Paths, prefixes: Paths) -> Paths:
    """Return the paths that are neither in `prefixes` nor below one of them."""
    if not prefixes:
        return paths
    return frozenset(path for path in paths if not any(path[: len(prefix)] == prefix for prefix in prefixes))


def format_path(path: Path) -> str:
    """Return the path as text, such as `.spec.containers[name="a"].image`."""
    return "".join(map(_format_element, path))


def _format_element(element: str) -> str:
    kind, text = element[0], element[2:]
    if kind == "f":
        return f".{text}"
    if kind == "k":
        keys = msgspec.json.decode(text)
        return "[" + ",".join(f"{key}={_format_value(value)}" for key, value in keys.items()) + "]"
    if kind == "v":
        return f"[={_format_value(msgspec.json.decode(text))}]"
    return f"[{text}]"


def _format_value(value: Any) -> str:
    return quote(value) if isinstance(value, str) else msgspec.json.encode(value).decode()


def sort_in_walk_order(paths: Iterable[Path]) -> list[Path]:
    """Sort paths as upstream iterates: the members of a level come before the paths below them."""
    return sorted(paths, key=lambda path: [(1, *key) for key in _sort_key(path[:-1])] + [(0, *_sort_key(path[-1:])[0])])
