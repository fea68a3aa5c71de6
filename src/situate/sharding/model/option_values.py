"""Define the allowed values and help texts of the options that supervisors and executors share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

from msgspec import Meta

from situate.objects.settings.section import ALLOWED, Mistake, format_value
from situate.sharding.model.field_paths import BadFieldPath, FieldPaths

FieldPath = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+$",
        extra={ALLOWED: "two or more field names joined by dots, such as spec.assignedTo"},
    ),
]
ResourceName = Annotated[
    str,
    Meta(
        pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/v[0-9][a-z0-9]*/[a-z][-a-z0-9.]*$",
        extra={ALLOWED: "GROUP/VERSION/PLURAL, such as batch.example.com/v1/reports"},
    ),
]
Pool = Annotated[
    str,
    Meta(
        pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$",
        extra={ALLOWED: "at most 63 of a to z, 0 to 9 and '-', with no '-' first or last"},
    ),
]
Partition = Annotated[
    str,
    Meta(
        pattern=r"^[0-9]{1,4}(/[0-9]{1,4})?$",
        extra={ALLOWED: "INDEX/COUNT such as 0/4, the first of four; with partitionTable only a number"},
    ),
]
Share = Annotated[
    str, Meta(pattern=r"^(100|[0-9]{1,2}(\.[0-9]+)?)%$", extra={ALLOWED: 'a percentage from "0%" to "100%"'})
]
Count = Annotated[int, Meta(ge=0, le=1_000_000)]

OBJECTS_HELP: Final = "Namespace of the objects. Default: all namespaces."
ASSIGNED_HELP: Final = "Field of the object that holds the id of its executor."
COMPLETED_HELP: Final = "Field of the object that holds its time of completion."
SUCCESSFUL_HELP: Final = "Field of the object that is true if the object succeeded."
POOL_HELP: Final = "Name of the pool: the set of executors of one supervisor."
PARTITION_HELP: Final = (
    "Part of the objects: INDEX/COUNT such as 0/4, or a number in the partition table. Default: all objects."
)
STATIC: Final = "INDEX/COUNT with a count from 1 to 4096 and an index from 0 to one less than the count"
NAMESPACE_HELP: Final = (
    "Namespace of all executors. Their ids are then the names of their Pods. Default: any namespace, with ids "
    "NAMESPACE/NAME."
)
LEASE_HELP: Final = "Duration of the executors' Leases: how long a silent executor keeps its objects."


def path_mistakes(assigned_to: str, completed_at: str, successful: str) -> Iterator[Mistake]:
    """Check paths that are valid one by one against each other."""
    try:
        FieldPaths(assigned_to, completed_at, successful)
    except BadFieldPath as bad:
        yield Mistake(
            "assignedToPath", format_value(assigned_to), "three paths of which none contains another", str(bad)
        )


def partition_name(partition: str | None) -> str:
    """Return the partition as written in labels and Lease names: `0-of-4`, or the number in a table; empty for None."""
    return "" if partition is None else partition.replace("/", "-of-")
