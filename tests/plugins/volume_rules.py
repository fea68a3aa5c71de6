"""What the rules of plugins about volumes are told of: two nodes in two zones, and what a plugin says of each."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from situate.framework.results.status import Code
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import (
    AWSElasticBlockStoreSource,
    GCEPersistentDiskSource,
    ISCSISource,
    Pod,
    RBDSource,
    Volume,
)
from situate.objects.kinds.storage import StorageObject
from tests.framework.volumes.objects import HOSTNAME, pod, storage_class, using
from tests.plugins.twins.world import PASS, UNRESOLVABLE, Answer, World
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


def answers(
    plugin: Any, new: Pod, *stored: StorageObject, pods: tuple[Pod, ...] = ()
) -> dict[str, Answer] | str | None:
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
MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
LOCAL = storage_class()
MADE = storage_class("made", provisioner="made")
P = pod("p", using("mine"))


def gce(name: str = "d", *, reads: bool = False) -> Volume:
    return Volume("disk", gce_persistent_disk=GCEPersistentDiskSource(name, reads))


def ebs(name: str = "vol-1") -> Volume:
    return Volume("disk", aws_elastic_block_store=AWSElasticBlockStoreSource(name))


def iscsi(name: str = "i", *, reads: bool = False) -> Volume:
    return Volume("disk", iscsi=ISCSISource(name, reads))


def rbd(*monitors: str, image: str = "x", pool: str = "rbd", reads: bool = False) -> Volume:
    return Volume("disk", rbd=RBDSource(monitors, pool, image, reads))
