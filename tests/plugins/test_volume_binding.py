"""Rule by rule what VolumeBinding says of a node, or of a pod as a whole."""

from __future__ import annotations

from typing import Any

import pytest

from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.pods import (
    ISCSISource,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    Volume,
)
from situate.objects.kinds.selectors import LabelSelector, LabelSelectorRequirement
from situate.objects.kinds.storage import (
    CSIDriver,
    CSIDriverSpec,
    CSIStorageCapacity,
    StorageObject,
    TopologySelectorLabelRequirement,
    TopologySelectorTerm,
    VolumeNodeAffinity,
)
from situate.objects.values.quantity import parse_quantity
from situate.plugins.volume_binding import VolumeBinding
from tests.framework.volumes.objects import HOSTNAME, claim, ephemeral, pod, storage_class, using, volume
from tests.plugins.twins.world import UNRESOLVABLE, Answer, World
from tests.plugins.vector import Vectors
from tests.plugins.volume_rules import (
    ENDED,
    FINE,
    LOCAL,
    MADE,
    MISSING,
    NODES,
    ZONE,
    P,
    answers,
    bad,
)

CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
UNBOUND = "node(s) didn't find available persistent volumes to bind"
SHORT = "node(s) did not have enough free storage"
TRACKED = storage_class("tracked", provisioner="tracked")
TRACKING = CSIDriver(ObjectMeta(name="tracked"), CSIDriverSpec(storage_capacity=True))


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


BINDING: dict[str, tuple[Pod, tuple[StorageObject, ...], dict[str, Answer] | str | None]] = {
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
