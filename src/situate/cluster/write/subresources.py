"""Subresources with their own logic: scale, binding, resize, finalize.

After Kubernetes' registry of pods, of each scalable kind and of namespaces. `evictions` handles evictions, and
`ObjectWriter` writes status.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Final

import msgspec

from situate.cluster.admission.attributes import Steps
from situate.cluster.errors.field_errors import FieldError, Refused, bad_request, invalid_object, required
from situate.cluster.errors.go_text import quote
from situate.cluster.errors.refusals import (
    RequestRefused,
    conflict,
    forbidden,
    internal_error,
    not_found,
    raise_if_refused,
    storage_conflict,
)
from situate.cluster.kinds import validation
from situate.cluster.kinds.conditions import set_pod_condition
from situate.cluster.kinds.rules import Obj, restore_field, restore_metadata
from situate.cluster.kinds.schemas.bodies import decode
from situate.cluster.kinds.structural.schema import ScalePaths, get_path, set_path
from situate.cluster.patch.patches import copy_json, json_patch, merge_patch
from situate.cluster.read.negotiation import decode_whole
from situate.cluster.read.table_cells import selector_text
from situate.cluster.storage.resources import Origin, Resource
from situate.cluster.storage.store import Store
from situate.cluster.write import ObjectWriter
from situate.cluster.write.calls import Call, Shape, Written
from situate.cluster.write.patch_step import APPLY_PATCH, JSON_PATCH
from situate.framework.pod.resources import amount, pod_request
from situate.objects.decoding.codec import decode as decode_object
from situate.objects.resources import PODS
from situate.objects.values.quantity import parse_quantity

_RESIZABLE_RESOURCES: Final = ("cpu", "memory")
SUCCESS: Final = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


class Subresources:
    """Writes to subresources of objects in one store."""

    def __init__(self, store: Store, writing: ObjectWriter) -> None:
        self._store = store
        self._writing = writing

    def scale_of(self, resource: Resource, obj: Obj) -> Obj:
        """Return the Scale of an object at the resource's version."""
        paths = _scale_paths(resource)
        metadata = obj["metadata"]
        shown: Obj = {"name": metadata["name"]}
        for name in ("namespace", "uid", "resourceVersion", "creationTimestamp"):
            if name in metadata:
                shown[name] = metadata[name]
        status: Obj = {"replicas": get_path(obj, paths.status_replicas) or 0}
        selector = get_path(obj, paths.label_selector) if paths.label_selector else None
        text = selector if isinstance(selector, str) else selector_text(selector)
        if text:
            status["selector"] = text
        replicas = get_path(obj, paths.spec_replicas)
        return {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": shown,
            "spec": {"replicas": replicas} if replicas else {},
            "status": status,
        }

    def read_scale(self, resource: Resource, obj: Obj) -> Obj:
        """Handle a GET of the scale subresource. A custom resource must have its replicas field set."""
        path = _scale_paths(resource).spec_replicas
        if get_path(obj, path) is None and resource.origin is Origin.CUSTOM:
            raise RequestRefused(internal_error(f"the spec replicas field {quote(path)} does not exist"))
        return self.scale_of(resource, obj)

    def write_scale(self, call: Call) -> Steps[Written]:
        """Handle a PUT or PATCH of the scale subresource."""
        resource = call.resource
        semantics = self._writing.semantics_of(resource)
        paths = _scale_paths(resource)
        body = raise_if_refused(decode(call.request.body, _media_type(call)))

        def change(present: Obj | None) -> Obj:
            assert present is not None
            scale = self._apply_scale_change(call, self.scale_of(resource, present), body)
            metadata = scale.get("metadata") or {}
            uid = present["metadata"]["uid"]
            if metadata.get("uid", uid) != uid:
                why = f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: {uid}"
                raise RequestRefused(conflict(resource, call.name, why, kind=f"{resource.id}/scale"))
            new: Obj = copy_json(present)
            revision = metadata.get("resourceVersion")
            if revision:
                new["metadata"]["resourceVersion"] = revision
            else:
                new["metadata"].pop("resourceVersion", None)
            take(new, scale)
            self._writing.managers.track(call, present, new, semantics, "scale")
            return new

        def take(obj: Obj, scale: Obj) -> None:
            set_path(obj, paths.spec_replicas, (scale.get("spec") or {}).get("replicas") or 0)

        shape = Shape(("autoscaling", "v1", "Scale"), partial(self.scale_of, resource), take)
        written = yield from self._writing.replace(call, "scale", semantics, change, shape=shape)
        obj = written.object if isinstance(written.object, dict) else decode_whole(resource, written.object)
        return Written(200, self.scale_of(resource, obj))

    def bind(self, call: Call) -> Steps[Written]:
        """Handle a POST of a Binding: bind a pod to a node."""
        body = self._decode_posted(call, "Binding")
        metadata, target = body.get("metadata") or {}, body.get("target") or {}
        node = target.get("name", "")
        if target.get("kind", "") not in ("", "Node") or not node:
            # Upstream returns the bare list of field errors here, which becomes an internal server error.
            wrong_kind = 'target.kind: Unsupported value: supported values: "Node", "<empty>"'
            raise RequestRefused(Refused(500, "", wrong_kind if node else str(required("target.name"))))
        yield from self._writing.admission.admit_posted(call, body, "binding", ("", "v1", "Binding"))
        present = self._store.get("pods", call.target.namespace, call.name)
        if present is None:
            raise RequestRefused(not_found(call.resource, call.name))
        self._check_binding(call, metadata, present.uid, present.revision)
        pod = decode_whole(call.resource, present)
        refusal = _binding_problem(pod)
        if refusal:
            raise RequestRefused(conflict(call.resource, call.name, refusal, kind="pods/binding"))
        pod["spec"]["nodeName"] = node
        pod.setdefault("status", {}).pop("nominatedNodeName", None)
        annotations = metadata.get("annotations")
        if annotations:
            pod["metadata"].setdefault("annotations", {}).update(annotations)
        labels = {**(metadata.get("labels") or {}), **self._writing.admission.zone_labels(node)}
        if labels:
            pod["metadata"].setdefault("labels", {}).update(labels)
        set_pod_condition(pod["status"], {"type": "PodScheduled", "status": "True"}, call.now)
        if not call.options.dry_run:
            self._writing.storage.put(call.resource, pod)
        return Written(201, dict(SUCCESS))

    def resize(self, call: Call) -> Steps[Written]:
        """Handle a PUT or PATCH of pods/resize. Only resources of containers are taken over."""

        def validate(new: Obj, old: Obj) -> list[FieldError]:
            errors = validation.validate_resize(new, old)
            if not errors and new["spec"] != old["spec"]:
                self._check_capacity(call, new)
            return errors

        return (yield from self._write_part(call, "resize", _prepare_resize, validate))

    def _check_capacity(self, call: Call, pod: Obj) -> None:
        """Refuse a pod that is larger than its node, without regard to other pods (admission plugin PodResize)."""
        stored = self._store.get("nodes", "", pod["spec"].get("nodeName") or "")
        if stored is None:
            return
        allocatable = (stored.object().get("status") or {}).get("allocatable") or {}
        asked = pod_request(decode_object(PODS, msgspec.json.encode({**pod, "status": {}}))).amounts
        over = [
            f"{name}, requested: {asked.get(name, 0)}, allocatable: {most}"
            for name, most in (
                (each, amount(each, parse_quantity(str(allocatable.get(each, 0))))) for each in _RESIZABLE_RESOURCES
            )
            if asked.get(name, 0) > most
        ]
        if over:
            why = f"node didn't have enough allocatable resources: {'; '.join(over)}"
            refused = forbidden(call.resource, call.name, why)
            raise RequestRefused(replace(refused, details={**refused.details, "causes": [{"reason": "NodeCapacity"}]}))

    def finalize(self, call: Call) -> Steps[Written]:
        """Handle a PUT of namespaces/finalize. Only `spec.finalizers` is taken over."""
        return (yield from self._write_part(call, "finalize", _prepare_finalize, lambda _new, _old: []))

    def _write_part(self, call: Call, name: str, prepare: Any, validate: Any) -> Steps[Written]:
        writing = self._writing
        if call.request.method == "PATCH":
            return (yield from writing.patch(call, name, prepare, validate))
        return (yield from writing.update(call, name, prepare, validate))

    def _decode_posted(self, call: Call, kind: str) -> Obj:
        body = raise_if_refused(decode(call.request.body, _media_type(call)))
        if not isinstance(body, dict):
            raise RequestRefused(bad_request(f"the body is not a {kind}"))
        if body.get("kind", kind) != kind:
            raise RequestRefused(bad_request(f'{body["kind"]} in version "v1" cannot be handled as a {kind}'))
        named = (body.get("metadata") or {}).get("name", "")
        if named != call.name:
            raise RequestRefused(bad_request(f"name in URL does not match name in {kind} object"))
        return body

    def _check_binding(self, call: Call, metadata: Obj, uid: str, revision: int) -> None:
        asked = {"UID": (metadata.get("uid"), uid), "ResourceVersion": (metadata.get("resourceVersion"), str(revision))}
        for what, (given, found) in asked.items():
            if given and given != found:
                raise RequestRefused(
                    storage_conflict(call.resource, call.target.namespace, call.name, what, given, found)
                )

    def _apply_scale_change(self, call: Call, scale: Obj, body: Any) -> Obj:
        media = _media_type(call)
        if not isinstance(body, (dict, list)):
            raise RequestRefused(bad_request("the body is not a Scale"))
        if call.request.method == "PUT":
            new = body
        elif media == JSON_PATCH:
            new = raise_if_refused(json_patch(scale, body))
        elif media == APPLY_PATCH:
            new = merge_patch(scale, {"spec": (body if isinstance(body, dict) else {}).get("spec")})
        else:
            new = merge_patch(scale, body)
        if not isinstance(new, dict):
            raise RequestRefused(bad_request("the body is not a Scale"))
        if call.request.method == "PATCH" and not _has_resource_version(body):
            (new.get("metadata") or {}).pop("resourceVersion", None)
        errors = validation.validate_scale(new)
        if errors:
            raise RequestRefused(invalid_object("autoscaling", "Scale", call.name, errors))
        return new


def _has_resource_version(body: Any) -> bool:
    return isinstance(body, dict) and bool((body.get("metadata") or {}).get("resourceVersion"))


def _media_type(call: Call) -> str:
    return call.request.headers.get("content-type", "application/json").split(";")[0].strip() or "application/json"


_BUILT_IN_PATHS: Final = ScalePaths(".spec.replicas", ".status.replicas", ".spec.selector")


def _scale_paths(resource: Resource) -> ScalePaths:
    if resource.origin is not Origin.CUSTOM:
        return _BUILT_IN_PATHS
    assert resource.definition is not None
    version = next(v for v in resource.definition["spec"]["versions"] if v["name"] == resource.version)
    return ScalePaths.from_subresource(version["subresources"]["scale"])


def _binding_problem(pod: Obj) -> str:
    name, spec = pod["metadata"]["name"], pod["spec"]
    if "deletionTimestamp" in pod["metadata"]:
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if spec.get("nodeName"):
        return f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    if spec.get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


def _prepare_resize(new: Obj, old: Obj) -> None:
    """Drop the changes that a resize may not make (pod/strategy.go, dropNonResizeUpdates).

    Renamed or reordered containers stay, so that validation refuses them.
    """
    same = all(
        [container.get("name") for container in new["spec"].get(kind) or ()]
        == [container.get("name") for container in old["spec"].get(kind) or ()]
        for kind in ("containers", "initContainers")
    )
    if same:
        spec = dict(old["spec"])
        for kind in ("containers", "initContainers"):
            if old["spec"].get(kind):
                spec[kind] = [
                    _with_resources(was, now) for was, now in zip(old["spec"][kind], new["spec"][kind], strict=True)
                ]
        restore_field(spec, new["spec"], "resources")
        new["spec"] = spec
    restore_metadata(new, old)
    new["status"] = old.get("status", {})
    if new["spec"] != old["spec"]:
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def _with_resources(was: Obj, now: Obj) -> Obj:
    container = dict(was)
    for name in ("resources", "resizePolicy"):
        restore_field(container, now, name)
    return container


def _prepare_finalize(new: Obj, old: Obj) -> None:
    finalizers = new.get("spec", {}).get("finalizers")
    restore_metadata(new, old)
    new["status"] = old.get("status", {})
    new["spec"] = {"finalizers": finalizers} if finalizers else {}
