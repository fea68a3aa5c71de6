"""Create, change and delete objects of the demo, under its own field manager."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from situate.kube.client import Client
from situate.kube.errors import AlreadyExists, NotFound
from situate.kube.patches import ApplyPatch, MergePatch
from situate.objects.resources import ResourceType

MANAGER: Final = "situate-demo"
Kind: TypeAlias = ResourceType[Any]
Content: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DemoObjects:
    """The objects of a cluster, as the demo changes them."""

    client: Client

    async def create(self, resource: Kind, content: Content, namespace: str | None = None) -> bool:
        """Create an object. Return False if there is one already, such as that of an earlier demo."""
        with suppress(AlreadyExists):
            await self.client.create(resource, content, namespace, field_manager=MANAGER)
            return True
        return False

    async def merge(self, resource: Kind, name: str, changes: Content, namespace: str | None = None) -> None:
        """Merge changes into an object."""
        await self.client.patch(resource, name, MergePatch(changes), namespace, field_manager=MANAGER)

    async def apply(self, resource: Kind, content: Content, namespace: str | None = None) -> None:
        """Create an object, or set all fields of the content."""
        name = content["metadata"]["name"]
        await self.client.patch(resource, name, ApplyPatch(content), namespace, field_manager=MANAGER, force=True)

    async def delete(self, resource: Kind, name: str, namespace: str | None = None) -> None:
        """Delete an object if there is one."""
        with suppress(NotFound):
            await self.client.delete(resource, name, namespace)

    async def are_served(self, namespace: str, *resources: Kind) -> bool:
        """Return whether the API server serves these kinds, which takes some moments after their definitions."""
        with suppress(NotFound):
            for resource in resources:
                await self.client.list_all(resource, namespace)
            return True
        return False

    async def delete_without_finalizers(self, namespace: str, *resources: Kind) -> None:
        """Delete all objects of these kinds. No process is left to remove their finalizers."""
        for resource in resources:
            with suppress(NotFound):
                for each in (await self.client.list_all(resource, namespace)).items:
                    with suppress(NotFound):
                        await self.client.delete(resource, each.metadata.name, namespace)
                        await self.merge(resource, each.metadata.name, {"metadata": {"finalizers": None}}, namespace)
