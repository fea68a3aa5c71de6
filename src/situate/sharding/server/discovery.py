"""Describe the served resources to clients: the API server's discovery data, without the verbs not served here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from situate.kube.client import Client
from situate.kube.queries.discovery import served_resources
from situate.objects.kinds.unstructured import Unstructured
from situate.objects.resources import ResourceType, unstructured

VERBS: Final = ("get", "list")


class NotServed(Exception):
    """The cluster has no such resource; the message lists the known ones."""


@dataclass(frozen=True, slots=True)
class ServedResource:
    """One resource."""

    type: ResourceType[Unstructured]
    entry: Mapping[str, Any]
    """The entry in an APIResourceList."""

    @property
    def place(self) -> tuple[str, str, str]:
        return self.type.group, self.type.version, self.type.plural


async def discover_resource(client: Client, group: str, version: str, plural: str) -> ServedResource:
    """Return the API server's description of a resource. Raises `NotServed` and the client's errors."""
    entries = await served_resources(client, f"{group}/{version}")
    if not entries:
        raise NotServed(
            f"{group}/{version}/{plural}: the cluster does not serve {group}/{version}; install its CRD, or name "
            "another resource"
        )
    entry = entries.get(plural)
    if entry is None:
        known = ", ".join(sorted(name for name in entries if "/" not in name))
        raise NotServed(f"{group}/{version}/{plural}: found no such resource, allowed: {known}")
    kind, namespaced = str(entry.get("kind", "")), entry.get("namespaced") is True
    shown = {**entry, "verbs": list(VERBS)}
    shown.pop("storageVersionHash", None)
    return ServedResource(unstructured(group, version, kind, plural, namespaced=namespaced), shown)


def discovery_document(path: str, served: Sequence[ServedResource]) -> dict[str, Any] | None:
    """Return the document at a discovery path; None if there is none."""
    match [step for step in path.split("/") if step]:
        case ["api"]:
            return {"kind": "APIVersions", "versions": [], "serverAddressByClientCIDRs": []}
        case ["apis"]:
            groups = [_api_group(name, served) for name in dict.fromkeys(each.type.group for each in served)]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        case ["apis", group] if any(each.type.group == group for each in served):
            return {"kind": "APIGroup", "apiVersion": "v1", **_api_group(group, served)}
        case ["apis", group, version]:
            of_version = [each for each in served if (each.type.group, each.type.version) == (group, version)]
            if of_version:
                resources = [dict(each.entry) for each in of_version]
                shown = f"{group}/{version}"
                return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": shown, "resources": resources}
    return None


def _api_group(name: str, served: Sequence[ServedResource]) -> dict[str, Any]:
    versions = dict.fromkeys(each.type.version for each in served if each.type.group == name)
    shown = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": shown, "preferredVersion": shown[0]}
