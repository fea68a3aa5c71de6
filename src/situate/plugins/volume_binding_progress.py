"""Progress of the storage that a Pod waits for (upstream volumebinding binder.go checkBindings).

The host that performs `AwaitVolumes` calls `progress` after each change of storage or nodes. The result depends only on
the state shown by the API server, never on promises.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, TypeAlias

import numpy as np

from situate.framework.plugin_api.actions import AwaitedClaim, AwaitedVolume, AwaitVolumes
from situate.framework.snapshot.snapshot import Snapshot
from situate.framework.volumes.storage import Storage
from situate.objects.kinds.storage import PersistentVolume, PersistentVolumeClaim
from situate.plugins.volume_search import nodes_with_access


class Wait(Enum):
    """The state of the wait."""

    READY = "ready"
    NOT_YET = "not yet"


Progress: TypeAlias = Wait | str
"""A text is the reason why the storage can no longer become ready: binding has failed."""

TIMED_OUT: Final = "binding volumes: context deadline exceeded"
"""The error after `timeout_s`, in upstream's words."""


def progress(awaited: AwaitVolumes, snapshot: Snapshot) -> Progress:
    """Check the awaited storage against the snapshot's storage and nodes."""
    if awaited.node not in snapshot.nodes.index:
        return f'binding volumes: failed to get node "{awaited.node}": node "{awaited.node}" not found'
    if awaited.uid not in snapshot.placed:
        return f'binding volumes: pod does not exist any more: pod "{awaited.pod[1]}" not found'
    storage = snapshot.catalog.storage
    ready = True
    for given in awaited.given:
        found = _volume_progress(given, awaited.node, storage, snapshot)
        if isinstance(found, str):
            return f"binding volumes: {found}"
        ready &= found is Wait.READY
    for wanted in awaited.wanted:
        found = _claim_progress(wanted, awaited.node, storage, snapshot)
        if isinstance(found, str):
            return f"binding volumes: {found}"
        ready &= found is Wait.READY
    return Wait.READY if ready else Wait.NOT_YET


def _volume_progress(given: AwaitedVolume, node: str, storage: Storage, snapshot: Snapshot) -> Progress:
    volume = storage.volumes.get(given.volume)
    claim = storage.claims.get(given.claim)
    if volume is None:
        return f'failed to check binding: persistentvolume "{given.volume}" not found'
    if claim is None:
        return f'failed to check binding: persistentvolumeclaim "{"/".join(given.claim)}" not found'
    if given.before and volume.metadata.resource_version == given.before:
        return Wait.NOT_YET  # the watch has not shown the written version yet
    if not _is_usable_on(node, volume, storage, snapshot):
        return _mismatch(volume, node)
    ref = volume.spec.claim_ref
    if ref is None or ref.uid != given.claim_uid:
        return f'ClaimRef got reset for pv "{given.volume}"'
    return _bound_progress(claim)


def _claim_progress(wanted: AwaitedClaim, node: str, storage: Storage, snapshot: Snapshot) -> Progress:
    claim = storage.claims.get(wanted.claim)
    if claim is None:
        return f'failed to check provisioning pvc: persistentvolumeclaim "{"/".join(wanted.claim)}" not found'
    if wanted.before and claim.metadata.resource_version == wanted.before:
        return Wait.NOT_YET
    if claim.selected_node != node:
        return f'provisioning failed for PVC "{claim.metadata.name}"'  # the provisioner requests another node
    if claim.spec.volume_name:
        volume = storage.volumes.get(claim.spec.volume_name)
        if volume is None:
            return Wait.NOT_YET  # may be shown later than its claim
        if not _is_usable_on(node, volume, storage, snapshot):
            return _mismatch(volume, node)
    return _bound_progress(claim)


def _bound_progress(claim: PersistentVolumeClaim) -> Progress:
    return Wait.READY if claim.fully_bound else Wait.NOT_YET


def _is_usable_on(node: str, volume: PersistentVolume, storage: Storage, snapshot: Snapshot) -> bool:
    return bool(np.take(nodes_with_access(volume, storage, snapshot.nodes), snapshot.nodes.index[node]))


def _mismatch(volume: PersistentVolume, node: str) -> str:
    name = volume.metadata.name
    return f'pv "{name}" node affinity doesn\'t match node "{node}": no matching NodeSelectorTerms'
