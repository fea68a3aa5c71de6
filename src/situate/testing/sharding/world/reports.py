"""The kind of the objects in these tests, and writes to their assignments as a supervisor makes them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from situate.objects.resources import unstructured
from situate.sharding.model.field_paths import Content, FieldPaths
from situate.sharding.model.names import Cause
from situate.sharding.model.object_view import (
    DrainRequest,
    Holder,
    Placement,
    assigned_content,
    drain_requested_content,
    revoked_content,
    view_of,
)
from situate.sharding.model.patches import Operations, guarded_patch

GROUP = "batch.example.com"
REPORTS = unstructured(GROUP, "v1", "Report", "reports")
PATHS = FieldPaths()
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ANY = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def definition(
    *, status_subresource: bool = True, selectable: bool = False, group: str = GROUP, kind: str = "Report"
) -> dict[str, Any]:
    """Build the CustomResourceDefinition of a kind whose spec and status may have any fields."""
    singular = kind.lower()
    version: dict[str, Any] = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": ANY, "status": ANY}}},
    }
    if status_subresource:
        version["subresources"] = {"status": {}}
    if selectable:
        version["selectableFields"] = [{"jsonPath": ".spec.assignedTo"}]
        assigned = {"type": "string"}
        spec = {**ANY, "properties": {"assignedTo": assigned}}
        version["schema"]["openAPIV3Schema"]["properties"]["spec"] = spec
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{singular}s.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": f"{singular}s", "singular": singular, "kind": kind},
            "versions": [version],
        },
    }


def report(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Report", "metadata": {"name": name}, "spec": {"work": 1, **spec}}


def assignment_patch(content: Content, holder: Holder, now: datetime, term: int = 1) -> Operations:
    return guarded_patch(
        content, assigned_content(view_of(content, PATHS), PATHS, Placement(holder, term, now, Cause.NEW, None))
    )


def revocation_patch(content: Content, term: int = 1) -> Operations:
    return guarded_patch(content, revoked_content(view_of(content, PATHS), PATHS, term, Cause.DRAIN))


def drain_patch(content: Content, deadline: datetime) -> Operations:
    view = view_of(content, PATHS)
    return guarded_patch(content, drain_requested_content(view, DrainRequest(view.epoch, deadline, Cause.DRAIN)))
