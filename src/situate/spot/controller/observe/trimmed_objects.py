"""Workloads and ReplicaSets with only the fields that spot reads: of the pod template, those about placement.

Twenty thousand pods may have as many workloads, so containers, volumes and managed fields are skipped while decoding.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from situate.objects.kinds.meta import NO_LABELS, ObjectMeta
from situate.objects.kinds.selectors import LabelSelector
from situate.objects.model import Model
from situate.objects.resources import ResourceType
from situate.spot.workloads.owners import KINDS


class TemplateMetadata(Model, frozen=True):
    labels: Mapping[str, str] = NO_LABELS
    annotations: Mapping[str, str] = NO_LABELS


class TemplateSpec(Model, frozen=True):
    node_selector: Mapping[str, str] = NO_LABELS
    affinity: dict[str, Any] | None = None
    """Plain JSON; None requires nothing."""
    tolerations: tuple[dict[str, Any], ...] = ()


class Template(Model, frozen=True):
    metadata: TemplateMetadata = TemplateMetadata()
    spec: TemplateSpec = TemplateSpec()


class Ordinals(Model, frozen=True):
    start: int = 0


class RollingUpdate(Model, frozen=True):
    partition: int = 0


class UpdateStrategy(Model, frozen=True):
    type: str = ""
    rolling_update: RollingUpdate | None = None
    """For StatefulSets."""
    partition: int | str = 0
    """For CloneSets: pods that stay old, as a number or as a share such as `20%`."""
    paused: bool = False
    """For CloneSets."""


class WorkloadSpec(Model, frozen=True):
    replicas: int = 1
    paused: bool = False
    min_ready_seconds: int = 0
    ordinals: Ordinals = Ordinals()
    """For StatefulSets."""
    update_strategy: UpdateStrategy = UpdateStrategy()
    """For StatefulSets and CloneSets."""
    selector: LabelSelector = LabelSelector()
    template: Template = Template()


class WorkloadStatus(Model, frozen=True):
    observed_generation: int | str = 0
    """Text on Rollouts."""
    replicas: int = 0
    updated_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    current_pod_hash: str = msgspec.field(default="", name="currentPodHash")
    """For Rollouts: the current revision."""


class WorkloadObject(Model, frozen=True):
    """A Deployment, StatefulSet, Rollout or CloneSet; a field that its kind does not have keeps its default."""

    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


class SetSpec(Model, frozen=True):
    replicas: int = 1
    selector: LabelSelector = LabelSelector()


class SlimReplicaSet(Model, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: SetSpec = SetSpec()


REPLICASETS: Final = ResourceType("apps", "v1", "ReplicaSet", "replicasets", True, SlimReplicaSet)
WORKLOADS: Final[Mapping[str, ResourceType[WorkloadObject]]] = {
    each.kind: ResourceType(each.group, each.version, each.kind, each.plural, True, WorkloadObject)
    for each in KINDS.values()
}
"""By kind."""
DEPLOYMENTS: Final = WORKLOADS["Deployment"]
STATEFULSETS: Final = WORKLOADS["StatefulSet"]


def to_plain_json(value: Model) -> dict[str, Any]:
    """Return the object as plain JSON, for functions that read objects of any kind."""
    content: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(value))
    return content
