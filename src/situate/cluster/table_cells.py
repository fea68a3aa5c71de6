"""The cells of each built-in kind's row (Kubernetes' pkg/printers/internalversion/printers.go)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from situate.cluster.table_pods import pod_cells
from situate.cluster.times import seconds

Obj: TypeAlias = Mapping[str, Any]
Cells: TypeAlias = Callable[[Obj, float], list[Any]]

_NONE: Final = "<none>"
_UNKNOWN: Final = "<unknown>"
_ROLE: Final = "node-role.kubernetes.io/"


def since(time: str | None, now: float) -> str:
    """The age of a time as kubectl shows it, such as `5d23h` (apimachinery util/duration)."""
    if not time:
        return _UNKNOWN
    return human_duration(int(now - seconds(time)))


def human_duration(left: int) -> str:
    """Seconds in the two units that matter."""
    if left < -1:
        return "<invalid>"
    if left < 0:
        return "0s"
    minutes, hours, days = left // 60, left // 3600, left // 86400
    if left < 120:
        return f"{left}s"
    if minutes < 10:
        return f"{minutes}m{left % 60}s" if left % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if days < 730:
        return f"{days}d"
    years = days // 365
    if years < 8:
        return f"{years}y{days % 365}d" if days % 365 else f"{years}y"
    return f"{years}y"


def _name(obj: Obj) -> str:
    name: str = obj["metadata"]["name"]
    return name


def _age(obj: Obj, now: float) -> str:
    return since(obj["metadata"].get("creationTimestamp"), now)


def created_at(obj: Obj, _now: float) -> list[Any]:
    """The default row."""
    return [_name(obj), obj["metadata"].get("creationTimestamp")]


def _containers(template: Obj) -> list[str]:
    containers = template.get("spec", {}).get("containers") or ()
    return [
        ",".join(container.get("name", "") for container in containers),
        ",".join(container.get("image", "") for container in containers),
    ]


def _labels(labels: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or _NONE


def _selector(selector: Obj | None) -> str:
    return selector_text(selector) or _NONE


def selector_text(selector: Obj | None) -> str:
    """A LabelSelector in the words of a query (apimachinery meta/v1 FormatLabelSelector); empty for the empty one."""
    if not selector:
        return ""
    parts = {key: f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()}
    for expression in selector.get("matchExpressions") or ():
        key, operator = expression["key"], expression["operator"]
        values = ",".join(sorted(expression.get("values") or ()))
        parts[key] = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }[operator]
    return ",".join(parts[key] for key in sorted(parts))


def _node(node: Obj, now: float) -> list[Any]:
    status = node.get("status", {})
    ready = [c for c in status.get("conditions") or () if c["type"] == "Ready"]
    shown = ["Unknown"]
    if ready:
        shown = ["Ready" if ready[-1]["status"] == "True" else "NotReady"]
    if node.get("spec", {}).get("unschedulable"):
        shown.append("SchedulingDisabled")
    labels = node["metadata"].get("labels") or {}
    roles = {key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE) and key != _ROLE}
    if labels.get("kubernetes.io/role"):
        roles.add(labels["kubernetes.io/role"])
    info = status.get("nodeInfo", {})
    kernel = info.get("kernelVersion") or _UNKNOWN
    if info.get("architecture"):
        kernel += f" ({info['architecture']})"
    return [
        _name(node),
        ",".join(shown),
        ",".join(sorted(roles)) or _NONE,
        _age(node, now),
        info.get("kubeletVersion", ""),
        _address(status, "InternalIP"),
        _address(status, "ExternalIP"),
        info.get("osImage") or _UNKNOWN,
        kernel,
        info.get("containerRuntimeVersion") or _UNKNOWN,
    ]


def _address(status: Obj, kind: str) -> str:
    for address in status.get("addresses") or ():
        if address["type"] == kind:
            found: str = address["address"]
            return found
    return _NONE


def _event(event: Obj, now: float) -> list[Any]:
    first = since(event.get("firstTimestamp") or event.get("eventTime"), now)
    last = since(event["lastTimestamp"], now) if event.get("lastTimestamp") else first
    count = event.get("count") or 1
    series = event.get("series")
    if series:
        last, count = since(series.get("lastObservedTime"), now), series.get("count", 0)
    involved = event.get("involvedObject", {})
    target = involved.get("kind", "").lower()
    if involved.get("name"):
        target = f"{target}/{involved['name']}"
    source = event.get("source") or {}
    origin = [source.get("component") or event.get("reportingComponent", "")]
    if source.get("host") or event.get("reportingInstance"):
        origin.append(source.get("host") or event["reportingInstance"])
    return [
        last,
        event.get("type", ""),
        event.get("reason", ""),
        target,
        involved.get("fieldPath", ""),
        ", ".join(origin),
        event.get("message", "").strip(),
        first,
        count,
        _name(event),
    ]


def _replicas(obj: Obj, now: float) -> list[Any]:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    selector = spec.get("selector")
    plain = obj["kind"] == "ReplicationController"
    return [
        _name(obj),
        spec.get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        _age(obj, now),
        *_containers(spec.get("template", {})),
        _labels(selector) if plain else _selector(selector),
    ]


def _stateful_set(obj: Obj, now: float) -> list[Any]:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}"
    return [_name(obj), ready, _age(obj, now), *_containers(spec.get("template", {}))]


def _deployment(obj: Obj, now: float) -> list[Any]:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    return [
        _name(obj),
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        _age(obj, now),
        *_containers(spec.get("template", {})),
        _selector(spec.get("selector")),
    ]


def _budget(obj: Obj, now: float) -> list[Any]:
    spec = obj.get("spec", {})
    return [
        _name(obj),
        str(spec.get("minAvailable", "N/A")),
        str(spec.get("maxUnavailable", "N/A")),
        obj.get("status", {}).get("disruptionsAllowed", 0),
        _age(obj, now),
    ]


def _service(obj: Obj, now: float) -> list[Any]:
    spec = obj.get("spec", {})
    return [
        _name(obj),
        spec.get("type", ""),
        (spec.get("clusterIPs") or [_NONE])[0],
        _external(obj),
        ",".join(_port(port) for port in spec.get("ports") or ()) or _NONE,
        _age(obj, now),
        _labels(spec.get("selector")),
    ]


def _external(service: Obj) -> str:
    spec = service.get("spec", {})
    kind = spec.get("type")
    if kind == "ExternalName":
        return str(spec.get("externalName", ""))
    addresses = list(spec.get("externalIPs") or ())
    if kind == "LoadBalancer":
        ingress = service.get("status", {}).get("loadBalancer", {}).get("ingress") or ()
        addresses = [entry.get("ip") or entry.get("hostname", "") for entry in ingress] + addresses
        return ",".join(addresses) or "<pending>"
    return ",".join(addresses) or _NONE


def _port(port: Obj) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port['port']}{node}/{port.get('protocol', 'TCP')}"


def _revision(obj: Obj, now: float) -> list[Any]:
    owner: Sequence[Obj] = [o for o in obj["metadata"].get("ownerReferences") or () if o.get("controller")]
    controller = _NONE
    if owner:
        group = owner[0]["apiVersion"].rpartition("/")[0]
        kind = owner[0]["kind"].lower()
        controller = f"{kind}.{group}/{owner[0]['name']}" if group else f"{kind}/{owner[0]['name']}"
    return [_name(obj), controller, obj.get("revision", 0), _age(obj, now)]


def _priority_class(obj: Obj, now: float) -> list[Any]:
    policy = obj.get("preemptionPolicy", "")
    return [_name(obj), obj.get("value", 0), obj.get("globalDefault", False), _age(obj, now), policy]


_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _claim(obj: Obj, now: float) -> list[Any]:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    phase = status.get("phase", "")
    bound = bool(spec.get("volumeName"))
    return [
        _name(obj),
        "Terminating" if "deletionTimestamp" in obj["metadata"] else phase,
        spec.get("volumeName", ""),
        status.get("capacity", {}).get("storage", "") if bound else "",
        ",".join(_MODES.get(mode, mode) for mode in status.get("accessModes") or ()) if bound else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName", "<unset>"),
        _age(obj, now),
        spec.get("volumeMode", "<unset>"),
    ]


CELLS: Final[Mapping[str, Cells]] = {
    "pods": lambda obj, now: pod_cells(obj, lambda time: since(time, now)),
    "nodes": _node,
    "namespaces": lambda obj, now: [_name(obj), obj.get("status", {}).get("phase", ""), _age(obj, now)],
    "configmaps": lambda obj, now: [
        _name(obj),
        len(obj.get("data") or ()) + len(obj.get("binaryData") or ()),
        _age(obj, now),
    ],
    "secrets": lambda obj, now: [_name(obj), obj.get("type", ""), len(obj.get("data") or ()), _age(obj, now)],
    "serviceaccounts": lambda obj, now: [_name(obj), _age(obj, now)],
    "services": _service,
    "events": _event,
    "replicationcontrollers": _replicas,
    "replicasets.apps": _replicas,
    "statefulsets.apps": _stateful_set,
    "deployments.apps": _deployment,
    "controllerrevisions.apps": _revision,
    "leases.coordination.k8s.io": lambda obj, now: [
        _name(obj),
        obj.get("spec", {}).get("holderIdentity", ""),
        _age(obj, now),
    ],
    "poddisruptionbudgets.policy": _budget,
    "priorityclasses.scheduling.k8s.io": _priority_class,
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": lambda obj, now: [
        _name(obj),
        len(obj.get("webhooks") or ()),
        _age(obj, now),
    ],
    "validatingwebhookconfigurations.admissionregistration.k8s.io": lambda obj, now: [
        _name(obj),
        len(obj.get("webhooks") or ()),
        _age(obj, now),
    ],
    "persistentvolumeclaims": _claim,
}
