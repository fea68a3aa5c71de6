"""Find the columns of a kind's rows in `kubectl get`.

After Kubernetes' pkg/printers/internalversion/printers.go. Custom resources define their own columns. Other kinds show
name and creation time, as upstream's default table does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from situate.cluster.errors.json_paths import values_at
from situate.cluster.read.table_cells import COLUMNS, NAME, Columns, Obj, age_text, columns, definition, field
from situate.cluster.read.table_other_kinds import OTHER_KINDS
from situate.cluster.storage.resources import Origin, Resource

_BUILT_IN_COLUMNS: Final[Mapping[str, Columns]] = {**COLUMNS, **OTHER_KINDS}
_DEFAULT_COLUMNS: Final = columns(NAME, ("Created At:date", field("metadata.creationTimestamp", None)))


def columns_of(resource: Resource) -> Columns:
    """Return the columns of a resource."""
    if resource.origin is Origin.CUSTOM:
        return _custom_columns(resource)
    return _BUILT_IN_COLUMNS.get(resource.table, _DEFAULT_COLUMNS) if resource.from_stored is None else _DEFAULT_COLUMNS


def _custom_columns(resource: Resource) -> Columns:
    """Return the version's additionalPrinterColumns, or the age (apiextensions-apiserver tableconvertor.go)."""
    assert resource.definition is not None
    versions = resource.definition["spec"]["versions"]
    version = next(entry for entry in versions if entry["name"] == resource.version)
    given = version.get("additionalPrinterColumns") or [
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
    ]
    definitions = [definition("Name")]
    definitions.extend(
        {
            "name": column["name"],
            "type": column["type"],
            "format": column.get("format", ""),
            "description": column.get("description")
            or f"Custom resource definition column (in JSONPath format): {column['jsonPath']}",
            "priority": column.get("priority", 0),
        }
        for column in given
    )
    readers = [_cell_reader(column["type"], column["jsonPath"]) for column in given]

    def cells(obj: Obj, now: float) -> list[Any]:
        return [obj["metadata"]["name"], *(read(obj, now) for read in readers)]

    return Columns(definitions, cells)


def _cell_reader(kind: str, path: str) -> Callable[[Obj, float], Any]:
    def read(obj: Obj, now: float) -> Any:
        found = values_at(obj, path)
        if not found:
            return None
        value = found[0]
        if kind == "date":
            return age_text(value, now) if isinstance(value, str) else "<unknown>"
        if kind == "string":
            return _text(found)
        wanted = _TYPES[kind]
        return value if isinstance(value, wanted) else None

    return read


_TYPES: Final[Mapping[str, tuple[type, ...]]] = {"integer": (int,), "number": (int, float), "boolean": (bool,)}


def _text(values: list[Any]) -> str:
    return " ".join(value if isinstance(value, str) else _json_path_text(value) for value in values)


def _json_path_text(value: Any) -> str:
    """Return a value as kubectl's JSONPath prints it."""
    if value is None:
        return "<none>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    return msgspec.json.encode(value).decode()
