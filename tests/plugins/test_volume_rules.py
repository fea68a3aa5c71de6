"""Rule by rule what the plugins about volumes say of a node, or of a pod as a whole."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from situate.framework.status import Code
from situate.objects.meta import ObjectMeta
from situate.objects.nodes import Node
from situate.objects.pods import (
    AWSElasticBlockStoreSource,
    AzureDiskSource,
    GCEPersistentDiskSource,
    ISCSISource,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    RBDSource,
    Volume,
)
from situate.objects.quantity import parse_quantity
from situate.objects.selectors import LabelSelector, LabelSelectorRequirement
from situate.objects.storage import (
    CSIDriver,
    CSIDriverSpec,
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    CSIStorageCapacity,
    Stored,
    TopologySelectorLabelRequirement,
    TopologySelectorTerm,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
    VolumeNodeAffinity,
    VolumeNodeResources,
)
from situate.plugins.node_volume_limits import NodeVolumeLimits
from situate.plugins.volume_binding import VolumeBinding
from situate.plugins.volume_restrictions import VolumeRestrictions
from situate.plugins.volume_zone import VolumeZone
from tests.framework.volumes import HOSTNAME, claim, ephemeral, pod, storage_class, using, volume
from tests.plugins.twins.world import PASS, UNRESOLVABLE, UNSCHEDULABLE, Answer, World
from tests.plugins.vector import Vectors

ZONE, OLD_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
NODES = (
    Node(ObjectMeta(name="a", labels={HOSTNAME: "a", ZONE: "z1", REGION: "r"})),
    Node(ObjectMeta(name="b", labels={HOSTNAME: "b", ZONE: "z2", REGION: "r"})),
)
ENDED = datetime(2026, 1, 1, tzinfo=UTC)


def placed(name: str, node: str, *volumes: Volume, namespace: str = "default") -> Pod:
    return pod(name, *volumes, namespace=namespace, node_name=node)


def answers(plugin: Any, new: Pod, *stored: Stored, pods: tuple[Pod, ...] = ()) -> dict[str, Answer] | str | None:
    """By node; a text if the pod as a whole is refused; None if the plugin is not concerned."""
    vectors = Vectors.of(World(NODES, pods, storage=stored))
    info = vectors.read(new)
    found = plugin.pre_filter(info, vectors.snapshot)
    if found.status.code is Code.SKIP:
        return None
    if not found.status.ok:
        assert found.status.code is Code.UNRESOLVABLE
        return str(found.status.message)
    return vectors.filter_with(plugin, found.state, info)


def bad(*names: str, text: str, code: str = UNRESOLVABLE) -> dict[str, Answer]:
    return {node.metadata.name: Answer(code, (text,)) if node.metadata.name in names else PASS for node in NODES}


FINE = bad(text="")
CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
UNBOUND = "node(s) didn't find available persistent volumes to bind"
SHORT = "node(s) did not have enough free storage"
MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
LOCAL = storage_class()
MADE = storage_class("made", provisioner="made")
TRACKED = storage_class("tracked", provisioner="tracked")
TRACKING = CSIDriver(ObjectMeta(name="tracked"), CSIDriverSpec(storage_capacity=True))
P = pod("p", using("mine"))


def room(size: str | None, zone: str | None = "z1", most: str | None = None, **more: Any) -> CSIStorageCapacity:
    return CSIStorageCapacity(
        ObjectMeta(name=f"room-{zone}", namespace="storage"),
        LabelSelector({ZONE: zone}) if zone is not None else None,
        "tracked",
        parse_quantity(size) if size is not None else None,
        parse_quantity(most) if most is not None else None,
        **more,
    )


def limited_to(*terms: NodeSelectorTerm) -> VolumeNodeAffinity:
    return VolumeNodeAffinity(NodeSelector(terms))


def having(key: str, *values: str) -> NodeSelectorTerm:
    return NodeSelectorTerm((NodeSelectorRequirement(key, "In", values),))


BINDING: dict[str, tuple[Pod, tuple[Stored, ...], dict[str, Answer] | str | None]] = {
    "no volumes": (pod("p"), (), None),
    "a disk, but no claim": (pod("p", Volume("d", iscsi=ISCSISource("i"))), (), None),
    # The pod as a whole
    "no such claim": (P, (), 'persistentvolumeclaim "mine" not found'),
    "its own claim has not been made": (
        pod("p", ephemeral("tmp")),
        (),
        'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-tmp"',
    ),
    "its own claim is somebody else's": (
        pod("p", ephemeral("tmp")),
        (claim("p-tmp", owner="other"),),
        "PVC default/p-tmp was not created for pod default/p (pod is not owner)",
    ),
    "a lost claim": (
        P,
        (claim("mine", volume="v", phase="Lost"),),
        'persistentvolumeclaim "mine" bound to non-existent persistentvolume "v"',
    ),
    "a claim that is being deleted": (
        P,
        (claim("mine", volume="v", bound=True, deleted=ENDED),),
        'persistentvolumeclaim "mine" is being deleted',
    ),
    "a claim that is to be bound at once": (
        P,
        (storage_class(mode="Immediate"), claim("mine")),
        "pod has unbound immediate PersistentVolumeClaims",
    ),
    "a claim without a class": (
        P,
        (claim("mine", storage_class=""),),
        "pod has unbound immediate PersistentVolumeClaims",
    ),
    "a claim of a class that does not exist": (P, (claim("mine"),), "pod has unbound immediate PersistentVolumeClaims"),
    "a claim that names its volume and is not bound yet": (
        P,
        (LOCAL, claim("mine", volume="v")),
        "pod has unbound immediate PersistentVolumeClaims",
    ),
    # Bound claims
    "a volume that can be used everywhere": (
        P,
        (claim("mine", volume="v", bound=True), volume("v", claimed_by="mine")),
        None,
    ),
    "a volume on a node": (
        P,
        (claim("mine", volume="v", bound=True), volume("v", claimed_by="mine", on=("a",))),
        bad("b", text=CONFLICT),
    ),
    "a volume in either of two places": (
        P,
        (
            claim("mine", volume="v", bound=True),
            volume("v", claimed_by="mine", affinity=limited_to(having(ZONE, "z1"), having(HOSTNAME, "b"))),
        ),
        FINE,
    ),
    "a volume without any place": (
        P,
        (claim("mine", volume="v", bound=True), volume("v", claimed_by="mine", affinity=limited_to())),
        bad("a", "b", text=CONFLICT),
    ),
    "a volume that asks for a node by name": (
        P,
        (
            claim("mine", volume="v", bound=True),
            volume(
                "v",
                claimed_by="mine",
                affinity=limited_to(
                    NodeSelectorTerm((), (NodeSelectorRequirement("metadata.name", "In", ("a",)),)),
                ),
            ),
        ),
        bad("a", "b", text=CONFLICT),
    ),
    "a volume that is gone": (P, (claim("mine", volume="v", bound=True),), bad("a", "b", text=MISSING)),
    # Claims that wait for the pod
    "the smallest volume is taken": (P, (LOCAL, claim("mine"), volume("v", on=("a",))), bad("b", text=UNBOUND)),
    "a volume that is too small": (
        P,
        (LOCAL, claim("mine", size="2Gi"), volume("v")),
        bad("a", "b", text=UNBOUND),
    ),
    "a volume of another mode": (
        P,
        (LOCAL, claim("mine", volume_mode="Block"), volume("v")),
        bad("a", "b", text=UNBOUND),
    ),
    "a volume of another attributes class": (
        P,
        (LOCAL, claim("mine"), volume("v", volume_attributes_class_name="fast")),
        bad("a", "b", text=UNBOUND),
    ),
    "a volume without the access mode": (
        P,
        (LOCAL, claim("mine", access_modes=("ReadWriteMany",)), volume("v")),
        bad("a", "b", text=UNBOUND),
    ),
    "a volume that the selector does not select": (
        P,
        (LOCAL, claim("mine", selector=LabelSelector({"tier": "gold"})), volume("v")),
        bad("a", "b", text=UNBOUND),
    ),
    "a volume that is being deleted": (
        P,
        (LOCAL, claim("mine"), volume("v", deleted=ENDED)),
        bad("a", "b", text=UNBOUND),
    ),
    "a volume that is not available": (
        P,
        (LOCAL, claim("mine"), volume("v", phase="Released")),
        bad("a", "b", text=UNBOUND),
    ),
    "a volume that is meant for the claim, wherever it is": (
        P,
        (LOCAL, claim("mine"), volume("v", claimed_by="mine", claim_uid="", on=("a",)), volume("w")),
        bad("b", text=UNBOUND),
    ),
    "a volume that is meant for another claim": (
        P,
        (LOCAL, claim("mine"), volume("v", claimed_by="other", claim_uid="")),
        bad("a", "b", text=UNBOUND),
    ),
    "two claims and one volume": (
        pod("p", using("mine"), using("other")),
        (LOCAL, claim("mine"), claim("other"), volume("v")),
        bad("a", "b", text=UNBOUND),
    ),
    "two claims and one volume on a node": (
        pod("p", using("mine"), using("other")),
        (LOCAL, claim("mine"), claim("other"), volume("v", on=("a",))),
        bad("a", "b", text=UNBOUND),
    ),
    "two claims and a volume for each": (
        pod("p", using("mine"), using("other")),
        (LOCAL, claim("mine", size="2Gi"), claim("other"), volume("v"), volume("w", size="2Gi")),
        FINE,
    ),
    "one claim twice": (
        pod("p", using("mine"), using("mine")),
        (LOCAL, claim("mine"), volume("v", on=("a",))),
        bad("b", text=UNBOUND),
    ),
    # Volumes to be made
    "a volume can be made": (P, (MADE, claim("mine", storage_class="made")), FINE),
    "a volume can be made in a zone": (
        P,
        (
            storage_class(
                "made",
                provisioner="made",
                allowed_topologies=(
                    TopologySelectorTerm((TopologySelectorLabelRequirement(ZONE, ("z1", "z3")),)),
                    TopologySelectorTerm(),
                ),
            ),
            claim("mine", storage_class="made"),
        ),
        bad("b", text=UNBOUND),
    ),
    "a volume is being made for a node": (
        P,
        (MADE, claim("mine", storage_class="made", selected="b")),
        bad("a", text=UNBOUND),
    ),
    "a volume is being made for a node that is gone": (
        P,
        (MADE, claim("mine", storage_class="made", selected="z")),
        bad("a", "b", text=UNBOUND),
    ),
    "room in a zone": (
        P,
        (TRACKED, TRACKING, claim("mine", storage_class="tracked"), room("5Gi"), room("1Mi", "z2")),
        bad("b", text=SHORT),
    ),
    "room, but not for so large a volume": (
        P,
        (TRACKED, TRACKING, claim("mine", storage_class="tracked"), room("5Gi", most="1Mi")),
        bad("a", "b", text=SHORT),
    ),
    "room of which nobody knows how much": (
        P,
        (TRACKED, TRACKING, claim("mine", storage_class="tracked"), room(None)),
        bad("a", "b", text=SHORT),
    ),
    "room that no node reaches": (
        P,
        (TRACKED, TRACKING, claim("mine", storage_class="tracked"), room("5Gi", None)),
        bad("a", "b", text=SHORT),
    ),
    "room on nodes that nobody can select": (
        P,
        (
            TRACKED,
            TRACKING,
            claim("mine", storage_class="tracked"),
            CSIStorageCapacity(
                ObjectMeta(name="odd"),
                LabelSelector({}, (LabelSelectorRequirement(ZONE, "Like", ("z*",)),)),
                "tracked",
                parse_quantity("5Gi"),
            ),
        ),
        bad("a", "b", text=SHORT),
    ),
    "a driver that does not say": (P, (TRACKED, claim("mine", storage_class="tracked")), FINE),
    "a claim that does not say how much": (
        P,
        (TRACKED, TRACKING, claim("mine", storage_class="tracked", size="")),
        FINE,
    ),
    "all that is wrong with a node": (
        pod("p", using("bound"), using("mine")),
        (LOCAL, claim("bound", volume="v", bound=True), volume("v", claimed_by="bound", on=("a",)), claim("mine")),
        {"a": Answer(UNRESOLVABLE, (UNBOUND,)), "b": Answer(UNRESOLVABLE, (CONFLICT, UNBOUND))},
    ),
}


@pytest.mark.parametrize("case", BINDING)
def test_volume_binding(case: str) -> None:
    new, stored, wanted = BINDING[case]
    assert answers(VolumeBinding(), new, *stored) == wanted


def test_the_smallest_volume_is_given_and_of_equal_ones_the_first_by_name() -> None:
    world = World(NODES, storage=(LOCAL, claim("mine"), volume("c", size="2Gi"), volume("b"), volume("a", size="5Gi")))
    vectors = Vectors.of(world)
    (given,) = VolumeBinding().reserve(vectors.read(P), "a", vectors.snapshot).storage.given
    assert given.volume.metadata.name == "b"


def gce(name: str = "d", *, reads: bool = False) -> Volume:
    return Volume("disk", gce_persistent_disk=GCEPersistentDiskSource(name, reads))


def ebs(name: str = "vol-1") -> Volume:
    return Volume("disk", aws_elastic_block_store=AWSElasticBlockStoreSource(name))


def iscsi(name: str = "i", *, reads: bool = False) -> Volume:
    return Volume("disk", iscsi=ISCSISource(name, reads))


def rbd(*monitors: str, image: str = "x", pool: str = "rbd", reads: bool = False) -> Volume:
    return Volume("disk", rbd=RBDSource(monitors, pool, image, reads))


@pytest.mark.parametrize(
    ("mine", "theirs", "free"),
    [
        pytest.param(gce(), gce(), False, id="gce"),
        pytest.param(gce(reads=True), gce(), False, id="gce, only one reads"),
        pytest.param(gce(reads=True), gce(reads=True), True, id="gce, both read"),
        pytest.param(gce(), gce("e"), True, id="gce, another disk"),
        pytest.param(ebs(), ebs(), False, id="ebs, whoever reads"),
        pytest.param(ebs(), ebs("vol-2"), True, id="ebs, another volume"),
        pytest.param(iscsi(), iscsi(), False, id="iscsi"),
        pytest.param(iscsi(reads=True), iscsi(reads=True), True, id="iscsi, both read"),
        pytest.param(iscsi(), iscsi("j"), True, id="iscsi, another target"),
        pytest.param(rbd("m", "n"), rbd("n", "o"), False, id="rbd, a monitor in common"),
        pytest.param(rbd("m"), rbd("n"), True, id="rbd, of another cluster"),
        pytest.param(rbd("m"), rbd("m", image="y"), True, id="rbd, another image"),
        pytest.param(rbd("m"), rbd("m", pool="p"), True, id="rbd, another pool"),
        pytest.param(rbd("m", reads=True), rbd("m", reads=True), True, id="rbd, both read"),
        pytest.param(gce(), ebs("d"), True, id="of different kinds"),
    ],
)
def test_disks_that_exclude_each_other(mine: Volume, theirs: Volume, free: bool) -> None:
    found = answers(VolumeRestrictions(), pod("p", mine), pods=(placed("q", "a", theirs),))
    assert found == (FINE if free else bad("a", text="node(s) had no available disk", code=UNSCHEDULABLE))


ONE_POD = claim("mine", volume="v", bound=True, access_modes=("ReadWriteOncePod",))
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)


@pytest.mark.parametrize(
    ("stored", "other", "wanted"),
    [
        pytest.param(ONE_POD, using("mine"), bad("a", "b", text=IN_USE, code=UNSCHEDULABLE), id="in use"),
        pytest.param(ONE_POD, using("other"), None, id="not in use"),
        pytest.param(claim("mine"), using("mine"), None, id="of another access mode"),
    ],
)
def test_a_claim_for_one_pod(stored: Stored, other: Volume, wanted: dict[str, Answer] | None) -> None:
    assert answers(VolumeRestrictions(), P, stored, pods=(placed("q", "b", other),)) == wanted


def test_a_claim_for_one_pod_is_free_in_another_namespace() -> None:
    other = placed("q", "b", using("mine"), namespace="other")
    assert answers(VolumeRestrictions(), P, ONE_POD, pods=(other,)) is None
    assert answers(VolumeRestrictions(), P) == 'persistentvolumeclaim "mine" not found'


NO_ZONE = "node(s) had no available volume zone"
BOUND = claim("mine", volume="v", bound=True)


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [
        pytest.param((BOUND, volume("v", labels={ZONE: "z1"})), bad("b", text=NO_ZONE), id="a zone"),
        pytest.param((BOUND, volume("v", labels={OLD_ZONE: "z2"})), bad("a", text=NO_ZONE), id="by the old label"),
        pytest.param((BOUND, volume("v", labels={ZONE: "z0 __ z2"})), bad("a", text=NO_ZONE), id="several zones"),
        pytest.param((BOUND, volume("v", labels={REGION: "s"})), bad("a", "b", text=NO_ZONE), id="another region"),
        pytest.param((BOUND, volume("v", labels={ZONE: "z1__"})), None, id="a label that says nothing"),
        pytest.param((BOUND, volume("v")), None, id="no label"),
        pytest.param((), 'persistentvolumeclaim "mine" not found', id="no such claim"),
        pytest.param((BOUND,), 'persistentvolume "v" not found', id="no such volume"),
        pytest.param(
            (claim("mine", storage_class=""),),
            "PersistentVolumeClaim had no pv name and storageClass name",
            id="nothing to go by",
        ),
        pytest.param((claim("mine"),), 'storageclass.storage.k8s.io "local" not found', id="no such class"),
        pytest.param(
            (claim("mine"), storage_class(mode=None)),
            'VolumeBindingMode not set for StorageClass "local"',
            id="a class without a mode",
        ),
        pytest.param(
            (claim("mine"), storage_class(mode="Immediate")), "PersistentVolume had no name", id="not bound yet"
        ),
        pytest.param((claim("mine"), LOCAL), None, id="to be bound for the pod"),
    ],
)
def test_volume_zone(stored: tuple[Stored, ...], wanted: dict[str, Answer] | str | None) -> None:
    assert answers(VolumeZone(), P, *stored) == wanted


def test_a_claim_without_a_name_is_refused_and_one_of_an_ephemeral_volume_is_not_looked_at() -> None:
    assert answers(VolumeZone(), pod("p", using(""))) == "PersistentVolumeClaim had no name"
    assert answers(VolumeZone(), pod("p", ephemeral("tmp"))) is None


FULL = "node(s) exceed max volume count"


def csi_node(name: str, *limits: tuple[str, int]) -> CSINode:
    drivers = tuple(CSINodeDriver(driver, VolumeNodeResources(count)) for driver, count in limits)
    return CSINode(ObjectMeta(name=name), CSINodeSpec(drivers))


def bound(name: str, driver: str = "csi", handle: str = "") -> tuple[Stored, Stored]:
    return claim(name, volume=f"v-{name}", bound=True), volume(
        f"v-{name}", claimed_by=name, driver=driver, handle=handle
    )


def attached(name: str, node: str, driver: str = "csi") -> VolumeAttachment:
    return VolumeAttachment(
        ObjectMeta(name=f"at-{name}"), VolumeAttachmentSpec(driver, node, VolumeAttachmentSource(f"v-{name}"))
    )


ONE_EACH = (csi_node("a", ("csi", 1)), csi_node("b", ("csi", 1)))
OTHER = placed("q", "a", using("other"))
EBS = "ebs.csi.aws.com"


@pytest.mark.parametrize(
    ("new", "stored", "pods", "wanted"),
    [
        pytest.param(
            P,
            (*ONE_EACH, *bound("mine"), *bound("other")),
            (OTHER,),
            bad("a", text=FULL, code=UNSCHEDULABLE),
            id="full",
        ),
        pytest.param(P, (*bound("mine"), *bound("other")), (OTHER,), None, id="no limits known"),
        pytest.param(P, (*ONE_EACH, *bound("mine", "x"), *bound("other")), (OTHER,), FINE, id="of another driver"),
        pytest.param(
            P,
            (*ONE_EACH, *bound("mine", handle="h"), *bound("other", handle="h")),
            (OTHER,),
            FINE,
            id="the same volume",
        ),
        pytest.param(
            P,
            (*ONE_EACH, *bound("mine"), *bound("other"), attached("other", "b")),
            (),
            bad("b", text=FULL, code=UNSCHEDULABLE),
            id="attached without a pod",
        ),
        pytest.param(
            P,
            (csi_node("a", ("csi", 2)), *bound("mine"), *bound("other"), attached("other", "a")),
            (OTHER,),
            FINE,
            id="attached for a pod counts once",
        ),
        pytest.param(
            P,
            (csi_node("a", ("made", 0)), MADE, claim("mine", storage_class="made")),
            (),
            bad("a", text=FULL, code=UNSCHEDULABLE),
            id="a volume that will be made",
        ),
        pytest.param(
            P,
            (csi_node("a", (EBS, 0)), storage_class(provisioner="kubernetes.io/aws-ebs"), claim("mine")),
            (),
            bad("a", text=FULL, code=UNSCHEDULABLE),
            id="one that an in-tree provisioner would have made",
        ),
        pytest.param(
            P,
            (csi_node("a", (EBS, 0)), storage_class(provisioner="kubernetes.io/azure-file"), claim("mine")),
            (),
            FINE,
            id="one that is no CSI volume",
        ),
        pytest.param(
            pod("p", ebs()),
            (csi_node("a", (EBS, 0)),),
            (),
            bad("a", text=FULL, code=UNSCHEDULABLE),
            id="an in-tree disk",
        ),
        pytest.param(
            pod("p", ebs("aws://z1/vol-1")),
            (csi_node("a", (EBS, 1)),),
            (placed("q", "a", ebs("vol-1")),),
            FINE,
            id="an in-tree disk by either name",
        ),
        pytest.param(
            P,
            ONE_EACH,
            (),
            bad("a", "b", text='looking up PVC default/mine: persistentvolumeclaim "mine" not found'),
            id="no such claim",
        ),
        pytest.param(pod("p", iscsi()), ONE_EACH, (), None, id="nothing that a driver attaches"),
        pytest.param(
            pod("p", using("odd")), (*ONE_EACH, claim("odd", volume="v", bound=True)), (), FINE, id="its volume is gone"
        ),
    ],
)
def test_node_volume_limits(
    new: Pod, stored: tuple[Stored, ...], pods: tuple[Pod, ...], wanted: dict[str, Answer] | None
) -> None:
    assert answers(NodeVolumeLimits(), new, *stored, pods=pods) == wanted


def test_a_disk_that_no_driver_could_find_is_named() -> None:
    wrong = pod("p", Volume("disk", azure_disk=AzureDiskSource("uri", "Dedicated")))
    with pytest.raises(ValueError, match=r"azureDisk.kind: found 'Dedicated', allowed: Managed"):
        answers(NodeVolumeLimits(), wrong, *ONE_EACH)
    assert answers(NodeVolumeLimits(), wrong) is None, "no node has a CSI driver"
    there = placed("q", "a", *wrong.spec.volumes)
    assert answers(NodeVolumeLimits(), P, *ONE_EACH, *bound("mine"), pods=(there,)) == FINE, "nobody else suffers"


def test_a_claim_that_was_made_for_another_pod_is_named() -> None:
    with pytest.raises(Exception, match=r"PVC default/p-tmp was not created for pod default/p \(pod is not owner\)"):
        answers(NodeVolumeLimits(), pod("p", ephemeral("tmp")), *ONE_EACH, claim("p-tmp", owner="other"))
