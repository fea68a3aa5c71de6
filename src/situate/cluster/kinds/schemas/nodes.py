"""One node of type information: what a JSON value may be, how it is merged, and how Go decodes it.

Built-in kinds (`catalog`) and custom resources (`custom`) become the same nodes, so decoding, patches and field
management know one vocabulary. Nodes are built once and never changed afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final


class Missing(Enum):
    """Marks the absence of a value where None is a value."""

    VALUE = "missing"


MISSING: Final = Missing.VALUE


@dataclass(frozen=True, slots=True)
class GoField:
    """How Go holds a field of a struct."""

    type: str
    """As error texts name it, such as `[]v1.Container`; without a pointer's star."""
    kind: str
    """Its reflect.Kind: string, int32, int64, float64, bool, slice, map, struct."""
    omit_empty: bool
    omit_zero: bool
    pointer: bool
    path: str
    """Names of the embedded structs that lead to it, each followed by a dot."""


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """A node; two nodes are equal only if they are the same one."""

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
    """Name of the OpenAPI component that it was built from; empty inside of one and for custom resources."""
    go_name: str = ""
    """Name of the Go struct; empty unless the node is a struct of a built-in kind."""
    go: GoField | None = None
    """Set where the node is a field of a Go struct."""

    def with_field(self, **changes: Any) -> Schema:
        """The same type at another place; its properties stay shared."""
        return replace(self, **changes)

    @property
    def is_struct(self) -> bool:
        """Whether the keys of the object are fixed."""
        return bool(self.properties) and self.additional is None

    @property
    def untyped(self) -> bool:
        """Whether nothing is known about the value, so its shape is deduced from the value itself."""
        return not (self.type or self.properties or self.items or self.additional or self.int_or_string)


UNTYPED: Final = Schema(preserve_unknown=True)
