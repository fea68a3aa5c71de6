"""Create, update and patch objects: the steps of a write, in upstream's order.

The steps are: decode, default, record the manager, mutating admission, the kind's rules, validation, validating
admission, store. After apiserver's endpoints/handlers and registry/generic/registry/store.go. Each step has its own
module. `deletion` deletes objects, and `subresources` has the rules of single subresources.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from situate.cluster.admission.attributes import Steps
from situate.cluster.admission.chain import Admission
from situate.cluster.errors.field_errors import Refused, invalid, invalid_object, required
from situate.cluster.errors.go_text import quote
from situate.cluster.errors.refusals import (
    MODIFIED,
    RequestRefused,
    already_exists,
    conflict,
    invalid_resource,
    not_found,
    raise_if_refused,
    storage_conflict,
)
from situate.cluster.errors.times import timestamp
from situate.cluster.kinds.rules import Obj, ResourceRules, rules_of
from situate.cluster.kinds.schemas.bodies import decode
from situate.cluster.kinds.semantics import Semantics
from situate.cluster.read.negotiation import decode_whole
from situate.cluster.storage.names import NameGenerator
from situate.cluster.storage.resources import Resource
from situate.cluster.storage.store import Store
from situate.cluster.storage.stored_object import StoredObject
from situate.cluster.write.admission_step import AdmissionStep
from situate.cluster.write.bodies import check_name, decode_body, decode_patched
from situate.cluster.write.calls import Call, Change, Prepare, Shape, Validate, Written
from situate.cluster.write.cluster_addresses import ClusterAddresses
from situate.cluster.write.managers import FieldManagers, decode_configuration
from situate.cluster.write.patch_step import APPLY_PATCH, STRATEGIC_PATCH, apply_patch, check_patch, unchanged_fields
from situate.cluster.write.pod_copies import PodTemplateCache
from situate.cluster.write.storage_step import StorageStep

_MAX_ATTEMPTS: Final = 5
"""Attempts for a write without a resourceVersion if other writes interfere (handlers/patch.go)."""


_SYSTEM_FIELDS: Final = (
    *("resourceVersion", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"),
)
"""Fields of the metadata that the client of a creation cannot set."""


class ObjectWriter:
    """Create, update and patch operations on one store."""

    def __init__(
        self,
        store: Store,
        names: NameGenerator,
        admission: Admission,
        semantics_of: Callable[[Resource], Semantics],
        *,
        tracks_managers: bool = True,
    ) -> None:
        self.admission = AdmissionStep(store, admission)
        self.storage = StorageStep(store, names)
        self.managers = FieldManagers(self.rules, tracks=tracks_managers)
        self.semantics_of = semantics_of
        self._store = store
        self.names = names
        self._copies = PodTemplateCache(store, names, admission)
        self._addresses = ClusterAddresses(store)
        self._rules: dict[tuple[str, str, str], tuple[Resource, ResourceRules]] = {}

    def rules(self, resource: Resource) -> ResourceRules:
        """Return the kind's rules, computed once per definition."""
        key = (resource.group, resource.version, resource.plural)
        known = self._rules.get(key)
        if known is None or known[0] is not resource:
            known = self._rules[key] = (resource, rules_of(resource))
        return known[1]

    def create(self, call: Call) -> Steps[Written]:
        """Handle a POST to a collection."""
        resource, semantics = call.resource, self.semantics_of(call.resource)
        copied = None
        if resource.table == "pods" and not call.options.dry_run:
            copied = self._copies.parse_request(call.request, call.target.namespace, call.options.manager)
        if copied is not None:
            key, name = copied
            self.admission.check_namespace(call, name)
            if self._store.get("pods", call.target.namespace, name) is None:
                made = self._copies.create_from_template(key, name, call.now)
                if made is not None:
                    return Written(201, made)
        obj = decode_body(call, semantics)
        metadata = obj["metadata"]
        if metadata.get("resourceVersion"):
            raise RequestRefused(Refused(500, "", "resourceVersion should not be set on objects to be created"))
        name = metadata.get("name", "")
        if not name and not metadata.get("generateName"):
            error = required("metadata.name", "name or generateName is required")
            raise RequestRefused(invalid_object(resource.group, resource.kind, "", [error]))
        semantics.default(obj)
        self.managers.track(call, None, obj, semantics, "")
        written = yield from self._insert(call, obj, semantics)
        if copied is not None and not call.warnings and isinstance(written.object, StoredObject):
            self._copies.add_template(copied[0], written.object)
        return written

    def update(
        self, call: Call, subresource: str, prepare: Prepare | None = None, validate: Validate | None = None
    ) -> Steps[Written]:
        """Handle a PUT of an object or of a subresource; `prepare` and `validate` are as in `replace`."""
        semantics = self.semantics_of(call.resource)
        body = decode_body(call, semantics)
        check_name(call, body["metadata"].get("name", ""))
        semantics.default(body)

        def change(present: Obj | None) -> Obj:
            new: Obj = msgspec.json.decode(msgspec.json.encode(body))
            self.managers.track(call, present, new, semantics, subresource)
            return new

        rules = self.rules(call.resource)
        if not subresource and rules.create_on_update and self._current_object(call) is None:
            return (yield from self._insert(call, change(None), semantics))
        return (yield from self.replace(call, subresource, semantics, change, prepare, validate))

    def patch(
        self, call: Call, subresource: str, prepare: Prepare | None = None, validate: Validate | None = None
    ) -> Steps[Written]:
        """Handle a PATCH of an object or of a subresource, in any of the four formats."""
        semantics = self.semantics_of(call.resource)
        media = call.request.headers.get("content-type", "").split(";")[0].strip()
        check_patch(call, media)
        if media == APPLY_PATCH:
            return (yield from self._apply(call, subresource, semantics, prepare, validate))
        body = raise_if_refused(decode(call.request.body))
        status_apart = self.rules(call.resource).has_status

        def change(present: Obj | None) -> Obj:
            assert present is not None
            made = raise_if_refused(apply_patch(media, present, body, semantics))
            kept = unchanged_fields(present, made, subresource) if status_apart else frozenset()
            new = decode_patched(call, made, semantics, body if media == STRATEGIC_PATCH else None, kept)
            self.managers.track(call, present, new, semantics, subresource)
            return new

        return (yield from self.replace(call, subresource, semantics, change, prepare, validate))

    def replace(
        self,
        call: Call,
        subresource: str,
        semantics: Semantics,
        change: Change,
        prepare: Prepare | None = None,
        validate: Validate | None = None,
        shape: Shape | None = None,
    ) -> Steps[Written]:
        """Change an existing object. For special subresources `prepare` and `validate` replace those of the kind."""
        rules = self.rules(call.resource)
        if subresource == "status":
            prepare, validate = rules.prepare_status, semantics.validate_status
        prepare = prepare or rules.prepare_update
        validate = validate or semantics.validate_update
        for _ in range(_MAX_ATTEMPTS):
            present = self._current_object(call)
            if present is None:
                raise RequestRefused(not_found(call.resource, call.name))
            old = decode_whole(call.resource, present)
            new = change(old)
            fixed = self._check_preconditions(call, new, present)
            new = yield from self.admission.mutate(call, "UPDATE", subresource, new, old, shape)
            prepare(new, old)
            new["metadata"]["name"] = new["metadata"].get("name") or call.name
            given = call.resource.table == "services" and not subresource
            taken = self._addresses.allocate(new, old) if given else []
            errors = validate(new, old) or taken
            if errors:
                raise RequestRefused(invalid_object(call.resource.group, call.resource.kind, call.name, errors))
            yield from self.admission.validate(call, "UPDATE", subresource, new, old, shape)
            if self._current_object(call) is not present:
                # Another write came while a webhook was called.
                if fixed:
                    raise RequestRefused(conflict(call.resource, call.name, MODIFIED))
                continue
            return self.storage.replace(call, present, new, old)
        raise RequestRefused(conflict(call.resource, call.name, MODIFIED))

    def _apply(
        self, call: Call, subresource: str, semantics: Semantics, prepare: Prepare | None, validate: Validate | None
    ) -> Steps[Written]:
        body = decode_configuration(call)

        def change(present: Obj | None) -> Obj:
            return decode_patched(
                call, self.managers.apply_configuration(call, subresource, semantics, present, body), semantics
            )

        if self._current_object(call) is None and not subresource:
            uid = (body.get("metadata") or {}).get("uid")
            if uid:
                why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                raise RequestRefused(conflict(call.resource, call.name, why))
            return (yield from self._insert(call, change(None), semantics))
        return (yield from self.replace(call, subresource, semantics, change, prepare, validate))

    def _insert(self, call: Call, obj: Obj, semantics: Semantics) -> Steps[Written]:
        resource = call.resource
        metadata = obj["metadata"]
        self.admission.check_namespace(call, metadata.get("name", ""))
        for name in _SYSTEM_FIELDS:
            metadata.pop(name, None)
        obj = yield from self.admission.mutate(call, "CREATE", "", obj, None)
        metadata = obj["metadata"]
        if not metadata.get("name"):
            metadata["name"] = self.storage.free_name(resource, call.target.namespace, metadata["generateName"])
        metadata["uid"] = self.names.uid()
        metadata["creationTimestamp"] = timestamp(call.now)
        self.rules(resource).prepare_create(obj, call.now)
        taken = self._addresses.allocate(obj, None) if resource.table == "services" else []
        errors = semantics.validate_create(obj) or taken
        if errors:
            raise RequestRefused(invalid_object(resource.group, resource.kind, metadata["name"], errors))
        yield from self.admission.validate(call, "CREATE", "", obj, None)
        if self._store.get(resource.table, call.target.namespace, metadata["name"]) is not None:
            raise RequestRefused(already_exists(resource, metadata["name"]))
        if call.options.dry_run:
            return Written(201, obj)
        return Written(201, self.storage.put(resource, obj))

    def _check_preconditions(self, call: Call, new: Obj, present: StoredObject) -> bool:
        """Return whether the client requires the version in its request.

        Raises `RequestRefused` if that version is not the present one.
        """
        metadata = new["metadata"]
        uid = metadata.get("uid")
        # In a patch, the uid is a change like any other, which validation refuses.
        if uid and uid != present.uid and call.request.method == "PUT":
            raise RequestRefused(
                storage_conflict(call.resource, present.namespace, present.name, "UID", uid, present.uid)
            )
        asked = metadata.get("resourceVersion", "")
        metadata["resourceVersion"] = str(present.revision)
        if call.request.method == "PUT":
            if not asked or asked == "0":
                if self.rules(call.resource).unconditional_update:
                    return False
                error = invalid("metadata.resourceVersion", 0, "must be specified for an update")
                raise RequestRefused(invalid_resource(call.resource, call.name, [error]))
            if not asked.isdecimal():
                raise RequestRefused(Refused(500, "", f"strconv.ParseUint: parsing {quote(asked)}: invalid syntax"))
        if asked and asked != str(present.revision):
            raise RequestRefused(conflict(call.resource, call.name, MODIFIED))
        return bool(asked) and call.request.method == "PUT"

    def _current_object(self, call: Call) -> StoredObject | None:
        return self._store.get(call.resource.table, call.target.namespace, call.name)
