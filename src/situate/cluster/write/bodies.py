"""Decode objects from clients, check them against their kind, and set the namespace from the path."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import msgspec

from situate.cluster.errors.field_errors import Refused, bad_request, invalid, invalid_object
from situate.cluster.errors.go_text import format_go_value, quote
from situate.cluster.errors.refusals import RequestRefused, raise_if_refused, unsupported_media_type
from situate.cluster.kinds.rules import Obj
from situate.cluster.kinds.schemas.bodies import check_type_fields, decode
from situate.cluster.kinds.semantics import Semantics
from situate.cluster.storage.resources import Origin, Resource
from situate.cluster.write.calls import Call

_BODIES: Final = ("application/json", "application/yaml")


def decode_body(call: Call, semantics: Semantics) -> Obj:
    """Return the object in the body, in the namespace of the path. Unknown fields are handled as requested."""
    resource = call.resource
    raw = call.request.body
    media = call.request.headers.get("content-type", "application/json").split(";")[0].strip()
    if media and media not in _BODIES:
        raise RequestRefused(unsupported_media_type(media, _BODIES))
    obj = decode(raw, media or "application/json")
    if isinstance(obj, Refused):
        raise RequestRefused(invalid_json_refusal(resource.kind, raw))
    wrong = check_type_fields(obj, resource.kind, raw)
    if wrong is not None:
        raise RequestRefused(wrong)
    check_type(resource, obj)
    checked = raise_if_refused(
        semantics.check(obj, call.options.strictness, raw if media != "application/yaml" else None)
    )
    call.warnings.extend(checked.warnings)
    found: Obj = checked.object
    _set_namespace(call, found)
    return found


def decode_patched(
    call: Call, patched: Any, semantics: Semantics, patch: Any = None, kept: Collection[str] = ()
) -> Obj:
    """Check the object that a patch produced, and set its namespace and defaults.

    `patch` is a strategic merge patch; errors of strict validation show it, and for other formats the patched object.
    The fields `kept` are as stored and are taken over unchecked.
    """
    seen = {key: value for key, value in patched.items() if key not in kept} if kept else patched
    outcome = semantics.check(seen, call.options.strictness, None)
    if isinstance(outcome, Refused):
        _, strict, problems = outcome.message.partition("strict decoding error: ")
        if strict:
            text = msgspec.json.encode(patched, order="sorted").decode() if patch is None else format_go_value(patch)
            # A patched object is a map, and upstream visits its fields sorted by name.
            told = strict + ", ".join(sorted(problems.split(", ")))
            outcome = invalid_object("", "", "", [invalid("patch", text, told)])
    checked = raise_if_refused(outcome)
    call.warnings.extend(checked.warnings)
    new: Obj = checked.object
    if kept:
        in_order = (key for key in (*patched, *new) if key in kept or key in new)
        new = {key: patched[key] if key in kept else new[key] for key in in_order}
    _set_namespace(call, new)
    named = new["metadata"].get("name", "")
    if not named:
        why = "undeterminable: name must be provided"
        raise RequestRefused(bad_request(f"the name of the object ({call.name} based on URL) was {why}"))
    check_name(call, named)
    semantics.default(new)
    return new


def check_name(call: Call, named: str) -> None:
    """Raise `RequestRefused` if the object has another name than the path."""
    if named != call.name:
        text = f"the name of the object ({named}) does not match the name on the URL ({call.name})"
        raise RequestRefused(bad_request(text))


def check_type(resource: Resource, obj: Obj) -> None:
    """Check apiVersion and kind of the body and set them. Built-in kinds may omit both."""
    kind, api_version = obj.get("kind") or "", obj.get("apiVersion") or ""
    if resource.origin is Origin.CUSTOM and not kind:
        raise RequestRefused(bad_request("Object 'Kind' is missing"))
    if kind and kind != resource.kind:
        version = api_version.rpartition("/")[2]
        internal = resource.group.partition(".")[0] or "core"
        text = f"{kind} in version {quote(version)} cannot be handled as a {resource.kind}: converting "
        text += f"({version}.{kind}) to ({internal}.{resource.kind}): unknown conversion"
        raise RequestRefused(bad_request(text))
    if api_version and api_version != resource.api_version:
        text = f"the API version in the data ({api_version}) does not match the expected API version "
        raise RequestRefused(bad_request(f"{text}({resource.api_version})"))
    obj["kind"], obj["apiVersion"] = resource.kind, resource.api_version


def invalid_json_refusal(kind: str, raw: bytes) -> Refused:
    """Return the 400 for a body that is not JSON."""
    shown = raw[:27].decode(errors="replace")
    return bad_request(
        f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse error: "
        f"unexpected end of JSON input ({quote(shown)[1:-1]}{' ...' if len(raw) > 27 else ''})"
    )


def type_of(obj: Obj) -> str:
    """Return the type as Go prints a GroupVersionKind."""
    group, _, version = (obj.get("apiVersion") or "").rpartition("/")
    return f"{group}/{version}, Kind={obj.get('kind') or ''}"


def _set_namespace(call: Call, obj: Obj) -> None:
    """Set the namespace of the path. Raises `RequestRefused` if the object names another namespace."""
    metadata = obj.setdefault("metadata", {})
    if not isinstance(metadata, dict):
        raise RequestRefused(bad_request("metadata must be an object"))
    namespace = call.target.namespace
    if metadata.get("namespace", "") not in ("", namespace):
        raise RequestRefused(
            bad_request("the namespace of the provided object does not match the namespace sent on the request")
        )
    if namespace:
        metadata["namespace"] = namespace
    else:
        metadata.pop("namespace", None)
