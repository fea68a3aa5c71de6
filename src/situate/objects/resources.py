"""The resources of an API server, their paths and their models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from situate.objects.kinds.config_maps import (
    ConfigMap,
    CustomResourceDefinition,
    Namespace,
    PriorityClass,
    Secret,
    ServiceAccount,
)
from situate.objects.kinds.events import CoreEvent, Event
from situate.objects.kinds.leases import Lease
from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod
from situate.objects.kinds.services import Service
from situate.objects.kinds.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from situate.objects.kinds.unstructured import Unstructured
from situate.objects.kinds.workloads import (
    Deployment,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from situate.objects.reviews.authentication import TokenReview
from situate.objects.reviews.authorization import SelfSubjectAccessReview, SubjectAccessReview

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ResourceType(Generic[T]):
    """A resource of the REST API."""

    group: str
    """Empty for the core group."""
    version: str
    kind: str
    plural: str
    namespaced: bool
    model: type[T]

    @property
    def api_version(self) -> str:
        """The text for `apiVersion`: `v1`, `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_resource(self) -> str:
        """The name in permissions and messages: `pods`, `statefulsets.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """Return the REST path, not percent-encoded.

        Without a name it is the path of the collection, in one namespace or in all. A cluster-scoped resource ignores
        the namespace.
        """
        path = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if self.namespaced and namespace:
            path += f"/namespaces/{namespace}"
        path += f"/{self.plural}"
        if name:
            path += f"/{name}"
        if subresource:
            path += f"/{subresource}"
        return path


def unstructured(
    group: str, version: str, kind: str, plural: str, *, namespaced: bool = True
) -> ResourceType[Unstructured]:
    """Return the type of any resource, such as a custom one; its objects retain every field."""
    return ResourceType(group, version, kind, plural, namespaced, Unstructured)


PODS = ResourceType("", "v1", "Pod", "pods", True, Pod)
NODES = ResourceType("", "v1", "Node", "nodes", False, Node)
CONFIGMAPS = ResourceType("", "v1", "ConfigMap", "configmaps", True, ConfigMap)
SECRETS = ResourceType("", "v1", "Secret", "secrets", True, Secret)
NAMESPACES = ResourceType("", "v1", "Namespace", "namespaces", False, Namespace)
SERVICEACCOUNTS = ResourceType("", "v1", "ServiceAccount", "serviceaccounts", True, ServiceAccount)
SERVICES = ResourceType("", "v1", "Service", "services", True, Service)
REPLICATIONCONTROLLERS = ResourceType(
    "", "v1", "ReplicationController", "replicationcontrollers", True, ReplicationController
)
CORE_EVENTS = ResourceType("", "v1", "Event", "events", True, CoreEvent)
EVENTS = ResourceType("events.k8s.io", "v1", "Event", "events", True, Event)
STATEFULSETS = ResourceType("apps", "v1", "StatefulSet", "statefulsets", True, StatefulSet)
DEPLOYMENTS = ResourceType("apps", "v1", "Deployment", "deployments", True, Deployment)
REPLICASETS = ResourceType("apps", "v1", "ReplicaSet", "replicasets", True, ReplicaSet)
LEASES = ResourceType("coordination.k8s.io", "v1", "Lease", "leases", True, Lease)
PODDISRUPTIONBUDGETS = ResourceType(
    "policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", True, PodDisruptionBudget
)
PERSISTENTVOLUMECLAIMS = ResourceType(
    "", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", True, PersistentVolumeClaim
)
PERSISTENTVOLUMES = ResourceType("", "v1", "PersistentVolume", "persistentvolumes", False, PersistentVolume)
STORAGECLASSES = ResourceType("storage.k8s.io", "v1", "StorageClass", "storageclasses", False, StorageClass)
CSINODES = ResourceType("storage.k8s.io", "v1", "CSINode", "csinodes", False, CSINode)
CSIDRIVERS = ResourceType("storage.k8s.io", "v1", "CSIDriver", "csidrivers", False, CSIDriver)
CSISTORAGECAPACITIES = ResourceType(
    "storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities", True, CSIStorageCapacity
)
VOLUMEATTACHMENTS = ResourceType(
    "storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments", False, VolumeAttachment
)
PRIORITYCLASSES = ResourceType("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", False, PriorityClass)
CUSTOMRESOURCEDEFINITIONS = ResourceType(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    False,
    CustomResourceDefinition,
)
SELFSUBJECTACCESSREVIEWS = ResourceType(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", False, SelfSubjectAccessReview
)
SUBJECTACCESSREVIEWS = ResourceType(
    "authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", False, SubjectAccessReview
)
TOKENREVIEWS = ResourceType("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", False, TokenReview)
