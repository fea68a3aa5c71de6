"""Access reviews (authorization/v1 types.go), and the permissions that an account needs."""

from __future__ import annotations

from dataclasses import dataclass

from situate.objects.model import Model

READ = ("get", "list", "watch")
"""The verbs that a store of a resource needs."""


@dataclass(frozen=True, slots=True)
class Permission:
    """Verbs on one resource, in one namespace or in all."""

    group: str
    """Empty for the core group."""
    resource: str
    """With the subresource, as in RBAC: `statefulsets/scale`."""
    verbs: tuple[str, ...]
    why: str
    """The function that needs this permission."""
    namespace: str | None = None
    """None: every namespace, or a cluster-scoped object."""
    name: str = ""
    """The only object allowed; empty for all. Never set for verbs that RBAC cannot restrict by name."""

    @property
    def group_resource(self) -> str:
        """The resource as kubectl writes it: `events`, `events.events.k8s.io`, `statefulsets.apps/scale`."""
        resource, slash, subresource = self.resource.partition("/")
        return f"{resource}.{self.group}{slash}{subresource}" if self.group else self.resource


class ResourceAttributes(Model, frozen=True):
    """An action on a resource."""

    namespace: str = ""
    """Empty means all namespaces."""
    verb: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    """Empty means all objects."""


class NonResourceAttributes(Model, frozen=True):
    """An action on a path that is no resource, such as reading `/apis`."""

    path: str = ""
    verb: str = ""


class SelfSubjectAccessReviewSpec(Model, frozen=True):
    resource_attributes: ResourceAttributes = ResourceAttributes()


class SubjectAccessReviewStatus(Model, frozen=True):
    allowed: bool = False
    denied: bool = False
    reason: str = ""
    evaluation_error: str = ""


class SelfSubjectAccessReview(Model, frozen=True):
    spec: SelfSubjectAccessReviewSpec = SelfSubjectAccessReviewSpec()
    status: SubjectAccessReviewStatus = SubjectAccessReviewStatus()


class SubjectAccessReview(Model, frozen=True):
    status: SubjectAccessReviewStatus = SubjectAccessReviewStatus()
