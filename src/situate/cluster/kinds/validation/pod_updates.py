"""Validate changes of a pod through the pod itself, its status, and its resize subresource.

After `ValidatePodUpdate`, `ValidatePodStatusUpdate` and `ValidatePodResize` in
`pkg/apis/core/validation/validation.go`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from situate.cluster.errors.field_errors import FieldError, forbidden, invalid, required
from situate.cluster.kinds.defaults_pods import qos_class
from situate.cluster.kinds.validation.differences import difference
from situate.cluster.kinds.validation.metadata import (
    validate_immutable,
    validate_label_name,
    validate_metadata_update,
)
from situate.cluster.kinds.validation.names import dns_subdomain
from situate.cluster.kinds.validation.pods import MAX_INT32, validate_pod
from situate.cluster.kinds.validation.selectors import validate_tolerations

_Map = Mapping[str, Any]
_CHANGEABLE: Final = ",".join(
    (
        "`spec.containers[*].image`",
        "`spec.initContainers[*].image`",
        "`spec.activeDeadlineSeconds`",
        "`spec.tolerations` (only additions to existing tolerations)",
        "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
    )
)
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_ONLY_CPU_AND_MEMORY: Final = "only cpu and memory resources are mutable"
_SYSTEM_CONDITIONS: Final = frozenset({"PodScheduled", "Ready", "Initialized"})


def validate_pod_update(new: _Map, old: _Map) -> list[FieldError]:
    """Validate an update of the pod itself."""
    errors = validate_metadata_update(new["metadata"], old["metadata"])
    errors += validate_pod(new)
    spec, before = new.get("spec", {}), old.get("spec", {})
    for name in ("containers", "initContainers"):
        if len(spec.get(name) or ()) != len(before.get(name) or ()):
            detail = "pod updates may not add or remove containers"
            return [*errors, forbidden(f"spec.{name}", detail)]
        for index, container in enumerate(spec.get(name) or ()):
            if not container.get("image"):
                errors.append(required(f"spec.{name}[{index}].image"))
    deadline, previous = spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    if deadline is not None:
        if not 0 <= deadline <= MAX_INT32:
            detail = f"must be between 0 and {MAX_INT32}, inclusive"
            return [*errors, invalid("spec.activeDeadlineSeconds", deadline, detail)]
        if previous is not None and previous < deadline:
            detail = "must be less than or equal to previous value"
            return [*errors, invalid("spec.activeDeadlineSeconds", deadline, detail)]
    elif previous is not None:
        detail = "must not update from a positive integer to nil value"
        errors.append(invalid("spec.activeDeadlineSeconds", None, detail))
    errors += _only_added_tolerations(spec.get("tolerations", ()), before.get("tolerations", ()))
    errors += _only_deleted_gates(spec.get("schedulingGates", ()), before.get("schedulingGates", ()))
    if spec == before:
        return errors
    return errors + _validate_immutable_spec(spec, before)


def _only_added_tolerations(new: Sequence[_Map], old: Sequence[_Map]) -> list[FieldError]:
    """Check that tolerations are only added. The seconds of an existing one may change too."""

    def shape(toleration: _Map) -> dict[str, Any]:
        return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}

    present = [shape(toleration) for toleration in new]
    if any(shape(toleration) not in present for toleration in old):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        return [forbidden("spec.tolerations", detail)]
    return validate_tolerations(new, "spec.tolerations")


def _only_deleted_gates(new: Sequence[_Map], old: Sequence[_Map]) -> list[FieldError]:
    known = {gate.get("name") for gate in old}
    return [
        forbidden(
            f"spec.schedulingGates[{index}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate.get('name', '')}'",
        )
        for index, gate in enumerate(new)
        if gate.get("name") not in known
    ]


def _validate_immutable_spec(spec: _Map, before: _Map) -> list[FieldError]:
    """Compare the specs after taking every mutable field from the old one. They must be equal."""
    errors: list[FieldError] = []
    rest = dict(spec)
    for name in ("containers", "initContainers"):
        if name in spec:
            rest[name] = [
                {**container, "image": was.get("image", "")}
                for container, was in zip(spec[name], before.get(name, ()), strict=True)
            ]
    keep = ["activeDeadlineSeconds", "schedulingGates", "tolerations"]
    if before.get("terminationGracePeriodSeconds", 0) < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        keep.append("terminationGracePeriodSeconds")
    if before.get("schedulingGates"):
        errors += _validate_gated_selector(spec, before)
        errors += _validate_gated_affinity(spec, before)
        keep.append("nodeSelector")
        _restore_node_affinity(rest, before)
    for key in keep:
        rest.pop(key, None)
        if key in before:
            rest[key] = before[key]
    if rest != before:
        detail = f"pod updates may not change fields other than {_CHANGEABLE}\n{difference(before, rest)}"
        errors.append(forbidden("spec", detail))
    return errors


def _validate_gated_selector(spec: _Map, before: _Map) -> list[FieldError]:
    selector = spec.get("nodeSelector", {})
    if all(selector.get(key) == value for key, value in before.get("nodeSelector", {}).items()):
        return []
    detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
    return [invalid("spec.nodeSelector", selector, detail)]


def _validate_gated_affinity(spec: _Map, before: _Map) -> list[FieldError]:
    """Check that expressions are only appended to existing terms, and that no term is added or removed."""
    path = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    new = spec.get("affinity", {}).get("nodeAffinity", {}).get(_REQUIRED, {}).get("nodeSelectorTerms") or []
    old = before.get("affinity", {}).get("nodeAffinity", {}).get(_REQUIRED, {}).get("nodeSelectorTerms") or []
    if old and len(old) != len(new):
        detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return [invalid(path, [_internal_term(term) for term in new] or None, detail)]
    detail = "only additions are allowed (no mutations or deletions)"
    return [
        invalid(f"{path}[{index}]", _internal_term(new[index]), detail)
        for index, term in enumerate(old)
        if not _only_additions(new[index], term)
    ]


def _internal_term(term: _Map) -> dict[str, Any]:
    """Return the term as the server's internal type prints it."""
    shown: dict[str, Any] = {}
    for name, key in (("MatchExpressions", "matchExpressions"), ("MatchFields", "matchFields")):
        requirements = [
            {"Key": each.get("key", ""), "Operator": each.get("operator", ""), "Values": each.get("values")}
            for each in term.get(key, ())
        ]
        shown[name] = requirements or None
    return shown


def _only_additions(new: _Map, old: _Map) -> bool:
    fields = ("matchExpressions", "matchFields")
    if not any(old.get(name) for name in fields):
        return not any(new.get(name) for name in fields)
    return all(new.get(name, [])[: len(old.get(name, []))] == old.get(name, []) for name in fields)


def _restore_node_affinity(rest: dict[str, Any], before: _Map) -> None:
    affinity = {key: value for key, value in rest.get("affinity", {}).items() if key != "nodeAffinity"}
    previous = before.get("affinity", {})
    if "nodeAffinity" in previous:
        affinity["nodeAffinity"] = previous["nodeAffinity"]
    if affinity or "affinity" in before:
        rest["affinity"] = affinity
    else:
        rest.pop("affinity", None)


def validate_pod_status(new: _Map, old: _Map) -> list[FieldError]:
    """Validate an update of status, which can also carry metadata."""
    errors = validate_metadata_update(new["metadata"], old["metadata"])
    status, before = new.get("status", {}), old.get("status", {})
    for index, condition in enumerate(status.get("conditions") or ()):
        here = f"status.conditions[{index}]"
        if condition.get("observedGeneration", 0) < 0:
            value = condition["observedGeneration"]
            errors.append(invalid(f"{here}.observedGeneration", value, "must be a non-negative integer"))
        if condition.get("type") not in _SYSTEM_CONDITIONS:
            errors += validate_label_name(condition.get("type", ""), f"{here}.Type")
    if new.get("spec", {}).get("nodeName") != old.get("spec", {}).get("nodeName"):
        errors.append(forbidden("status.nodeName", "may not be changed directly"))
    nominated = status.get("nominatedNodeName", "")
    if nominated and nominated != before.get("nominatedNodeName"):
        errors += [invalid("status.nominatedNodeName", nominated, problem) for problem in dns_subdomain(nominated)]
        if old.get("spec", {}).get("nodeName"):
            detail = "may not be set on pods that are already bound to a node"
            errors.append(forbidden("status.nominatedNodeName", detail))
    if status.get("observedGeneration", 0) < 0:
        value = status["observedGeneration"]
        errors.append(invalid("status.observedGeneration", value, "must be a non-negative integer"))
    errors += validate_immutable(status.get("qosClass", ""), before.get("qosClass", ""), "status.qosClass")
    return errors + _no_revival(status, before, old.get("spec", {}))


def _no_revival(status: _Map, before: _Map, spec: _Map) -> list[FieldError]:
    """Check that a terminated container runs again only if its own or the pod's restart policy allows it."""
    policies = {each.get("name"): each.get("restartPolicy") for each in spec.get("containers") or ()}
    current = {each.get("name"): each for each in status.get("containerStatuses") or ()}
    errors: list[FieldError] = []
    for index, was in enumerate(before.get("containerStatuses") or ()):
        terminated = was.get("state", {}).get("terminated")
        now = current.get(was.get("name"))
        if terminated is None or now is None or "terminated" in now.get("state", {}):
            continue
        policy = policies.get(was.get("name")) or spec.get("restartPolicy")
        if policy == "Always" or (policy == "OnFailure" and terminated.get("exitCode", 0) != 0):
            continue
        detail = "may not be transitioned to non-terminated state"
        errors.append(forbidden(f"status.containerStatuses[{index}].state", detail))
    return errors


def validate_pod_resize(new: _Map, old: _Map) -> list[FieldError]:
    """Validate an update through pods/resize: cpu and memory of existing containers, without a change of QoS class."""
    errors = validate_metadata_update(new["metadata"], old["metadata"])
    errors += validate_pod(new)
    spec, before = new.get("spec", {}), old.get("spec", {})
    if "kubernetes.io/config.mirror" in old["metadata"].get("annotations", {}):
        return [forbidden("", "static pods cannot be resized")]
    if before.get("os", {}).get("name") == "windows":
        return [forbidden("", "windows pods cannot be resized")]
    quality = old.get("status", {}).get("qosClass") or qos_class(dict(old))
    if quality != qos_class(dict(new)):
        shown = new.get("status", {}).get("qosClass", "")
        errors.append(invalid("spec", shown, "Pod QOS Class may not change as a result of resizing"))
    if not _node_can_resize(old):
        errors.append(forbidden("spec", "Pod running on node without support for resize"))
    if any(pod.get("spec", {}).get("resources") for pod in (new, old)) and spec.get("resources") != before.get(
        "resources"
    ):
        detail = "resize of pod-level resources is not supported by this server; resize the containers"
        return [*errors, forbidden("spec.resources", detail)]
    order = _same_containers(spec, before)
    if order:
        return errors + order
    for name in ("initContainers", "containers"):
        for index, was in enumerate(before.get(name) or ()):
            if name == "containers" or was.get("restartPolicy") == "Always":
                now = spec[name][index].get("resources", {})
                errors += _nothing_removed(now, was.get("resources", {}), f"spec.{name}[{index}].resources")
    errors += _only_cpu_and_memory(spec, before)
    if errors:
        return errors
    rest = {**spec, "containers": before.get("containers"), "initContainers": before.get("initContainers")}
    if {key: value for key, value in rest.items() if value is not None} != before:
        errors.append(forbidden("spec", _ONLY_CPU_AND_MEMORY))
    return errors


def _node_can_resize(pod: _Map) -> bool:
    """Return whether the kubelet reports resources of the first running container. True without a running container."""
    for status in pod.get("status", {}).get("containerStatuses") or ():
        if "running" in status.get("state", {}):
            return "resources" in status
    return True


def _same_containers(spec: _Map, before: _Map) -> list[FieldError]:
    errors: list[FieldError] = []
    for name in ("containers", "initContainers"):
        new, old = spec.get(name) or (), before.get(name) or ()
        if len(new) != len(old):
            errors.append(forbidden(f"spec.{name}", f"{name} may not be added or removed on resize"))
            continue
        detail = f"{name} may not be renamed or reordered on resize"
        errors += [
            forbidden(f"spec.{name}[{index}].name", detail)
            for index, (container, was) in enumerate(zip(new, old, strict=True))
            if container.get("name") != was.get("name")
        ]
    return errors


def _nothing_removed(new: _Map, old: _Map, path: str) -> list[FieldError]:
    return [
        forbidden(f"{path}.{kind}", f"resource {kind} cannot be removed")
        for kind in ("requests", "limits")
        if (old.get(kind) or {}).keys() - (new.get(kind) or {}).keys()
    ]


def _only_cpu_and_memory(spec: _Map, before: _Map) -> list[FieldError]:
    errors: list[FieldError] = []
    for new, old in zip(spec.get("containers") or (), before.get("containers") or (), strict=True):
        if _without_cpu_and_memory(new) != _without_cpu_and_memory(old):
            errors.append(forbidden("spec", _ONLY_CPU_AND_MEMORY))
    pairs = zip(spec.get("initContainers") or (), before.get("initContainers") or (), strict=True)
    for index, (new, old) in enumerate(pairs):
        if new == old:
            continue
        if old.get("restartPolicy") != "Always":
            errors.append(forbidden("spec", "resources for non-sidecar init containers are immutable"))
        elif _without_cpu_and_memory(new) != _without_cpu_and_memory(old):
            detail = "only cpu and memory resources for init or sidecar containers are mutable"
            errors.append(forbidden(f"spec.initContainers[{index}]", detail))
    return errors


def _without_cpu_and_memory(container: _Map) -> dict[str, Any]:
    resources = container.get("resources") or {}
    others = {
        kind: {name: text for name, text in (amounts or {}).items() if name not in ("cpu", "memory")}
        for kind, amounts in resources.items()
        if kind != "claims"
    }
    return {**container, "resources": {kind: amounts for kind, amounts in others.items() if amounts}}
