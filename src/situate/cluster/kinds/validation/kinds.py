"""Validate the other built-in kinds beyond their metadata.

After the `validation.go` of each group in `pkg/apis`. For a kind without a function here only metadata is validated.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from typing import Any, Final

from situate.cluster.errors.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from situate.cluster.kinds.validation.metadata import (
    validate_immutable,
    validate_label_name,
    validate_metadata,
    validate_metadata_update,
    validate_non_negative,
    validate_optional_choice,
)
from situate.cluster.kinds.validation.names import (
    config_key,
    dns_label,
    dns_subdomain,
    path_segment,
    port_name,
    port_number,
)
from situate.cluster.kinds.validation.pods import validate_preemption_policy
from situate.cluster.kinds.validation.resources import validate_amounts
from situate.cluster.kinds.validation.selectors import validate_label_selector, validate_taints
from situate.cluster.kinds.validation.workloads import at_most_100_percent, positive_int_or_percent

_Map = Mapping[str, Any]
_MAX_SECRET: Final = 1024 * 1024
_HIGHEST_PRIORITY: Final = 1_000_000_000
_SYSTEM_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def config_map(obj: _Map) -> list[FieldError]:
    errors = validate_metadata(obj["metadata"], namespaced=True)
    return errors + _config_map_data(obj)


def _config_map_data(obj: _Map) -> list[FieldError]:
    errors: list[FieldError] = []
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    size = 0
    for key, value in data.items():
        errors += [invalid(f"data[{key}]", key, problem) for problem in config_key(key)]
        if key in binary:
            errors.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
        size += len(value.encode())
    for key, value in binary.items():
        errors += [invalid(f"binaryData[{key}]", key, problem) for problem in config_key(key)]
        size += len(b64decode(value))
    if size > _MAX_SECRET:
        errors.append(too_long("[]", _MAX_SECRET))
    return errors


def config_map_update(new: _Map, old: _Map) -> list[FieldError]:
    errors = validate_metadata_update(new["metadata"], old["metadata"])
    return errors + _validate_immutable_data(new, old, ("data", "binaryData")) + config_map(new)


def _validate_immutable_data(new: _Map, old: _Map, fields: tuple[str, ...]) -> list[FieldError]:
    """Check that `immutable: true` stays set and that the data stays unchanged."""
    if not old.get("immutable"):
        return []
    detail = "field is immutable when `immutable` is set"
    errors = [] if new.get("immutable") else [forbidden("immutable", detail)]
    return errors + [forbidden(name, detail) for name in fields if (new.get(name) or {}) != (old.get(name) or {})]


_SECRET_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
"""Keys that a Secret of each type must have."""


def secret(obj: _Map) -> list[FieldError]:
    errors = validate_metadata(obj["metadata"], namespaced=True)
    return errors + _secret_data(obj)


def _secret_data(obj: _Map) -> list[FieldError]:
    errors: list[FieldError] = []
    data = obj.get("data") or {}
    for key in data:
        errors += [invalid(f"data[{key}]", key, problem) for problem in config_key(key)]
    if sum(len(b64decode(value)) for value in data.values()) > _MAX_SECRET:
        errors.append(too_long("data", _MAX_SECRET))
    kind = obj.get("type", "")
    errors += [required(f"data[{key}]") for key in _SECRET_KEYS.get(kind, ()) if key not in data]
    if kind == "kubernetes.io/basic-auth" and not data.keys() & {"username", "password"}:
        errors += [required("data[username]"), required("data[password]")]
    if kind == "kubernetes.io/service-account-token":
        name = "kubernetes.io/service-account.name"
        if not obj["metadata"].get("annotations", {}).get(name):
            errors.append(required(f"metadata.annotations[{name}]"))
    return errors


def secret_update(new: _Map, old: _Map) -> list[FieldError]:
    errors = validate_metadata_update(new["metadata"], old["metadata"])
    errors += validate_immutable(new.get("type", ""), old.get("type", ""), "type")
    return errors + _validate_immutable_data(new, old, ("data",)) + secret(new)


def service(obj: _Map) -> list[FieldError]:
    """Validate the parts of a Service that this cluster uses."""
    errors = validate_metadata(obj["metadata"], namespaced=True, name_form=dns_label)
    spec = obj.get("spec", {})
    kind, ports = spec.get("type", ""), spec.get("ports", ())
    if kind not in ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort"):
        errors.append(not_supported("spec.type", kind, ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")))
    if not ports and kind != "ExternalName" and spec.get("clusterIP") != "None":
        errors.append(required("spec.ports"))
    if kind == "ExternalName" and not spec.get("externalName"):
        errors.append(required("spec.externalName"))
    names: set[str] = set()
    for index, port in enumerate(ports):
        here = f"spec.ports[{index}]"
        name, number = port.get("name", ""), port.get("port", 0)
        if not name and len(ports) > 1:
            errors.append(required(f"{here}.name"))
        elif name:
            errors += [invalid(f"{here}.name", name, problem) for problem in dns_label(name)]
            if name in names:
                errors.append(duplicate(f"{here}.name", name))
            names.add(name)
        if not 1 <= number <= 65535:
            errors.append(invalid(f"{here}.port", number, "must be between 1 and 65535, inclusive"))
        target = port.get("targetPort", 0)
        problems = port_name(target) if isinstance(target, str) else port_number(target)
        errors += [invalid(f"{here}.targetPort", target, problem) for problem in problems]
        if port.get("protocol") not in ("SCTP", "TCP", "UDP"):
            errors.append(not_supported(f"{here}.protocol", port.get("protocol", ""), ("SCTP", "TCP", "UDP")))
    for key, value in (spec.get("selector") or {}).items():
        errors += validate_label_name(key, "spec.selector")
        errors += [] if isinstance(value, str) else [invalid("spec.selector", value, "must be a string")]
    return errors


def service_update(new: _Map, old: _Map) -> list[FieldError]:
    errors = validate_metadata_update(new["metadata"], old["metadata"])
    before, after = old.get("spec", {}).get("clusterIP"), new.get("spec", {}).get("clusterIP")
    if before and after != before and new.get("spec", {}).get("type") != "ExternalName":
        errors.append(invalid("spec.clusterIPs[0]", [after] if after else None, "may not change once set"))
    return errors + [error for error in service(new) if not error.field.startswith("metadata")]


def node(obj: _Map) -> list[FieldError]:
    errors = validate_metadata(obj["metadata"], namespaced=False)
    errors += validate_taints(obj.get("spec", {}).get("taints", ()), "metadata.taints")
    return errors + _node_amounts(obj)


def _node_amounts(obj: _Map) -> list[FieldError]:
    status = obj.get("status", {})
    errors = validate_amounts(status.get("capacity") or {}, "status.capacity")
    return errors + validate_amounts(status.get("allocatable") or {}, "status.allocatable")


def node_update(new: _Map, old: _Map) -> list[FieldError]:
    errors = validate_metadata_update(new["metadata"], old["metadata"]) + _node_amounts(new)
    seen: list[Any] = []
    for index, address in enumerate(new.get("status", {}).get("addresses") or ()):
        if address in seen:
            errors.append(duplicate(f"status.addresses[{index}]", address))
        seen.append(address)
    spec, before = new.get("spec", {}), old.get("spec", {})
    if before.get("podCIDRs") and spec.get("podCIDRs") != before["podCIDRs"]:
        errors.append(forbidden("spec.podCIDRs", 'node updates may not change podCIDR except from "" to valid'))
    if before.get("providerID") and spec.get("providerID") != before["providerID"]:
        errors.append(forbidden("spec.providerID", 'node updates may not change providerID except from "" to valid'))
    return errors + validate_taints(spec.get("taints", ()), "metadata.taints")


def disruption_budget_spec(obj: _Map) -> list[FieldError]:
    errors: list[FieldError] = []
    spec = obj.get("spec", {})
    if "minAvailable" in spec and "maxUnavailable" in spec:
        shown = {
            "MinAvailable": spec["minAvailable"],
            "Selector": spec.get("selector"),
            "MaxUnavailable": spec["maxUnavailable"],
            "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
        }
        errors.append(invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set"))
    for key in ("minAvailable", "maxUnavailable"):
        if key in spec:
            errors += positive_int_or_percent(spec[key], f"spec.{key}")
            errors += at_most_100_percent(spec[key], f"spec.{key}")
    errors += validate_label_selector(spec.get("selector"), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    choices = ("AlwaysAllow", "IfHealthyBudget")
    return errors + validate_optional_choice(policy, choices, "spec.unhealthyPodEvictionPolicy")


def disruption_budget_status(new: _Map, old: _Map) -> list[FieldError]:
    errors = validate_metadata_update(new["metadata"], old["metadata"])
    for key in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"):
        errors += validate_non_negative(new.get("status", {}).get(key), f"status.{key}")
    return errors


def lease_spec(obj: _Map) -> list[FieldError]:
    errors: list[FieldError] = []
    spec = obj.get("spec", {})
    seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if seconds is not None and seconds <= 0:
        errors.append(invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
    if transitions is not None and transitions < 0:
        errors.append(invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
    if spec.get("preferredHolder") and not spec.get("strategy"):
        errors.append(forbidden("spec.preferredHolder", "may only be specified if `strategy` is defined"))
    return errors


def event(obj: _Map) -> list[FieldError]:
    """Validate an Event of core/v1. Events of events.k8s.io are stored in this shape."""
    errors: list[FieldError] = []
    involved = obj.get("involvedObject", {}).get("namespace", "")
    namespace = obj["metadata"].get("namespace", "")
    mismatch = invalid("involvedObject.namespace", involved, "does not match event.namespace")
    if not obj.get("eventTime"):
        if namespace != involved and not (not involved and namespace in ("", "default")):
            errors.append(mismatch)
        return errors
    if not involved and namespace not in ("default", "kube-system"):
        errors.append(mismatch)
    controller = obj.get("reportingComponent", "")
    if not controller:
        errors.append(required("reportingComponent"))
    errors += validate_label_name(controller, "reportingComponent")
    for key in ("reportingInstance", "action", "reason"):
        text = obj.get(key, "")
        if not text:
            errors.append(required(key))
        elif len(text) > 128:
            errors.append(invalid(key, "", "can have at most 128 characters"))
    if len(obj.get("message", "")) > 1024:
        errors.append(invalid("message", "", "can have at most 1024 characters"))
    return errors


def event_update(new: _Map, _old: _Map) -> list[FieldError]:
    return event(new)


def priority_class(obj: _Map) -> list[FieldError]:
    errors = validate_metadata(obj["metadata"], namespaced=False)
    name, value = obj["metadata"].get("name", ""), obj.get("value", 0)
    if name.startswith("system-"):
        if _SYSTEM_PRIORITIES.get(name) != value:
            problem = (
                f"{name} is not a known system priority class"
                if name not in _SYSTEM_PRIORITIES
                else f"value of {name} PriorityClass must be {_SYSTEM_PRIORITIES[name]}"
            )
            detail = f"priority class names with 'system-' prefix are reserved for system use only. error: {problem}"
            errors.append(forbidden("metadata.name", detail))
    elif value > _HIGHEST_PRIORITY:
        detail = f"maximum allowed value of a user defined priority is {_HIGHEST_PRIORITY}"
        errors.append(forbidden("value", detail))
    return errors + validate_preemption_policy(obj, "preemptionPolicy")


def priority_class_update(new: _Map, old: _Map) -> list[FieldError]:
    errors = validate_metadata_update(new["metadata"], old["metadata"])
    if new.get("value", 0) != old.get("value", 0):
        errors.append(forbidden("value", "may not be changed in an update."))
    return errors + validate_immutable(new.get("preemptionPolicy"), old.get("preemptionPolicy"), "preemptionPolicy")


def role(obj: _Map) -> list[FieldError]:
    """Validate a Role or ClusterRole."""
    namespaced = obj["kind"] == "Role"
    errors = validate_metadata(obj["metadata"], namespaced=namespaced, name_form=path_segment)
    for index, rule in enumerate(obj.get("rules") or ()):
        here = f"rules[{index}]"
        if not rule.get("verbs"):
            errors.append(required(f"{here}.verbs", "verbs must contain at least one value"))
        if rule.get("nonResourceURLs"):
            if namespaced:
                detail = "namespaced rules cannot apply to non-resource URLs"
                errors.append(invalid(f"{here}.nonResourceURLs", rule["nonResourceURLs"], detail))
            continue
        if not rule.get("apiGroups"):
            errors.append(required(f"{here}.apiGroups", "resource rules must supply at least one api group"))
        if not rule.get("resources"):
            errors.append(required(f"{here}.resources", "resource rules must supply at least one resource"))
    return errors


def role_update(new: _Map, old: _Map) -> list[FieldError]:
    return role(new) + validate_metadata_update(new["metadata"], old["metadata"])


def role_binding(obj: _Map) -> list[FieldError]:
    """Validate a RoleBinding or ClusterRoleBinding."""
    namespaced = obj["kind"] == "RoleBinding"
    errors = validate_metadata(obj["metadata"], namespaced=namespaced, name_form=path_segment)
    reference = obj.get("roleRef", {})
    group = "rbac.authorization.k8s.io"
    if reference.get("apiGroup") != group:
        errors.append(not_supported("roleRef.apiGroup", reference.get("apiGroup", ""), (group,)))
    kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
    if reference.get("kind") not in kinds:
        errors.append(not_supported("roleRef.kind", reference.get("kind", ""), kinds))
    if not reference.get("name"):
        errors.append(required("roleRef.name"))
    for index, subject in enumerate(obj.get("subjects") or ()):
        errors += _subject(subject, f"subjects[{index}]", namespaced)
    return errors


def _subject(subject: _Map, path: str, namespaced: bool) -> list[FieldError]:
    errors = [] if subject.get("name") else [required(f"{path}.name")]
    kind = subject.get("kind", "")
    if kind == "ServiceAccount":
        if subject.get("name"):
            errors += [invalid(f"{path}.name", subject["name"], problem) for problem in dns_subdomain(subject["name"])]
        if subject.get("apiGroup"):
            errors.append(not_supported(f"{path}.apiGroup", subject["apiGroup"], ("",)))
        if not namespaced and not subject.get("namespace"):
            errors.append(required(f"{path}.namespace"))
    elif kind not in ("User", "Group"):
        errors.append(not_supported(f"{path}.kind", kind, ("ServiceAccount", "User", "Group")))
    return errors


_ROLE_REF: Final = (("APIGroup", "apiGroup"), ("Kind", "kind"), ("Name", "name"))


def role_binding_update(new: _Map, old: _Map) -> list[FieldError]:
    errors = role_binding(new) + validate_metadata_update(new["metadata"], old["metadata"])
    if new.get("roleRef") != old.get("roleRef"):
        reference = new.get("roleRef", {})
        shown = {name: reference.get(key, "") for name, key in _ROLE_REF}
        errors.append(invalid("roleRef", shown, "cannot change roleRef"))
    return errors


def namespace(obj: _Map) -> list[FieldError]:
    return validate_metadata(obj["metadata"], namespaced=False, name_form=dns_label)
