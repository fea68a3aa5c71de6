"""Looking things up in the storage of a world."""

from __future__ import annotations

from typing import TypeVar

from situate.objects.kinds.pods import Pod, Volume
from situate.objects.kinds.storage import PersistentVolume, PersistentVolumeClaim, StorageObject
from tests.plugins.twins.world import World

S = TypeVar("S", bound=StorageObject)


def all_of(world: World, kind: type[S]) -> list[S]:
    return [each for each in world.storage if isinstance(each, kind)]


def named(world: World, kind: type[S], name: str, namespace: str = "") -> S | None:
    for each in all_of(world, kind):
        if (each.metadata.namespace, each.metadata.name) == (namespace, name):
            return each
    return None


def claim_of(pod: Pod, volume: Volume) -> str | None:
    """The name of the claim that a volume uses."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    if volume.ephemeral is not None:
        return f"{pod.metadata.name}-{volume.name}"
    return None


def find_claim(world: World, pod: Pod, name: str) -> PersistentVolumeClaim | None:
    return named(world, PersistentVolumeClaim, name, pod.metadata.namespace)


def find_volume(world: World, name: str) -> PersistentVolume | None:
    return named(world, PersistentVolume, name)


def is_owned(claim: PersistentVolumeClaim, pod: Pod) -> bool:
    return any(each.controller and each.uid == pod.metadata.uid for each in claim.metadata.owner_references)
