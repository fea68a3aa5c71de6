"""Random storage: claims in every state, volumes, and what says where volumes may be made."""

from __future__ import annotations

from enum import Enum
from typing import Any

from tests.e2e.differential.api import Object
from tests.e2e.differential.drawing import HOSTNAME, ZONE, Draw
from tests.e2e.differential.objects import NAMESPACES, Cluster

_DRIVER, _COUNTED = "csi.example.com", "counted.example.com"
_LOCAL, _MADE, _COUNTED_CLASS, _NOW = "local", "made", "counted", "now"
_BOUND = {"pv.kubernetes.io/bind-completed": "yes"}


class Climate(Enum):
    """What is scarce about storage in a cluster."""

    ANYTHING = "anything"
    ATTACHMENTS = "attachments"
    """Nodes take few volumes, and any volume may be anywhere."""
    ZONES = "zones"
    """Volumes are in zones by their labels alone."""


def draw_storage(draw: Draw, nodes: list[Object]) -> Cluster:
    """Everything but the volumes that are written into pods."""
    climate = draw.one(tuple(Climate))
    claims: list[Object] = []
    volumes = [
        _volume(draw, f"free-{number}", draw.one((_LOCAL, _LOCAL, "")), nodes, climate)
        for number in range(draw.number(0, 6))
    ]
    for namespace in NAMESPACES[:2]:
        for number in range(draw.number(2, 8)):
            # kube-scheduler takes away pods of other namespaces that use a claim of the same name
            # (plugins/volumerestrictions/volume_restrictions.go conflictingPVCRefCountForPod)
            claim = _claim(draw, f"{namespace}-claim-{number}", namespace, climate)
            if draw.chance(0.65 if climate is Climate.ANYTHING else 0.9):
                name = f"{namespace}-{number}"
                claim["spec"]["volumeName"] = name
                claim["metadata"]["annotations"] = _BOUND
                claim["status"] = {"phase": "Bound"}
                if draw.chance(0.95):
                    volumes.append(_given(draw, name, claim, nodes, climate))
            claims.append(claim)
    return {
        "storageclasses": [
            _class(_LOCAL, "kubernetes.io/no-provisioner"),
            _class(_MADE, _DRIVER, **draw.maybe(0.5, "allowedTopologies", lambda: [_topology(draw)])),
            _class(_COUNTED_CLASS, _COUNTED),
            _class(_NOW, _DRIVER, volumeBindingMode="Immediate"),
        ],
        "csidrivers": [
            {"metadata": {"name": _DRIVER}, "spec": {"attachRequired": True}},
            {"metadata": {"name": _COUNTED}, "spec": {"attachRequired": False, "storageCapacity": True}},
        ],
        "csistoragecapacities": [_capacity(draw, number) for number in range(draw.number(0, 3))],
        "csinodes": [
            _csi_node(draw, node["metadata"]["name"], climate)
            for node in nodes
            if climate is Climate.ATTACHMENTS or draw.chance(0.8)
        ],
        "persistentvolumes": volumes,
        "persistentvolumeclaims": claims,
    }


def draw_volumes(draw: Draw, claims: list[str]) -> list[Object]:
    """Of a pod: claims mostly, and disks that are named directly."""
    wanted = draw.some(claims, 1, 2) + draw.some(["missing"], 0, int(draw.chance(0.05)))
    found: list[Object] = [
        {"name": f"claim-{number}", "persistentVolumeClaim": {"claimName": claim}}
        for number, claim in enumerate(wanted)
    ]
    if draw.chance(0.35):
        found = found[:1] if draw.chance(0.3) else []
        found.append({"name": "disk", **_disk(draw)})
    if draw.chance(0.04):
        template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
        found.append({"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}})
    return found


def _disk(draw: Draw) -> Object:
    read_only = draw.chance(0.4)
    return draw.one(
        (
            {"gcePersistentDisk": {"pdName": draw.one(("one", "two")), "readOnly": read_only}},
            {"awsElasticBlockStore": {"volumeID": draw.one(("one", "two"))}},
            {
                "iscsi": {
                    "targetPortal": "10.0.0.9",
                    "iqn": draw.one(("iqn.2026-01.com.example:one", "iqn.2026-01.com.example:two")),
                    "lun": 0,
                    "readOnly": read_only,
                }
            },
            {"rbd": {"monitors": draw.some(("a", "b", "c"), 1, 2), "image": "one", "readOnly": read_only}},
        )
    )


def _class(name: str, provisioner: str, **more: Any) -> Object:
    return {
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
        **more,
    }


def _topology(draw: Draw) -> Object:
    return {"matchLabelExpressions": [{"key": ZONE, "values": draw.some(("z1", "z2", "z3"), 1, 2)}]}


def _capacity(draw: Draw, number: int) -> Object:
    return {
        "metadata": {"name": f"capacity-{number}", "namespace": NAMESPACES[2]},
        "storageClassName": _COUNTED_CLASS,
        "nodeTopology": {"matchLabels": {ZONE: draw.one(("z1", "z2", "z3"))}},
        "capacity": draw.one(("1Gi", "100Gi")),
        **draw.maybe(0.3, "maximumVolumeSize", lambda: "2Gi"),
    }


def _csi_node(draw: Draw, name: str, climate: Climate) -> Object:
    drivers = [
        {
            "name": driver,
            "nodeID": name,
            "topologyKeys": [ZONE],
            **draw.maybe(
                1.0 if climate is Climate.ATTACHMENTS else 0.8, "allocatable", lambda: {"count": draw.one((1, 1, 2))}
            ),
        }
        for driver in draw.some((_DRIVER, _COUNTED), 2 if climate is Climate.ATTACHMENTS else 1, 2)
    ]
    return {"metadata": {"name": name}, "spec": {"drivers": drivers}}


def _claim(draw: Draw, name: str, namespace: str, climate: Climate) -> Object:
    storage_class = draw.one((_LOCAL, _LOCAL, _MADE, _MADE, _COUNTED_CLASS, _NOW))
    mode = draw.one(("ReadWriteOnce", "ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod", "ReadWriteOncePod"))
    if climate is Climate.ATTACHMENTS:
        mode = "ReadWriteMany"
    spec: Object = {
        "storageClassName": storage_class,
        "accessModes": [mode],
        "resources": {"requests": {"storage": draw.one(("1Gi", "5Gi", "20Gi"))}},
    }
    if storage_class == _LOCAL:
        spec |= draw.maybe(0.2, "selector", lambda: {"matchLabels": {"fast": "yes"}})
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def _volume(draw: Draw, name: str, storage_class: str, nodes: list[Object], climate: Climate) -> Object:
    spec: Object = {
        "storageClassName": storage_class,
        "capacity": {"storage": draw.one(("1Gi", "5Gi", "10Gi", "50Gi"))},
        "accessModes": draw.one((["ReadWriteOnce"], ["ReadWriteOnce", "ReadWriteMany"], ["ReadWriteOncePod"])),
        "csi": {
            "driver": _DRIVER if climate is Climate.ATTACHMENTS else draw.one((_DRIVER, _DRIVER, _COUNTED)),
            "volumeHandle": name,
        },
    }
    if climate is Climate.ANYTHING and draw.chance(0.5):
        key, values = draw.one(
            (
                (ZONE, ["z1", "z2", "z3"]),
                (HOSTNAME, [node["metadata"]["name"] for node in nodes]),
                ("rack", ["r1", "r2"]),
            )
        )
        expression = {"key": key, "operator": "In", "values": draw.some(values, 1, 3)}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    zoned = {Climate.ANYTHING: 0.4, Climate.ATTACHMENTS: 0.0, Climate.ZONES: 1.0}[climate]
    labels = draw.maybe(zoned, ZONE, lambda: draw.one(("z1", "z2", "z3", "z1__z3"))) | draw.maybe(
        0.5, "fast", lambda: "yes"
    )
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": {"phase": "Available"}}


def _given(draw: Draw, name: str, claim: Object, nodes: list[Object], climate: Climate) -> Object:
    """A volume that belongs to the claim."""
    volume = _volume(draw, name, claim["spec"]["storageClassName"], nodes, climate)
    metadata = claim["metadata"]
    reference = {"kind": "PersistentVolumeClaim", "namespace": metadata["namespace"], "name": metadata["name"]}
    return {**volume, "spec": {**volume["spec"], "claimRef": reference}, "status": {"phase": "Bound"}}


def provisioned(claim: Object) -> Object:
    """The volume that its driver would make for a claim."""
    metadata, spec = claim["metadata"], claim["spec"]
    return {
        "metadata": {"name": f"made-{metadata['uid']}"},
        "spec": {
            "storageClassName": spec["storageClassName"],
            "capacity": spec["resources"]["requests"],
            "accessModes": spec["accessModes"],
            "csi": {"driver": _DRIVER, "volumeHandle": metadata["uid"]},
            "claimRef": {
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
        },
        "status": {"phase": "Bound"},
    }


def given_to(claim: Object, volume: str) -> Object:
    """What makes the claim one that has this volume."""
    return {"metadata": {"annotations": _BOUND}, "spec": {"volumeName": volume}}
