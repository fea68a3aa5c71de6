"""Columns and cells of kinds that are stored here without a controller for them.

After Kubernetes' pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from situate.cluster.errors.times import parse_seconds
from situate.cluster.read.table_cells import (
    MODES,
    Cells,
    Obj,
    age_of,
    age_text,
    container_cells,
    label_text,
    name_of,
    selector_cell,
)

_NONE: Final = "<none>"
_UNSET: Final = "<unset>"
_MAX_SHOWN: Final = 3
"""Largest number of addresses and ports in a cell. Further ones are only counted."""
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"


def _daemon_set(obj: Obj, now: float) -> list[Any]:
    spec, status = obj["spec"], obj.get("status", {})
    counts = ("desired", "current")
    return [
        name_of(obj),
        *(status.get(f"{each}NumberScheduled", 0) for each in counts),
        *(status.get(each, 0) for each in ("numberReady", "updatedNumberScheduled", "numberAvailable")),
        label_text(spec["template"].get("spec", {}).get("nodeSelector")),
        age_of(obj, now),
        *container_cells(spec["template"]),
        selector_cell(spec.get("selector")),
    ]


def _job(obj: Obj, now: float) -> list[Any]:
    spec, status = obj["spec"], obj.get("status", {})
    wanted, done = spec.get("completions"), status.get("succeeded", 0)
    if wanted is None and spec.get("parallelism", 1) > 1:
        completions = f"{done}/1 of {spec['parallelism']}"
    else:
        completions = f"{done}/{1 if wanted is None else wanted}"
    began, ended = status.get("startTime"), status.get("completionTime")
    return [
        name_of(obj),
        _job_status(obj),
        completions,
        "" if not began else age_text(began, parse_seconds(ended) if ended else now),
        age_of(obj, now),
        *container_cells(spec["template"]),
        selector_cell(spec.get("selector")),
    ]


def _job_status(obj: Obj) -> str:
    conditions = obj.get("status", {}).get("conditions") or ()
    holds = {each["type"] for each in conditions if each["status"] == "True"}
    for kind in ("Complete", "Failed"):
        if kind in holds:
            return kind
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating"
    return next((each for each in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if each in holds), "Running")


def _cron_job(obj: Obj, now: float) -> list[Any]:
    spec, status = obj["spec"], obj.get("status", {})
    last = status.get("lastScheduleTime")
    return [
        name_of(obj),
        spec.get("schedule", ""),
        spec.get("timeZone", _NONE),
        "True" if spec.get("suspend") else "False",
        len(status.get("active") or ()),
        age_text(last, now) if last else _NONE,
        age_of(obj, now),
        *container_cells(spec["jobTemplate"]["spec"]["template"]),
        selector_cell(spec["jobTemplate"]["spec"].get("selector")),
    ]


def _volume(obj: Obj, now: float) -> list[Any]:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    claim = spec.get("claimRef")
    return [
        name_of(obj),
        spec.get("capacity", {}).get("storage", ""),
        ",".join(MODES.get(mode, mode) for mode in spec.get("accessModes") or ()),
        spec.get("persistentVolumeReclaimPolicy", ""),
        "Terminating" if "deletionTimestamp" in obj["metadata"] else status.get("phase", ""),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName", _UNSET),
        status.get("reason", ""),
        age_of(obj, now),
        spec.get("volumeMode", _UNSET),
    ]


def _storage_class(obj: Obj, now: float) -> list[Any]:
    default = (obj["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true"
    return [
        name_of(obj) + (" (default)" if default else ""),
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy", "Delete"),
        obj.get("volumeBindingMode", "Immediate"),
        obj.get("allowVolumeExpansion", False),
        age_of(obj, now),
    ]


def _ingress(obj: Obj, now: float) -> list[Any]:
    spec = obj.get("spec", {})
    hosts = [rule["host"] for rule in spec.get("rules") or () if rule.get("host")]
    balancers = obj.get("status", {}).get("loadBalancer", {}).get("ingress") or ()
    return [
        name_of(obj),
        spec.get("ingressClassName", _NONE),
        _first_few(hosts) if hosts else "*",
        ",".join(each.get("ip") or each.get("hostname", "") for each in balancers),
        "80, 443" if spec.get("tls") else "80",
        age_of(obj, now),
    ]


def _ingress_class(obj: Obj, now: float) -> list[Any]:
    spec = obj.get("spec", {})
    parameters = spec.get("parameters")
    shown = _NONE
    if parameters:
        group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") else ""
        shown = f"{parameters['kind']}{group}/{parameters['name']}"
    return [name_of(obj), spec.get("controller", ""), shown, age_of(obj, now)]


def _role_binding(obj: Obj, now: float) -> list[Any]:
    role, subjects = obj["roleRef"], obj.get("subjects") or ()

    def named(kind: str) -> str:
        return ", ".join(each["name"] for each in subjects if each["kind"] == kind)

    accounts = (f"{each.get('namespace', '')}/{each['name']}" for each in subjects if each["kind"] == "ServiceAccount")
    role_shown = f"{role['kind']}/{role['name']}"
    return [name_of(obj), role_shown, age_of(obj, now), named("User"), named("Group"), ", ".join(accounts)]


def _endpoint_slice(obj: Obj, now: float) -> list[Any]:
    ports = [str(each["port"]) if each.get("port") else "*" for each in obj.get("ports") or ()]
    addresses = [address for each in obj.get("endpoints") or () for address in each.get("addresses") or ()]
    return [
        name_of(obj),
        obj.get("addressType", ""),
        _first_few(ports) if ports else _UNSET,
        _first_few(addresses) if addresses else _UNSET,
        age_of(obj, now),
    ]


def _endpoints(obj: Obj, now: float) -> list[Any]:
    found = [
        f"{address['ip']}:{port['port']}" if port else address["ip"]
        for subset in obj.get("subsets") or ()
        for port in subset.get("ports") or (None,)
        for address in subset.get("addresses") or ()
    ]
    return [name_of(obj), _first_few(found) if found else _NONE, age_of(obj, now)]


def _first_few(texts: Sequence[str]) -> str:
    left = len(texts) - _MAX_SHOWN
    return ",".join(texts[:_MAX_SHOWN]) + (f" + {left} more..." if left > 0 else "")


def _policy(obj: Obj, now: float) -> list[Any]:
    kind = obj.get("spec", {}).get("paramKind")
    shown = f"{kind['apiVersion']}/{kind['kind']}" if kind else _UNSET
    return [name_of(obj), len(obj.get("spec", {}).get("validations") or ()), shown, age_of(obj, now)]


def _policy_binding(obj: Obj, now: float) -> list[Any]:
    spec = obj.get("spec", {})
    reference = spec.get("paramRef")
    shown = _UNSET
    if reference:
        place = f"{reference['namespace']}/" if reference.get("namespace") else "*/"
        shown = place + reference["name"] if reference.get("name") else selector_cell(reference.get("selector"))
    return [name_of(obj), spec.get("policyName", ""), shown, age_of(obj, now)]


_BINDINGS: Final = (("Name", "Role", "Age", "*Users", "*Groups", "*ServiceAccounts"), _role_binding)
_TEMPLATE: Final = ("Age", "*Containers", "*Images", "*Selector")

OTHER_KINDS: Final[Mapping[str, tuple[tuple[str, ...], Cells]]] = {
    "daemonsets.apps": (
        (
            *("Name", "Desired:integer", "Current:integer", "Ready:integer", "Up-to-date:integer"),
            *("Available:integer", "Node Selector", *_TEMPLATE),
        ),
        _daemon_set,
    ),
    "jobs.batch": (("Name", "Status", "Completions", "Duration", *_TEMPLATE), _job),
    "cronjobs.batch": (
        ("Name", "Schedule", "Timezone", "Suspend:boolean", "Active:integer", "Last Schedule", *_TEMPLATE),
        _cron_job,
    ),
    "persistentvolumes": (
        (
            *("Name", "Capacity", "Access Modes", "Reclaim Policy", "Status", "Claim", "StorageClass"),
            *("VolumeAttributesClass", "Reason", "Age", "*VolumeMode"),
        ),
        _volume,
    ),
    "storageclasses.storage.k8s.io": (
        ("Name", "Provisioner", "ReclaimPolicy", "VolumeBindingMode", "AllowVolumeExpansion", "Age"),
        _storage_class,
    ),
    "ingresses.networking.k8s.io": (("Name", "Class", "Hosts", "Address", "Ports", "Age"), _ingress),
    "ingressclasses.networking.k8s.io": (("Name", "Controller", "Parameters", "Age"), _ingress_class),
    "networkpolicies.networking.k8s.io": (
        ("Name", "Pod-Selector", "Age"),
        lambda obj, now: [name_of(obj), selector_cell(obj.get("spec", {}).get("podSelector")), age_of(obj, now)],
    ),
    "rolebindings.rbac.authorization.k8s.io": _BINDINGS,
    "clusterrolebindings.rbac.authorization.k8s.io": _BINDINGS,
    "podtemplates": (
        ("Name", "Containers", "Images", "Pod Labels"),
        lambda obj, _: [
            name_of(obj),
            *container_cells(obj["template"]),
            label_text(obj["template"].get("metadata", {}).get("labels")),
        ],
    ),
    "endpointslices.discovery.k8s.io": (("Name", "AddressType", "Ports", "Endpoints", "Age"), _endpoint_slice),
    "endpoints": (("Name", "Endpoints", "Age"), _endpoints),
    "runtimeclasses.node.k8s.io": (
        ("Name", "Handler", "Age"),
        lambda obj, now: [name_of(obj), obj.get("handler", ""), age_of(obj, now)],
    ),
    "validatingadmissionpolicies.admissionregistration.k8s.io": (
        ("Name", "Validations:integer", "ParamKind", "Age"),
        _policy,
    ),
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": (
        ("Name", "PolicyName", "ParamRef", "Age"),
        _policy_binding,
    ),
}
"""By table: columns in the syntax of `tables`, and cells."""
