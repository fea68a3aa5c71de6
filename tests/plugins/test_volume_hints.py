"""Who wakes on what, of the pods that the plugins about volumes refused."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from situate.framework.plugin_api.changes import discard, node_change, store
from situate.framework.plugin_api.events import Change, ClusterEvent, Subject
from situate.framework.pod.pods import PodInfo, PodReader
from situate.framework.snapshot.node_table import Vocabulary
from situate.framework.volumes.storage import Storage
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import (
    AWSElasticBlockStoreSource,
    CSIInlineSource,
    GCEPersistentDiskSource,
    Volume,
)
from situate.objects.kinds.storage import (
    CSIDriver,
    CSIDriverSpec,
    CSINode,
    CSIStorageCapacity,
    StorageObject,
    TopologySelectorLabelRequirement,
    TopologySelectorTerm,
)
from situate.objects.values.quantity import parse_quantity
from situate.plugins.dynamic_resources import DynamicResources
from situate.plugins.node_volume_limits import NodeVolumeLimits
from situate.plugins.volume_binding import VolumeBinding
from situate.plugins.volume_restrictions import VolumeRestrictions
from situate.plugins.volume_zone import VolumeZone
from tests.framework.volumes.objects import attached, claim, ephemeral, storage_class, using, volume
from tests.framework.volumes.objects import csi_node as drivers_of
from tests.framework.volumes.objects import pod as plain_pod
from tests.plugins.test_hints import wakes

READER = PodReader(Vocabulary.create().resources)
ZONE = "topology.kubernetes.io/zone"


def pod(*volumes: Volume, name: str = "waiting", node: str = "", namespace: str = "default") -> PodInfo:
    each = plain_pod(name, *volumes, namespace=namespace, node_name=node)
    return READER.read(replace(each, spec=replace(each.spec, scheduler_name="mine")))


def became(old: StorageObject, new: StorageObject) -> ClusterEvent:
    _, (event,) = store(Storage.from_objects([old]), new)
    return event


def came(new: StorageObject) -> ClusterEvent:
    _, (event,) = store(Storage(), new)
    return event


def went(old: StorageObject) -> ClusterEvent:
    _, (event,) = discard(Storage.from_objects([old]), old)
    return event


def pod_went(*volumes: Volume, namespace: str = "default") -> ClusterEvent:
    return ClusterEvent(
        Subject.ASSIGNED_POD, Change.DELETE, pod(*volumes, name="placed", node="n", namespace=namespace)
    )


def node_event(old: Node | None, new: Node) -> ClusterEvent:
    return ClusterEvent(Subject.NODE, node_change(old, new), old, new)


def node(**labels: str) -> Node:
    return Node(ObjectMeta(name="n", labels=labels))


def csi_node(limit: int | None = None, migrated: str = "", driver: str = "csi") -> CSINode:
    return drivers_of("n", (driver, limit), migrated=migrated)


def allowing(*zones: str) -> Any:
    return storage_class(allowed_topologies=(TopologySelectorTerm((TopologySelectorLabelRequirement(ZONE, zones),)),))


def capacity(size: str = "", most: str = "") -> CSIStorageCapacity:
    return CSIStorageCapacity(
        ObjectMeta(name="c"),
        None,
        "local",
        parse_quantity(size) if size else None,
        parse_quantity(most) if most else None,
    )


MINE = using("mine")
GCE = Volume("disk", gce_persistent_disk=GCEPersistentDiskSource("d"))
GCE_READING = Volume("disk", gce_persistent_disk=GCEPersistentDiskSource("d", read_only=True))
EBS = Volume("disk", aws_elastic_block_store=AWSElasticBlockStoreSource("vol-1"))
INLINE = Volume("secrets", csi=CSIInlineSource("secrets.csi"))
DRIVER = CSIDriver(ObjectMeta(name="secrets.csi"))
TRACKING = CSIDriver(ObjectMeta(name="secrets.csi"), CSIDriverSpec(storage_capacity=True))
BINDING, RESTRICTIONS, ZONES, LIMITS = VolumeBinding(), VolumeRestrictions(), VolumeZone(), NodeVolumeLimits()

Case = tuple[Any, PodInfo, ClusterEvent]

WAKES: dict[str, Case] = {
    # VolumeBinding
    "its claim comes": (BINDING, pod(MINE), came(claim("mine"))),
    "its claim changes": (BINDING, pod(MINE), became(claim("mine"), claim("mine", selected="n"))),
    "the claim made for it comes": (BINDING, pod(ephemeral("scratch")), came(claim("waiting-scratch"))),
    "a volume comes": (BINDING, pod(MINE), came(volume("v"))),
    "a volume changes": (BINDING, pod(MINE), became(volume("v"), volume("v", size="2Gi"))),
    "a class comes": (BINDING, pod(MINE), came(storage_class())),
    "a class allows more": (BINDING, pod(MINE), became(allowing("a"), allowing("a", "b"))),
    "a node comes": (BINDING, pod(MINE), node_event(None, node())),
    "a node gets a label": (BINDING, pod(MINE), node_event(node(), node(rack="r"))),
    "a node's drivers are known": (BINDING, pod(MINE), came(csi_node())),
    "a driver serves an in-tree kind": (
        BINDING,
        pod(MINE),
        became(csi_node(), csi_node(migrated="kubernetes.io/cinder")),
    ),
    "its driver needs no capacity any more": (BINDING, pod(INLINE), became(TRACKING, DRIVER)),
    "capacity is published": (BINDING, pod(MINE), came(capacity("1Gi"))),
    "capacity grows": (BINDING, pod(MINE), became(capacity("1Gi"), capacity("2Gi"))),
    "larger volumes become possible": (BINDING, pod(MINE), became(capacity("9Gi", "1Gi"), capacity("9Gi", "2Gi"))),
    "a capacity becomes known": (BINDING, pod(MINE), became(capacity(), capacity("2Gi"))),
    # VolumeRestrictions
    "a disk is given back": (RESTRICTIONS, pod(GCE), pod_went(GCE)),
    "a disk is given back in another namespace": (RESTRICTIONS, pod(GCE), pod_went(GCE, namespace="other")),
    "a reader gives back what it writes": (RESTRICTIONS, pod(GCE), pod_went(GCE_READING)),
    "a claim is given back": (RESTRICTIONS, pod(MINE), pod_went(MINE)),
    "a node with no disks in use": (RESTRICTIONS, pod(GCE), node_event(None, node())),
    "the claim it asks for": (RESTRICTIONS, pod(MINE), came(claim("mine"))),
    # VolumeZone
    "a class whose volumes wait for pods": (ZONES, pod(MINE), came(storage_class())),
    "its claim gets a volume": (ZONES, pod(MINE), became(claim("mine"), claim("mine", volume="v"))),
    "a volume appears": (ZONES, pod(MINE), came(volume("v"))),
    "a volume's zone changes": (
        ZONES,
        pod(MINE),
        became(volume("v", labels={ZONE: "a"}), volume("v", labels={ZONE: "b"})),
    ),
    "a node in a zone": (ZONES, pod(MINE), node_event(None, node())),
    "a node changes its zone": (ZONES, pod(MINE), node_event(node(zone="a"), node(zone="b"))),
    # NodeVolumeLimits
    "a node's limits are known": (LIMITS, pod(MINE), came(csi_node(1))),
    "a limit is raised": (LIMITS, pod(MINE), became(csi_node(1), csi_node(2))),
    "a driver with a limit is added": (LIMITS, pod(MINE), became(csi_node(1), csi_node(1, driver="other"))),
    "a pod with a claim goes": (LIMITS, pod(MINE), pod_went(using("other"))),
    "a pod with a volume of its own goes": (LIMITS, pod(MINE), pod_went(ephemeral("scratch"))),
    "a pod with an in-tree disk goes": (LIMITS, pod(EBS), pod_went(EBS)),
    "the claim that it lacked": (LIMITS, pod(MINE), came(claim("mine"))),
    "a volume is detached": (LIMITS, pod(MINE), went(attached("v", "n", "any"))),
    "a disk of its driver is detached": (LIMITS, pod(EBS), went(attached("v", "n", "ebs.csi.aws.com"))),
}

SLEEPS: dict[str, Case] = {
    "another claim comes": (BINDING, pod(MINE), came(claim("other"))),
    "a claim of that name elsewhere": (BINDING, pod(MINE), came(claim("mine", namespace="other"))),
    "its claim goes": (BINDING, pod(MINE), went(claim("mine"))),
    "a volume goes": (BINDING, pod(MINE), went(volume("v"))),
    "a class changes otherwise": (BINDING, pod(MINE), became(storage_class(), storage_class(provisioner="other"))),
    "a limit changes": (BINDING, pod(MINE), became(csi_node(1), csi_node(2))),
    "a driver comes": (BINDING, pod(INLINE), came(DRIVER)),
    "its driver begins to track capacity": (BINDING, pod(INLINE), became(DRIVER, TRACKING)),
    "another driver needs no capacity": (BINDING, pod(MINE), became(TRACKING, DRIVER)),
    "capacity shrinks": (BINDING, pod(MINE), became(capacity("2Gi"), capacity("1Gi"))),
    "capacity grows and volumes may not": (BINDING, pod(MINE), became(capacity("2Gi", "1Gi"), capacity("3Gi", "1Gi"))),
    "a capacity is not known any more": (BINDING, pod(MINE), became(capacity("2Gi"), capacity())),
    "a pod with its claim goes": (BINDING, pod(MINE), pod_went(MINE)),
    "another disk is given back": (RESTRICTIONS, pod(GCE), pod_went(EBS)),
    "a reader gives back what it reads": (RESTRICTIONS, pod(GCE_READING), pod_went(GCE_READING)),
    "a claim of another namespace is given back": (RESTRICTIONS, pod(MINE), pod_went(MINE, namespace="other")),
    "its claim turns": (RESTRICTIONS, pod(MINE), became(claim("mine"), claim("mine", volume="v"))),
    "a claim made for it comes": (RESTRICTIONS, pod(ephemeral("scratch")), came(claim("waiting-scratch"))),
    "a class whose volumes do not wait": (ZONES, pod(MINE), came(storage_class(mode="Immediate"))),
    "a class changes": (ZONES, pod(MINE), became(storage_class(), allowing("a"))),
    "a volume grows": (ZONES, pod(MINE), became(volume("v"), volume("v", size="2Gi"))),
    "somebody's claim gets a volume": (ZONES, pod(MINE), became(claim("other"), claim("other", volume="v"))),
    "a limit is lowered": (LIMITS, pod(MINE), became(csi_node(2), csi_node(1))),
    "a limit is lifted": (LIMITS, pod(MINE), became(csi_node(2), csi_node(None))),
    "a pod without volumes goes": (LIMITS, pod(MINE), pod_went()),
    "a pod with secrets goes": (LIMITS, pod(MINE), pod_went(INLINE)),
    "a disk of another driver is detached": (LIMITS, pod(EBS), went(attached("v", "n", "other"))),
    "a node appears": (LIMITS, pod(MINE), node_event(None, node())),
    "anything, for who claims devices": (DynamicResources(), pod(), node_event(None, node())),
}


@pytest.mark.parametrize("case", WAKES)
def test_it_may_help(case: str) -> None:
    assert wakes(*WAKES[case])


@pytest.mark.parametrize("case", SLEEPS)
def test_a_skip_from_all_hints_moves_nothing(case: str) -> None:
    assert not wakes(*SLEEPS[case])
