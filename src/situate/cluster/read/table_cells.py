"""Build the columns of each built-in kind's row (Kubernetes' pkg/printers/internalversion/printers.go)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from situate.cluster.errors.times import parse_seconds
from situate.cluster.read.table_pods import pod_cells
from situate.objects.values.durations import human_duration

Obj: TypeAlias = Mapping[str, Any]
Cell: TypeAlias = Callable[[Obj, float], Any]
"""Returns one cell of an object's row. The second argument is the time in Unix seconds."""
Cells: TypeAlias = Callable[[Obj, float], list[Any]]
Column: TypeAlias = tuple[str, Cell]
"""A header in the syntax of `definition`, and the cell."""

NONE: Final = "<none>"
UNSET: Final = "<unset>"
_UNKNOWN: Final = "<unknown>"
_ROLE: Final = "node-role.kubernetes.io/"
_DESCRIPTIONS: Final = {
    "Name": "Name must be unique within a namespace.",
    "Age": "Time since the object was created.",
    "Created At": "When the object was created.",
}


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of one kind."""

    definitions: list[dict[str, Any]]
    cells: Cells


def columns(*given: Column) -> Columns:
    """Return columns whose cells are computed one by one."""
    readers = [cell for _, cell in given]
    return Columns([definition(header) for header, _ in given], lambda obj, now: [read(obj, now) for read in readers])


def definition(header: str) -> dict[str, Any]:
    """Return the definition of a column.

    A column is given by its name. A `*` before the name marks a column of `-o wide`; `:type` after it gives a type
    other than string.
    """
    wide = header.startswith("*")
    name, _, kind = header.removeprefix("*").partition(":")
    return {
        "name": name,
        "type": kind or "string",
        "format": "name" if name == "Name" else "",
        "description": _DESCRIPTIONS.get(name, name),
        "priority": 1 if wide else 0,
    }


def field(path: str, default: Any = "") -> Cell:
    """Show the field at a dotted path, or `default` if it is absent."""
    *steps, last = path.split(".")

    def cell(obj: Obj, _now: float) -> Any:
        for step in steps:
            obj = obj.get(step) or {}
        return obj.get(last, default)

    return cell


def converted(path: str, convert: Callable[[Any], Any]) -> Cell:
    """Show the result of `convert` for the field at a dotted path, which is None if it is absent."""
    read = field(path, None)
    return lambda obj, now: convert(read(obj, now))


def size(path: str) -> Cell:
    """Show the number of items in the field at a dotted path."""
    return converted(path, lambda items: len(items or ()))


def age_text(time: str | None, now: float) -> str:
    """Return the age of a time as kubectl shows it, such as `5d23h` (apimachinery util/duration)."""
    if not time:
        return _UNKNOWN
    return human_duration(int(now - parse_seconds(time)))


def label_text(labels: Mapping[str, str] | None) -> str:
    """Return the labels as `a=b,c=d`."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def selector_cell(selector: Obj | None) -> str:
    """Return the cell for a LabelSelector."""
    return selector_text(selector) or NONE


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


NAME: Final[Column] = ("Name", lambda obj, _: obj["metadata"]["name"])
AGE: Final[Column] = ("Age", lambda obj, now: age_text(obj["metadata"].get("creationTimestamp"), now))
SELECTOR: Final[Column] = ("*Selector", converted("spec.selector", selector_cell))
VOLUME_CLASSES: Final[tuple[Column, ...]] = (
    ("StorageClass", field("spec.storageClassName")),
    ("VolumeAttributesClass", field("spec.volumeAttributesClassName", UNSET)),
)
VOLUME_MODE: Final[Column] = ("*VolumeMode", field("spec.volumeMode", UNSET))


def container_columns(template: str, marker: str = "*") -> tuple[Column, Column]:
    """Return the columns with the names and images of the containers in the pod template at a dotted path."""

    def joined(key: str) -> Cell:
        path = f"{template}.spec.containers"
        return converted(path, lambda containers: ",".join(each.get(key, "") for each in containers or ()))

    return (f"{marker}Containers", joined("name")), (f"{marker}Images", joined("image"))


def access_modes(modes: Sequence[str] | None) -> str:
    """Return the short names of a volume's access modes."""
    return ",".join(_MODES.get(mode, mode) for mode in modes or ())


_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def volume_phase(obj: Obj, _now: float) -> str:
    """Return the phase of a volume or claim."""
    terminating = "deletionTimestamp" in obj["metadata"]
    return "Terminating" if terminating else obj.get("status", {}).get("phase", "")


def _node_status(node: Obj, _now: float) -> str:
    ready = [c for c in node.get("status", {}).get("conditions") or () if c["type"] == "Ready"]
    shown = ["Unknown"]
    if ready:
        shown = ["Ready" if ready[-1]["status"] == "True" else "NotReady"]
    if node.get("spec", {}).get("unschedulable"):
        shown.append("SchedulingDisabled")
    return ",".join(shown)


def _node_roles(node: Obj, _now: float) -> str:
    labels = node["metadata"].get("labels") or {}
    roles = {key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE) and key != _ROLE}
    if labels.get("kubernetes.io/role"):
        roles.add(labels["kubernetes.io/role"])
    return ",".join(sorted(roles)) or NONE


def _kernel(info: Obj | None) -> str:
    kernel = (info or {}).get("kernelVersion") or _UNKNOWN
    return f"{kernel} ({info['architecture']})" if info and info.get("architecture") else kernel


def _node_address(kind: str) -> Cell:
    def first(addresses: Sequence[Obj] | None) -> str:
        return next((each["address"] for each in addresses or () if each["type"] == kind), NONE)

    return converted("status.addresses", first)


def _known(path: str) -> Cell:
    return converted(path, lambda text: text or _UNKNOWN)


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
        event["metadata"]["name"],
    ]


def _ready_replicas(obj: Obj, _now: float) -> str:
    return f"{obj.get('status', {}).get('readyReplicas', 0)}/{obj.get('spec', {}).get('replicas', 0)}"


def _external_addresses(service: Obj, _now: float) -> str:
    spec = service.get("spec", {})
    kind = spec.get("type")
    if kind == "ExternalName":
        return str(spec.get("externalName", ""))
    addresses = list(spec.get("externalIPs") or ())
    if kind == "LoadBalancer":
        ingress = service.get("status", {}).get("loadBalancer", {}).get("ingress") or ()
        addresses = [entry.get("ip") or entry.get("hostname", "") for entry in ingress] + addresses
        return ",".join(addresses) or "<pending>"
    return ",".join(addresses) or NONE


def _service_port(port: Obj) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port['port']}{node}/{port.get('protocol', 'TCP')}"


def _controller(obj: Obj, _now: float) -> str:
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            group = owner["apiVersion"].rpartition("/")[0]
            return f"{owner['kind'].lower()}{f'.{group}' if group else ''}/{owner['name']}"
    return NONE


def _if_bound(cell: Cell) -> Cell:
    return lambda claim, now: cell(claim, now) if claim.get("spec", {}).get("volumeName") else ""


def _replica_counts(selector: Callable[[Any], str]) -> Columns:
    return columns(
        NAME,
        ("Desired:integer", field("spec.replicas", 0)),
        ("Current:integer", field("status.replicas", 0)),
        ("Ready:integer", field("status.readyReplicas", 0)),
        AGE,
        *container_columns("spec.template"),
        ("*Selector", converted("spec.selector", selector)),
    )


_POD_HEADERS: Final = (
    "Name",
    "Ready",
    "Status",
    "Restarts",
    "Age",
    "*IP",
    "*Node",
    "*Nominated Node",
    "*Readiness Gates",
)
_EVENT_HEADERS: Final = (
    *("Last Seen", "Type", "Reason", "Object", "*Subobject", "*Source", "Message", "*First Seen", "*Count", "*Name"),
)
_WEBHOOKS: Final = columns(NAME, ("Webhooks:integer", size("webhooks")), AGE)

COLUMNS: Final[Mapping[str, Columns]] = {
    "pods": Columns(
        [definition(header) for header in _POD_HEADERS],
        lambda obj, now: pod_cells(obj, lambda time: age_text(time, now)),
    ),
    "nodes": columns(
        NAME,
        ("Status", _node_status),
        ("Roles", _node_roles),
        AGE,
        ("Version", field("status.nodeInfo.kubeletVersion")),
        ("*Internal-IP", _node_address("InternalIP")),
        ("*External-IP", _node_address("ExternalIP")),
        ("*OS-Image", _known("status.nodeInfo.osImage")),
        ("*Kernel-Version", converted("status.nodeInfo", _kernel)),
        ("*Container-Runtime", _known("status.nodeInfo.containerRuntimeVersion")),
    ),
    "namespaces": columns(NAME, ("Status", field("status.phase")), AGE),
    "configmaps": columns(
        NAME, ("Data", lambda obj, _: len(obj.get("data") or ()) + len(obj.get("binaryData") or ())), AGE
    ),
    "secrets": columns(NAME, ("Type", field("type")), ("Data", size("data")), AGE),
    "serviceaccounts": columns(NAME, AGE),
    "services": columns(
        NAME,
        ("Type", field("spec.type")),
        ("Cluster-IP", converted("spec.clusterIPs", lambda addresses: (addresses or [NONE])[0])),
        ("External-IP", _external_addresses),
        ("Port(s)", converted("spec.ports", lambda ports: ",".join(map(_service_port, ports or ())) or NONE)),
        AGE,
        ("*Selector", converted("spec.selector", label_text)),
    ),
    "events": Columns([definition(header) for header in _EVENT_HEADERS], _event),
    "replicationcontrollers": _replica_counts(label_text),
    "replicasets.apps": _replica_counts(selector_cell),
    "statefulsets.apps": columns(NAME, ("Ready", _ready_replicas), AGE, *container_columns("spec.template")),
    "deployments.apps": columns(
        NAME,
        ("Ready", _ready_replicas),
        ("Up-to-date", field("status.updatedReplicas", 0)),
        ("Available", field("status.availableReplicas", 0)),
        AGE,
        *container_columns("spec.template"),
        SELECTOR,
    ),
    "controllerrevisions.apps": columns(NAME, ("Controller", _controller), ("Revision", field("revision", 0)), AGE),
    "leases.coordination.k8s.io": columns(NAME, ("Holder", field("spec.holderIdentity")), AGE),
    "poddisruptionbudgets.policy": columns(
        NAME,
        ("Min Available", converted("spec.minAvailable", lambda least: "N/A" if least is None else str(least))),
        ("Max Unavailable", converted("spec.maxUnavailable", lambda most: "N/A" if most is None else str(most))),
        ("Allowed Disruptions:integer", field("status.disruptionsAllowed", 0)),
        AGE,
    ),
    "priorityclasses.scheduling.k8s.io": columns(
        NAME,
        ("Value:integer", field("value", 0)),
        ("Global-Default:boolean", field("globalDefault", False)),
        AGE,
        ("PreemptionPolicy", field("preemptionPolicy")),
    ),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": _WEBHOOKS,
    "validatingwebhookconfigurations.admissionregistration.k8s.io": _WEBHOOKS,
    "persistentvolumeclaims": columns(
        NAME,
        ("Status", volume_phase),
        ("Volume", field("spec.volumeName")),
        ("Capacity", _if_bound(field("status.capacity.storage"))),
        ("Access Modes", _if_bound(converted("status.accessModes", access_modes))),
        *VOLUME_CLASSES,
        AGE,
        VOLUME_MODE,
    ),
}
"""Columns by table, of kinds that a controller or the server itself acts upon."""
