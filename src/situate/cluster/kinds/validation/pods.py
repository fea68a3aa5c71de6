"""Validate pods and pod templates.

After `ValidatePodSpec`, `ValidatePodCreate` and `ValidatePodTemplateSpec` in `pkg/apis/core/validation/validation.go`.
Errors have the same order as upstream. `pod_updates` validates later changes. Windows fields, security contexts and
resource claims are left to the node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from situate.cluster.errors.field_errors import FieldError, duplicate, forbidden, invalid, not_supported, required
from situate.cluster.kinds.validation.containers import validate_containers, validate_init_containers
from situate.cluster.kinds.validation.metadata import (
    validate_annotations,
    validate_choice,
    validate_label_name,
    validate_labels,
    validate_metadata,
    validate_optional_choice,
)
from situate.cluster.kinds.validation.names import dns_label, dns_subdomain, label_key
from situate.cluster.kinds.validation.resources import validate_requirements
from situate.cluster.kinds.validation.selectors import (
    validate_label_selector,
    validate_node_selector,
    validate_node_selector_term,
    validate_tolerations,
)
from situate.cluster.kinds.validation.volumes import validate_volumes

_Map = Mapping[str, Any]
MAX_INT32: Final = 2**31 - 1
_RESTARTS: Final = ("Always", "OnFailure", "Never")
_DNS: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_POSITIVE: Final = "must be greater than zero"
_WEIGHT: Final = "must be in the range 1-100"
_LABEL_NAMES: Final = ("hostname", "subdomain")
_SUBDOMAIN_NAMES: Final = ("priorityClassName", "runtimeClassName")


def validate_pod_create(pod: _Map) -> list[FieldError]:
    """Validate a new pod."""
    errors = validate_pod(pod)
    spec = pod.get("spec", {})
    if spec.get("ephemeralContainers"):
        errors.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        errors.append(forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
    return errors


def validate_pod(pod: _Map) -> list[FieldError]:
    """Validate metadata and spec, on creation and on every update."""
    errors = validate_metadata(pod.get("metadata", {}), namespaced=True)
    spec = pod.get("spec", {})
    errors += validate_pod_spec(spec, "spec")
    if not spec.get("serviceAccountName") and spec.get("volumes"):
        detail = "must not be specified when serviceAccountName is not set"
        errors += [
            forbidden(f"spec.volumes[{index}].projected.sources[{number}].serviceAccountToken", detail)
            for index, volume in enumerate(spec["volumes"])
            for number, source in enumerate(volume.get("projected", {}).get("sources") or ())
            if "serviceAccountToken" in source
        ]
    for name in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(name) or ()):
            image = container.get("image", "")
            if image != image.strip():
                detail = "must not have leading or trailing whitespace"
                errors.append(invalid(f"spec.{name}[{index}].image", image, detail))
    return errors


def validate_pod_template(template: _Map, path: str) -> list[FieldError]:
    """Validate labels, annotations and spec of a template."""
    metadata = template.get("metadata", {})
    errors = validate_labels(metadata.get("labels", {}), f"{path}.labels")
    errors += validate_annotations(metadata.get("annotations", {}), f"{path}.annotations")
    errors += validate_pod_spec(template.get("spec", {}), f"{path}.spec")
    if template.get("spec", {}).get("ephemeralContainers"):
        detail = "ephemeral containers not allowed in pod template"
        errors.append(forbidden(f"{path}.spec.ephemeralContainers", detail))
    return errors


def validate_pod_spec(spec: _Map, path: str) -> list[FieldError]:
    """Validate the spec of a pod after defaulting."""
    errors: list[FieldError] = []
    if spec.get("terminationGracePeriodSeconds") is None:
        errors.append(required(f"{path}.terminationGracePeriodSeconds"))
    volumes: set[str] = set()
    if spec.get("volumes"):
        volumes, found = validate_volumes(spec["volumes"], f"{path}.volumes")
        errors += found
    containers = spec.get("containers") or ()
    errors += validate_containers(containers, volumes, f"{path}.containers")
    if spec.get("initContainers"):
        errors += validate_init_containers(spec["initContainers"], containers, volumes, f"{path}.initContainers")
    if spec.get("resources"):
        errors += validate_requirements(spec["resources"], f"{path}.resources")
    if spec.get("hostNetwork"):
        errors += _host_network(containers, f"{path}.containers")
    errors += validate_choice(spec.get("restartPolicy", ""), _RESTARTS, f"{path}.restartPolicy")
    errors += validate_choice(spec.get("dnsPolicy", ""), _DNS, f"{path}.dnsPolicy")
    if spec.get("nodeSelector"):
        errors += validate_labels(spec["nodeSelector"], f"{path}.nodeSelector")
    if spec.get("affinity"):
        errors += _affinity(spec["affinity"], f"{path}.affinity")
    for index, gate in enumerate(spec.get("readinessGates", ())):
        name = gate.get("conditionType", "")
        errors += validate_label_name(name, f"{path}.readinessGates[{index}].conditionType")
    if spec.get("schedulingGates"):
        errors += _scheduling_gates(spec["schedulingGates"], f"{path}.schedulingGates")
    if spec.get("topologySpreadConstraints"):
        errors += _spread(spec["topologySpreadConstraints"], f"{path}.topologySpreadConstraints")
    for key in ("serviceAccountName", "nodeName"):
        if spec.get(key):
            errors += [invalid(f"{path}.{key}", spec[key], problem) for problem in dns_subdomain(spec[key])]
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= MAX_INT32:
        detail = f"must be between 1 and {MAX_INT32}, inclusive"
        errors.append(invalid(f"{path}.activeDeadlineSeconds", deadline, detail))
    for key in _LABEL_NAMES:
        if spec.get(key):
            errors += [invalid(f"{path}.{key}", spec[key], problem) for problem in dns_label(spec[key])]
    if spec.get("tolerations"):
        errors += validate_tolerations(spec["tolerations"], f"{path}.tolerations")
    for key in _SUBDOMAIN_NAMES:
        if spec.get(key):
            errors += [invalid(f"{path}.{key}", spec[key], problem) for problem in dns_subdomain(spec[key])]
    errors += validate_preemption_policy(spec, f"{path}.preemptionPolicy")
    if spec.get("overhead"):
        errors += validate_requirements({"limits": spec["overhead"]}, f"{path}.overhead")
    if spec.get("os") is not None:
        errors += validate_choice(spec["os"].get("name", ""), ("linux", "windows"), f"{path}.os")
    return errors


def validate_preemption_policy(obj: _Map, path: str) -> list[FieldError]:
    """Validate the preemptionPolicy of a pod's spec or of a PriorityClass."""
    return validate_optional_choice(obj.get("preemptionPolicy"), ("PreemptLowerPriority", "Never"), path)


def _host_network(containers: Sequence[_Map], path: str) -> list[FieldError]:
    detail = "must match `containerPort` when `hostNetwork` is true"
    return [
        invalid(f"{path}[{index}].ports[{number}].hostPort", port.get("hostPort", 0), detail)
        for index, container in enumerate(containers)
        for number, port in enumerate(container.get("ports", ()))
        if port.get("hostPort", 0) != port.get("containerPort", 0)
    ]


def _scheduling_gates(gates: Sequence[_Map], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate.get("name", "")
        errors += [invalid(f"{path}[{index}]", name, problem) for problem in label_key(name)]
        if name in seen:
            errors.append(duplicate(f"{path}[{index}]", name))
        seen.add(name)
    return errors


def _affinity(affinity: _Map, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    node = affinity.get("nodeAffinity")
    if node is not None:
        here = f"{path}.nodeAffinity"
        needed = node.get("requiredDuringSchedulingIgnoredDuringExecution")
        if needed is not None:
            errors += validate_node_selector(needed, f"{here}.requiredDuringSchedulingIgnoredDuringExecution")
        for index, term in enumerate(node.get("preferredDuringSchedulingIgnoredDuringExecution", ())):
            where = f"{here}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
            if not 1 <= term.get("weight", 0) <= 100:
                errors.append(invalid(f"{where}.weight", term.get("weight", 0), _WEIGHT))
            errors += validate_node_selector_term(term.get("preference", {}), f"{where}.preference", any_value=True)
    for name in ("podAffinity", "podAntiAffinity"):
        if name in affinity:
            errors += _pod_affinity(affinity[name], f"{path}.{name}")
    return errors


def _pod_affinity(affinity: _Map, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    here = f"{path}.requiredDuringSchedulingIgnoredDuringExecution"
    for index, term in enumerate(affinity.get("requiredDuringSchedulingIgnoredDuringExecution", ())):
        errors += _affinity_term(term, f"{here}[{index}]")
    here = f"{path}.preferredDuringSchedulingIgnoredDuringExecution"
    for index, weighted in enumerate(affinity.get("preferredDuringSchedulingIgnoredDuringExecution", ())):
        if not 1 <= weighted.get("weight", 0) <= 100:
            errors.append(invalid(f"{here}[{index}].weight", weighted.get("weight", 0), _WEIGHT))
        errors += _affinity_term(weighted.get("podAffinityTerm", {}), f"{here}[{index}].podAffinityTerm")
    return errors


def _affinity_term(term: _Map, path: str) -> list[FieldError]:
    errors = validate_label_selector(term.get("labelSelector"), f"{path}.labelSelector")
    errors += validate_label_selector(term.get("namespaceSelector"), f"{path}.namespaceSelector")
    for name in term.get("namespaces", ()):
        errors += [invalid(f"{path}.namespace", name, problem) for problem in dns_label(name)]
    key = term.get("topologyKey", "")
    if not key:
        errors.append(required(f"{path}.topologyKey", "can not be empty"))
    return errors + validate_label_name(key, f"{path}.topologyKey")


def _spread(constraints: Sequence[_Map], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, constraint in enumerate(constraints):
        errors += _spread_constraint(constraint, constraints[index + 1 :], f"{path}[{index}]")
    return errors


def _spread_constraint(constraint: _Map, others: Sequence[_Map], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    key, action = constraint.get("topologyKey", ""), constraint.get("whenUnsatisfiable", "")
    if constraint.get("maxSkew", 0) <= 0:
        errors.append(invalid(f"{path}.maxSkew", constraint.get("maxSkew", 0), _POSITIVE))
    if not key:
        errors.append(required(f"{path}.topologyKey", "can not be empty"))
    if action not in ("DoNotSchedule", "ScheduleAnyway"):
        errors.append(not_supported(f"{path}.whenUnsatisfiable", action, ("DoNotSchedule", "ScheduleAnyway")))
    if any((other.get("topologyKey", ""), other.get("whenUnsatisfiable", "")) == (key, action) for other in others):
        errors.append(duplicate(f"{path}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}"))
    domains = constraint.get("minDomains")
    if domains is not None:
        if domains <= 0:
            errors.append(invalid(f"{path}.minDomains", domains, _POSITIVE))
        if action != "DoNotSchedule":
            detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
            errors.append(invalid(f"{path}.minDomains", domains, detail))
    for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        errors += validate_optional_choice(constraint.get(name), ("Honor", "Ignore"), f"{path}.{name}")
    selector = constraint.get("labelSelector")
    if constraint.get("matchLabelKeys") and selector is None:
        errors.append(forbidden(f"{path}.matchLabelKeys", "must not be specified when labelSelector is not set"))
    return errors + validate_label_selector(selector, f"{path}.labelSelector")
