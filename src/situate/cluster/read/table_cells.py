"""Build the cells of each built-in kind's row (Kubernetes' pkg/printers/internalversion/printers.go)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from situate.cluster.errors.times import parse_seconds
from situate.cluster.read.table_pods import pod_cells
from situate.objects.values.durations import human_duration

Obj: TypeAlias = Mapping[str, Any]
Cells: TypeAlias = Callable[[Obj, float], list[Any]]

_NONE: Final = "<none>"
_UNKNOWN: Final = "<unknown>"
_ROLE: Final = "node-role.kubernetes.io/"


def age_text(time: str | None, now: float) -> str:
    """Return the age of a time as kubectl shows it, such as `5d23h` (apimachinery util/duration)."""
    if not time:
        return _UNKNOWN
    return human_duration(int(now - parse_seconds(time)))


def name_of(obj: Obj) -> str:
    """Return the first cell of nearly every row."""
    name: str = obj["metadata"]["name"]
    return name


def age_of(obj: Obj, now: float) -> str:
    """Return the time since the object was created."""
    return age_text(obj["metadata"].get("creationTimestamp"), now)


def creation_cells(obj: Obj, _now: float) -> list[Any]:
    """Return the default row."""
    return [name_of(obj), obj["metadata"].get("creationTimestamp")]


def container_cells(template: Obj) -> list[str]:
    """Return the names and images of a template's containers."""
    containers = template.get("spec", {}).get("containers") or ()
    return [
        ",".join(container.get("name", "") for container in containers),
        ",".join(container.get("image", "") for container in containers),
    ]


def label_text(labels: Mapping[str, str] | None) -> str:
    """Return the labels as `a=b,c=d`."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or _NONE


def selector_cell(selector: Obj | None) -> str:
    """Return the cell for a LabelSelector."""
    return selector_text(selector) or _NONE


def selector_text(selector: Obj | None) -> str:
    """Return a LabelSelector in query syntax (apimachinery meta/v1 FormatLabelSelector). It can be empty."""
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
        name_of(node),
        ",".join(shown),
        ",".join(sorted(roles)) or _NONE,
        age_of(node, now),
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
    first = age_text(event.get("firstTimestamp") or event.get("eventTime"), now)
    last = age_text(event["lastTimestamp"], now) if event.get("lastTimestamp") else first
    count = event.get("count") or 1
    series = event.get("series")
    if series:
        last, count = age_text(series.get("lastObservedTime"), now), series.get("count", 0)
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
        name_of(event),
    ]


def _replicas(obj: Obj, now: float) -> list[Any]:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    selector = spec.get("selector")
    plain = obj["kind"] == "ReplicationController"
    return [
        name_of(obj),
        spec.get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age_of(obj, now),
        *container_cells(spec.get("template", {})),
        label_text(selector) if plain else selector_cell(selector),
    ]


def _stateful_set(obj: Obj, now: float) -> list[Any]:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}"
    return [name_of(obj), ready, age_of(obj, now), *container_cells(spec.get("template", {}))]


def _deployment(obj: Obj, now: float) -> list[Any]:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    return [
        name_of(obj),
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age_of(obj, now),
        *container_cells(spec.get("template", {})),
        selector_cell(spec.get("selector")),
    ]


def _budget(obj: Obj, now: float) -> list[Any]:
    spec = obj.get("spec", {})
    return [
        name_of(obj),
        str(spec.get("minAvailable", "N/A")),
        str(spec.get("maxUnavailable", "N/A")),
        obj.get("status", {}).get("disruptionsAllowed", 0),
        age_of(obj, now),
    ]


def _service(obj: Obj, now: float) -> list[Any]:
    spec = obj.get("spec", {})
    return [
        name_of(obj),
        spec.get("type", ""),
        (spec.get("clusterIPs") or [_NONE])[0],
        _external_addresses(obj),
        ",".join(_port(port) for port in spec.get("ports") or ()) or _NONE,
        age_of(obj, now),
        label_text(spec.get("selector")),
    ]


def _external_addresses(service: Obj) -> str:
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
    return [name_of(obj), controller, obj.get("revision", 0), age_of(obj, now)]


def _priority_class(obj: Obj, now: float) -> list[Any]:
    policy = obj.get("preemptionPolicy", "")
    return [name_of(obj), obj.get("value", 0), obj.get("globalDefault", False), age_of(obj, now), policy]


MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
"""Short names of the access modes of volumes."""


def _claim(obj: Obj, now: float) -> list[Any]:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    phase = status.get("phase", "")
    bound = bool(spec.get("volumeName"))
    return [
        name_of(obj),
        "Terminating" if "deletionTimestamp" in obj["metadata"] else phase,
        spec.get("volumeName", ""),
        status.get("capacity", {}).get("storage", "") if bound else "",
        ",".join(MODES.get(mode, mode) for mode in status.get("accessModes") or ()) if bound else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName", "<unset>"),
        age_of(obj, now),
        spec.get("volumeMode", "<unset>"),
    ]


CELLS: Final[Mapping[str, Cells]] = {
    "pods": lambda obj, now: pod_cells(obj, lambda time: age_text(time, now)),
    "nodes": _node,
    "namespaces": lambda obj, now: [name_of(obj), obj.get("status", {}).get("phase", ""), age_of(obj, now)],
    "configmaps": lambda obj, now: [
        name_of(obj),
        len(obj.get("data") or ()) + len(obj.get("binaryData") or ()),
        age_of(obj, now),
    ],
    "secrets": lambda obj, now: [name_of(obj), obj.get("type", ""), len(obj.get("data") or ()), age_of(obj, now)],
    "serviceaccounts": lambda obj, now: [name_of(obj), age_of(obj, now)],
    "services": _service,
    "events": _event,
    "replicationcontrollers": _replicas,
    "replicasets.apps": _replicas,
    "statefulsets.apps": _stateful_set,
    "deployments.apps": _deployment,
    "controllerrevisions.apps": _revision,
    "leases.coordination.k8s.io": lambda obj, now: [
        name_of(obj),
        obj.get("spec", {}).get("holderIdentity", ""),
        age_of(obj, now),
    ],
    "poddisruptionbudgets.policy": _budget,
    "priorityclasses.scheduling.k8s.io": _priority_class,
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": lambda obj, now: [
        name_of(obj),
        len(obj.get("webhooks") or ()),
        age_of(obj, now),
    ],
    "validatingwebhookconfigurations.admissionregistration.k8s.io": lambda obj, now: [
        name_of(obj),
        len(obj.get("webhooks") or ()),
        age_of(obj, now),
    ],
    "persistentvolumeclaims": _claim,
}
