from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import floor

from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import NodeSelectorRequirement, NodeSelectorTerm, Pod
from situate.objects.kinds.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from situate.objects.selection.label_selectors import selector_of
from tests.plugins.twins import in_tree
from tests.plugins.twins.node_affinity import label_holds
from tests.plugins.twins.stored import all_of, claim_of, find_claim, find_volume, is_owned, named
from tests.plugins.twins.world import PASS, UNRESOLVABLE, Answer, World

CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
UNBOUND = "node(s) didn't find available persistent volumes to bind"
SHORT = "node(s) did not have enough free storage"
MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


def claims(pod: Pod, world: World) -> list[PersistentVolumeClaim]:
    names = dict.fromkeys(claim_of(pod, volume) for volume in pod.spec.volumes)
    found = [find_claim(world, pod, name) for name in names if name is not None]
    return [claim for claim in found if claim is not None]


def waits(claim: PersistentVolumeClaim, world: World) -> bool:
    """Whether it gets its volume once its pod has a node."""
    kind = named(world, StorageClass, claim.storage_class)
    delayed = kind is not None and kind.volume_binding_mode == "WaitForFirstConsumer"
    return delayed and not claim.spec.volume_name


def refusal(pod: Pod, world: World) -> str:
    for volume in pod.spec.volumes:
        name = claim_of(pod, volume)
        if name is None:
            continue
        claim = find_claim(world, pod, name)
        if claim is None and volume.ephemeral is not None:
            return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        if claim.status.phase == "Lost":
            return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.spec.volume_name}"'
        if claim.metadata.deletion_timestamp is not None:
            return f'persistentvolumeclaim "{name}" is being deleted'
        if volume.ephemeral is not None and not is_owned(claim, pod):
            key = f"{pod.metadata.namespace}/{pod.metadata.name}"
            return f"PVC {pod.metadata.namespace}/{name} was not created for pod {key} (pod is not owner)"
    if any(not claim.fully_bound and not waits(claim, world) for claim in claims(pod, world)):
        return "pod has unbound immediate PersistentVolumeClaims"
    return ""


def matches(terms: Sequence[NodeSelectorTerm] | None, node: Node) -> bool:
    """Terms about volumes see a node's labels alone; by name they find nothing."""
    if terms is None:
        return True
    return any(
        (term.match_expressions or term.match_fields)
        and all(label_holds(each, node) for each in term.match_expressions)
        and all(
            each.operator == "NotIn" and each.key == "metadata.name" and len(each.values) == 1
            for each in term.match_fields
        )
        for term in terms
    )


def usable(volume: PersistentVolume, node: Node, world: World) -> bool:
    csi_node = named(world, CSINode, node.metadata.name)
    driver = in_tree.driver_of(volume)
    plugin = next((plugin for plugin, served_by in in_tree.PLUGINS.items() if served_by == driver), "")
    if csi_node is not None and plugin in csi_node.migrated_plugins:
        return matches(in_tree.translated_terms(volume), node)
    return matches(in_tree.required_terms(volume), node)


def fits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    return (
        volume.storage_class == claim.storage_class
        and (claim.requested_storage is None or volume.size.nano_value >= claim.requested_storage.nano_value)
        and volume.spec.volume_mode == claim.spec.volume_mode
        and volume.spec.volume_attributes_class_name == claim.spec.volume_attributes_class_name
        and volume.metadata.deletion_timestamp is None
    )


def is_free_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    wanted = claim.spec.selector
    return (
        volume.spec.claim_ref is None
        and volume.status.phase == "Available"
        and all(mode in volume.spec.access_modes for mode in claim.spec.access_modes)
        and (wanted is None or selector_of(wanted).matches(volume.metadata.labels))
    )


def best_volume(
    claim: PersistentVolumeClaim, node: Node, world: World, taken: Sequence[PersistentVolume]
) -> PersistentVolume | None:
    """The one meant for the claim or none; else the smallest, then the first by name."""
    listed = sorted(all_of(world, PersistentVolume), key=lambda each: each.metadata.name)
    listed = [each for each in listed if fits(each, claim)]
    for volume in listed:
        if volume.is_for(claim):
            return volume if matches(in_tree.required_terms(volume), node) else None
    able = [
        volume
        for volume in listed
        if is_free_for(volume, claim)
        and matches(in_tree.required_terms(volume), node)
        and not any(volume is other for other in taken)
    ]
    return min(able, key=lambda each: each.size.nano_value, default=None)


@dataclass
class Found:
    """What one node offers."""

    reasons: list[str] = field(default_factory=list)
    given: list[tuple[PersistentVolumeClaim, PersistentVolume]] = field(default_factory=list)
    made: list[PersistentVolumeClaim] = field(default_factory=list)


def find(pod: Pod, node: Node, world: World) -> Found:
    found = Found()
    missing = False
    for claim in claims(pod, world):
        if claim.fully_bound:
            volume = find_volume(world, claim.spec.volume_name)
            missing = volume is None
            if volume is None:
                break
            if not usable(volume, node, world):
                found.reasons.append(CONFLICT)
                break
    problem = find_delayed([each for each in claims(pod, world) if not each.fully_bound], node, world, found)
    if problem:
        found.reasons.append(problem)
    if missing:
        found.reasons.append(MISSING)
    return found


def find_delayed(delayed: Sequence[PersistentVolumeClaim], node: Node, world: World, found: Found) -> str:
    """What is wrong with the node; empty if nothing."""
    if any(claim.selected_node not in (None, node.metadata.name) for claim in delayed):
        return UNBOUND
    to_make = [claim for claim in delayed if claim.selected_node is not None]
    free = [claim for claim in delayed if claim.selected_node is None]
    for claim in sorted(
        free, key=lambda each: each.requested_storage.nano_value if each.requested_storage is not None else 0
    ):
        volume = best_volume(claim, node, world, [taken for _, taken in found.given])
        if volume is None:
            to_make.append(claim)
        else:
            found.given.append((claim, volume))
    for claim in to_make:
        kind = named(world, StorageClass, claim.storage_class)
        assert kind is not None
        if kind.provisioner in ("", "kubernetes.io/no-provisioner") or not allows(kind, node):
            return UNBOUND
        if room(claim, node, world) is None:
            return SHORT
        found.made.append(claim)
    return ""


def allows(kind: StorageClass, node: Node) -> bool:
    if not kind.allowed_topologies:
        return True
    return any(
        term.match_label_expressions
        and all(
            label_holds(NodeSelectorRequirement(each.key, "In", each.values), node)
            for each in term.match_label_expressions
        )
        for term in kind.allowed_topologies
    )


def room(claim: PersistentVolumeClaim, node: Node, world: World) -> CSIStorageCapacity | str | None:
    """The first by name with enough; a text if the driver does not say; None if there is too little."""
    kind = named(world, StorageClass, claim.storage_class)
    driver = named(world, CSIDriver, kind.provisioner) if kind is not None else None
    if driver is None or not driver.spec.storage_capacity or claim.requested_storage is None:
        return "enough, for all that is known"
    for each in sorted(
        all_of(world, CSIStorageCapacity), key=lambda each: (each.metadata.namespace, each.metadata.name)
    ):
        if each.storage_class_name != claim.storage_class or each.largest_volume is None or each.node_topology is None:
            continue
        if each.largest_volume.value >= claim.requested_storage.value and selector_of(each.node_topology).matches(
            node.metadata.labels
        ):
            return each
    return None


def filter_node(pod: Pod, node: Node, world: World) -> Answer:
    reasons = find(pod, node, world).reasons
    order = (CONFLICT, UNBOUND, SHORT, MISSING)
    return Answer(UNRESOLVABLE, tuple(each for each in order if each in reasons)) if reasons else PASS


def score_node(pod: Pod, node: Node, world: World) -> int:
    """With the shape 0 at 0 % and 10 at 100 %: the mean over the classes of how full they would be."""
    found = find(pod, node, world)
    asked: dict[str, int] = {}
    have: dict[str, int] = {}
    for claim, volume in found.given:
        name = volume.spec.storage_class_name
        asked[name] = asked.get(name, 0) + (claim.requested_storage.value if claim.requested_storage is not None else 0)
        have[name] = have.get(name, 0) + volume.size.value
    for claim in found.made if not found.given else ():
        there = room(claim, node, world)
        if isinstance(there, CSIStorageCapacity) and claim.requested_storage is not None:
            name = claim.spec.storage_class_name
            asked[name] = asked.get(name, 0) + claim.requested_storage.value
            have[name] = there.capacity.value if there.capacity is not None else 0
    if not asked:
        return 0
    shares = [100 if not have[name] or asked[name] > have[name] else asked[name] * 100 // have[name] for name in asked]
    return floor(sum(shares) / len(shares) + 0.5)
