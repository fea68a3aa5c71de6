"""The workloads of scheduler_perf whose pods have a persistent volume each (volumes/performance-config.yaml)."""

from __future__ import annotations

from typing import Any

from bench.engine_objects import nodes, pod_event, pod_spec, read_pods
from bench.engine_play import Workload
from situate.framework.volumes.catalog import Catalog
from situate.framework.volumes.storage import Storage
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.pods import AWSElasticBlockStoreSource, Pod
from situate.objects.kinds.storage import (
    BIND_COMPLETED,
    ClaimReference,
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    CSIVolumeSource,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    StorageObject,
    VolumeNodeResources,
)
from situate.objects.values.quantity import parse_quantity

_EBS = "ebs.csi.aws.com"
_SIZE = {"storage": parse_quantity("1Gi")}
_MODES = ("ReadOnlyMany",)


def in_tree_volumes(of: int) -> Workload:
    """EBS volumes of the kind that was once built in; no node says how many it can take."""
    return _workload(5000 // of, 1000 // of, 2000 // of, 290, csi=False)


def csi_volumes(of: int) -> Workload:
    """CSI volumes, of which a node takes 39."""
    return _workload(5000 // of, 5000 // of, 5000 // of, 100, csi=True)


def _workload(count: int, initial: int, measured: int, threshold: int, *, csi: bool) -> Workload:
    stored: list[StorageObject] = []
    if csi:
        drivers = (CSINodeDriver(_EBS, VolumeNodeResources(39)),)
        stored += [CSINode(ObjectMeta(name=f"node-{number}"), CSINodeSpec(drivers)) for number in range(count)]
    for prefix, pods in (("init", initial), ("pod", measured)):
        for number in range(pods):
            stored += _claim_and_volume(f"{prefix}-{number}", csi=csi)
    return Workload(
        nodes(count),
        _pods("pod", measured),
        _pods("init", initial),
        catalog=Catalog(storage=Storage.from_objects(stored)),
        threshold=threshold,
    )


def _pods(prefix: str, count: int) -> list[Pod]:
    """Each with the claim of its own name."""
    return read_pods(pod_event(f"{prefix}-{number}", _spec(f"{prefix}-{number}")) for number in range(count))


def _spec(claim: str) -> dict[str, Any]:
    return pod_spec(
        {"cpu": "100m", "memory": "500Mi"}, volumes=[{"name": "vol", "persistentVolumeClaim": {"claimName": claim}}]
    )


def _claim_and_volume(name: str, *, csi: bool) -> tuple[StorageObject, StorageObject]:
    """Bound to each other."""
    claim = PersistentVolumeClaim(
        ObjectMeta(
            name=name, namespace="default", uid=name, resource_version="1", annotations={BIND_COMPLETED: "true"}
        ),
        PersistentVolumeClaimSpec(access_modes=_MODES, volume_name=name),
        PersistentVolumeClaimStatus("Bound"),
    )
    volume = PersistentVolume(
        ObjectMeta(name=name, uid=name, resource_version="1"),
        PersistentVolumeSpec(
            capacity=_SIZE,
            access_modes=_MODES,
            claim_ref=ClaimReference("default", name, name),
            csi=CSIVolumeSource(_EBS, name) if csi else None,
            aws_elastic_block_store=None if csi else AWSElasticBlockStoreSource(name),
        ),
        PersistentVolumeStatus("Bound"),
    )
    return claim, volume
