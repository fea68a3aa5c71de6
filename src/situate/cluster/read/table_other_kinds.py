"""Columns of kinds that are stored here without a controller for them.

After Kubernetes' pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from situate.cluster.errors.times import parse_seconds
from situate.cluster.read.table_cells import (
    AGE,
    NAME,
    NONE,
    SELECTOR,
    UNSET,
    VOLUME_CLASSES,
    VOLUME_MODE,
    Cell,
    Columns,
    Obj,
    access_modes,
    age_text,
    columns,
    container_columns,
    converted,
    field,
    label_text,
    selector_cell,
    size,
    volume_phase,
)

_MAX_SHOWN: Final = 3
"""Largest number of addresses and ports in a cell. Further ones are only counted."""
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"


def _completions(job: Obj, _now: float) -> str:
    spec, done = job["spec"], job.get("status", {}).get("succeeded", 0)
    wanted = spec.get("completions")
    if wanted is None and spec.get("parallelism", 1) > 1:
        return f"{done}/1 of {spec['parallelism']}"
    return f"{done}/{1 if wanted is None else wanted}"


def _job_duration(job: Obj, now: float) -> str:
    status = job.get("status", {})
    began, ended = status.get("startTime"), status.get("completionTime")
    return age_text(began, parse_seconds(ended) if ended else now) if began else ""


def _job_status(job: Obj, _now: float) -> str:
    conditions = job.get("status", {}).get("conditions") or ()
    holds = {each["type"] for each in conditions if each["status"] == "True"}
    for kind in ("Complete", "Failed"):
        if kind in holds:
            return kind
    if "deletionTimestamp" in job["metadata"]:
        return "Terminating"
    return next((each for each in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if each in holds), "Running")


def _last_schedule(cron_job: Obj, now: float) -> str:
    last = cron_job.get("status", {}).get("lastScheduleTime")
    return age_text(last, now) if last else NONE


def _volume_claim(claim: Obj | None) -> str:
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


def _storage_class_name(obj: Obj, _now: float) -> str:
    default = (obj["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true"
    return f"{obj['metadata']['name']}{' (default)' if default else ''}"


def _hosts(rules: Sequence[Obj] | None) -> str:
    return _first_few([rule["host"] for rule in rules or () if rule.get("host")], "*")


def _ingress_addresses(balancers: Sequence[Obj] | None) -> str:
    return ",".join(each.get("ip") or each.get("hostname", "") for each in balancers or ())


def _class_parameters(parameters: Obj | None) -> str:
    if not parameters:
        return NONE
    group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") else ""
    return f"{parameters['kind']}{group}/{parameters['name']}"


def _subjects(kind: str) -> Cell:
    def names(subjects: Sequence[Obj] | None) -> str:
        chosen = [each for each in subjects or () if each["kind"] == kind]
        if kind == "ServiceAccount":
            return ", ".join(f"{each.get('namespace', '')}/{each['name']}" for each in chosen)
        return ", ".join(each["name"] for each in chosen)

    return converted("subjects", names)


def _slice_ports(ports: Sequence[Obj] | None) -> str:
    return _first_few([str(each["port"]) if each.get("port") else "*" for each in ports or ()], UNSET)


def _slice_addresses(endpoints: Sequence[Obj] | None) -> str:
    return _first_few([address for each in endpoints or () for address in each.get("addresses") or ()], UNSET)


def _endpoint_addresses(subsets: Sequence[Obj] | None) -> str:
    found = [
        f"{address['ip']}:{port['port']}" if port else address["ip"]
        for subset in subsets or ()
        for port in subset.get("ports") or (None,)
        for address in subset.get("addresses") or ()
    ]
    return _first_few(found, NONE)


def _first_few(texts: Sequence[str], empty: str) -> str:
    left = len(texts) - _MAX_SHOWN
    return ",".join(texts[:_MAX_SHOWN]) + (f" + {left} more..." if left > 0 else "") if texts else empty


def _parameter_kind(kind: Obj | None) -> str:
    return f"{kind['apiVersion']}/{kind['kind']}" if kind else UNSET


def _parameter(reference: Obj | None) -> str:
    if not reference:
        return UNSET
    place = f"{reference['namespace']}/" if reference.get("namespace") else "*/"
    return place + reference["name"] if reference.get("name") else selector_cell(reference.get("selector"))


_BINDINGS: Final = columns(
    NAME,
    ("Role", lambda obj, _: f"{obj['roleRef']['kind']}/{obj['roleRef']['name']}"),
    AGE,
    ("*Users", _subjects("User")),
    ("*Groups", _subjects("Group")),
    ("*ServiceAccounts", _subjects("ServiceAccount")),
)
_JOB: Final = "spec.jobTemplate.spec"

OTHER_KINDS: Final[Mapping[str, Columns]] = {
    "daemonsets.apps": columns(
        NAME,
        ("Desired:integer", field("status.desiredNumberScheduled", 0)),
        ("Current:integer", field("status.currentNumberScheduled", 0)),
        ("Ready:integer", field("status.numberReady", 0)),
        ("Up-to-date:integer", field("status.updatedNumberScheduled", 0)),
        ("Available:integer", field("status.numberAvailable", 0)),
        ("Node Selector", converted("spec.template.spec.nodeSelector", label_text)),
        AGE,
        *container_columns("spec.template"),
        SELECTOR,
    ),
    "jobs.batch": columns(
        NAME,
        ("Status", _job_status),
        ("Completions", _completions),
        ("Duration", _job_duration),
        AGE,
        *container_columns("spec.template"),
        SELECTOR,
    ),
    "cronjobs.batch": columns(
        NAME,
        ("Schedule", field("spec.schedule")),
        ("Timezone", field("spec.timeZone", NONE)),
        ("Suspend:boolean", converted("spec.suspend", lambda suspended: "True" if suspended else "False")),
        ("Active:integer", size("status.active")),
        ("Last Schedule", _last_schedule),
        AGE,
        *container_columns(f"{_JOB}.template"),
        ("*Selector", converted(f"{_JOB}.selector", selector_cell)),
    ),
    "persistentvolumes": columns(
        NAME,
        ("Capacity", field("spec.capacity.storage")),
        ("Access Modes", converted("spec.accessModes", access_modes)),
        ("Reclaim Policy", field("spec.persistentVolumeReclaimPolicy")),
        ("Status", volume_phase),
        ("Claim", converted("spec.claimRef", _volume_claim)),
        *VOLUME_CLASSES,
        ("Reason", field("status.reason")),
        AGE,
        VOLUME_MODE,
    ),
    "storageclasses.storage.k8s.io": columns(
        ("Name", _storage_class_name),
        ("Provisioner", field("provisioner")),
        ("ReclaimPolicy", field("reclaimPolicy", "Delete")),
        ("VolumeBindingMode", field("volumeBindingMode", "Immediate")),
        ("AllowVolumeExpansion", field("allowVolumeExpansion", False)),
        AGE,
    ),
    "ingresses.networking.k8s.io": columns(
        NAME,
        ("Class", field("spec.ingressClassName", NONE)),
        ("Hosts", converted("spec.rules", _hosts)),
        ("Address", converted("status.loadBalancer.ingress", _ingress_addresses)),
        ("Ports", converted("spec.tls", lambda tls: "80, 443" if tls else "80")),
        AGE,
    ),
    "ingressclasses.networking.k8s.io": columns(
        NAME,
        ("Controller", field("spec.controller")),
        ("Parameters", converted("spec.parameters", _class_parameters)),
        AGE,
    ),
    "networkpolicies.networking.k8s.io": columns(
        NAME, ("Pod-Selector", converted("spec.podSelector", selector_cell)), AGE
    ),
    "rolebindings.rbac.authorization.k8s.io": _BINDINGS,
    "clusterrolebindings.rbac.authorization.k8s.io": _BINDINGS,
    "podtemplates": columns(
        NAME, *container_columns("template", ""), ("Pod Labels", converted("template.metadata.labels", label_text))
    ),
    "endpointslices.discovery.k8s.io": columns(
        NAME,
        ("AddressType", field("addressType")),
        ("Ports", converted("ports", _slice_ports)),
        ("Endpoints", converted("endpoints", _slice_addresses)),
        AGE,
    ),
    "endpoints": columns(NAME, ("Endpoints", converted("subsets", _endpoint_addresses)), AGE),
    "runtimeclasses.node.k8s.io": columns(NAME, ("Handler", field("handler")), AGE),
    "validatingadmissionpolicies.admissionregistration.k8s.io": columns(
        NAME,
        ("Validations:integer", size("spec.validations")),
        ("ParamKind", converted("spec.paramKind", _parameter_kind)),
        AGE,
    ),
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": columns(
        NAME, ("PolicyName", field("spec.policyName")), ("ParamRef", converted("spec.paramRef", _parameter)), AGE
    ),
}
"""Columns by table."""
