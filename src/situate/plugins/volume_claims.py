"""Preconditions of a Pod's claims (upstream plugins/volumebinding GetPodVolumeClaims)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from situate.framework.pod.pods import PodInfo
from situate.framework.results.status import Status, unresolvable_status
from situate.framework.volumes.storage import Storage
from situate.framework.volumes.volume_use import claim_name
from situate.objects.kinds.storage import WAIT_FOR_FIRST_CONSUMER, PersistentVolumeClaim
from situate.plugins.attached_volumes import is_controlled_by

UNBOUND: Final = "pod has unbound immediate PersistentVolumeClaims"


class NoBindingMode(ValueError):
    """A storage class has no binding mode; the API server normally sets it."""


@dataclass(frozen=True, slots=True, eq=False)
class PodClaims:
    """The claims of one Pod, in the order of its volumes; a claim of two volumes is listed once."""

    bound: tuple[PersistentVolumeClaim, ...]
    delayed: tuple[PersistentVolumeClaim, ...]
    """Claims that get their volume once the Pod has a node."""


def pod_claims(pod: PodInfo, storage: Storage) -> PodClaims | Status:
    """Return the Pod's claims, or the reason why it must wait for one of them. Raises `NoBindingMode`."""
    found: dict[str, PersistentVolumeClaim] = {}
    for volume in pod.volumes:
        name = claim_name(pod.name, volume)
        if volume.persistent_volume_claim is None and volume.ephemeral is None:
            continue
        claim = storage.claim(pod.namespace, name)
        problem = _claim_problem(pod, name, claim, own=volume.ephemeral is not None)
        if problem or claim is None:
            return unresolvable_status(problem)
        found[name] = claim
    bound: list[PersistentVolumeClaim] = []
    delayed: list[PersistentVolumeClaim] = []
    waiting = False
    for claim in found.values():
        if claim.fully_bound:
            bound.append(claim)
        elif _is_delayed(claim, storage) and not claim.spec.volume_name:
            delayed.append(claim)
        else:
            waiting = True
    return unresolvable_status(UNBOUND) if waiting else PodClaims(tuple(bound), tuple(delayed))


def _claim_problem(pod: PodInfo, name: str, claim: PersistentVolumeClaim | None, *, own: bool) -> str:
    """Return the reason why the Pod cannot use the claim; empty if it can. `own` claims are generated for this Pod."""
    if claim is None and own:
        return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
    if claim is None:
        return f'persistentvolumeclaim "{name}" not found'
    if claim.status.phase == "Lost":
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.spec.volume_name}"'
    if claim.metadata.deletion_timestamp is not None:
        return f'persistentvolumeclaim "{name}" is being deleted'
    if own and not is_controlled_by(claim.metadata, pod):
        return f"PVC {pod.namespace}/{name} was not created for pod {pod} (pod is not owner)"
    return ""


def _is_delayed(claim: PersistentVolumeClaim, storage: Storage) -> bool:
    """Return whether the claim's class delays binding until a Pod needs the volume."""
    storage_class = storage.classes.get(claim.storage_class) if claim.storage_class else None
    if storage_class is None:
        return False
    if storage_class.volume_binding_mode is None:
        raise NoBindingMode(f'VolumeBindingMode not set for StorageClass "{claim.storage_class}"')
    return storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
