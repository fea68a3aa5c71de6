"""Validate containers of pods and templates.

After `validateContainers`, `validateInitContainers` and their callees in `pkg/apis/core/validation/validation.go`.
Security contexts are not validated; the container runtime checks them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from situate.cluster.errors.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
)
from situate.cluster.kinds.validation.metadata import (
    validate_choice,
    validate_non_negative,
    validate_optional_choice,
)
from situate.cluster.kinds.validation.names import (
    config_key,
    dns_label,
    dns_subdomain,
    port_name,
    port_number,
    variable_name,
)
from situate.cluster.kinds.validation.resources import validate_requirements

_Map = Mapping[str, Any]
_POLICIES: Final = ("File", "FallbackToLogsOnError")
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_RESTART_POLICIES: Final = ("Always", "Never", "OnFailure")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_PROBE_NUMBERS: Final = (
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
)
_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_NOT_IN_INIT_CONTAINERS: Final = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_VARIABLE_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def validate_containers(containers: Sequence[_Map], volumes: Collection[str], path: str) -> list[FieldError]:
    """Validate the regular containers: at least one, with unique names and no conflict of host ports."""
    if not containers:
        return [required(path)]
    errors: list[FieldError] = []
    names: set[str] = set()
    for index, container in enumerate(containers):
        here = f"{path}[{index}]"
        errors += _common_fields(container, volumes, here)
        name = container.get("name", "")
        if name in names:
            errors.append(duplicate(f"{here}.name", name))
        names.add(name)
        if not container.keys().isdisjoint(_NOT_IN_INIT_CONTAINERS):
            errors += _probes_and_hooks(container, here)
        if "restartPolicy" in container or "restartPolicyRules" in container:
            errors += _restart_policy(container, here)
    return errors + _host_ports(containers, path)


def validate_init_containers(
    containers: Sequence[_Map], regular: Sequence[_Map], volumes: Collection[str], path: str
) -> list[FieldError]:
    """Validate init containers and sidecars. Only sidecars may have probes and hooks."""
    errors: list[FieldError] = []
    names = {container.get("name", "") for container in regular}
    for index, container in enumerate(containers):
        here = f"{path}[{index}]"
        errors += _common_fields(container, volumes, here)
        policy = container.get("restartPolicy")
        errors += validate_optional_choice(policy, _RESTART_POLICIES, f"{here}.restartPolicy")
        name = container.get("name", "")
        if name in names:
            errors.append(duplicate(f"{here}.name", name))
        elif name:
            names.add(name)
        errors += _host_ports([container], path)
        if policy == "Always":
            errors += _probes_and_hooks(container, here)
        else:
            detail = "may not be set for init containers without restartPolicy=Always"
            errors += [forbidden(f"{here}.{key}", detail) for key in _NOT_IN_INIT_CONTAINERS if key in container]
    return errors


def _common_fields(container: _Map, volumes: Collection[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    name = container.get("name", "")
    if not name:
        errors.append(required(f"{path}.name"))
    elif problems := dns_label(name):
        errors += [invalid(f"{path}.name", name, problem) for problem in problems]
    if not container.get("image"):
        errors.append(required(f"{path}.image"))
    policy = container.get("terminationMessagePolicy", "")
    errors += validate_choice(policy, _POLICIES, f"{path}.terminationMessagePolicy")
    if container.get("ports"):
        errors += _ports(container["ports"], f"{path}.ports")
    if container.get("env"):
        errors += _variables(container["env"], f"{path}.env")
    if container.get("envFrom"):
        errors += _variable_sources(container["envFrom"], f"{path}.envFrom")
    if container.get("volumeMounts"):
        errors += _mounts(container["volumeMounts"], volumes, f"{path}.volumeMounts")
    errors += validate_choice(container.get("imagePullPolicy", ""), _PULL_POLICIES, f"{path}.imagePullPolicy")
    if container.get("resources"):
        errors += validate_requirements(container["resources"], f"{path}.resources")
    if container.get("resizePolicy"):
        errors += _resize_policies(container["resizePolicy"], f"{path}.resizePolicy")
    return errors


def _probes_and_hooks(container: _Map, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for hook in ("postStart", "preStop"):
        handler = container.get("lifecycle", {}).get(hook)
        if handler is not None:
            errors += _handler(handler, f"{path}.lifecycle.{hook}")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(name)
        if probe is None:
            continue
        here = f"{path}.{name}"
        errors += _handler(probe, here)
        for key in _PROBE_NUMBERS:
            errors += validate_non_negative(probe.get(key), f"{here}.{key}")
        grace = probe.get("terminationGracePeriodSeconds")
        if grace is not None and name == "readinessProbe":
            errors.append(
                invalid(f"{here}.terminationGracePeriodSeconds", grace, "must not be set for readinessProbes")
            )
        elif grace is not None and grace <= 0:
            errors.append(invalid(f"{here}.terminationGracePeriodSeconds", grace, "must be greater than 0"))
        if name != "readinessProbe" and probe.get("successThreshold", 0) != 1:
            errors.append(invalid(f"{here}.successThreshold", probe.get("successThreshold", 0), "must be 1"))
    return errors


def _handler(handler: _Map, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    given = [name for name in _HANDLERS if name in handler]
    if not given:
        return [required(path, "must specify a handler type")]
    action, here = handler[given[0]], f"{path}.{given[0]}"
    match given[0]:
        case "exec":
            if not action.get("command"):
                errors.append(required(f"{here}.command"))
        case "httpGet":
            if not action.get("path"):
                errors.append(required(f"{here}.path"))
            errors += validate_port(action.get("port", 0), f"{here}.port")
            if action.get("scheme") not in ("HTTP", "HTTPS"):
                errors.append(not_supported(f"{here}.scheme", action.get("scheme", ""), ("HTTP", "HTTPS")))
        case "tcpSocket":
            errors += validate_port(action.get("port", 0), f"{here}.port")
        case "grpc":
            errors += [invalid(f"{here}.port", action.get("port", 0), p) for p in port_number(action.get("port", 0))]
        case _:
            if action.get("seconds", 0) < 0:
                errors.append(invalid(here, action["seconds"], "must be non-negative"))
    return errors + [forbidden(f"{path}.{name}", "may not specify more than 1 handler type") for name in given[1:]]


def validate_port(port: int | str, path: str) -> list[FieldError]:
    """Validate a port given as a number or a name."""
    problems = port_name(port) if isinstance(port, str) else port_number(port)
    return [invalid(path, port, problem) for problem in problems]


def _restart_policy(container: _Map, path: str) -> list[FieldError]:
    policy = container.get("restartPolicy")
    if policy is None:
        return [required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used")]
    return validate_optional_choice(policy, _RESTART_POLICIES, f"{path}.restartPolicy")


def _ports(ports: Sequence[_Map], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[str] = set()
    for index, port in enumerate(ports):
        here = f"{path}[{index}]"
        name = port.get("name", "")
        if name:
            problems = port_name(name)
            errors += [invalid(f"{here}.name", name, problem) for problem in problems]
            if not problems and name in names:
                errors.append(duplicate(f"{here}.name", name))
            names.add(name)
        number = port.get("containerPort", 0)
        if not number:
            errors.append(required(f"{here}.containerPort"))
        else:
            errors += [invalid(f"{here}.containerPort", number, problem) for problem in port_number(number)]
        host = port.get("hostPort", 0)
        if host:
            errors += [invalid(f"{here}.hostPort", host, problem) for problem in port_number(host)]
        errors += validate_choice(port.get("protocol", ""), _PROTOCOLS, f"{here}.protocol")
    return errors


def _host_ports(containers: Sequence[_Map], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    taken: set[str] = set()
    for index, container in enumerate(containers):
        for number, port in enumerate(container.get("ports", ())):
            if not port.get("hostPort"):
                continue
            key = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if key in taken:
                errors.append(duplicate(f"{path}[{index}].ports[{number}].hostPort", key))
            taken.add(key)
    return errors


def _variables(variables: Sequence[_Map], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, variable in enumerate(variables):
        here = f"{path}[{index}]"
        name = variable.get("name", "")
        if not name:
            errors.append(required(f"{here}.name"))
        elif problems := variable_name(name):
            errors += [invalid(f"{here}.name", name, problem) for problem in problems]
        source = variable.get("valueFrom")
        if source is not None:
            errors += _variable_source(variable, source, f"{here}.valueFrom")
    return errors


def _variable_source(variable: _Map, source: _Map, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    given = [name for name in _VARIABLE_SOURCES if name in source]
    for name in given:
        errors += _reference(name, source[name], f"{path}.{name}")
    if not given:
        detail = (
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        )
        errors.append(invalid(path, "", detail))
    elif variable.get("value"):
        errors.append(invalid(path, "", "may not be specified when `value` is not empty"))
    elif len(given) > 1:
        errors.append(invalid(path, "", "may not have more than one field specified at a time"))
    return errors


def _reference(kind: str, reference: _Map, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if kind in ("configMapKeyRef", "secretKeyRef"):
        if not reference.get("name"):
            errors.append(required(f"{path}.name"))
        if not reference.get("key"):
            errors.append(required(f"{path}.key"))
        else:
            errors += [invalid(f"{path}.key", reference["key"], problem) for problem in config_key(reference["key"])]
    elif kind == "fieldRef" and not reference.get("fieldPath"):
        errors.append(required(f"{path}.fieldPath"))
    elif kind == "resourceFieldRef" and not reference.get("resource"):
        errors.append(required(f"{path}.resource"))
    return errors


def _variable_sources(sources: Sequence[_Map], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, source in enumerate(sources):
        here = f"{path}[{index}]"
        prefix = source.get("prefix", "")
        errors += [invalid(f"{here}.prefix", prefix, problem) for problem in variable_name(prefix)]
        given = [name for name in ("configMapRef", "secretRef") if name in source]
        for name in given:
            reference = source[name].get("name", "")
            if not reference:
                errors.append(required(f"{here}.{name}.name"))
            else:
                errors += [invalid(f"{here}.{name}.name", reference, p) for p in dns_subdomain(reference)]
        if not given:
            errors.append(invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(given) > 1:
            errors.append(invalid(path, "", "may not have more than one field specified at a time"))
    return errors


def _mounts(mounts: Sequence[_Map], volumes: Collection[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    taken: set[str] = set()
    for index, mount in enumerate(mounts):
        here = f"{path}[{index}]"
        name, where = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            errors.append(required(f"{here}.name"))
        if name not in volumes:
            errors.append(not_found(f"{here}.name", name))
        if not where:
            errors.append(required(f"{here}.mountPath"))
        if where in taken:
            errors.append(invalid(f"{here}.mountPath", where, "must be unique"))
        taken.add(where)
        for key in ("subPath", "subPathExpr"):
            sub = mount.get(key, "")
            if sub.startswith("/"):
                errors.append(invalid(f"{path}.{key}", sub, "must be a relative path"))
            if ".." in sub.split("/"):
                errors.append(invalid(f"{path}.{key}", sub, "must not contain '..'"))
        if mount.get("subPath") and mount.get("subPathExpr"):
            detail = "subPathExpr and subPath are mutually exclusive"
            errors.append(invalid(f"{here}.subPathExpr", mount["subPathExpr"], detail))
    return errors


def _resize_policies(policies: Sequence[_Map], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, policy in enumerate(policies):
        resource = policy.get("resourceName", "")
        if resource in seen:
            errors.append(duplicate(f"{path}[{index}]", resource))
        seen.add(resource)
        errors += validate_choice(resource, ("cpu", "memory"), path)
        errors += validate_choice(policy.get("restartPolicy", ""), ("NotRequired", "RestartContainer"), path)
    return errors
