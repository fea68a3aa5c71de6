from __future__ import annotations

from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod
from situate.objects.kinds.storage import PersistentVolume, StorageClass
from tests.plugins.twins.stored import find_claim, find_volume, named
from tests.plugins.twins.volume_restrictions import claims
from tests.plugins.twins.world import PASS, UNRESOLVABLE, Answer, World

BETA_ZONE, BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
LABELS = (BETA_ZONE, BETA_REGION, ZONE, REGION)


def refusal(pod: Pod, world: World) -> str:
    for name in claims(pod):
        claim = find_claim(world, pod, name)
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        if claim.spec.volume_name:
            if find_volume(world, claim.spec.volume_name) is None:
                return f'persistentvolume "{claim.spec.volume_name}" not found'
            continue
        if not claim.storage_class:
            return "PersistentVolumeClaim had no pv name and storageClass name"
        kind = named(world, StorageClass, claim.storage_class)
        if kind is None:
            return f'storageclass.storage.k8s.io "{claim.storage_class}" not found'
        if kind.volume_binding_mode != "WaitForFirstConsumer":
            return "PersistentVolume had no name"
    return ""


def volumes(pod: Pod, world: World) -> list[PersistentVolume]:
    found = []
    for name in claims(pod):
        claim = find_claim(world, pod, name)
        volume = find_volume(world, claim.spec.volume_name) if claim is not None else None
        if volume is not None:
            found.append(volume)
    return found


def filter_node(pod: Pod, node: Node, world: World) -> Answer:
    if not any(label in node.metadata.labels for label in LABELS):
        return PASS
    newer = {BETA_ZONE: ZONE, BETA_REGION: REGION}
    for volume in volumes(pod, world):
        for label in LABELS:
            zones = [zone.strip() for zone in volume.metadata.labels.get(label, "").split("__")]
            if "" in zones:
                continue
            value = node.metadata.labels.get(label)
            if value is None:
                value = node.metadata.labels.get(newer.get(label, label))
            if value not in zones:
                return Answer(UNRESOLVABLE, ("node(s) had no available volume zone",))
    return PASS
