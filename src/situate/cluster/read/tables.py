"""Rows of `kubectl get`: the columns of each kind, and the functions that build its cells.

After Kubernetes' pkg/printers/internalversion/printers.go. Custom resources define their own columns. Other kinds show
name and creation time, as upstream's default table does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from situate.cluster.errors.json_paths import values_at
from situate.cluster.read.table_cells import (
    CELLS,
    Cells,
    age_text,
    creation_cells,
)
from situate.cluster.read.table_other_kinds import OTHER_KINDS
from situate.cluster.storage.resources import Origin, Resource

Obj: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of one kind."""

    definitions: list[dict[str, Any]]
    cells: Cells


def _definitions(columns: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the definitions of the columns.

    A column is given by its name. A `*` before the name marks a column of `-o wide`; `:type` after it gives a type
    other than string.
    """
    return [_definition(column) for column in columns]


def _definition(column: str) -> dict[str, Any]:
    wide = column.startswith("*")
    name, _, kind = column.removeprefix("*").partition(":")
    return {
        "name": name,
        "type": kind or "string",
        "format": "name" if name == "Name" else "",
        "description": _DESCRIPTIONS.get(name, name),
        "priority": 1 if wide else 0,
    }


_DESCRIPTIONS: Final = {
    "Name": "Name must be unique within a namespace.",
    "Age": "Time since the object was created.",
    "Created At": "When the object was created.",
}

_WORKLOAD: Final = ("Age", "*Containers", "*Images")
_COUNTS: Final = ("Name", "Desired:integer", "Current:integer", "Ready:integer", *_WORKLOAD, "*Selector")

_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "pods": ("Name", "Ready", "Status", "Restarts", "Age", "*IP", "*Node", "*Nominated Node", "*Readiness Gates"),
    "nodes": (
        "Name",
        "Status",
        "Roles",
        "Age",
        "Version",
        "*Internal-IP",
        "*External-IP",
        "*OS-Image",
        "*Kernel-Version",
        "*Container-Runtime",
    ),
    "namespaces": ("Name", "Status", "Age"),
    "configmaps": ("Name", "Data", "Age"),
    "secrets": ("Name", "Type", "Data", "Age"),
    "serviceaccounts": ("Name", "Age"),
    "services": ("Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "*Selector"),
    "events": (
        "Last Seen",
        "Type",
        "Reason",
        "Object",
        "*Subobject",
        "*Source",
        "Message",
        "*First Seen",
        "*Count",
        "*Name",
    ),
    "replicationcontrollers": _COUNTS,
    "replicasets.apps": _COUNTS,
    "statefulsets.apps": ("Name", "Ready", *_WORKLOAD),
    "deployments.apps": ("Name", "Ready", "Up-to-date", "Available", *_WORKLOAD, "*Selector"),
    "controllerrevisions.apps": ("Name", "Controller", "Revision", "Age"),
    "leases.coordination.k8s.io": ("Name", "Holder", "Age"),
    "poddisruptionbudgets.policy": ("Name", "Min Available", "Max Unavailable", "Allowed Disruptions:integer", "Age"),
    "priorityclasses.scheduling.k8s.io": (
        "Name",
        "Value:integer",
        "Global-Default:boolean",
        "Age",
        "PreemptionPolicy",
    ),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": ("Name", "Webhooks:integer", "Age"),
    "validatingwebhookconfigurations.admissionregistration.k8s.io": ("Name", "Webhooks:integer", "Age"),
    "persistentvolumeclaims": (
        "Name",
        "Status",
        "Volume",
        "Capacity",
        "Access Modes",
        "StorageClass",
        "VolumeAttributesClass",
        "Age",
        "*VolumeMode",
    ),
}

_DEFAULT_COLUMNS: Final = Columns(_definitions(("Name", "Created At:date")), creation_cells)

_BUILT_IN_COLUMNS: Final[Mapping[str, Columns]] = {
    **{table: Columns(_definitions(columns), CELLS[table]) for table, columns in _COLUMNS.items()},
    **{table: Columns(_definitions(columns), cells) for table, (columns, cells) in OTHER_KINDS.items()},
}


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
    definitions = [_definition("Name")]
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
