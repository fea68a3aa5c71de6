"""Services, with the selector of their Pods (core/v1 types.go)."""

from __future__ import annotations

from collections.abc import Mapping

from situate.objects.kinds.meta import NO_LABELS, ObjectMeta
from situate.objects.model import Model


class ServiceSpec(Model, frozen=True):
    selector: Mapping[str, str] = NO_LABELS
    """Empty selects no Pod: another component manages the endpoints."""


class Service(Model, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()
