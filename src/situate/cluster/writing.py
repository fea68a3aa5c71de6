"""Create, update and patch: the steps of a write, in upstream's order.

Decode, default, record the manager, let admission change it, let the kind's rules prepare it, validate, let admission
refuse it, store. After apiserver's endpoints/handlers and registry/generic/registry/store.go. Deletion is in
`deleting`, what is special about single subresources in `subresources`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import msgspec

from situate.cluster import fieldmanager
from situate.cluster.admission.attributes import Attributes, Steps
from situate.cluster.admission.chain import Admission
from situate.cluster.effects import Identity
from situate.cluster.field_errors import FieldError, Refused, bad_request, invalid, invalid_object, required
from situate.cluster.field_errors import forbidden as forbidden_field
from situate.cluster.fieldmanager import Writer, reset_fields
from situate.cluster.go_text import quote
from situate.cluster.names import SUFFIX_LENGTH, Names
from situate.cluster.options import WriteOptions
from situate.cluster.patches import json_patch, merge_patch
from situate.cluster.patches_strategic import strategic_merge_patch
from situate.cluster.paths import Target
from situate.cluster.pod_copies import PodCopies
from situate.cluster.refusals import (
    MODIFIED,
    Declined,
    accepted,
    already_exists,
    conflict,
    forbidden,
    invalid_options,
    invalid_resource,
    not_found,
    unsupported_media_type,
    unsupported_patch,
)
from situate.cluster.representation import decoded
from situate.cluster.resources import Origin, Resource
from situate.cluster.rules import Obj, Rules, rules_of
from situate.cluster.schemas.bodies import decode, type_of_body
from situate.cluster.selection import selectable_values
from situate.cluster.semantics import Semantics
from situate.cluster.store import Store
from situate.cluster.stored import Managed, Stored, managed_from_json
from situate.cluster.times import timestamp
from situate.objects.messages import Request

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
_BODIES: Final = ("application/json", "application/yaml")

_ATTEMPTS: Final = 5
"""A patch without a resourceVersion is tried so often when others write meanwhile (handlers/patch.go)."""
_NAMES_TRIED: Final = 8
_MAX_GENERATED: Final = 63 - SUFFIX_LENGTH


@dataclass(slots=True)
class Call:
    """One request to write."""

    request: Request
    now: float
    identity: Identity
    resource: Resource
    target: Target
    options: WriteOptions
    warnings: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.target.name


@dataclass(frozen=True, slots=True)
class Written:
    """What a write came to: the object, and the HTTP status."""

    status: int
    object: Stored | Obj
    """As stored; after a dry run, or if it is gone, as plain JSON at the request's version."""


Change: TypeAlias = Callable[[Obj | None], Obj]
"""The new object, decoded and with defaults, from the present one (None if there is none)."""

Prepare: TypeAlias = Callable[[Obj, Obj], None]
"""Changes the new object in place so that only what may be written differs from the old one."""

Validate: TypeAlias = Callable[[Obj, Obj], list[FieldError]]
"""What is wrong with the new object, given the old one."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How admission sees a subresource that is an object of another kind, and what it may change of it."""

    kind: tuple[str, str, str]
    """Group, version, kind."""
    show: Callable[[Obj], Obj]
    take: Callable[[Obj, Obj], None]
    """Puts into the object (first) what admission made of its shown form (second)."""


class Writing:
    """The writing half of the API over one store."""

    def __init__(
        self,
        store: Store,
        names: Names,
        admission: Admission,
        semantics_of: Callable[[Resource], Semantics],
        *,
        tracks_managers: bool = True,
    ) -> None:
        self._tracks_managers = tracks_managers
        self.store = store
        self.names = names
        self.admission = admission
        self.semantics_of = semantics_of
        self._copies = PodCopies(store, names, admission)
        self._rules: dict[tuple[str, str, str], tuple[Resource, Rules]] = {}

    def rules(self, resource: Resource) -> Rules:
        """The kind's rules, computed once per definition."""
        key = (resource.group, resource.version, resource.plural)
        known = self._rules.get(key)
        if known is None or known[0] is not resource:
            known = self._rules[key] = (resource, rules_of(resource))
        return known[1]

    def create(self, call: Call) -> Steps[Written]:
        """POST to a collection."""
        resource, semantics = call.resource, self.semantics_of(call.resource)
        copied = None
        if resource.table == "pods" and not call.options.dry_run:
            copied = self._copies.read(call.request, call.target.namespace, call.options.manager)
        if copied is not None:
            key, name = copied
            self._check_namespace(call, {"metadata": {"name": name}})
            if self.store.get("pods", call.target.namespace, name) is None:
                made = self._copies.copy(key, name, call.now)
                if made is not None:
                    return Written(201, made)
        obj = self.decoded_body(call, semantics)
        metadata = obj["metadata"]
        if metadata.get("resourceVersion"):
            raise Declined(Refused(500, "", "resourceVersion should not be set on objects to be created"))
        name = metadata.get("name", "")
        if not name and not metadata.get("generateName"):
            raise Declined(
                invalid_object(
                    resource.group,
                    resource.kind,
                    "",
                    [required("metadata.name", "name or generateName is required")],
                )
            )
        semantics.default(obj)
        self.track(call, None, obj, semantics, "")
        written = yield from self._insert(call, obj, semantics)
        if copied is not None and not call.warnings and isinstance(written.object, Stored):
            self._copies.remember(copied[0], written.object)
        return written

    def update(
        self, call: Call, subresource: str, prepare: Prepare | None = None, validate: Validate | None = None
    ) -> Steps[Written]:
        """PUT of an object or of one of its subresources; for the last two see `replace`."""
        semantics = self.semantics_of(call.resource)
        body = self.decoded_body(call, semantics)
        if body["metadata"].get("name", "") != call.name:
            named = body["metadata"].get("name", "")
            raise Declined(
                bad_request(f"the name of the object ({named}) does not match the name on the URL ({call.name})")
            )
        semantics.default(body)

        def change(present: Obj | None) -> Obj:
            new: Obj = msgspec.json.decode(msgspec.json.encode(body))
            self.track(call, present, new, semantics, subresource)
            return new

        rules = self.rules(call.resource)
        if not subresource and rules.create_on_update and self._present(call) is None:
            return (yield from self._insert(call, change(None), semantics))
        return (yield from self.replace(call, subresource, semantics, change, prepare, validate))

    def patch(
        self, call: Call, subresource: str, prepare: Prepare | None = None, validate: Validate | None = None
    ) -> Steps[Written]:
        """PATCH of an object or of one of its subresources, in any of the four formats."""
        semantics = self.semantics_of(call.resource)
        media = call.request.headers.get("content-type", "").split(";")[0].strip()
        self._check_patch(call, media)
        if media == APPLY_PATCH:
            return (yield from self._apply(call, subresource, semantics, prepare, validate))
        body = accepted(decode(call.request.body))

        def change(present: Obj | None) -> Obj:
            assert present is not None
            patched = accepted(self.patched(media, present, body, semantics))
            new = self._read_patched(call, patched, semantics)
            self.track(call, present, new, semantics, subresource)
            return new

        return (yield from self.replace(call, subresource, semantics, change, prepare, validate))

    def patched(self, media: str, present: Obj, body: Any, semantics: Semantics) -> Any | Refused:
        """The present object after a patch, neither decoded nor completed."""
        if media == JSON_PATCH:
            return json_patch(present, body)
        if not isinstance(body, dict):
            return bad_request(
                "error decoding patch: json: cannot unmarshal into Go value of type map[string]interface {}"
            )
        if media == MERGE_PATCH:
            return merge_patch(present, body)
        return strategic_merge_patch(present, body, semantics.schema)

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
        """Changes an object that exists. `prepare` and `validate` replace the kind's own for a special subresource."""
        rules = self.rules(call.resource)
        if subresource == "status":
            prepare, validate = rules.prepare_status, semantics.validate_status
        prepare = prepare or rules.prepare_update
        validate = validate or semantics.validate_update
        for _ in range(_ATTEMPTS):
            present = self._present(call)
            if present is None:
                raise Declined(not_found(call.resource, call.name))
            old = decoded(call.resource, present)
            new = change(old)
            fixed = self._check_preconditions(call, new, present)
            new = yield from self._admitted(call, "UPDATE", subresource, new, old, shape)
            prepare(new, old)
            new["metadata"]["name"] = new["metadata"].get("name") or call.name
            errors = validate(new, old)
            if errors:
                raise Declined(invalid_object(call.resource.group, call.resource.kind, call.name, errors))
            yield from self._judged(call, "UPDATE", subresource, new, old, shape)
            if self._present(call) is not present:
                # Somebody wrote while a webhook was asked.
                if fixed:
                    raise Declined(conflict(call.resource, call.name, MODIFIED))
                continue
            return self._stored_change(call, present, new, old)
        raise Declined(conflict(call.resource, call.name, MODIFIED))

    def decoded_body(self, call: Call, semantics: Semantics) -> Obj:
        """The object in the body, unknown fields handled as asked, in the namespace of the path."""
        resource = call.resource
        raw = call.request.body
        media = call.request.headers.get("content-type", "application/json").split(";")[0].strip()
        if media and media not in _BODIES:
            raise Declined(unsupported_media_type(media, _BODIES))
        obj = decode(raw, media or "application/json")
        if isinstance(obj, Refused):
            raise Declined(unreadable(resource.kind, raw))
        wrong = type_of_body(obj, resource.kind, raw)
        if wrong is not None:
            raise Declined(wrong)
        _check_type(resource, obj)
        checked = accepted(semantics.check(obj, call.options.strictness, raw if media != "application/yaml" else None))
        call.warnings.extend(checked.warnings)
        found: Obj = checked.object
        _place(call, found)
        return found

    def _read_patched(self, call: Call, patched: Any, semantics: Semantics) -> Obj:
        checked = accepted(semantics.check(patched, call.options.strictness, None))
        call.warnings.extend(checked.warnings)
        new: Obj = checked.object
        _place(call, new)
        named = new["metadata"].get("name", "")
        if not named:
            why = "undeterminable: name must be provided"
            raise Declined(bad_request(f"the name of the object ({call.name} based on URL) was {why}"))
        if named != call.name:
            raise Declined(
                bad_request(f"the name of the object ({named}) does not match the name on the URL ({call.name})")
            )
        semantics.default(new)
        return new

    def _check_patch(self, call: Call, media: str) -> None:
        formats = [JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH]
        if call.resource.origin is Origin.CUSTOM:
            formats.remove(STRATEGIC_PATCH)
        if media == STRATEGIC_PATCH and media not in formats:
            raise Declined(unsupported_media_type(media, formats))
        if media not in formats:
            raise Declined(unsupported_patch())
        errors: list[FieldError] = []
        if media == APPLY_PATCH:
            if not call.request.parameter("fieldManager"):
                errors.append(required("fieldManager", "is required for apply patch"))
        elif call.options.force:
            errors.append(forbidden_field("force", "may not be specified for non-apply patch"))
        if errors:
            raise Declined(invalid_options("PatchOptions", errors))

    def _apply(
        self, call: Call, subresource: str, semantics: Semantics, prepare: Prepare | None, validate: Validate | None
    ) -> Steps[Written]:
        resource = call.resource
        body = accepted(decode(call.request.body, APPLY_PATCH))
        if not isinstance(body, dict):
            raise Declined(bad_request("error decoding YAML: the body is not an object"))
        metadata = body.get("metadata") or {}
        if metadata.get("name", call.name) != call.name:
            raise Declined(
                bad_request(
                    f"the name of the object ({metadata.get('name')}) does not match the name on the URL ({call.name})"
                )
            )
        if not body.get("apiVersion") or not body.get("kind"):
            raise Declined(bad_request(f"invalid object type: {_type_of(body)}"))
        _check_type(resource, body)
        writer = Writer(call.options.manager, resource.api_version, timestamp(call.now), subresource)
        reset = reset_fields(resource.kind, subresource, self.rules(resource).has_status)

        def change(present: Obj | None) -> Obj:
            applied: Obj = accepted(
                fieldmanager.apply(present, body, semantics.schema, writer, force=call.options.force, reset=reset)
            )
            applied.setdefault("metadata", {}).setdefault("name", call.name)
            return self._read_patched(call, applied, semantics)

        if self._present(call) is None and not subresource:
            if metadata.get("uid"):
                raise Declined(
                    conflict(
                        resource,
                        call.name,
                        f"uid mismatch: the provided object specified uid {metadata['uid']}, and no existing object "
                        "was found",
                    )
                )
            return (yield from self._insert(call, change(None), semantics))
        return (yield from self.replace(call, subresource, semantics, change, prepare, validate))

    def _present(self, call: Call) -> Stored | None:
        return self.store.get(call.resource.table, call.target.namespace, call.name)

    def track(self, call: Call, old: Obj | None, new: Obj, semantics: Semantics, subresource: str) -> None:
        """Records who set what, in `new`."""
        if not self._tracks_managers:
            new["metadata"].pop("managedFields", None)
            return
        writer = Writer(call.options.manager, call.resource.api_version, timestamp(call.now), subresource)
        reset = reset_fields(call.resource.kind, subresource, self.rules(call.resource).has_status)
        was, now = (old, new) if old is None else _differing(old, new)
        entries = fieldmanager.update(was, now, semantics.schema, writer, reset)
        new["metadata"]["managedFields"] = entries

    def _check_preconditions(self, call: Call, new: Obj, present: Stored) -> bool:
        """Whether the client insists on the version it names. Raises `Declined` if that is not the present one."""
        metadata = new["metadata"]
        uid = metadata.get("uid")
        # In a patch it is a change like any other, which validation refuses.
        if uid and uid != present.uid and call.request.method == "PUT":
            place = f"{present.namespace}/" if present.namespace else ""
            raise Declined(
                conflict(
                    call.resource,
                    call.name,
                    "StorageError: invalid object, Code: 4, Key: /registry/"
                    f"{call.resource.plural}/{place}{present.name}, ResourceVersion: 0, AdditionalErrorMsg: "
                    f"Precondition failed: UID in precondition: {uid}, UID in object meta: {present.uid}",
                )
            )
        asked = metadata.get("resourceVersion", "")
        metadata["resourceVersion"] = str(present.revision)
        if call.request.method == "PUT":
            if not asked or asked == "0":
                if self.rules(call.resource).unconditional_update:
                    return False
                error = invalid("metadata.resourceVersion", 0, "must be specified for an update")
                raise Declined(invalid_resource(call.resource, call.name, [error]))
            if not asked.isdecimal():
                raise Declined(Refused(500, "", f"strconv.ParseUint: parsing {quote(asked)}: invalid syntax"))
        if asked and asked != str(present.revision):
            raise Declined(conflict(call.resource, call.name, MODIFIED))
        return bool(asked) and call.request.method == "PUT"

    def _insert(self, call: Call, obj: Obj, semantics: Semantics) -> Steps[Written]:
        resource = call.resource
        self._check_namespace(call, obj)
        metadata = obj["metadata"]
        metadata.pop("resourceVersion", None)
        for name in ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
            metadata.pop(name, None)
        obj = yield from self._admitted(call, "CREATE", "", obj, None)
        metadata = obj["metadata"]
        if not metadata.get("name"):
            metadata["name"] = self._generated(resource, call.target.namespace, metadata["generateName"])
        metadata["uid"] = self.names.uid()
        metadata["creationTimestamp"] = timestamp(call.now)
        self.rules(resource).prepare_create(obj, call.now)
        errors = semantics.validate_create(obj)
        if errors:
            raise Declined(invalid_object(resource.group, resource.kind, metadata["name"], errors))
        yield from self._judged(call, "CREATE", "", obj, None)
        if self.store.get(resource.table, call.target.namespace, metadata["name"]) is not None:
            raise Declined(already_exists(resource, metadata["name"]))
        if call.options.dry_run:
            return Written(201, obj)
        return Written(201, self.put(resource, obj))

    def put(self, resource: Resource, obj: Obj) -> Stored:
        """Stores an object of the resource's version as it is."""
        managed = managed_from_json(obj["metadata"].pop("managedFields", None))
        obj = _as_stored(resource, obj)
        return self.store.put(resource.table, obj, managed=managed, fields=selectable_values(resource, obj))

    def _generated(self, resource: Resource, namespace: str, prefix: str) -> str:
        for _ in range(_NAMES_TRIED):
            name = prefix[:_MAX_GENERATED] + self.names.suffix()
            if self.store.get(resource.table, namespace, name) is None:
                return name
        raise Declined(already_exists(resource, name))

    def _check_namespace(self, call: Call, obj: Obj) -> None:
        """The NamespaceLifecycle plugin."""
        namespace = call.target.namespace
        if not namespace:
            return
        found = self.store.get("namespaces", "", namespace)
        if found is None:
            details = {"name": namespace, "kind": "namespaces"}
            raise Declined(Refused(404, "NotFound", f"namespaces {quote(namespace)} not found", details))
        if found.deleting:
            refused = forbidden(
                call.resource,
                obj["metadata"].get("name", ""),
                f"unable to create new content in namespace {namespace} because it is being terminated",
            )
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            raise Declined(Refused(403, "Forbidden", refused.message, {**refused.details, "causes": [cause]}))

    def _admitted(
        self, call: Call, operation: Any, subresource: str, obj: Obj, old: Obj | None, shape: Shape | None = None
    ) -> Steps[Obj]:
        attributes = self._attributes(call, operation, subresource, obj, old, shape)
        yield from self.admission.mutate(attributes)
        changed = attributes.object
        assert changed is not None
        if shape is None:
            return changed
        shape.take(obj, changed)
        return obj

    def _judged(
        self, call: Call, operation: Any, subresource: str, obj: Obj, old: Obj | None, shape: Shape | None = None
    ) -> Steps[None]:
        yield from self.admission.validate(self._attributes(call, operation, subresource, obj, old, shape))

    def admit_posted(self, call: Call, body: Obj, subresource: str, kind: tuple[str, str, str]) -> Steps[None]:
        """Admission of an object that is posted to a subresource and not stored: a Binding, an Eviction."""
        attributes = Attributes(
            operation="CREATE",
            resource=call.resource,
            subresource=subresource,
            kind=kind,
            namespace=call.target.namespace,
            name=call.name,
            object=body,
            old=None,
            options=operation_options(call, "CREATE"),
            dry_run=call.options.dry_run,
            identity=call.identity,
            now=call.now,
            warnings=call.warnings,
        )
        yield from self.admission.mutate(attributes)
        yield from self.admission.validate(attributes)

    def _attributes(
        self, call: Call, operation: Any, subresource: str, obj: Obj, old: Obj | None, shape: Shape | None
    ) -> Attributes:
        resource = call.resource
        if shape is not None:
            obj, old = shape.show(obj), old and shape.show(old)
        return Attributes(
            operation=operation,
            resource=resource,
            subresource=subresource,
            kind=shape.kind if shape is not None else (resource.group, resource.version, resource.kind),
            namespace=call.target.namespace,
            name=obj["metadata"].get("name", ""),
            object=obj,
            old=old,
            options=operation_options(call, operation),
            dry_run=call.options.dry_run,
            identity=call.identity,
            now=call.now,
            warnings=call.warnings,
        )

    def _stored_change(self, call: Call, present: Stored, new: Obj, old: Obj) -> Written:
        if _gone(new):
            if not call.options.dry_run:
                self.store.remove(call.resource.table, present.namespace, present.name)
            return Written(200, new)
        if call.options.dry_run:
            return Written(200, new)
        managed = managed_from_json(new["metadata"].pop("managedFields", None))
        old["metadata"].pop("managedFields", None)
        if new == old and _same_managers(managed, present.managed):
            return Written(200, present)
        new = _as_stored(call.resource, new)
        fields = selectable_values(call.resource, new)
        return Written(200, self.store.put(call.resource.table, new, managed=managed, fields=fields))


def _differing(old: Obj, new: Obj) -> tuple[Obj, Obj]:
    """Both without the fields at the top that are equal: nobody comes to own anything in them."""
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


def _same_managers(left: tuple[Managed, ...], right: tuple[Managed, ...]) -> bool:
    """Equal but for the times, which a write that changes nothing else does not move."""
    return len(left) == len(right) and all(
        msgspec.structs.replace(one, time="") == msgspec.structs.replace(other, time="")
        for one, other in zip(left, right, strict=True)
    )


def _gone(obj: Obj) -> bool:
    """Whether the last finalizer of an object under deletion is gone."""
    metadata = obj["metadata"]
    if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
        return False
    if metadata.get("deletionGracePeriodSeconds"):
        return False
    return obj["kind"] != "Namespace" or not obj.get("spec", {}).get("finalizers")


def _as_stored(resource: Resource, obj: Obj) -> Obj:
    if resource.to_stored is not None:
        return resource.to_stored(obj)
    obj["apiVersion"] = resource.stored_api_version
    return obj


def _place(call: Call, obj: Obj) -> None:
    """Puts the object into the namespace of the path, unless it names another one."""
    metadata = obj.setdefault("metadata", {})
    if not isinstance(metadata, dict):
        raise Declined(bad_request("metadata must be an object"))
    namespace = call.target.namespace
    if metadata.get("namespace", "") not in ("", namespace):
        raise Declined(
            bad_request("the namespace of the provided object does not match the namespace sent on the request")
        )
    if namespace:
        metadata["namespace"] = namespace
    else:
        metadata.pop("namespace", None)


def _type_of(obj: Obj) -> str:
    """As Go prints a GroupVersionKind."""
    group, _, version = (obj.get("apiVersion") or "").rpartition("/")
    return f"{group}/{version}, Kind={obj.get('kind') or ''}"


def _check_type(resource: Resource, obj: Obj) -> None:
    """apiVersion and kind of the body; a typed one may leave them out."""
    kind, api_version = obj.get("kind") or "", obj.get("apiVersion") or ""
    if resource.origin is Origin.CUSTOM and not kind:
        raise Declined(bad_request("Object 'Kind' is missing"))
    if kind and kind != resource.kind:
        version = api_version.rpartition("/")[2]
        internal = resource.group.partition(".")[0] or "core"
        raise Declined(
            bad_request(
                f"{kind} in version {quote(version)} cannot be handled as a {resource.kind}: converting "
                f"({version}.{kind}) to ({internal}.{resource.kind}): unknown conversion"
            )
        )
    if api_version and api_version != resource.api_version:
        raise Declined(
            bad_request(
                f"the API version in the data ({api_version}) does not match the expected API version "
                f"({resource.api_version})"
            )
        )
    obj["kind"], obj["apiVersion"] = resource.kind, resource.api_version


def unreadable(kind: str, raw: bytes) -> Refused:
    """The 400 for a body that is not JSON."""
    shown = raw[:27].decode(errors="replace")
    return bad_request(
        f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse error: "
        f"unexpected end of JSON input ({quote(shown)[1:-1]}{' ...' if len(raw) > 27 else ''})"
    )


_OPTION_KINDS: Final[Mapping[str, str]] = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions"}


def operation_options(call: Call, operation: str) -> Mapping[str, Any]:
    """The options object that admission reviews carry."""
    kind = "PatchOptions" if call.request.method == "PATCH" else _OPTION_KINDS[operation]
    options: Obj = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
    if call.options.dry_run:
        options["dryRun"] = ["All"]
    manager = call.request.parameter("fieldManager")
    if manager:
        options["fieldManager"] = manager
    validation = call.request.parameter("fieldValidation")
    if validation:
        options["fieldValidation"] = validation
    if call.options.force:
        options["force"] = True
    return options
