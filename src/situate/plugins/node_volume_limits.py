"""NodeVolumeLimits: limits the volumes of a CSI driver on a node (upstream plugins/nodevolumelimits csi.go).

A volume of a former in-tree kind counts as a volume of the CSI driver that serves it now.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from situate.framework.plugin_api.events import Change, EventHint, Hint, Subject
from situate.framework.plugin_api.plugin import PASSED, SKIPPED, PreFiltered
from situate.framework.pod.pods import PodInfo
from situate.framework.results.status import Code
from situate.framework.results.verdict import Mask, Verdict, refuse, refuse_all
from situate.framework.snapshot.node_load import Amounts
from situate.framework.snapshot.node_table import NodeTable, take
from situate.framework.snapshot.snapshot import Snapshot
from situate.framework.volumes.persistent_map import PersistentMap
from situate.framework.volumes.storage import Storage
from situate.framework.volumes.volume_use import claim_name
from situate.objects.kinds.storage import CSINode, PersistentVolumeClaim, VolumeAttachment
from situate.plugins.attached_volumes import (
    DriverVolume,
    ForeignClaim,
    attached_volumes,
    is_controlled_by,
    volume_of,
)
from situate.plugins.in_tree_volumes import inline_volume, kind_of
from situate.plugins.volume_hints import uses_claim

_NO_LIMIT: Final = np.iinfo(np.int64).max


class NodeVolumeLimits:
    """A Filter plugin for the volume limits of each driver in a node's CSINode; preemption may help."""

    name = "NodeVolumeLimits"
    about_claims = True

    def pre_filter(self, pod: PodInfo, snapshot: Snapshot) -> PreFiltered:
        """Skip for a Pod whose volumes no driver attaches, and if no node has limits and no claim is missing."""
        if not pod.volumes or not may_attach_volumes(pod):
            return SKIPPED
        storage = snapshot.catalog.storage
        if storage.csi_nodes:
            return PASSED
        names = [claim_name(pod.name, volume) for volume in pod.volumes]
        missing = any(name and (pod.namespace, name) not in storage.claims for name in names)
        return PASSED if missing else SKIPPED

    def filter(self, state: Any, pod: PodInfo, snapshot: Snapshot) -> Verdict:  # noqa: ARG002
        """Refuse full nodes; a missing claim is unresolvable. Raises `BadSource` or `ForeignClaim`."""
        storage = snapshot.catalog.storage
        for volume in pod.volumes:
            name = claim_name(pod.name, volume)
            if name and storage.claim(pod.namespace, name) is None:
                text = f'looking up PVC {pod.namespace}/{name}: persistentvolumeclaim "{name}" not found'
                return refuse_all(snapshot.count, text, Code.UNRESOLVABLE)
        too_many = np.zeros(snapshot.count, dtype=np.bool_)
        for driver, volumes in _added_volumes(pod, storage).items():
            limits = _limits(driver, snapshot.nodes, storage)
            if limits is not None:
                too_many |= _nodes_over_limit(take(limits, snapshot.chosen), driver, volumes, snapshot)
        return refuse(too_many, "node(s) exceed max volume count")

    def events(self) -> tuple[EventHint, ...]:
        """Return hints for new or higher limits, released volumes, and the Pod's claim."""
        return (
            EventHint(Subject.CSI_NODE, Change.ADD),
            EventHint(Subject.CSI_NODE, Change.UPDATE, _hint_after_csi_node),
            EventHint(Subject.ASSIGNED_POD, Change.DELETE, _hint_after_pod),
            EventHint(Subject.CLAIM, Change.ADD, _hint_after_claim),
            EventHint(Subject.VOLUME_ATTACHMENT, Change.DELETE, _hint_after_attachment),
        )


def may_attach_volumes(pod: PodInfo) -> bool:
    """Return whether a CSI driver may have to attach one of the Pod's volumes."""
    return any(claim_name(pod.name, volume) or kind_of(volume) is not None for volume in pod.volumes)


def _added_volumes(pod: PodInfo, storage: Storage) -> dict[str, set[DriverVolume]]:
    """Return, by driver, the volumes that the Pod adds to its node; its claims exist."""
    found: dict[str, set[DriverVolume]] = {}
    for volume in pod.volumes:
        claim = storage.claim(pod.namespace, claim_name(pod.name, volume))
        if claim is not None and volume.ephemeral is not None and not is_controlled_by(claim.metadata, pod):
            raise ForeignClaim(pod, claim.metadata.name)
        if claim is not None:
            attached = volume_of(claim, storage)
        else:
            attached = inline_volume(volume) if storage.csi_nodes else None
        if attached is not None:
            found.setdefault(attached[0], set()).add(attached)
    return found


def _nodes_over_limit(limits: Amounts, driver: str, volumes: set[DriverVolume], snapshot: Snapshot) -> Mask:
    """Return (nodes,): where these volumes exceed the limit. A volume that is already there does not count again."""
    known, rows = attached_volumes(snapshot), len(snapshot.row_names)
    added = np.full(rows, len(volumes), dtype=np.int64)
    for volume in volumes:
        added[list(known.rows_using(volume))] -= 1
    after = known.counts_by_row(driver, rows) + added
    exceeds: Mask = snapshot.take_rows(added > 0) & (snapshot.take_rows(after) > limits)
    return exceeds


def _limits(driver: str, nodes: NodeTable, storage: Storage) -> Amounts | None:
    """Return (nodes,): the limits of the driver; None if no node has one."""
    if not storage.csi_nodes:
        return None
    kept: dict[str, tuple[PersistentMap[str, CSINode], Amounts | None]] = nodes.plan(("NodeVolumeLimits",), dict)
    known = kept.get(driver)
    if known is None or known[0] is not storage.csi_nodes:
        found = np.full(len(nodes), _NO_LIMIT, dtype=np.int64)
        for name, csi_node in storage.csi_nodes.items():
            limit = csi_node.limits.get(driver)
            if limit is not None and name in nodes.index:
                found[nodes.index[name]] = limit
        known = kept[driver] = storage.csi_nodes, found if (found != _NO_LIMIT).any() else None
    return known[1]


def _hint_after_csi_node(pod: PodInfo, old: CSINode, new: CSINode) -> Hint:  # noqa: ARG001
    before = old.limits
    return Hint.QUEUE if any(limit > before.get(driver, 0) for driver, limit in new.limits.items()) else Hint.SKIP


def _hint_after_pod(pod: PodInfo, old: PodInfo, new: PodInfo | None) -> Hint:  # noqa: ARG001
    return Hint.QUEUE if may_attach_volumes(old) else Hint.SKIP


def _hint_after_claim(pod: PodInfo, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim) -> Hint:  # noqa: ARG001
    return Hint.QUEUE if uses_claim(pod, new) else Hint.SKIP


def _hint_after_attachment(pod: PodInfo, old: VolumeAttachment, new: VolumeAttachment | None) -> Hint:  # noqa: ARG001
    """Queue for a detached volume of the Pod's drivers, or of any driver if the Pod has a claim."""
    for volume in pod.volumes:
        kind = kind_of(volume)
        if volume.persistent_volume_claim is not None or (kind is not None and kind.driver == old.spec.attacher):
            return Hint.QUEUE
    return Hint.SKIP
