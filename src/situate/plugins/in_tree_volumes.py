"""Volumes of the former in-tree kinds, as seen by the CSI drivers that serve them now.

The module follows k8s.io/csi-translation-lib of 1.36 as far as scheduling needs it: names, handles and topology. Azure
Files and vSphere volumes are left out, because upstream's scheduler does not count them as CSI volumes either.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from situate.framework.pod.node_selection import Term
from situate.objects.kinds.pods import NodeSelectorRequirement, NodeSelectorTerm, Volume
from situate.objects.kinds.storage import PersistentVolume

ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
OLD_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
OLD_REGION: Final = "failure-domain.beta.kubernetes.io/region"
ZONES_DELIMITER: Final = "__"
"""Separates the zones of one label."""

_EBS_VOLUME: Final = re.compile(r"vol-[^/]*")
_UNSPECIFIED: Final = "UNSPECIFIED"


class BadSource(ValueError):
    """A volume has no valid handle for a CSI driver; the message names the field."""


@dataclass(frozen=True, slots=True)
class InTreeKind:
    """One in-tree kind of volume."""

    field: str
    """The field of a volume; None there means another kind."""
    plugin: str
    driver: str
    """The CSI driver that serves the volumes."""
    handle: Callable[[Any], str]
    """Returns the driver's handle of an inline volume; raises `BadSource`."""
    topology_key: str = ""
    """The driver's label key for zones; empty if there is none."""


def _ebs_handle(source: Any) -> str:
    """Return the volume id from `aws://zone/vol-1`, `aws:///vol-1` or a plain id."""
    known: str = source.volume_id
    if not known.startswith("aws://"):
        return known
    volume = known.removeprefix("aws://").partition("/")[2].strip("/")
    if not _EBS_VOLUME.fullmatch(volume):
        raise BadSource(f"awsElasticBlockStore.volumeID: found {known!r}, allowed: aws://ZONE/vol-ID or only an id")
    return volume


def _azure_handle(source: Any) -> str:
    if source.kind.lower() != "managed":
        raise BadSource(f"azureDisk.kind: found {source.kind!r}, allowed: Managed, because a CSI driver serves it")
    uri: str = source.disk_uri
    return uri


KINDS: Final = (
    InTreeKind(
        "gce_persistent_disk",
        "kubernetes.io/gce-pd",
        "pd.csi.storage.gke.io",
        lambda source: _gce_handle("zones", _UNSPECIFIED, source.pd_name),
        "topology.gke.io/zone",
    ),
    InTreeKind(
        "aws_elastic_block_store",
        "kubernetes.io/aws-ebs",
        "ebs.csi.aws.com",
        _ebs_handle,
        "topology.ebs.csi.aws.com/zone",
    ),
    InTreeKind(
        "cinder",
        "kubernetes.io/cinder",
        "cinder.csi.openstack.org",
        lambda source: str(source.volume_id),
        "topology.cinder.csi.openstack.org/zone",
    ),
    InTreeKind("azure_disk", "kubernetes.io/azure-disk", "disk.csi.azure.com", _azure_handle),
    InTreeKind(
        "portworx_volume", "kubernetes.io/portworx-volume", "pxd.portworx.com", lambda source: str(source.volume_id)
    ),
)
DRIVER_OF: Final = {kind.plugin: kind.driver for kind in KINDS}
NOT_COUNTED: Final = frozenset(("kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"))
"""Provisioners whose volumes never count as volumes of a CSI driver."""


def kind_of(volume: Volume | PersistentVolume) -> InTreeKind | None:
    """Return the in-tree kind; None for other volumes, including CSI volumes."""
    fields = volume.spec if isinstance(volume, PersistentVolume) else volume
    return next((kind for kind in KINDS if getattr(fields, kind.field) is not None), None)


def inline_volume(volume: Volume) -> tuple[str, str] | None:
    """Return driver and handle of a Pod's inline volume; None if no driver attaches it. Raises `BadSource`."""
    kind = kind_of(volume)
    return None if kind is None else (kind.driver, kind.handle(getattr(volume, kind.field)))


def csi_volume(volume: PersistentVolume) -> tuple[str, str] | None:
    """Return driver and handle; None if no driver attaches the volume. Raises `BadSource`."""
    if volume.spec.csi is not None:
        return volume.spec.csi.driver, volume.spec.csi.volume_handle
    kind = kind_of(volume)
    if kind is None:
        return None
    if volume.spec.gce_persistent_disk is not None:
        return kind.driver, _gce_handle(*_gce_place(volume), volume.spec.gce_persistent_disk.pd_name)
    return kind.driver, kind.handle(getattr(volume.spec, kind.field))


def node_terms(volume: PersistentVolume) -> tuple[Term, ...] | None:
    """Return the node terms of the volume: at least one must match. None means every node."""
    affinity = volume.spec.node_affinity
    required = affinity.required if affinity is not None else None
    return None if required is None else tuple(map(Term.from_selector_term, required.node_selector_terms))


def migrated_node_terms(volume: PersistentVolume, kind: InTreeKind) -> tuple[Term, ...] | None:
    """Return the node terms for the CSI driver, which has its own zone label. Raises `BadSource`."""
    csi_volume(volume)
    affinity = volume.spec.node_affinity
    required = affinity.required if affinity is not None else None
    wires = required.node_selector_terms if required is not None else ()
    if not kind.topology_key:
        return node_terms(volume)
    zone, region = _topology_labels(volume, wires)
    labelled = volume.metadata.labels.get(zone)
    if _values(wires, zone):
        wires = _rename_key(wires, zone, kind.topology_key)
    elif labelled is not None:
        zones = sorted({each.strip() for each in labelled.split(ZONES_DELIMITER)} - {""})
        if zones:
            there = NodeSelectorRequirement(kind.topology_key, "In", tuple(zones))
            wires = tuple(
                replace(wire, match_expressions=(*wire.match_expressions, there))
                for wire in wires or (NodeSelectorTerm(),)
            )
            return tuple(map(Term.from_selector_term, wires))
    if region == OLD_REGION and _values(wires, region):
        wires = _rename_key(wires, region, REGION)
    return None if required is None else tuple(map(Term.from_selector_term, wires))


def _gce_handle(area: str, place: str, disk: str) -> str:
    return f"projects/{_UNSPECIFIED}/{area}/{place}/disks/{disk}"


def _gce_place(volume: PersistentVolume) -> tuple[str, str]:
    """Return `zones` and the zone of the volume's label, or `regions` and the common region of several zones."""
    labels = volume.metadata.labels
    zones = (labels.get(OLD_ZONE) or labels.get(ZONE, "")).split(ZONES_DELIMITER)
    if len(zones) == 1:
        return "zones", zones[0] or _UNSPECIFIED
    parts = [zone.split("-") for zone in zones]
    regions = {"-".join(part[:2]) for part in parts}
    if len(regions) != 1 or any(len(part) != 3 for part in parts):
        raise BadSource(f"labels: found zones {zones}, allowed: zones of one region, such as us-central1-a")
    return "regions", regions.pop()


def _topology_labels(volume: PersistentVolume, wires: Iterable[NodeSelectorTerm]) -> tuple[str, str]:
    """Return the volume's labels for zone and region. The old labels are used only without the new ones."""
    keys = {expression.key for wire in wires for expression in wire.match_expressions}
    for known in (keys, volume.metadata.labels):
        if ZONE in known:
            return ZONE, REGION
        if OLD_ZONE in known:
            return OLD_ZONE, OLD_REGION
    return ZONE, REGION


def _values(wires: Iterable[NodeSelectorTerm], key: str) -> set[str]:
    return {
        value
        for wire in wires
        for expression in wire.match_expressions
        if expression.key == key
        for value in expression.values
    }


def _rename_key(wires: Iterable[NodeSelectorTerm], old: str, new: str) -> tuple[NodeSelectorTerm, ...]:
    return tuple(
        replace(
            wire,
            match_expressions=tuple(
                replace(each, key=new) if each.key == old else each for each in wire.match_expressions
            ),
        )
        for wire in wires
    )
