"""Convert a custom resource version's `openAPIV3Schema` to the same nodes that built-in kinds use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from situate.cluster.kinds.schemas.catalog import component_schema
from situate.cluster.kinds.schemas.nodes import MISSING, UNTYPED, Schema

_TEXT = Schema(type="string")
OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def custom_schema(raw: Mapping[str, Any] | None) -> Schema:
    """Return the node of a whole object. Without a schema only its metadata is typed."""
    node = UNTYPED if raw is None else _convert_schema(raw)
    return node.with_field(type="object", properties={**node.properties, **_resource_fields()})


def _resource_fields() -> dict[str, Schema]:
    return {"apiVersion": _TEXT, "kind": _TEXT, "metadata": component_schema(OBJECT_META)}


def _convert_schema(raw: Mapping[str, Any]) -> Schema:
    properties = {name: _convert_schema(schema) for name, schema in raw.get("properties", {}).items()}
    embedded = bool(raw.get("x-kubernetes-embedded-resource"))
    if embedded:
        properties.update(_resource_fields())
    additional = raw.get("additionalProperties")
    items = raw.get("items")
    return Schema(
        type=raw.get("type", ""),
        format=raw.get("format", ""),
        properties=properties,
        additional=_convert_schema(additional)
        if isinstance(additional, dict)
        else UNTYPED
        if additional is True
        else None,
        items=_convert_schema(items) if isinstance(items, dict) else None,
        required=tuple(raw.get("required", ())),
        enum=tuple(raw.get("enum", ())),
        default=raw.get("default", MISSING),
        list_type=raw.get("x-kubernetes-list-type", "atomic"),
        list_map_keys=tuple(raw.get("x-kubernetes-list-map-keys", ())),
        map_type=raw.get("x-kubernetes-map-type", "granular"),
        nullable=bool(raw.get("nullable")),
        int_or_string=bool(raw.get("x-kubernetes-int-or-string")),
        preserve_unknown=bool(raw.get("x-kubernetes-preserve-unknown-fields")),
        embedded_resource=embedded,
    )
