"""Build the AdmissionReview for webhooks and for match conditions (webhook/request/admissionreview.go)."""

from __future__ import annotations

from typing import Any

from situate.cluster.admission.attributes import Attributes


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
    request: dict[str, Any] = {"uid": uid, "kind": asked, "resource": place}
    if attributes.subresource:
        request["subResource"] = attributes.subresource
    request["requestKind"] = asked
    request["requestResource"] = place
    if attributes.subresource:
        request["requestSubResource"] = attributes.subresource
    if attributes.name:
        request["name"] = attributes.name
    if attributes.namespace:
        request["namespace"] = attributes.namespace
    request["operation"] = attributes.operation
    request["userInfo"] = attributes.identity.user_info()
    request["object"] = attributes.object
    request["oldObject"] = attributes.old
    request["dryRun"] = attributes.dry_run
    request["options"] = attributes.options
    return request
