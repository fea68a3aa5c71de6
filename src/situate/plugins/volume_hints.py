"""Which pods a claim concerns: what the hints of the plugins about volumes have in common."""

from __future__ import annotations

from situate.framework.pod.pods import PodInfo
from situate.framework.volumes.volume_use import claim_name
from situate.objects.kinds.storage import PersistentVolumeClaim


def asks_for(pod: PodInfo, claim: PersistentVolumeClaim, *, ephemeral: bool = True) -> bool:
    """Whether the claim is one that the pod names, or that is made for it if `ephemeral` ones count."""
    if claim.metadata.namespace != pod.namespace:
        return False
    return any(
        claim_name(pod.name, volume) == claim.metadata.name
        for volume in pod.volumes
        if volume.persistent_volume_claim is not None or (ephemeral and volume.ephemeral is not None)
    )
