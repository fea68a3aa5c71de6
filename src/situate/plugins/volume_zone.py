"""VolumeZone: volumes labelled with a zone or region can be used only there (upstream plugins/volumezone)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final, TypeAlias

import numpy as np

from situate.framework.plugin_api.events import Change, EventHint, Hint, Subject
from situate.framework.plugin_api.plugin import SKIPPED, PreFiltered
from situate.framework.pod.pods import PodInfo
from situate.framework.results.status import Code, Status, unresolvable_status
from situate.framework.results.verdict import Mask, Verdict, refuse
from situate.framework.snapshot.node_table import NodeTable
from situate.framework.snapshot.snapshot import Snapshot
from situate.framework.volumes.storage import Storage
from situate.objects.kinds.storage import (
    WAIT_FOR_FIRST_CONSUMER,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from situate.plugins.in_tree_volumes import OLD_REGION, OLD_ZONE, REGION, ZONE, ZONES_DELIMITER
from situate.plugins.volume_hints import uses_claim

Topology: TypeAlias = tuple[str, frozenset[str]]
"""A label, and its values of which a node must have one."""

_CONFLICT: Final = "node(s) had no available volume zone"
_LABELS: Final = (OLD_ZONE, OLD_REGION, ZONE, REGION)
_NEW_LABEL: Final = {OLD_ZONE: ZONE, OLD_REGION: REGION}


class VolumeZone:
    """A Filter plugin that refuses nodes outside a volume's zones; a node without any zone or region label passes.

    As upstream, claims of ephemeral volumes are not checked.
    """

    name = "VolumeZone"
    about_claims = True

    def pre_filter(self, pod: PodInfo, snapshot: Snapshot) -> PreFiltered:
        """Collect the zones of the volumes; skip if no volume has such a label."""
        if not pod.volumes:
            return SKIPPED
        found = _topologies_of(pod, snapshot.catalog.storage)
        if isinstance(found, Status):
            return PreFiltered(found)
        return PreFiltered(state=found) if found else SKIPPED

    def filter(self, state: tuple[Topology, ...], pod: PodInfo, snapshot: Snapshot) -> Verdict:  # noqa: ARG002
        """Refuse nodes outside the zones; unresolvable, because preemption moves no volume."""
        outside = np.zeros(snapshot.count, dtype=np.bool_)
        for topology in state:
            outside |= snapshot.static((self.name, topology), partial(_nodes_outside, topology))
        return refuse(outside, _CONFLICT, Code.UNRESOLVABLE)

    def events(self) -> tuple[EventHint, ...]:
        """Return hints for changes that may give a claim its volume, or make labels of volumes and nodes match."""
        return (
            EventHint(Subject.STORAGE_CLASS, Change.ADD, _hint_after_class),
            EventHint(Subject.NODE, Change.ADD | Change.LABELS),
            EventHint(Subject.CLAIM, Change.ADD | Change.UPDATE, _hint_after_claim),
            EventHint(Subject.VOLUME, Change.ADD | Change.UPDATE, _hint_after_volume),
        )


def _topologies_of(pod: PodInfo, storage: Storage) -> tuple[Topology, ...] | Status:
    """Return the requirements of the Pod's volumes, or the reason why the Pod as a whole is refused."""
    found: list[Topology] = []
    for each in pod.volumes:
        if each.persistent_volume_claim is None:
            continue
        name = each.persistent_volume_claim.claim_name
        if not name:
            return unresolvable_status("PersistentVolumeClaim had no name")
        claim = storage.claim(pod.namespace, name)
        if claim is None:
            return unresolvable_status(f'persistentvolumeclaim "{name}" not found')
        if not claim.spec.volume_name:
            problem = _unbound_claim_problem(claim, storage)
            if problem:
                return unresolvable_status(problem)
            continue
        volume = storage.volume(claim.spec.volume_name)
        if volume is None:
            return unresolvable_status(f'persistentvolume "{claim.spec.volume_name}" not found')
        found += _topologies(volume)
    return tuple(dict.fromkeys(found))


def _unbound_claim_problem(claim: PersistentVolumeClaim, storage: Storage) -> str:
    """Return the reason why the Pod must wait for an unbound claim; empty if binding waits for the Pod."""
    name = claim.storage_class
    if not name:
        return "PersistentVolumeClaim had no pv name and storageClass name"
    storage_class = storage.classes.get(name)
    if storage_class is None:
        return f'storageclass.storage.k8s.io "{name}" not found'
    if storage_class.volume_binding_mode is None:
        return f'VolumeBindingMode not set for StorageClass "{name}"'
    return "" if storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER else "PersistentVolume had no name"


def _topologies(volume: PersistentVolume) -> tuple[Topology, ...]:
    """Return the volume's zones and regions. A label with an empty zone requires nothing."""
    found = []
    for key in _LABELS:
        value = volume.metadata.labels.get(key)
        zones = [] if value is None else [zone.strip() for zone in value.split(ZONES_DELIMITER)]
        if zones and all(zones):
            found.append((key, frozenset(zones)))
    return tuple(found)


def _nodes_outside(topology: Topology, nodes: NodeTable) -> Mask:
    key, values = topology

    def holds(labels: Mapping[str, str]) -> bool:
        if not any(label in labels for label in _LABELS):
            return False
        return labels.get(key, labels.get(_NEW_LABEL.get(key, key))) not in values

    return nodes.labels.where(_LABELS, holds)


def _hint_after_class(pod: PodInfo, old: StorageClass | None, new: StorageClass) -> Hint:  # noqa: ARG001
    return Hint.QUEUE if new.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER else Hint.SKIP


def _hint_after_claim(pod: PodInfo, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim) -> Hint:  # noqa: ARG001
    return Hint.QUEUE if uses_claim(pod, new, ephemeral=False) else Hint.SKIP


def _hint_after_volume(pod: PodInfo, old: PersistentVolume | None, new: PersistentVolume) -> Hint:  # noqa: ARG001
    return Hint.SKIP if old is not None and _topologies(old) == _topologies(new) else Hint.QUEUE
