"""In-tree volumes as CSI drivers see them, spelt out kind by kind."""

from __future__ import annotations

import re

import msgspec

from situate.objects.kinds.pods import NodeSelectorRequirement, NodeSelectorTerm, Volume
from situate.objects.kinds.storage import PersistentVolume

GCE, EBS, CINDER = "pd.csi.storage.gke.io", "ebs.csi.aws.com", "cinder.csi.openstack.org"
AZURE, PORTWORX = "disk.csi.azure.com", "pxd.portworx.com"
PLUGINS = {
    "kubernetes.io/gce-pd": GCE,
    "kubernetes.io/aws-ebs": EBS,
    "kubernetes.io/cinder": CINDER,
    "kubernetes.io/azure-disk": AZURE,
    "kubernetes.io/portworx-volume": PORTWORX,
}
TOPOLOGY = {
    GCE: "topology.gke.io/zone",
    EBS: "topology.ebs.csi.aws.com/zone",
    CINDER: "topology.cinder.csi.openstack.org/zone",
}
ZONE, OLD_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
REGION, OLD_REGION = "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"

Attached = tuple[str, str]


def inline(volume: Volume) -> Attached | None:
    if volume.gce_persistent_disk is not None:
        return GCE, f"projects/UNSPECIFIED/zones/UNSPECIFIED/disks/{volume.gce_persistent_disk.pd_name}"
    return of_any(volume)


def of_any(source: Volume | PersistentVolume) -> Attached | None:
    """All kinds that are the same in a pod and in a persistent volume; None too for a source that is wrong."""
    spec = source.spec if isinstance(source, PersistentVolume) else source
    if spec.aws_elastic_block_store is not None:
        return ebs(spec.aws_elastic_block_store.volume_id)
    if spec.cinder is not None:
        return CINDER, spec.cinder.volume_id
    if spec.azure_disk is not None:
        return (AZURE, spec.azure_disk.disk_uri) if spec.azure_disk.kind.lower() == "managed" else None
    if spec.portworx_volume is not None:
        return PORTWORX, spec.portworx_volume.volume_id
    return None


def ebs(known: str) -> Attached | None:
    if not known.startswith("aws://"):
        return EBS, known
    _, _, path = known[len("aws://") :].partition("/")
    name = path.strip("/")
    return (EBS, name) if re.fullmatch("vol-[^/]*", name) else None


def persistent(volume: PersistentVolume) -> Attached | None:
    if volume.spec.csi is not None:
        return (volume.spec.csi.driver, volume.spec.csi.volume_handle) if all(volume.spec.csi.volume_handle) else None
    if volume.spec.gce_persistent_disk is None:
        return of_any(volume)
    labels, disk = volume.metadata.labels, volume.spec.gce_persistent_disk.pd_name
    zones = (labels.get(OLD_ZONE) or labels.get(ZONE) or "").split("__")
    if zones == [""]:
        return GCE, f"projects/UNSPECIFIED/zones/UNSPECIFIED/disks/{disk}"
    if len(zones) == 1:
        return GCE, f"projects/UNSPECIFIED/zones/{zones[0]}/disks/{disk}"
    if any(zone.count("-") != 2 for zone in zones):
        return None
    regions = {zone.rsplit("-", 1)[0] for zone in zones}
    return (GCE, f"projects/UNSPECIFIED/regions/{regions.pop()}/disks/{disk}") if len(regions) == 1 else None


def driver_of(volume: PersistentVolume) -> str | None:
    """The CSI driver that serves an in-tree volume."""
    if volume.spec.gce_persistent_disk is not None:
        return GCE
    found = of_any(volume)
    return found[0] if found else None


def required_terms(volume: PersistentVolume) -> tuple[NodeSelectorTerm, ...] | None:
    affinity = volume.spec.node_affinity
    return affinity.required.node_selector_terms if affinity is not None and affinity.required is not None else None


def translated_terms(volume: PersistentVolume) -> tuple[NodeSelectorTerm, ...] | None:
    """By the labels of the CSI driver."""
    terms = required_terms(volume)
    key = TOPOLOGY.get(driver_of(volume) or "")
    if key is None:
        return terms
    labels = volume.metadata.labels
    used = {each.key for term in terms or () for each in term.match_expressions}
    old = ZONE not in used and (OLD_ZONE in used or (ZONE not in labels and OLD_ZONE in labels))
    zone, region = (OLD_ZONE, OLD_REGION) if old else (ZONE, REGION)
    names = {region: REGION} if old else {}
    valued = {each.key for term in terms or () for each in term.match_expressions if each.values}
    if zone in valued:
        names[zone] = key
    elif zone in labels:
        zones = tuple(sorted({each.strip() for each in labels[zone].split("__")} - {""}))
        if zones:
            more = NodeSelectorRequirement(key, "In", zones)
            terms = tuple(
                msgspec.structs.replace(term, match_expressions=(*term.match_expressions, more))
                for term in terms or (NodeSelectorTerm(),)
            )
    if terms is None:
        return None
    return tuple(
        msgspec.structs.replace(
            term,
            match_expressions=tuple(
                msgspec.structs.replace(each, key=names.get(each.key, each.key)) if each.values else each
                for each in term.match_expressions
            ),
        )
        for term in terms
    )
