"""The resources that an API server serves (meta/v1 `APIResourceList`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from situate.kube.client import Client
from situate.kube.errors import NotFound, UnreadableAnswer
from situate.objects.kinds.unstructured import Unstructured
from situate.objects.messages import Request
from situate.objects.resources import ResourceType, unstructured


@dataclass(frozen=True, slots=True)
class DiscoveredResource:
    """A resource that a server serves."""

    resource: ResourceType[Unstructured]
    has_status: bool
    """Whether its status is a subresource."""


async def discover(client: Client, group: str, version: str, plural: str) -> DiscoveredResource | None:
    """Look up a resource by its plural; None if the server does not serve it. Raises the client's errors."""
    entries = await served_resources(client, f"{group}/{version}" if group else version)
    return _find_resource(group, version, plural, entries)


async def discover_kind(client: Client, api_version: str, kind: str) -> DiscoveredResource | None:
    """Look up a resource as `discover` does, by its kind instead of its plural."""
    entries = await served_resources(client, api_version)
    group, _, version = api_version.rpartition("/")
    plural = next((name for name, entry in entries.items() if "/" not in name and entry.get("kind") == kind), None)
    return None if plural is None else _find_resource(group, version, plural, entries)


async def served_resources(client: Client, api_version: str) -> dict[str, Mapping[str, Any]]:
    """Return the served resources by name, subresources as `reports/status`; empty if the group version is not served.

    Raises the client's errors.
    """
    path = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    try:
        answer = await client.raw(Request("GET", path, (), {"accept": "application/json"}))
    except NotFound:
        return {}
    try:
        listed = msgspec.json.decode(answer.body)
        return {str(entry["name"]): dict(entry) for entry in listed["resources"] or ()}
    except (ValueError, TypeError, KeyError, RecursionError):
        raise UnreadableAnswer(f"the answer to GET {path} is not a list of resources") from None


def _find_resource(
    group: str, version: str, plural: str, entries: Mapping[str, Mapping[str, Any]]
) -> DiscoveredResource | None:
    entry = entries.get(plural)
    if entry is None:
        return None
    kind, namespaced = str(entry.get("kind", "")), entry.get("namespaced") is True
    return DiscoveredResource(
        unstructured(group, version, kind, plural, namespaced=namespaced), f"{plural}/status" in entries
    )
