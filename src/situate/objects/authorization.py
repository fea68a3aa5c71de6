"""May I? (authorization/v1 types.go)."""

from __future__ import annotations

from situate.objects.model import Model


class ResourceAttributes(Model, frozen=True):
    """An action on a resource."""

    namespace: str = ""
    """Empty asks for all namespaces."""
    verb: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    """Empty asks for all objects."""


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
