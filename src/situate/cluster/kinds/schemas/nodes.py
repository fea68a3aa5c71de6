"""One node of type information: the allowed JSON values, how they merge, and how Go decodes them.

Built-in kinds (`catalog`) and custom resources (`custom`) use the same nodes, so decoding, patches and field management
handle both alike. Nodes are built once and never changed afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final


class Missing(Enum):
    """Marker for an absent value where None is a valid value."""

    VALUE = "missing"


MISSING: Final = Missing.VALUE


@dataclass(frozen=True, slots=True)
class GoField:
    """Go's representation of a struct field."""

    type: str
    """Go type as in error texts, such as `[]v1.Container`; without the star of a pointer."""
    kind: str
    """Its reflect.Kind: string, int32, int64, float64, bool, slice, map, struct."""
    omit_empty: bool
    omit_zero: bool
    pointer: bool
    path: str
    """Names of the embedded structs that contain the field, each followed by a dot."""


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """A node of type information. Nodes compare by identity."""

    type: str = ""
    """object, array, string, integer, number, boolean; empty where several types are allowed."""
    format: str = ""
    properties: dict[str, Schema] = field(default_factory=dict)
    additional: Schema | None = None
    """Type of a map's values."""
    items: Schema | None = None
    required: tuple[str, ...] = ()
    enum: tuple[Any, ...] = ()
    default: Any = MISSING
    list_type: str = "atomic"
    """atomic, set or map."""
    list_map_keys: tuple[str, ...] = ()
    map_type: str = "granular"
    """granular or atomic."""
    patch_strategies: tuple[str, ...] = ()
    patch_merge_key: str = ""
    nullable: bool = False
    int_or_string: bool = False
    preserve_unknown: bool = False
    embedded_resource: bool = False
    component: str = ""
    """Name of the OpenAPI component that the node describes; empty inside a component and for custom resources."""
    go_name: str = ""
    """Name of the Go struct; empty unless the node is a struct of a built-in kind."""
    go: GoField | None = None
    """Set if the node is a field of a Go struct."""

    def with_field(self, **changes: Any) -> Schema:
        """Return a copy of the node for another place. The copy shares its properties."""
        return replace(self, **changes)

    @property
    def untyped(self) -> bool:
        """Return whether the type is unknown, so that the shape must be deduced from the value."""
        return not (self.type or self.properties or self.items or self.additional or self.int_or_string)


UNTYPED: Final = Schema(preserve_unknown=True)
