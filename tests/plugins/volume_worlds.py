"""Random clusters with storage, in all states that plugins tell apart: few names, so that coincidences are common."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from random import Random

from hypothesis import strategies as st

from situate.objects.kinds.meta import ObjectMeta, OwnerReference
from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import (
    AWSElasticBlockStoreSource,
    AzureDiskSource,
    CinderSource,
    Container,
    EphemeralVolumeSource,
    GCEPersistentDiskSource,
    ISCSISource,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolumeClaimSource,
    Pod,
    PodSpec,
    PortworxSource,
    RBDSource,
    ResourceRequirements,
    Volume,
)
from situate.objects.kinds.selectors import LabelSelector, LabelSelectorRequirement
from situate.objects.kinds.storage import (
    BIND_COMPLETED,
    MIGRATED_PLUGINS,
    SELECTED_NODE,
    ClaimReference,
    CSIDriver,
    CSIDriverSpec,
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    CSIStorageCapacity,
    CSIVolumeSource,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    StorageClass,
    StorageObject,
    TopologySelectorLabelRequirement,
    TopologySelectorTerm,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
    VolumeNodeAffinity,
    VolumeNodeResources,
)
from situate.objects.values.quantity import Quantity, parse_quantity
from tests.plugins.twins.in_tree import PLUGINS
from tests.plugins.twins.world import World
from tests.plugins.worlds import HOSTNAME, ZONE, Case, cases

OLD_ZONE, REGION = "failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/region"
EBS_ZONE = "topology.ebs.csi.aws.com/zone"
NAMESPACE = "east"
CLAIMS = tuple("abcde")
VOLUMES = tuple(f"v{number}" for number in range(8))
CLASSES = ("local", "made", "tracked", "at-once", "none")
DRIVER, TRACKED = "ebs.csi.aws.com", "tracked.csi.example.com"
SIZES = ("1Gi", "2Gi", "2Gi", "5Gi")
ENDED = datetime(2026, 1, 1, tzinfo=UTC)
DISK_NAMES = ("d1", "d2")


def volume_worlds(nodes: int = 6, pods: int = 10) -> st.SearchStrategy[Case]:
    return cases(volume_case, nodes, pods)


def volume_case(seed: int, nodes: int, pods: int) -> tuple[World, Pod]:
    random = Random(seed)
    listed = tuple(_node(random, number) for number in range(nodes))
    names = [each.metadata.name for each in listed]
    placed = tuple(a_pod(random, f"pod-{number}", random.choice(names)) for number in range(pods))
    new = a_pod(random, "new", "")
    storage = [
        *_classes(random),
        *(a_volume(random, name, names) for name in VOLUMES if random.random() < 0.9),
        *(a_claim(random, name, names) for name in CLAIMS if random.random() < 0.93),
        *_own_claims(random, (*placed, new), names),
        *(_csi_node(random, name) for name in names if random.random() < 0.8),
        *(_attachment(random, number, names) for number in range(random.randrange(4))),
        *(_capacity(random, number, names) for number in range(random.randrange(5))),
        CSIDriver(ObjectMeta(name=TRACKED), CSIDriverSpec(storage_capacity=random.random() < 0.8)),
        CSIDriver(ObjectMeta(name=DRIVER)),
    ]
    return World(listed, placed, storage=tuple(storage)), new


def _node(random: Random, number: int) -> Node:
    name = f"node-{number}"
    labels = {HOSTNAME: name if random.random() < 0.9 else "another", "rack": random.choice(("r1", "r2"))}
    for key, values, chance in (
        (ZONE, ("z1", "z2", "us-a-1"), 0.7),
        (OLD_ZONE, ("z1", "z2"), 0.3),
        (REGION, ("east", "west"), 0.5),
        (EBS_ZONE, ("z1", "z2"), 0.6),
    ):
        if random.random() < chance:
            labels[key] = random.choice(values)
    return Node(ObjectMeta(name=name, labels=labels))


def _classes(random: Random) -> list[StorageObject]:
    terms = [
        TopologySelectorTerm((TopologySelectorLabelRequirement(ZONE, ("z1",)),)),
        TopologySelectorTerm(
            (
                TopologySelectorLabelRequirement("rack", ("r1",)),
                TopologySelectorLabelRequirement(REGION, ("east", "west")),
            )
        ),
        TopologySelectorTerm(),
    ]
    allowed = tuple(random.sample(terms, random.choice((0, 0, 1, 2))))
    late = "WaitForFirstConsumer"
    made = random.choice((DRIVER, "kubernetes.io/aws-ebs", "kubernetes.io/azure-file", "nfs"))
    found: list[StorageObject] = [
        StorageClass(ObjectMeta(name="local"), "kubernetes.io/no-provisioner", late),
        StorageClass(ObjectMeta(name="made"), made, late, allowed),
        StorageClass(ObjectMeta(name="tracked"), TRACKED, late, allowed),
        StorageClass(ObjectMeta(name="at-once"), DRIVER, "Immediate"),
    ]
    return [each for each in found if random.random() < 0.95]


def _sizes(random: Random) -> Quantity:
    return parse_quantity(random.choice(SIZES))


def _modes(random: Random) -> tuple[str, ...]:
    return tuple(random.sample(("ReadWriteOnce", "ReadOnlyMany", "ReadWriteOncePod"), random.choice((1, 1, 2))))


def a_claim(random: Random, name: str, nodes: Sequence[str], owner: str = "") -> PersistentVolumeClaim:
    bound = random.random() < 0.45
    notes = {BIND_COMPLETED: "yes"} if bound else {}
    if random.random() < 0.15:
        notes[SELECTED_NODE] = random.choice((*nodes, "gone"))
    class_name = random.choice(CLASSES if random.random() < 0.2 else CLASSES[:3])
    if random.random() < 0.05:
        notes["volume.beta.kubernetes.io/storage-class"] = random.choice(CLASSES)
    asked = {"storage": _sizes(random)} if random.random() < 0.9 else {}
    wanted = LabelSelector({"tier": "gold"}) if random.random() < 0.15 else None
    owners = (OwnerReference("Pod", owner, owner, "v1", controller=True),) if owner else ()
    return PersistentVolumeClaim(
        ObjectMeta(
            name=name,
            namespace=NAMESPACE,
            uid=f"uid-{name}",
            annotations=notes,
            owner_references=owners,
            deletion_timestamp=ENDED if random.random() < 0.03 else None,
        ),
        PersistentVolumeClaimSpec(
            _modes(random),
            wanted,
            ResourceRequirements(requests=asked),
            random.choice((*VOLUMES, "gone")) if bound or random.random() < 0.05 else "",
            "" if class_name == "none" else class_name,
            "Block" if random.random() < 0.1 else "Filesystem",
            "fast" if random.random() < 0.1 else "",
        ),
        PersistentVolumeClaimStatus("Lost" if random.random() < 0.03 else "Bound" if bound else "Pending"),
    )


def _own_claims(random: Random, pods: Sequence[Pod], nodes: Sequence[str]) -> list[StorageObject]:
    """Those of ephemeral volumes; some are missing, some belong to somebody else."""
    found: list[StorageObject] = []
    for pod in pods:
        for volume in pod.spec.volumes:
            if volume.ephemeral is not None and random.random() < 0.9:
                owner = pod.metadata.uid if random.random() < 0.9 else "somebody"
                found.append(a_claim(random, f"{pod.metadata.name}-{volume.name}", nodes, owner))
    return list({each.metadata.name: each for each in found}.values())


def _terms(random: Random, nodes: Sequence[str]) -> tuple[NodeSelectorTerm, ...]:
    choices = (
        NodeSelectorRequirement(HOSTNAME, "In", tuple(random.sample(list(nodes), 1))),
        NodeSelectorRequirement(HOSTNAME, "In", ("another", random.choice(nodes), "nowhere")),
        NodeSelectorRequirement(ZONE, "In", (random.choice(("z1", "z2")),)),
        NodeSelectorRequirement(OLD_ZONE, "In", ("z1",)),
        NodeSelectorRequirement(EBS_ZONE, "In", ("z1", "z2")),
        NodeSelectorRequirement("rack", "NotIn", ("r1",)),
        NodeSelectorRequirement(REGION, "Exists"),
    )
    named = NodeSelectorRequirement("metadata.name", random.choice(("In", "NotIn")), (random.choice(nodes),))
    return tuple(
        NodeSelectorTerm(
            tuple(random.sample(choices, random.choice((0, 1, 1, 1, 2)))), (named,) if random.random() < 0.1 else ()
        )
        for _ in range(random.choice((0, 1, 1, 1, 2)))
    )


def _source(random: Random, name: str) -> dict[str, object]:
    match random.randrange(9):
        case 0 | 1 | 2:
            return {"csi": CSIVolumeSource(random.choice((DRIVER, TRACKED)), f"h-{random.choice((name, 'shared'))}")}
        case 3:
            return {"gce_persistent_disk": GCEPersistentDiskSource(random.choice(DISK_NAMES))}
        case 4:
            known = random.choice(("vol-1", "aws://z1/vol-1", "aws:///vol-2"))
            return {"aws_elastic_block_store": AWSElasticBlockStoreSource(known)}
        case 5:
            return {"cinder": CinderSource(random.choice(DISK_NAMES))}
        case 6:
            return {"azure_disk": AzureDiskSource(random.choice(DISK_NAMES), "Managed")}
        case 7:
            return {"portworx_volume": PortworxSource(random.choice(DISK_NAMES))}
        case _:
            return {}


def a_volume(random: Random, name: str, nodes: Sequence[str]) -> PersistentVolume:
    source = _source(random, name)
    several = ("us-a-1__us-a-2",) if "gce_persistent_disk" in source else ("z1__z2", "z2 __ z1", "z1__")
    labels = {"tier": random.choice(("gold", "lead"))}
    for key, values in ((ZONE, ("z1", "z2", *several)), (OLD_ZONE, ("z1", *several)), (REGION, ("east",))):
        if random.random() < 0.2:
            labels[key] = random.choice(values)
    ref = None
    if random.random() < 0.45:
        owner = random.choice(CLAIMS)
        ref = ClaimReference(NAMESPACE, owner, random.choice(("", f"uid-{owner}", f"uid-{owner}", "uid-older")))
    phase = "Bound" if ref is not None and ref.uid else random.choice(("Available",) * 5 + ("Pending", "Released"))
    affinity = VolumeNodeAffinity(NodeSelector(_terms(random, nodes)) if random.random() < 0.9 else None)
    return PersistentVolume(
        ObjectMeta(
            name=name,
            labels=labels,
            annotations={"volume.beta.kubernetes.io/storage-class": "local"} if random.random() < 0.05 else {},
            deletion_timestamp=ENDED if random.random() < 0.05 else None,
        ),
        PersistentVolumeSpec(
            capacity={"storage": _sizes(random)},
            access_modes=_modes(random),
            claim_ref=ref,
            node_affinity=affinity if random.random() < 0.7 else None,
            storage_class_name=random.choice(CLASSES[:3]),
            volume_mode="Block" if random.random() < 0.1 else "Filesystem",
            volume_attributes_class_name="fast" if random.random() < 0.1 else "",
            **source,  # type: ignore[arg-type]  # one field of its own type
        ),
        PersistentVolumeStatus(phase),
    )


def _csi_node(random: Random, name: str) -> CSINode:
    plugins = [plugin for plugin in PLUGINS if random.random() < 0.5]
    drivers = []
    for driver in sorted({TRACKED, *PLUGINS.values()}):
        if random.random() < 0.7:
            limit = VolumeNodeResources(random.choice((None, 0, 1, 2, 3)))
            drivers.append(CSINodeDriver(driver, limit if random.random() < 0.9 else None))
    return CSINode(
        ObjectMeta(name=name, annotations={MIGRATED_PLUGINS: ",".join(plugins)}), CSINodeSpec(tuple(drivers))
    )


def _attachment(random: Random, number: int, nodes: Sequence[str]) -> VolumeAttachment:
    source = VolumeAttachmentSource(random.choice((*VOLUMES, "gone", "")))
    spec = VolumeAttachmentSpec(random.choice((DRIVER, TRACKED, "")), random.choice((*nodes, "gone")), source)
    return VolumeAttachment(ObjectMeta(name=f"a{number}"), spec)


def _capacity(random: Random, number: int, nodes: Sequence[str]) -> CSIStorageCapacity:
    topology = random.choice(
        (
            None,
            LabelSelector(),
            LabelSelector({ZONE: "z1"}),
            LabelSelector({HOSTNAME: random.choice(nodes)}),
            LabelSelector({}, (LabelSelectorRequirement("rack", "NotIn", ("r1",)),)),
        )
    )
    return CSIStorageCapacity(
        ObjectMeta(name=f"c{number}", namespace="storage"),
        topology,
        random.choice(("tracked", "tracked", "made")),
        random.choice((None, parse_quantity("3Gi"), parse_quantity("100Gi"))),
        random.choice((None, None, parse_quantity("1Gi"))),
    )


def a_pod(random: Random, name: str, node: str) -> Pod:
    volumes = tuple(_volume(random, f"vol{number}") for number in range(random.choice((0, 1, 1, 2, 3))))
    return Pod(
        ObjectMeta(name=name, namespace=NAMESPACE if random.random() < 0.9 else "west", uid=name),
        PodSpec(node_name=node, containers=(Container(),), volumes=volumes),
    )


def _volume(random: Random, name: str) -> Volume:
    read_only = random.random() < 0.4
    match random.randrange(14):
        case 0:
            return Volume(name, gce_persistent_disk=GCEPersistentDiskSource(random.choice(DISK_NAMES), read_only))
        case 1:
            return Volume(name, aws_elastic_block_store=AWSElasticBlockStoreSource(random.choice(("vol-1", "vol-2"))))
        case 2:
            monitors = tuple(random.sample(("m1", "m2", "m3"), random.choice((1, 2))))
            return Volume(name, rbd=RBDSource(monitors, random.choice(("rbd", "p")), "image", read_only))
        case 3:
            return Volume(name, iscsi=ISCSISource("iqn", read_only))
        case 4:
            return Volume(name, azure_disk=AzureDiskSource(random.choice(DISK_NAMES), "Managed"))
        case 5:
            return Volume(name, cinder=CinderSource(random.choice(DISK_NAMES)))
        case 6:
            return Volume(name, portworx_volume=PortworxSource(random.choice(DISK_NAMES)))
        case 7 | 8:
            return Volume(name, ephemeral=EphemeralVolumeSource())
        case _:
            return Volume(name, persistent_volume_claim=PersistentVolumeClaimSource(random.choice(CLAIMS)))
