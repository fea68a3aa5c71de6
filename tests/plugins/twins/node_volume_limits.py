from __future__ import annotations

from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod
from situate.objects.kinds.storage import CSINode, PersistentVolumeClaim, StorageClass, VolumeAttachment
from tests.plugins.twins import in_tree
from tests.plugins.twins.in_tree import Attached
from tests.plugins.twins.stored import all_of, claim_of, find_claim, find_volume, is_owned, named
from tests.plugins.twins.world import PASS, UNRESOLVABLE, UNSCHEDULABLE, Answer, World


def of_claim(claim: PersistentVolumeClaim, world: World) -> Attached | None:
    volume = find_volume(world, claim.spec.volume_name)
    if volume is not None:
        return in_tree.persistent(volume)
    kind = named(world, StorageClass, claim.storage_class)
    if kind is None or kind.provisioner in ("", "kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"):
        return None
    driver = in_tree.PLUGINS.get(kind.provisioner, kind.provisioner)
    return driver, f"to be made for {claim.metadata.namespace}/{claim.metadata.name}"


def of_pod(pod: Pod, world: World) -> set[Attached]:
    found = set()
    for volume in pod.spec.volumes:
        name = claim_of(pod, volume)
        if name is None:
            attached = in_tree.inline(volume)
        else:
            claim = find_claim(world, pod, name)
            if claim is None or (volume.ephemeral is not None and not is_owned(claim, pod)):
                continue
            attached = of_claim(claim, world)
        if attached is not None:
            found.add(attached)
    return found


def filter_node(pod: Pod, node: Node, world: World) -> Answer:
    for volume in pod.spec.volumes:
        name = claim_of(pod, volume)
        if name is not None and find_claim(world, pod, name) is None:
            text = f'looking up PVC {pod.metadata.namespace}/{name}: persistentvolumeclaim "{name}" not found'
            return Answer(UNRESOLVABLE, (text,))
    csi_node = named(world, CSINode, node.metadata.name)
    if csi_node is None:
        return PASS
    used = {each for other in world.on(node) for each in of_pod(other, world)}
    attached = set()
    for each in all_of(world, VolumeAttachment):
        there = find_volume(world, each.spec.source.persistent_volume_name)
        if each.spec.node_name == node.metadata.name and each.spec.attacher and there is not None and there.spec.csi:
            attached.add((each.spec.attacher, there.spec.csi.volume_handle))
    new = of_pod(pod, world) - used
    for driver in {driver for driver, _ in new}:
        before = sum(each[0] == driver for each in used | attached)
        more = sum(each[0] == driver for each in new)
        limit = csi_node.limits.get(driver)
        if limit is not None and before + more > limit:
            return Answer(UNSCHEDULABLE, ("node(s) exceed max volume count",))
    return PASS
