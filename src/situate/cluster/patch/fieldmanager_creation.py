"""Build the managedFields of a new object in one walk. Its creator owns all fields.

The result equals that of `fieldmanager_values.compare` with `fieldmanager_paths.to_fields_v1`, but takes about an
eighth of the time. Creations are the most common write, and every watcher receives their managedFields.
"""

from __future__ import annotations

from typing import Any, Final

from situate.cluster.kinds.schemas.nodes import UNTYPED, Schema
from situate.cluster.patch.fieldmanager_paths import Paths, item_element

_Fields = dict[str, Any]
UNOWNED_METADATA: Final = frozenset(
    {
        *("name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "managedFields"),
        "resourceVersion",
    }
)
"""Fields of the metadata that no manager owns."""


def created_fields(obj: dict[str, Any], empty: dict[str, Any], schema: Schema, reset: Paths) -> _Fields:
    """Return fieldsV1 for the creator of `obj`; `empty` is Go's empty object of the kind.

    Raises `NotAssociativeError` if items of a list cannot be distinguished.
    """
    left_out = {path[0][2:] for path in reset if len(path) == 1} | {"apiVersion", "kind"}
    owned: _Fields = {}
    for key in sorted(obj):
        if key in left_out:
            continue
        field = schema.properties.get(key) or schema.additional or UNTYPED
        below: _Fields | None
        if key == "metadata":
            metadata = {name: value for name, value in obj[key].items() if name not in UNOWNED_METADATA}
            below = _owned_members(metadata, {}, field) or None
        elif key in empty:
            below = _owned_if_set(obj[key], empty[key], field)
        else:
            below = _owned_below(obj[key], field)
        if below is not None:
            owned[f"f:{key}"] = below
    return owned


def _owned_members(value: dict[str, Any], empty: dict[str, Any], schema: Schema) -> _Fields:
    """Return the owned members of a struct that also exists in the empty object."""
    owned: _Fields = {}
    properties, additional = schema.properties, schema.additional or UNTYPED
    for key in sorted(value):
        field = properties.get(key, additional)
        below = _owned_if_set(value[key], empty[key], field) if key in empty else _owned_below(value[key], field)
        if below is not None:
            owned[f"f:{key}"] = below
    return owned


def _owned_if_set(value: Any, empty: Any, schema: Schema) -> _Fields | None:
    """Return the owned part of a field that Go encodes even if unset; None if it is still unset."""
    if isinstance(value, dict) and value and schema.map_type != "atomic":
        return _owned_members(value, empty or {}, schema) or None
    if isinstance(value, list) and value and empty is None and schema.list_type in ("set", "map"):
        return _owned_items(value, schema)
    return None if value == empty else {}


def _owned_below(value: Any, schema: Schema) -> _Fields:
    """Return the owned part of a field that is absent from the empty object: the field and everything below it."""
    if type(value) is str or not value:
        return {}
    if type(value) is dict and schema.map_type != "atomic":
        owned: _Fields = {".": {}}
        properties, additional = schema.properties, schema.additional or UNTYPED
        for key in sorted(value):
            owned[f"f:{key}"] = _owned_below(value[key], properties.get(key, additional))
        return owned
    if type(value) is list and schema.list_type in ("set", "map"):
        return {".": {}, **_owned_items(value, schema)}
    return {}


def _owned_items(values: list[Any], schema: Schema) -> _Fields:
    """Return the owned items by their elements. Items that occur twice are one leaf."""
    items = schema.items or UNTYPED
    owned: _Fields = {}
    for value in values:
        element = item_element(value, schema)
        owned[element] = {} if element in owned else _owned_below(value, items)
    return dict(sorted(owned.items())) if len(owned) > 1 else owned
