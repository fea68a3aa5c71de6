"""Workloads, their scale and their disruption budgets (apps/v1, autoscaling/v1 and policy/v1 types.go).

Pod templates are not read: situate sees the Pods that a controller creates from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from situate.objects.kinds.meta import NO_LABELS, Condition, ObjectMeta
from situate.objects.kinds.selectors import LabelSelector
from situate.objects.model import Model


class StatefulSetOrdinals(Model, frozen=True):
    start: int = 0
    """Ordinal of the first Pod."""


class StatefulSetSpec(Model, frozen=True):
    replicas: int = 1
    service_name: str = ""
    pod_management_policy: str = "OrderedReady"
    """`OrderedReady` or `Parallel`."""
    selector: LabelSelector = LabelSelector()
    ordinals: StatefulSetOrdinals = StatefulSetOrdinals()


class StatefulSetStatus(Model, frozen=True):
    replicas: int = 0
    ready_replicas: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0
    available_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    observed_generation: int = 0


class StatefulSet(Model, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()


class DeploymentSpec(Model, frozen=True):
    replicas: int = 1
    paused: bool = False
    selector: LabelSelector = LabelSelector()


class DeploymentStatus(Model, frozen=True):
    replicas: int = 0
    ready_replicas: int = 0
    updated_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class Deployment(Model, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class ReplicaSetSpec(Model, frozen=True):
    replicas: int = 1
    selector: LabelSelector = LabelSelector()


class ReplicaSetStatus(Model, frozen=True):
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    fully_labeled_replicas: int = 0
    observed_generation: int = 0


class ReplicaSet(Model, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class ReplicationControllerSpec(Model, frozen=True):
    replicas: int = 1
    selector: Mapping[str, str] = NO_LABELS


class ReplicationController(Model, frozen=True):
    """A core/v1 ReplicationController, the predecessor of ReplicaSets."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicationControllerSpec = ReplicationControllerSpec()


class ScaleSpec(Model, frozen=True):
    replicas: int = 0


class ScaleStatus(Model, frozen=True):
    replicas: int = 0
    """Existing Pods, whether or not they are wanted."""
    selector: str = ""
    """The Pods' label selector as a string."""


class Scale(Model, frozen=True):
    """The scale subresource; its resourceVersion is that of the object itself."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ScaleSpec = ScaleSpec()
    status: ScaleStatus = ScaleStatus()


class PodDisruptionBudgetSpec(Model, frozen=True):
    min_available: int | str | None = None
    """A count or a percentage; None if `max_unavailable` is set."""
    max_unavailable: int | str | None = None
    """A count or a percentage; None if `min_available` is set."""
    selector: LabelSelector | None = None
    """None matches no Pod; an empty selector matches every Pod of the namespace."""
    unhealthy_pod_eviction_policy: str = ""
    """Empty means `IfHealthyBudget`."""


class PodDisruptionBudgetStatus(Model, frozen=True):
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()
    disrupted_pods: Mapping[str, datetime] = msgspec.field(default_factory=dict)
    """By name: Pods with a granted eviction, and the time of the grant."""


class PodDisruptionBudget(Model, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
