"""VirtualMachines as an agent sees them: which VMs it handles, and the fields that it reads (C35).

Unreadable annotations are reported, and the VM is scaled without them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from situate.objects.kinds.unstructured import Unstructured
from situate.objects.values.timestamps import BadTime, parse_time, rfc3339
from situate.vm.agent.decide.core import SizeChange
from situate.vm.agent.decide.scaling import Scaling, scaling_with_overrides
from situate.vm.agent.model.revisions import Revision, RevisionAt
from situate.vm.agent.model.state import Guest
from situate.vm.agent.protocol.samples import read_load
from situate.vm.api.machines import read_machine_annotations
from situate.vm.api.parse_errors import ParseError, ParseFailure, ParseResult, Part, Place
from situate.vm.api.quantities import parse_guest, read_amounts
from situate.vm.api.well_known import APPROVED, ENABLED_LABEL, LOAD, SCALING_CONFIG
from situate.vm.model.pods_and_nodes import Ref
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts

RUNNING_PHASES: Final = frozenset({"Running", "Scaling"})
PRE_MIGRATING: Final = "PreMigrating"
"""Handled as well, but without changes (D13)."""
_RULES: Final = Rules()


@dataclass(frozen=True, slots=True)
class MachineSnapshot:
    """One VirtualMachine at one moment."""

    ref: Ref
    pod: str
    """Its runner Pod; empty before there is one."""
    ip: str
    node: str
    phase: str
    scheduler_name: str
    enabled: bool
    guest: Guest
    newest_revision: int
    """The newest revision that any agent issued for it."""
    load: str | None = None
    """Annotation with its load; None: there is none."""


def parse_machine(vm: Unstructured, defaults: Scaling) -> ParseResult[MachineSnapshot]:
    """Parse a VirtualMachine. `value` is None if its size is unreadable."""
    metadata = vm.metadata
    about = f"VirtualMachine {metadata.namespace}/{metadata.name}"
    try:
        root = Part(Place(about, ""), vm.content)
        spec, status = root["spec"], root["status"]
        sizes = parse_guest(spec["guest"])
        phase = status["phase"].text(default="")
        grown = _status_size(status)
        current = _parse_revision(status["currentRevision"])
        target = _parse_revision(spec["targetRevision"])
        pod, ip, node = (status[key].text(default="") for key in ("podName", "podIP", "node"))
        scheduler_name = spec["schedulerName"].text(default="")
    except ParseFailure as problem:
        return ParseResult(None, (problem.error,))
    notes, wrong = read_machine_annotations(metadata, about, sizes, _RULES)
    scaling, of_scaling = _parse_scaling(vm, about, defaults)
    guest = Guest(
        minimum=notes.minimum,
        use=sizes.use,
        maximum=notes.maximum,
        slot=sizes.slot_size,
        scaling=scaling,
        current_revision=current,
        grown=grown,
        frozen=phase == PRE_MIGRATING,
        generation=metadata.generation,
        approved=_approved_amount(vm, about),
    )
    newest = max(each.revision.value if each else 0 for each in (current, target))
    enabled = metadata.labels.get(ENABLED_LABEL) == "true" and metadata.deletion_timestamp is None
    ref = Ref(metadata.namespace, metadata.name, metadata.uid)
    load = metadata.annotations.get(LOAD)
    machine = MachineSnapshot(ref, pod, ip, node, phase, scheduler_name, enabled, guest, newest, load)
    said = None if load is None else read_load(load, Place.annotation(about, LOAD))
    return ParseResult(machine, (*wrong, *of_scaling, *((said,) if isinstance(said, ParseError) else ())))


def is_handled(machine: MachineSnapshot, node: str | None, scheduler_name: str) -> bool:
    """Return whether the agent of that node handles the VM. None: one agent handles all nodes."""
    here = bool(machine.node) if node is None else machine.node == node
    ours = machine.enabled and here and machine.scheduler_name == scheduler_name
    return ours and bool(machine.ip) and bool(machine.pod) and machine.phase in (*RUNNING_PHASES, PRE_MIGRATING)


def size_patch(machine: MachineSnapshot, change: SizeChange) -> list[dict[str, Any]]:
    """Return a JSON patch of the size and the revision.

    The patch fails if the VM was replaced, is about to be migrated (D13), or was changed by another client.
    """
    slot = machine.guest.slot
    revision = change.target_revision
    at = datetime.fromtimestamp(revision.at_ms / 1000, UTC)
    return [
        {"op": "test", "path": "/metadata/uid", "value": machine.ref.uid},
        {"op": "test", "path": "/status/phase", "value": machine.phase},
        {"op": "test", "path": "/spec/guest/memorySlots/use", "value": machine.guest.use.memory // slot},
        {"op": "replace", "path": "/spec/guest/cpus/use", "value": _cpu_value(change.target)},
        {"op": "replace", "path": "/spec/guest/memorySlots/use", "value": change.target.memory // slot},
        {
            "op": "add",
            "path": "/spec/targetRevision",
            "value": {
                "revision": {"value": revision.revision.value, "flags": revision.revision.flags},
                "updatedAt": rfc3339(at),
            },
        },
    ]


def _approved_amount(vm: Unstructured, about: str) -> Amounts | None:
    """Return the approved amount. The scheduler reads it too, and reports errors in it."""
    text = vm.metadata.annotations.get(APPROVED)
    found = None if text is None else read_amounts(text, Place.annotation(about, APPROVED))
    return found if isinstance(found, Amounts) else None


def _cpu_value(amounts: Amounts) -> int | str:
    return f"{amounts.cpu}m" if amounts.cpu % 1000 else amounts.cpu // 1000


def _status_size(status: Part) -> Amounts | None:
    cpus, memory = status["cpus"], status["memorySize"]
    if not (cpus.is_present and memory.is_present):
        return None
    grown = Amounts.from_values(cpus.milli(), memory.units())
    return grown if all(grown) else None


def _parse_revision(part: Part) -> RevisionAt | None:
    if not part.is_present:
        return None
    revision, updated = part["revision"], part["updatedAt"]
    value = revision["value"].integer() if revision["value"].is_present else 0
    flags = revision["flags"].integer(most=255) if revision["flags"].is_present else 0
    try:
        at_ms = round(parse_time(updated.text()).timestamp() * 1000) if updated.is_present else 0
    except BadTime as problem:
        raise updated.failure("a time such as 2024-01-31T12:00:00Z", str(problem)) from problem
    return RevisionAt(Revision(value, flags), at_ms)


def _parse_scaling(vm: Unstructured, about: str, defaults: Scaling) -> tuple[Scaling | None, tuple[ParseError, ...]]:
    text = vm.metadata.annotations.get(SCALING_CONFIG)
    if text is None:
        return None, ()
    place = Place.annotation(about, SCALING_CONFIG)
    try:
        overrides = Part.parse_json(text, place).value
    except ParseFailure as problem:
        return None, (problem.error,)
    scaling, mistakes = scaling_with_overrides(defaults, overrides, place.field)
    return scaling, tuple(ParseError(about, each.path, each.found, each.allowed, each.hint) for each in mistakes)
