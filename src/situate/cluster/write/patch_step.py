"""Check and apply the patch formats of PATCH.

The module applies JSON, merge and strategic merge patches. `managers` handles server-side apply.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from situate.cluster.errors.field_errors import FieldError, Refused, bad_request, required
from situate.cluster.errors.field_errors import forbidden as forbidden_field
from situate.cluster.errors.refusals import RequestRefused, invalid_options, unsupported_media_type, unsupported_patch
from situate.cluster.kinds.rules import Obj
from situate.cluster.kinds.semantics import Semantics
from situate.cluster.patch.patches import json_patch, merge_patch
from situate.cluster.patch.patches_strategic import strategic_merge_patch
from situate.cluster.storage.resources import Origin
from situate.cluster.write.calls import Call

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
_WITH_STATUS: Final = frozenset({"apiVersion", "kind", "metadata", "status"})
_NONE: Final = object()


def check_patch(call: Call, media: str) -> None:
    """Raise `RequestRefused` if the resource does not accept the format, or an option with it."""
    formats = [JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH]
    if call.resource.origin is Origin.CUSTOM:
        formats.remove(STRATEGIC_PATCH)
    if media == STRATEGIC_PATCH and media not in formats:
        raise RequestRefused(unsupported_media_type(media, formats))
    if media not in formats:
        raise RequestRefused(unsupported_patch())
    errors: list[FieldError] = []
    if media == APPLY_PATCH:
        if not call.request.parameter("fieldManager"):
            errors.append(required("fieldManager", "is required for apply patch"))
    elif call.options.force:
        errors.append(forbidden_field("force", "may not be specified for non-apply patch"))
    if errors:
        raise RequestRefused(invalid_options("PatchOptions", errors))


def unchanged_fields(present: Obj, made: Any, subresource: str) -> Collection[str]:
    """Return the fields that the patch left unchanged and that this write keeps anyway.

    These are the status, or for a write to status everything else. They were decoded when they were written, so they
    are not decoded again. `made` shares them with `present`, because a JSON merge patch leaves the fields that it does
    not name.
    """
    if not isinstance(made, dict):
        return ()
    if subresource == "status":
        return [key for key, value in made.items() if key not in _WITH_STATUS and value is present.get(key)]
    return ("status",) if not subresource and made.get("status", _NONE) is present.get("status") else ()


def apply_patch(media: str, present: Obj, body: Any, semantics: Semantics) -> Any | Refused:
    """Return the present object after a patch, before decoding and defaulting."""
    if media == JSON_PATCH:
        return json_patch(present, body)
    if not isinstance(body, dict):
        return bad_request("error decoding patch: json: cannot unmarshal into Go value of type map[string]interface {}")
    if media == MERGE_PATCH:
        return merge_patch(present, body)
    return strategic_merge_patch(present, body, semantics.schema)
