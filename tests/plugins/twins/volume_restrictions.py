from __future__ import annotations

from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod, Volume
from tests.plugins.twins.stored import find_claim
from tests.plugins.twins.world import PASS, UNSCHEDULABLE, Answer, World


def claims(pod: Pod) -> list[str]:
    sources = [volume.persistent_volume_claim for volume in pod.spec.volumes]
    return [source.claim_name for source in sources if source is not None]


def refusal(pod: Pod, world: World) -> str:
    for name in claims(pod):
        if find_claim(world, pod, name) is None:
            return f'persistentvolumeclaim "{name}" not found'
    return ""


def excludes(one: Volume, other: Volume) -> bool:
    if one.gce_persistent_disk and other.gce_persistent_disk:
        both_read = one.gce_persistent_disk.read_only and other.gce_persistent_disk.read_only
        return one.gce_persistent_disk.pd_name == other.gce_persistent_disk.pd_name and not both_read
    if one.aws_elastic_block_store and other.aws_elastic_block_store:
        return one.aws_elastic_block_store.volume_id == other.aws_elastic_block_store.volume_id
    if one.iscsi and other.iscsi:
        return one.iscsi.iqn == other.iscsi.iqn and not (one.iscsi.read_only and other.iscsi.read_only)
    if one.rbd and other.rbd:
        overlap = any(monitor in other.rbd.monitors for monitor in one.rbd.monitors)
        same = one.rbd.pool == other.rbd.pool and one.rbd.image == other.rbd.image
        return overlap and same and not (one.rbd.read_only and other.rbd.read_only)
    return False


def filter_node(pod: Pod, node: Node, world: World) -> Answer:
    for other in world.on(node):
        if any(excludes(one, theirs) for one in pod.spec.volumes for theirs in other.spec.volumes):
            return Answer(UNSCHEDULABLE, ("node(s) had no available disk",))
    for name in claims(pod):
        claim = find_claim(world, pod, name)
        if claim is not None and "ReadWriteOncePod" in claim.spec.access_modes and in_use(name, pod, world):
            text = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use"
            return Answer(UNSCHEDULABLE, (f"{text} by another pod",))
    return PASS


def in_use(name: str, pod: Pod, world: World) -> bool:
    for other in world.pods:
        if other.spec.node_name and other.metadata.namespace == pod.metadata.namespace and name in claims(other):
            return True
    return False
