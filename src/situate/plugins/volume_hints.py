"""Common parts of the queueing hints of the volume plugins."""

from __future__ import annotations

from situate.framework.pod.pods import PodInfo
from situate.framework.volumes.volume_use import claim_name
from situate.objects.kinds.storage import PersistentVolumeClaim


def uses_claim(pod: PodInfo, claim: PersistentVolumeClaim, *, ephemeral: bool = True) -> bool:
    """Return whether the Pod uses the claim: one that it names or, with `ephemeral`, one generated for it."""
    if claim.metadata.namespace != pod.namespace:
        return False
    return any(
        claim_name(pod.name, volume) == claim.metadata.name
        for volume in pod.volumes
        if volume.persistent_volume_claim is not None or (ephemeral and volume.ephemeral is not None)
    )
