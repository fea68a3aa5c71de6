"""Define the allowed values and help texts of the options that supervisors and executors share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

from msgspec import Meta

from situate.objects.settings.section import ALLOWED, Mistake, shown
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
        extra={ALLOWED: "at most 63 of a to z, 0 to 9 and '-', which is neither first nor last"},
    ),
]
Partition = Annotated[
    str,
    Meta(
        pattern=r"^[0-9]{1,4}(/[0-9]{1,4})?$",
        extra={ALLOWED: "INDEX/COUNT such as 0/4, the first of four; the number alone where a table has the ranges"},
    ),
]
Share = Annotated[
    str, Meta(pattern=r"^(100|[0-9]{1,2}(\.[0-9]+)?)%$", extra={ALLOWED: 'a percentage from "0%" to "100%"'})
]
Count = Annotated[int, Meta(ge=0, le=1_000_000)]

OBJECTS_HELP: Final = "Of the objects; without, all."
ASSIGNED_HELP: Final = "Where the executor's id stands."
COMPLETED_HELP: Final = "Where it stands when they were done."
SUCCESSFUL_HELP: Final = "Where it stands how they ended."
POOL_HELP: Final = "Name of the set of executors."
PARTITION_HELP: Final = "Which part of the objects: INDEX/COUNT, or the number in a partition table; without, all."
STATIC: Final = "INDEX/COUNT with a count from 1 to 4096 and an index from 0 to one less than the count"
NAMESPACE_HELP: Final = (
    "The one namespace of all executors, whose ids are then pods' names; without it they may be in any, and ids are "
    "namespace/name."
)
LEASE_HELP: Final = "Of executors' Leases: how long one that is silent keeps its objects."


def path_mistakes(assigned_to: str, completed_at: str, successful: str) -> Iterator[Mistake]:
    """Check paths that are valid one by one against each other."""
    try:
        FieldPaths(assigned_to, completed_at, successful)
    except BadFieldPath as bad:
        yield Mistake("assignedToPath", shown(assigned_to), "paths that can be told apart", str(bad))


def partition_name(partition: str | None) -> str:
    """Return the partition as written in labels and Lease names: `0-of-4`, or the number in a table; empty for None."""
    return "" if partition is None else partition.replace("/", "-of-")
