"""Record managedFields on writes, and run server-side apply, which depends on them."""

from __future__ import annotations

from collections.abc import Callable

from situate.cluster.errors.field_errors import bad_request
from situate.cluster.errors.refusals import RequestRefused, raise_if_refused
from situate.cluster.errors.times import timestamp
from situate.cluster.kinds.rules import Obj, ResourceRules
from situate.cluster.kinds.schemas.bodies import decode
from situate.cluster.kinds.semantics import Semantics
from situate.cluster.patch import fieldmanager
from situate.cluster.patch.fieldmanager import ManagerIdentity, reset_fields
from situate.cluster.patch.fieldmanager_paths import Paths
from situate.cluster.storage.resources import Resource
from situate.cluster.write.bodies import check_name, check_type, type_of
from situate.cluster.write.calls import Call
from situate.cluster.write.patch_step import APPLY_PATCH


class FieldManagers:
    """Recorder of field managers. Without `tracks` only an apply records them."""

    def __init__(self, rules: Callable[[Resource], ResourceRules], *, tracks: bool) -> None:
        self._rules = rules
        self._tracks = tracks

    def track(self, call: Call, old: Obj | None, new: Obj, semantics: Semantics, subresource: str) -> None:
        """Record the manager of each field in `new`."""
        if not self._tracks:
            new["metadata"].pop("managedFields", None)
            return
        writer = _manager_identity(call, subresource)
        was, now = (old, new) if old is None else _changed_fields(old, new)
        entries = fieldmanager.update_managers(
            was, now, semantics.schema, writer, self._reset_fields(call, subresource)
        )
        new["metadata"]["managedFields"] = entries

    def apply_configuration(
        self, call: Call, subresource: str, semantics: Semantics, present: Obj | None, configuration: Obj
    ) -> Obj:
        """Merge an applied configuration into the present object (None if there is none). Raises `RequestRefused`."""
        writer, reset = _manager_identity(call, subresource), self._reset_fields(call, subresource)
        applied: Obj = raise_if_refused(
            fieldmanager.server_side_apply(
                present, configuration, semantics.schema, writer, force=call.options.force, reset=reset
            )
        )
        applied.setdefault("metadata", {}).setdefault("name", call.name)
        return applied

    def _reset_fields(self, call: Call, subresource: str) -> Paths:
        return reset_fields(call.resource.kind, subresource, self._rules(call.resource).has_status)


def decode_configuration(call: Call) -> Obj:
    """Return the body of an apply. Raises `RequestRefused`."""
    body = raise_if_refused(decode(call.request.body, APPLY_PATCH))
    if not isinstance(body, dict):
        raise RequestRefused(bad_request("error decoding YAML: the body is not an object"))
    metadata = body.get("metadata") or {}
    check_name(call, metadata.get("name", call.name))
    if not body.get("apiVersion") or not body.get("kind"):
        raise RequestRefused(bad_request(f"invalid object type: {type_of(body)}"))
    check_type(call.resource, body)
    return body


def _manager_identity(call: Call, subresource: str) -> ManagerIdentity:
    return ManagerIdentity(call.options.manager, call.resource.api_version, timestamp(call.now), subresource)


def _changed_fields(old: Obj, new: Obj) -> tuple[Obj, Obj]:
    """Return both objects without the top-level fields that are equal. Their ownership does not change."""
    equal = [
        name
        for name, value in new.items()
        if name not in ("apiVersion", "kind", "metadata") and name in old and old[name] == value
    ]
    if not equal:
        return old, new
    return (
        {name: value for name, value in old.items() if name not in equal},
        {name: value for name, value in new.items() if name not in equal},
    )
