"""Runner Pods: the Pod of a VM, the target Pod of a migration, and the metadata that the VM gives them (C1).

Labels and annotations of the VM are added to its Pod, changed there, and removed when they are removed from the VM. The
Pod records which ones came from the VM, so the keys of other writers stay.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from situate.objects.values.quantity import BadQuantity, Quantity, decode_quantity
from situate.vm.api.quantities import cpu_value, json_text, memory_value
from situate.vm.api.well_known import NAME_LABEL, OVERCOMMIT, PREFIX, RESOURCES, USAGE
from situate.vm.emulator import object_fields
from situate.vm.emulator.decision import Kind, Obj, Patch
from situate.vm.emulator.hypervisor import amount
from situate.vm.emulator.settings import Settings

COPIED_KEYS: Final = f"{PREFIX}/copied"
"""On a runner Pod: the names of the labels and annotations that come from its VM."""
CONTAINER: Final = "neonvm-runner"
RECEIVE: Final = "RECEIVE_MIGRATION"
HOSTNAME: Final = "kubernetes.io/hostname"
ARCHITECTURE: Final = "kubernetes.io/arch"
UNREACHABLE_S: Final = 30
"""How long runner Pods tolerate a lost node (C33)."""
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Characters of generated names, as in Kubernetes."""
_GIB: Final = 2**30
_MAX_NAME: Final = 63 - 6
"""Longest part of a Pod's name that also is the value of a label."""


def pod_name(machine: str, uid: str, number: int = 0) -> str:
    """Return `<machine>-` and five letters, always the same for one object and number."""
    digest = int.from_bytes(hashlib.sha256(f"{uid}/{number}".encode()).digest()[:8], "big")
    letters = []
    for _ in range(5):
        digest, index = divmod(digest, len(_LETTERS))
        letters.append(_LETTERS[index])
    return f"{machine[:_MAX_NAME].rstrip('-.')}-{''.join(letters)}"


def runner_pod(machine: Obj, name: str, settings: Settings) -> dict[str, Any]:
    """Return the Pod of a VM that does not run yet."""
    spec = object_fields.spec(machine)
    labels, annotations = wanted_metadata(machine)
    container: dict[str, Any] = {
        "name": CONTAINER,
        "image": str(spec.get("runnerImage") or settings.image),
        "resources": _container_resources(machine),
    }
    pod_spec: dict[str, Any] = {
        "containers": [container],
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": spec.get("terminationGracePeriodSeconds", 5),
        "tolerations": _tolerations(spec.get("tolerations") or ()),
        "affinity": dict(spec.get("affinity") or {}),
        "nodeSelector": _node_selector(spec),
    }
    for field in ("schedulerName", "serviceAccountName", "imagePullSecrets", "priorityClassName"):
        if spec.get(field):
            pod_spec[field] = spec[field]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": object_fields.namespace(machine),
            "labels": dict(labels),
            "annotations": dict(annotations),
            "ownerReferences": [object_fields.machine_owner(machine, controller=True)],
        },
        "spec": {key: value for key, value in pod_spec.items() if value not in ({}, [])},
    }


def target_pod(machine: Obj, source: Obj, migration: Obj, name: str, settings: Settings) -> dict[str, Any]:
    """Return the target Pod of a migration: a copy of the VM's Pod with its current size, on another node.

    The node constraints of the migration are required in addition to those of the VM (D12).
    """
    pod = runner_pod(machine, name, settings)
    pod["metadata"]["ownerReferences"] = [
        object_fields.migration_owner(migration, controller=True),
        object_fields.machine_owner(machine, controller=False),
    ]
    container = pod["spec"]["containers"][0]
    container["env"] = [{"name": RECEIVE, "value": "true"}]
    for each in object_fields.spec(source).get("containers") or ():
        if each.get("name") == CONTAINER and each.get("resources"):
            container["resources"] = each["resources"]
    given = pod["spec"].get("affinity") or {}
    try:
        affinity = _target_affinity(given, object_fields.name(machine), object_fields.spec(migration))
    except (AttributeError, TypeError, ValueError):
        affinity = given  # not of core/v1's shape: the server refuses the Pod, and an Event reports that
    if affinity:
        pod["spec"]["affinity"] = affinity
    return pod


def _target_affinity(given: Mapping[str, Any], machine: str, terms: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the VM's affinity, with the node constraints of the migration, and away from the VM's other Pods."""
    affinity = dict(given)
    node_affinity = _with_node_constraints(affinity.get("nodeAffinity") or {}, terms)
    if node_affinity:
        affinity["nodeAffinity"] = node_affinity
    if terms.get("preventMigrationToSameHost", True) is not False:
        affinity["podAntiAffinity"] = _with_anti_affinity(affinity.get("podAntiAffinity") or {}, machine)
    return affinity


def metadata_changes(machine: Obj, pod: Obj) -> Patch | None:
    """Return the patch that gives a Pod its VM's labels and annotations; None if it has them."""
    labels, annotations = wanted_metadata(machine)
    copied = _recorded_keys(object_fields.annotations_of(pod).get(COPIED_KEYS))
    changes: dict[str, Any] = {}
    for part, wanted, there in (
        ("labels", labels, object_fields.labels_of(pod)),
        ("annotations", annotations, object_fields.annotations_of(pod)),
    ):
        changed: dict[str, str | None] = {key: value for key, value in wanted.items() if there.get(key) != value}
        changed.update({key: None for key in copied.get(part, ()) if key not in wanted and key in there})
        if changed:
            changes[part] = changed
    if not changes:
        return None
    # no resourceVersion: keys are merged one by one, and a kubelet writes to the Pod all the time
    body = {"metadata": {"uid": object_fields.uid(pod), **changes}}
    return Patch(Kind.POD, object_fields.namespace(pod), object_fields.name(pod), body)


def wanted_metadata(machine: Obj) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the labels and annotations that a VM gives its Pod."""
    labels = {**object_fields.labels_of(machine), NAME_LABEL: object_fields.name(machine)}
    annotations = {key: value for key, value in object_fields.annotations_of(machine).items() if key != _APPLIED}
    annotations[USAGE] = json_text(_usage(machine))
    annotations[RESOURCES] = json_text(_resources(machine))
    overcommit = _overcommit(machine)
    if overcommit:
        annotations[OVERCOMMIT] = json_text(overcommit)
    annotations[COPIED_KEYS] = json_text({"labels": sorted(labels), "annotations": sorted(annotations)})
    return labels, annotations


def wanted_size(machine: Obj) -> tuple[int, int]:
    """Return milli-CPU and bytes in use by its spec."""
    guest = object_fields.spec(machine).get("guest") or {}
    cpu = milli((guest.get("cpus") or {}).get("use"))
    return cpu, slot_size(machine) * int((guest.get("memorySlots") or {}).get("use") or 0)


def size(machine: Obj) -> tuple[int, int]:
    """Return milli-CPU and bytes in its status; zero before it ran."""
    said = object_fields.status(machine)
    return milli(said.get("cpus")), amount(said.get("memorySize"), 0)


def slot_size(machine: Obj) -> int:
    return amount((object_fields.spec(machine).get("guest") or {}).get("memorySlotSize"), _GIB)


def milli(value: object) -> int:
    """Return a quantity in thousandths; 0 if it is invalid."""
    try:
        return 0 if value is None else decode_quantity(Quantity, value).milli_value
    except BadQuantity:
        return 0


def _usage(machine: Obj) -> dict[str, str]:
    """Return the larger of spec and status, so that the VM never appears smaller than it is (C2, D23)."""
    cpu, memory = map(max, wanted_size(machine), size(machine))
    return {"cpu": str(cpu_value(cpu)), "memory": str(memory_value(memory))}


def _resources(machine: Obj) -> dict[str, Any]:
    guest = object_fields.spec(machine).get("guest") or {}
    cpus, slots = guest.get("cpus") or {}, guest.get("memorySlots") or {}
    return {
        "cpus": {end: cpu_value(milli(cpus.get(end))) for end in ("min", "max", "use")},
        "memorySlots": {end: int(slots.get(end) or 0) for end in ("min", "max", "use")},
        "memorySlotSize": str(memory_value(slot_size(machine))),
    }


def _overcommit(machine: Obj) -> dict[str, str]:
    said = object_fields.spec(machine).get("overcommit") or {}
    return {key: str(cpu_value(milli(said[key]))) for key in ("cpu", "memory") if said.get(key) is not None}


def _container_resources(machine: Obj) -> Mapping[str, Any]:
    """Return the VM's `podResources`, else its initial size, which grows with it (B47)."""
    given = {key: value for key, value in (object_fields.spec(machine).get("podResources") or {}).items() if value}
    if given:
        return given
    cpu, memory = wanted_size(machine)
    return {"requests": {"cpu": str(cpu_value(cpu)), "memory": str(memory_value(memory))}}


def _node_selector(spec: Obj) -> dict[str, str]:
    selector = dict(spec.get("nodeSelector") or {})
    if spec.get("targetArchitecture"):
        selector[ARCHITECTURE] = spec["targetArchitecture"]
    return selector


def _tolerations(given: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the VM's own tolerations, and the two for lost nodes unless the VM has its own for that taint."""
    tolerations = list(given)
    for taint in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if any(each.get("key") == taint for each in given):
            continue
        tolerations.append(
            {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": UNREACHABLE_S}
        )
    return tolerations


def _with_anti_affinity(given: Mapping[str, Any], machine: str) -> dict[str, Any]:
    """Add the rule that no other Pod of the VM may be on the node."""
    term = {"labelSelector": {"matchLabels": {NAME_LABEL: machine}}, "topologyKey": HOSTNAME}
    return {**given, _REQUIRED: [*(given.get(_REQUIRED) or ()), term]}


def _with_node_constraints(own: Mapping[str, Any], terms: Mapping[str, Any]) -> dict[str, Any]:
    """Return node affinity that satisfies both: each alternative of one combined with each of the other."""
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    further = terms.get("nodeAffinity") or {}
    selected = [
        {"key": key, "operator": "In", "values": [value]}
        for key, value in sorted((terms.get("nodeSelector") or {}).items())
    ]
    wanted = [_required_terms(own), _required_terms(further), [{"matchExpressions": selected}] if selected else None]
    result = dict(own)
    alternatives: list[dict[str, Any]] | None = None
    for each in wanted:
        if each is not None:
            alternatives = each if alternatives is None else [_merged_terms(a, b) for a in alternatives for b in each]
    if alternatives is not None:
        result[_REQUIRED] = {"nodeSelectorTerms": alternatives or [{}]}
    preferences = [*(own.get(preferred) or ()), *(further.get(preferred) or ())]
    if preferences:
        result[preferred] = preferences
    return result


def _required_terms(affinity: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the alternatives; None: every node fits. Empty terms are dropped, because they match no node."""
    if not affinity.get(_REQUIRED):
        return None
    return [dict(term) for term in affinity[_REQUIRED].get("nodeSelectorTerms") or () if term]


def _merged_terms(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    joined = {
        part: [*(mine.get(part) or ()), *(theirs.get(part) or ())] for part in ("matchExpressions", "matchFields")
    }
    return {part: requirements for part, requirements in joined.items() if requirements}


def _recorded_keys(text: str | None) -> Mapping[str, Sequence[str]]:
    """Return the recorded keys; none if the record is unreadable, so that nothing is removed."""
    try:
        return {} if text is None else msgspec.json.decode(text, type=dict[str, list[str]])
    except msgspec.MsgspecError:
        return {}
