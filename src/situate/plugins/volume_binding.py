"""VolumeBinding: nodes where a Pod's claims have or can get their volumes (upstream plugins/volumebinding).

The choice of a volume for a claim is made with the choice of the node. It is reserved in the snapshot
(`Reserved.storage`), so no other Pod gets the same volume. Actions before the binding write the choice and wait until
storage is ready.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from situate.framework.plugin_api.actions import Action, AwaitedClaim, AwaitedVolume, AwaitVolumes, Patch
from situate.framework.plugin_api.events import EventHint
from situate.framework.plugin_api.plugin import RESERVED, SKIPPED, PreFiltered, PreScored, Reserved, Scores
from situate.framework.pod.pods import PodInfo
from situate.framework.results.status import SKIP, SUCCESS, Code, Status
from situate.framework.results.verdict import Refusals, Verdict, refusals
from situate.framework.snapshot.node_table import take
from situate.framework.snapshot.snapshot import Snapshot
from situate.framework.volumes.storage import ClaimToProvision, Reservation, ReservedVolume, Storage
from situate.objects.kinds.storage import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    ClaimReference,
    PersistentVolume,
    PersistentVolumeClaim,
)
from situate.plugins.broken_line import BrokenLine
from situate.plugins.volume_binding_args import VolumeBindingArgs
from situate.plugins.volume_binding_hints import HINTS
from situate.plugins.volume_capacity_score import capacity_scores
from situate.plugins.volume_claims import PodClaims, pod_claims
from situate.plugins.volume_search import VolumeSearchResult, find_volumes, is_usable_everywhere

_CONFLICT: Final = "node(s) didn't match PersistentVolume's node affinity"
_UNBOUND: Final = "node(s) didn't find available persistent volumes to bind"
_SHORT: Final = "node(s) did not have enough free storage"
_MISSING: Final = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


class StorageChanged(Exception):
    """The storage of a decision has changed; the Pod is retried soon."""


class VolumeBinding:
    """A Filter plugin that refuses nodes with all storage reasons; preemption does not help."""

    name = "VolumeBinding"
    about_claims = True
    arguments = VolumeBindingArgs

    def __init__(self, arguments: VolumeBindingArgs = VolumeBindingArgs()) -> None:  # noqa: B008  # frozen
        self._timeout_s = float(arguments.bind_timeout_seconds)
        shape = arguments.shape
        self._line = (
            None if shape is None else BrokenLine.from_shape((point.utilization, point.score) for point in shape)
        )

    def pre_filter(self, pod: PodInfo, snapshot: Snapshot) -> PreFiltered:
        """Resolve the Pod's claims.

        Skip without claims, or if all claims have volumes that every node can use. Refuse while a claim is missing, or
        an immediate claim is unbound.
        """
        if not self.reserves(pod):
            return SKIPPED
        storage = snapshot.catalog.storage
        found = pod_claims(pod, storage)
        if isinstance(found, Status):
            return PreFiltered(found)
        volumes = (storage.volume(claim.spec.volume_name) for claim in found.bound)
        if not found.delayed and all(
            volume is not None and is_usable_everywhere(volume, storage) for volume in volumes
        ):
            return SKIPPED
        return PreFiltered(state=found)

    def filter(self, state: PodClaims, pod: PodInfo, snapshot: Snapshot) -> Verdict:  # noqa: ARG002
        found = find_volumes(state, snapshot.catalog.storage, snapshot.nodes)
        chosen = snapshot.chosen
        return Verdict(take(found.passes, chosen), lambda: _refusals(found, snapshot))

    def pre_score(self, state: PodClaims | None, pod: PodInfo, snapshot: Snapshot) -> PreScored:  # noqa: ARG002
        """Skip without a shape, or without claims."""
        return PreScored(Code.SKIP) if self._line is None or state is None else PreScored(state=state)

    def score(self, state: PodClaims, pod: PodInfo, snapshot: Snapshot) -> Scores:  # noqa: ARG002
        """Return the shape's score of the requested share of the volumes, or of the storage capacity."""
        if self._line is None:
            return np.zeros(snapshot.count, dtype=np.int64)
        storage = snapshot.catalog.storage
        found = find_volumes(state, storage, snapshot.nodes)
        return take(capacity_scores(found, self._line, storage, snapshot.nodes), snapshot.chosen)

    def reserves(self, pod: PodInfo) -> bool:
        """Return whether the Pod has claims."""
        return bool(pod.volumes) and any(
            volume.persistent_volume_claim is not None or volume.ephemeral is not None for volume in pod.volumes
        )

    def reserve(self, pod: PodInfo, node: str, snapshot: Snapshot) -> Reserved:
        """Reserve volumes for the Pod's claims on the node, and claims to provision there.

        `StorageChanged` if the node no longer has the volumes: an extender's reply may take long.
        """
        if not self.reserves(pod):
            return RESERVED
        storage = snapshot.catalog.storage
        claims = pod_claims(pod, storage)
        if isinstance(claims, Status):
            return Reserved(claims)
        if not claims.delayed:
            return RESERVED
        found = find_volumes(claims, storage, snapshot.nodes)
        index = snapshot.nodes.index.get(node)
        if index is None or not found.passes[index]:
            raise StorageChanged(f"node {node} has no volumes for pod {pod} any more")
        given = [(match.claim, match.volume_at(index)) for match in found.matches]
        return Reserved(
            storage=Reservation(
                tuple(_reserved_volume(volume, claim, storage) for claim, volume in given if volume is not None),
                tuple(_claim_to_provision(each.claim, node, storage) for each in found.provisions if each.where[index]),
            )
        )

    def unreserve(self, pod: PodInfo, node: str) -> None:
        """Do nothing: the framework drops the reservation."""

    def pre_bind_preflight(self, pod: PodInfo, node: str, snapshot: Snapshot) -> Status:  # noqa: ARG002
        return SUCCESS if snapshot.catalog.storage.reservation(pod.uid) else SKIP

    def pre_bind(self, pod: PodInfo, node: str, snapshot: Snapshot) -> tuple[Action, ...]:
        """Write volumes and claims, each only if it is unchanged, then wait until storage is ready."""
        reservation = snapshot.catalog.storage.reservation(pod.uid)
        given = [
            AwaitedVolume(
                each.volume.metadata.name,
                (each.claim.metadata.namespace, each.claim.metadata.name),
                each.claim.metadata.uid,
                each.volume.metadata.resource_version if each.write else "",
            )
            for each in reservation.given
        ]
        wanted = [
            AwaitedClaim(
                (each.claim.metadata.namespace, each.claim.metadata.name),
                each.claim.metadata.resource_version if each.write else "",
            )
            for each in reservation.wanted
        ]
        return (
            *(_volume_patch(each) for each in reservation.given if each.write),
            *(_claim_patch(each, node) for each in reservation.wanted if each.write),
            AwaitVolumes(pod.key, pod.uid, node, tuple(given), tuple(wanted), self._timeout_s),
        )

    def events(self) -> tuple[EventHint, ...]:
        return HINTS


def _refusals(found: VolumeSearchResult, snapshot: Snapshot) -> Refusals:
    rules = (
        (found.conflict, _CONFLICT),
        (found.unbound, _UNBOUND),
        (found.short, _SHORT),
        (found.missing, _MISSING),
    )
    told = ((take(where, snapshot.chosen), text, Code.UNRESOLVABLE) for where, text in rules)
    return refusals(snapshot.count, *told)


def _reserved_volume(volume: PersistentVolume, claim: PersistentVolumeClaim, storage: Storage) -> ReservedVolume:
    """Return the volume with the claim. It is written unless the API server has it already."""
    meta = claim.metadata
    notes = volume.metadata.annotations
    if not volume.is_for(claim) and BOUND_BY_CONTROLLER not in notes:
        notes = {**notes, BOUND_BY_CONTROLLER: "yes"}
    given = replace(
        volume,
        metadata=replace(volume.metadata, annotations=notes),
        spec=replace(volume.spec, claim_ref=ClaimReference(meta.namespace, meta.name, meta.uid)),
    )
    return ReservedVolume(given, claim, write=given != storage.volumes.get(volume.metadata.name))


def _claim_to_provision(claim: PersistentVolumeClaim, node: str, storage: Storage) -> ClaimToProvision:
    """Return the claim with the node. It is written unless the API server has it already."""
    meta = claim.metadata
    wanted = replace(claim, metadata=replace(meta, annotations={**meta.annotations, SELECTED_NODE: node}))
    return ClaimToProvision(wanted, write=wanted != storage.claims.get((meta.namespace, meta.name)))


def _volume_patch(given: ReservedVolume) -> Patch:
    meta, claim = given.volume.metadata, given.claim.metadata
    body: dict[str, Any] = {
        "metadata": {"resourceVersion": meta.resource_version},
        "spec": {
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": claim.namespace,
                "name": claim.name,
                "uid": claim.uid,
                "resourceVersion": claim.resource_version,
            }
        },
    }
    if BOUND_BY_CONTROLLER in meta.annotations:
        body["metadata"]["annotations"] = {BOUND_BY_CONTROLLER: meta.annotations[BOUND_BY_CONTROLLER]}
    return Patch("persistentvolumes", ("", meta.name), body)


def _claim_patch(wanted: ClaimToProvision, node: str) -> Patch:
    meta = wanted.claim.metadata
    body = {"metadata": {"resourceVersion": meta.resource_version, "annotations": {SELECTED_NODE: node}}}
    return Patch("persistentvolumeclaims", (meta.namespace, meta.name), body)
