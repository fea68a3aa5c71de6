"""Built-in kinds as published by the API server of release `published_version()`.

`tests/controlplane/dump_schemas.py` writes the data file next to this module. The module reads the file at first use.
"""

from __future__ import annotations

import gzip
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from situate.cluster.kinds.schemas.nodes import GoField, Schema

_LEAVES = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": Schema(type="string", format="quantity"),
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": Schema(type="string", format="date-time"),
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": Schema(type="string", format="micro-time"),
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": Schema(int_or_string=True),
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": Schema(type="object", map_type="atomic", preserve_unknown=True),
    "io.k8s.apimachinery.pkg.runtime.RawExtension": Schema(type="object", preserve_unknown=True),
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON": Schema(preserve_unknown=True),
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray": Schema(
        format="schema-or-array", preserve_unknown=True
    ),
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool": Schema(
        format="schema-or-bool", preserve_unknown=True
    ),
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray": Schema(
        preserve_unknown=True
    ),
}
"""Types with their own codec."""


JSON_SCHEMA = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"


@cache
def published_data() -> dict[str, Any]:
    """Return the content of the data file: keys version, schemas, go, paths, resources."""
    data: dict[str, Any] = msgspec.json.decode(
        gzip.decompress(files("situate.cluster.kinds.schemas").joinpath("kubernetes.json.gz").read_bytes())
    )
    return data


def published_version() -> str:
    """Return the release of the API server that published the data, such as `v1.36.3`."""
    text: str = published_data()["version"]
    return text


@cache
def component_names() -> dict[tuple[str, str], str]:
    """Return the OpenAPI component of each (apiVersion, kind)."""
    found: dict[tuple[str, str], str] = {}
    for name, schema in published_data()["schemas"].items():
        for kind in schema.get("x-kubernetes-group-version-kind", ()):
            group, version_ = kind["group"], kind["version"]
            found[(f"{group}/{version_}" if group else version_, kind["kind"])] = name
    return found


def built_in_schema(api_version: str, kind: str) -> Schema | None:
    """Return the type of a built-in kind; None if no such kind exists."""
    name = component_names().get((api_version, kind))
    return None if name is None else component_schema(name)


@cache
def component_schema(name: str) -> Schema:
    """Return the type of an OpenAPI component such as `io.k8s.api.core.v1.PodSpec`."""
    leaf = _LEAVES.get(name)
    if leaf is not None:
        return leaf
    return _Builder().component(name)


class _Builder:
    """Builder of nodes.

    A component that contains itself refers to its unfinished node, whose properties are added later.
    """

    def __init__(self) -> None:
        self._known: dict[str, Schema] = {}

    def component(self, name: str) -> Schema:
        if name in _LEAVES:
            return _LEAVES[name]
        if name in self._known:
            return self._known[name]
        raw = published_data()["schemas"][name]
        go_name, go_fields = published_data()["go"].get(name, ("", {}))
        node = self._node({**raw, "properties": {}}).with_field(component=name, go_name=go_name)
        self._known[name] = node
        for key, property_ in raw.get("properties", {}).items():
            facts = go_fields.get(key)
            go = None if facts is None else _go_field(*facts)
            node.properties[key] = self._node(property_).with_field(go=go)
        return node

    def _node(self, raw: dict[str, Any]) -> Schema:
        changes: dict[str, Any] = {}
        reference = raw.get("$ref") or (raw["allOf"][0]["$ref"] if "allOf" in raw else None)
        base = Schema() if reference is None else self.component(reference)
        if "type" in raw:
            changes["type"] = raw["type"]
        if "format" in raw:
            changes["format"] = raw["format"]
        if "default" in raw:
            changes["default"] = raw["default"]
        for key, name in _EXTENSIONS.items():
            if key in raw:
                changes[name] = raw[key]
        for key, name in (("required", "required"), ("enum", "enum"), ("x-kubernetes-list-map-keys", "list_map_keys")):
            if key in raw:
                changes[name] = tuple(raw[key])
        if "x-kubernetes-patch-strategy" in raw:
            changes["patch_strategies"] = tuple(raw["x-kubernetes-patch-strategy"].split(","))
        if "items" in raw:
            changes["items"] = self._node(raw["items"])
        if isinstance(raw.get("additionalProperties"), dict):
            changes["additional"] = self._node(raw["additionalProperties"])
        return base.with_field(**changes) if changes else base


_EXTENSIONS = {
    "x-kubernetes-list-type": "list_type",
    "x-kubernetes-map-type": "map_type",
    "x-kubernetes-patch-merge-key": "patch_merge_key",
}


def _go_field(type_: str, kind: str, flags: str, path: str) -> GoField:
    return GoField(type_, kind, "e" in flags, "z" in flags, "p" in flags, path)
