"""Build OpenAPI documents of version 3, which kubectl uses to validate, merge and explain: one for each group.

Built-in kinds come from `schemas.catalog`, custom kinds from their definitions. The documents list the parameters that
clients look for (`fieldValidation`). Responses only refer to the kind, and the rest of each operation is left out. Of
version 2 there is only an empty document.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final

import msgspec

from situate.cluster.kinds.schemas.catalog import component_names, published_data
from situate.cluster.kinds.schemas.custom import OBJECT_META

_Map = Mapping[str, Any]
_PREFIX: Final = "#/components/schemas/"
_LIST_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"
_API_VERSION: Final = (
    "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized "
    "schemas to the latest internal value, and may reject unrecognized values. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources"
)
_KIND: Final = (
    "Kind is a string value representing the REST resource this object represents. Servers may infer this from the "
    "endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds"
)
_METADATA: Final = (
    "Standard object's metadata. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
)
_PATCH_TYPES: Final = ("application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json")
_METHODS: Final[Mapping[str, tuple[str, ...]]] = {
    "object": ("get", "put", "patch", "delete"),
    "collection": ("get", "post", "delete"),
    "everywhere": ("get",),
    "subresource": ("get", "put", "patch"),
}
_ACTIONS: Final = {"post": "post", "put": "put", "patch": "patch", "delete": "delete", "get": "get"}


EMPTY_SWAGGER: Final = b"\x0a\x032.0\x12\x19\x0a\x0aKubernetes\x12\x0bunversioned\x42\x00\x4a\x00"
"""A version 2 document in protobuf (gnostic openapiv2: swagger, info, paths, definitions) without definitions.

kubectl requests it before it sends the items of a `kind: List`. kubectl does not validate types that the document does
not define, and the server validates every object anyway.
"""


def discovery(definitions: Iterable[_Map]) -> dict[str, Any]:
    """Return `/openapi/v3`: the location of each group's document, with a hash that changes with its content."""
    paths = {path: _link(path, f"{published_data()['version']} {path}".encode()) for path in published_data()["paths"]}
    for path, versions in _custom_versions(definitions).items():
        content = b"".join(msgspec.json.encode(definition["spec"]) for definition, _ in versions)
        paths[path] = _link(path, content)
    return {"paths": dict(sorted(paths.items()))}


def _link(path: str, content: bytes) -> dict[str, str]:
    return {"serverRelativeURL": f"/openapi/v3/{path}?hash={hashlib.sha512(content).hexdigest().upper()}"}


def document(path: str, definitions: Iterable[_Map]) -> dict[str, Any] | None:
    """Return `/openapi/v3/<path>` such as `apis/apps/v1`; None if the path is not served."""
    if path in published_data()["paths"]:
        return _built_in_document(path)
    versions = _custom_versions(definitions).get(path)
    return None if versions is None else _custom_document(versions)


def _info() -> dict[str, str]:
    major, minor, *_ = published_data()["version"].removeprefix("v").split(".")
    return {"title": "Kubernetes", "version": f"{major}.{minor}"}


@cache
def _built_in_document(path: str) -> dict[str, Any]:
    table = published_data()["paths"][path]
    found = {
        name
        for operations in table.values()
        for _, group, version, kind in operations.values()
        for each in (kind, f"{kind}List")
        if (name := component_names().get((f"{group}/{version}" if group else version, each)))
    }
    schemas = {
        name: _with_full_references(published_data()["schemas"][name]) for name in sorted(_reachable_components(found))
    }
    return {
        "openapi": "3.0.0",
        "info": _info(),
        "paths": {each: _path_item(operations) for each, operations in table.items()},
        "components": {"schemas": schemas},
    }


def _reachable_components(names: Iterable[str]) -> set[str]:
    """Return the named components and all components that they refer to, directly or not."""
    reached: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += _references(published_data()["schemas"][name])
    return reached


def _references(schema: Any) -> list[str]:
    if isinstance(schema, list):
        return [name for item in schema for name in _references(item)]
    if not isinstance(schema, dict):
        return []
    own = [schema["$ref"].removeprefix(_PREFIX)] if isinstance(schema.get("$ref"), str) else []
    return own + [name for value in schema.values() for name in _references(value)]


def _with_full_references(schema: Any) -> Any:
    """Return the schema with full references.

    In version 3 a reference has no siblings, so the other keywords move to a schema around it.
    """
    if isinstance(schema, list):
        return [_with_full_references(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    out = {key: _with_full_references(value) for key, value in schema.items() if key != "$ref"}
    if isinstance(schema.get("$ref"), str):
        reference = {"$ref": _PREFIX + schema["$ref"].removeprefix(_PREFIX)}
        return {**out, "allOf": [reference]} if out else reference
    return out


def _path_item(operations: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    return {method: _operation(method, *operation) for method, operation in operations.items()}


def _query_parameter(name: str, kind: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": True}}


def _parameters(method: str) -> list[dict[str, Any]]:
    if method not in ("post", "put", "patch"):
        return []
    found = [_query_parameter(name, "string") for name in ("dryRun", "fieldManager", "fieldValidation")]
    return [*found, _query_parameter("force", "boolean")] if method == "patch" else found


def _operation(method: str, action: str, group: str, version: str, kind: str) -> dict[str, Any]:
    operation: dict[str, Any] = {}
    if kind:
        operation["x-kubernetes-group-version-kind"] = {"group": group, "version": version, "kind": kind}
    if action:
        operation["x-kubernetes-action"] = action
    parameters = _parameters(method)
    if parameters:
        operation["parameters"] = parameters
        types = _PATCH_TYPES if method == "patch" else ("application/json",)
        operation["requestBody"] = {"content": {each: {} for each in types}}
    operation["responses"] = {"200": {"description": "OK"}}
    return operation


def _custom_versions(definitions: Iterable[_Map]) -> dict[str, list[tuple[_Map, _Map]]]:
    """Return the served versions of all definitions, by document."""
    found: dict[str, list[tuple[_Map, _Map]]] = {}
    for definition in definitions:
        for version in definition["spec"]["versions"]:
            if version.get("served"):
                path = f"apis/{definition['spec']['group']}/{version['name']}"
                found.setdefault(path, []).append((definition, version))
    return found


def _custom_document(versions: Sequence[tuple[_Map, _Map]]) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    schemas: dict[str, Any] = {}
    for definition, version in versions:
        schemas.update(_custom_schemas(definition, version))
        table = _custom_paths(definition, version)
        paths.update({path: _path_item(operations) for path, operations in table.items()})
    scale = component_names()[("autoscaling/v1", "Scale")]
    built_in = _reachable_components([OBJECT_META, _LIST_META, scale])
    schemas.update({name: _with_full_references(published_data()["schemas"][name]) for name in sorted(built_in)})
    return {"openapi": "3.0.0", "info": _info(), "paths": paths, "components": {"schemas": schemas}}


def _custom_schemas(definition: _Map, version: _Map) -> dict[str, Any]:
    """Return the schemas of the kind and its list, named as in the API server: `dev.example.v1.Foo`."""
    spec = definition["spec"]
    group, kind, list_kind = spec["group"], spec["names"]["kind"], spec["names"]["listKind"]
    name = ".".join([*reversed(group.split(".")), version["name"]])
    raw = version.get("schema", {}).get("openAPIV3Schema", {})
    common = {
        "apiVersion": {"description": _API_VERSION, "type": "string"},
        "kind": {"description": _KIND, "type": "string"},
    }
    own = {
        **raw,
        "type": "object",
        "properties": {
            **raw.get("properties", {}),
            **common,
            "metadata": {"description": _METADATA, "allOf": [{"$ref": _PREFIX + OBJECT_META}]},
        },
    }
    listed = {
        "description": f"{list_kind} is a list of {kind}",
        "type": "object",
        "required": ["items"],
        "properties": {
            **common,
            "metadata": {"description": _METADATA, "allOf": [{"$ref": _PREFIX + _LIST_META}]},
            "items": {"type": "array", "items": {"$ref": f"{_PREFIX}{name}.{kind}"}},
        },
    }
    found = {kind: own, list_kind: listed}
    return {
        f"{name}.{each}": {
            **schema,
            "x-kubernetes-group-version-kind": [{"group": group, "kind": each, "version": version["name"]}],
        }
        for each, schema in found.items()
    }


def _custom_paths(definition: _Map, version: _Map) -> dict[str, Any]:
    """Return the paths and their operations in the form of the published data."""
    spec = definition["spec"]
    group, kind, plural = spec["group"], spec["names"]["kind"], spec["names"]["plural"]
    base = f"/apis/{group}/{version['name']}"
    own = (group, version["name"], kind)
    holder = f"{base}/namespaces/{{namespace}}" if spec["scope"] == "Namespaced" else base
    paths = {
        f"{holder}/{plural}": _operations("collection", own),
        f"{holder}/{plural}/{{name}}": _operations("object", own),
    }
    if spec["scope"] == "Namespaced":
        paths[f"{base}/{plural}"] = _operations("everywhere", own)
    for subresource in version.get("subresources") or {}:
        kind_of = ("autoscaling", "v1", "Scale") if subresource == "scale" else own
        paths[f"{holder}/{plural}/{{name}}/{subresource}"] = _operations("subresource", kind_of)
    return paths


def _operations(place: str, kind: tuple[str, str, str]) -> dict[str, list[str]]:
    listing = place in ("collection", "everywhere")
    names = {**_ACTIONS, "get": "list", "delete": "deletecollection"} if listing else _ACTIONS
    return {method: [names[method], *kind] for method in _METHODS[place]}
