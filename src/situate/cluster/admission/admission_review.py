"""Build the AdmissionReview for webhooks and for match conditions (webhook/request/admissionreview.go)."""

from __future__ import annotations

from typing import Any, Final

from situate.cluster.admission.attributes import Attributes

_OMITTED_IF_EMPTY: Final = frozenset({"subResource", "requestSubResource", "name", "namespace"})


def build_review(uid: str, attributes: Attributes) -> dict[str, Any]:
    """Return the whole AdmissionReview."""
    request = review_request(uid, attributes)
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


def review_request(uid: str, attributes: Attributes) -> dict[str, Any]:
    """Return the `request` of an AdmissionReview."""
    group, version, kind = attributes.kind
    resource = attributes.resource
    asked = {"group": group, "version": version, "kind": kind}
    place = {"group": resource.group, "version": resource.version, "resource": resource.plural}
    request = {
        "uid": uid,
        "kind": asked,
        "resource": place,
        "subResource": attributes.subresource,
        "requestKind": asked,
        "requestResource": place,
        "requestSubResource": attributes.subresource,
        "name": attributes.name,
        "namespace": attributes.namespace,
        "operation": attributes.operation,
        "userInfo": attributes.identity.user_info(),
        "object": attributes.object,
        "oldObject": attributes.old,
        "dryRun": attributes.dry_run,
        "options": attributes.options,
    }
    return {key: value for key, value in request.items() if value or key not in _OMITTED_IF_EMPTY}
