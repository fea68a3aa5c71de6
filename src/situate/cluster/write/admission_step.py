"""Run admission on writes, and use its result.

The NamespaceLifecycle plugin is here because it needs no object. The other plugins are in `situate.cluster.admission`.
"""

from __future__ import annotations

from situate.cluster.admission.attributes import Attributes, Operation, Steps
from situate.cluster.admission.chain import Admission
from situate.cluster.errors.field_errors import Refused
from situate.cluster.errors.go_text import quote
from situate.cluster.errors.refusals import RequestRefused, forbidden
from situate.cluster.kinds.rules import Obj
from situate.cluster.storage.store import Store
from situate.cluster.write.calls import Call, Shape, operation_options


class AdmissionStep:
    """Admission for writes to one store."""

    def __init__(self, store: Store, admission: Admission) -> None:
        self._store = store
        self._admission = admission

    def check_namespace(self, call: Call, name: str) -> None:
        """Run the NamespaceLifecycle plugin.

        Raises `RequestRefused` unless the namespace exists and is not terminating.
        """
        namespace = call.target.namespace
        if not namespace:
            return
        found = self._store.get("namespaces", "", namespace)
        if found is None:
            details = {"name": namespace, "kind": "namespaces"}
            raise RequestRefused(Refused(404, "NotFound", f"namespaces {quote(namespace)} not found", details))
        if found.deleting:
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            refused = forbidden(call.resource, name, why)
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            raise RequestRefused(Refused(403, "Forbidden", refused.message, {**refused.details, "causes": [cause]}))

    def mutate(
        self, call: Call, operation: Operation, subresource: str, obj: Obj, old: Obj | None, shape: Shape | None = None
    ) -> Steps[Obj]:
        """Run mutating admission and return the resulting object. Raises `RequestRefused`.

        With a `shape`, admission changes only the parts of the object that the shape covers.
        """
        if not self._admission.applies_to(call.resource, subresource):
            return obj
        attributes = _shaped_attributes(call, operation, subresource, obj, old, shape)
        yield from self._admission.mutate(attributes)
        changed = attributes.object
        assert changed is not None
        if shape is None:
            return changed
        shape.take(obj, changed)
        return obj

    def validate(
        self, call: Call, operation: Operation, subresource: str, obj: Obj, old: Obj | None, shape: Shape | None = None
    ) -> Steps[None]:
        """Run validating admission. Raises `RequestRefused` if a plugin, a policy or a webhook refuses the object."""
        if self._admission.applies_to(call.resource, subresource):
            yield from self._admission.validate(_shaped_attributes(call, operation, subresource, obj, old, shape))

    def zone_labels(self, node_name: str) -> dict[str, str]:
        """Return the labels that a pod gets when it is bound to the node."""
        return self._admission.built_in.zone_labels(node_name)

    def admit_posted(self, call: Call, body: Obj, subresource: str, kind: tuple[str, str, str]) -> Steps[None]:
        """Run admission on an object that is posted to a subresource and not stored: a Binding or an Eviction."""
        attributes = _attributes(call, "CREATE", subresource, body, None, kind, call.name)
        yield from self._admission.mutate(attributes)
        yield from self._admission.validate(attributes)


def _shaped_attributes(
    call: Call, operation: Operation, subresource: str, obj: Obj, old: Obj | None, shape: Shape | None
) -> Attributes:
    resource = call.resource
    kind = resource.group, resource.version, resource.kind
    if shape is not None:
        obj, old, kind = shape.show(obj), old and shape.show(old), shape.kind
    return _attributes(call, operation, subresource, obj, old, kind, obj["metadata"].get("name", ""))


def _attributes(
    call: Call,
    operation: Operation,
    subresource: str,
    obj: Obj,
    old: Obj | None,
    kind: tuple[str, str, str],
    name: str,
) -> Attributes:
    return Attributes(
        operation=operation,
        resource=call.resource,
        subresource=subresource,
        kind=kind,
        namespace=call.target.namespace,
        name=name,
        object=obj,
        old=old,
        options=operation_options(call, operation),
        dry_run=call.options.dry_run,
        identity=call.identity,
        now=call.now,
        warnings=call.warnings,
    )
