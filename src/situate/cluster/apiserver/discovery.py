"""Build discovery documents: group and resource lists, and the aggregated form of both."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from situate.cluster.kinds.rules import Obj
from situate.cluster.storage.resources import Catalog, Origin, Resource, Subresource

VERSION: Final[Obj] = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.3",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
"""Version of the served Kubernetes API; clients decide by it which features to use."""

AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def wants_aggregated(accept: str) -> bool:
    """Return whether the client accepts the known version of the aggregated form of `/api` and `/apis`."""
    return any(
        "apidiscovery.k8s.io" in choice and "v=v2;" in choice.replace(" ", "") + ";" for choice in accept.split(",")
    )


def core_versions() -> Obj:
    """Return the document `/api`."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def group_list(catalog: Catalog) -> Obj:
    """Return the document `/apis`."""
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [_group_entry(catalog, name) for name in catalog.groups() if name],
    }


def group_document(catalog: Catalog, name: str) -> Obj | None:
    """Return the document `/apis/<group>`; None if the group is not served."""
    if not name or not catalog.versions(name):
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group_entry(catalog, name)}


def _group_entry(catalog: Catalog, name: str) -> Obj:
    versions = [{"groupVersion": f"{name}/{version}", "version": version} for version in catalog.versions(name)]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def resource_list(catalog: Catalog, group_name: str, version: str) -> Obj | None:
    """Return `/api/v1` or `/apis/<group>/<version>`; None if it is not served."""
    rows = catalog.resources_of_version(group_name, version)
    if not rows:
        return None
    listed: list[Obj] = []
    for row in rows:
        entry: Obj = {
            "name": row.plural,
            "singularName": row.singular,
            "namespaced": row.namespaced,
            "kind": row.kind,
            "verbs": list(row.verbs),
        }
        listed.append({**entry, **_aliases(row)})
        listed.extend(_subresource_entry(row, sub) for sub in row.subresources)
    shown = f"{group_name}/{version}" if group_name else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": shown, "resources": listed}


def _aliases(row: Resource) -> Obj:
    found = {"shortNames": list(row.short_names), "categories": list(row.categories)}
    return {key: names for key, names in found.items() if names}


def _subresource_entry(row: Resource, sub: Subresource) -> Obj:
    entry: Obj = {"name": f"{row.plural}/{sub.name}", "singularName": "", "namespaced": row.namespaced}
    if sub.version:
        entry.update(group=sub.group, version=sub.version)
    return {**entry, "kind": sub.kind, "verbs": list(sub.verbs)}


def aggregated_discovery(catalog: Catalog, *, core: bool) -> Obj:
    """Return `/api` (core) or `/apis` in the form of apidiscovery.k8s.io/v2."""
    names: Iterable[str] = [""] if core else [name for name in catalog.groups() if name]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [_aggregated_group(catalog, name) for name in names],
    }


def _aggregated_group(catalog: Catalog, name: str) -> Obj:
    versions = [
        {
            "version": version,
            "resources": [_aggregated_resource(row) for row in catalog.resources_of_version(name, version)],
            "freshness": "Current",
        }
        for version in catalog.versions(name)
    ]
    return {"metadata": {"name": name} if name else {}, "versions": versions}


def _aggregated_resource(row: Resource) -> Obj:
    entry: Obj = {
        "resource": row.plural,
        "responseKind": _kind_entry(row, row.kind),
        "scope": "Namespaced" if row.namespaced else "Cluster",
        "singularResource": row.singular,
        "verbs": list(row.verbs),
    }
    entry |= _aliases(row)
    if row.subresources:
        entry["subresources"] = [
            {
                "subresource": sub.name,
                "responseKind": {"group": sub.group, "version": sub.version, "kind": sub.kind}
                if sub.version
                else _kind_entry(row, sub.kind),
                "verbs": list(sub.verbs),
            }
            for sub in row.subresources
        ]
    return entry


def _kind_entry(row: Resource, kind: str) -> dict[str, Any]:
    """Return the kind. Built-in resources have an empty group and version if they equal those of the path."""
    custom = row.origin is Origin.CUSTOM
    return {"group": row.group if custom else "", "version": row.version if custom else "", "kind": kind}
