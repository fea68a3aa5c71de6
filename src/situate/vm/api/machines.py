"""VirtualMachines: the fields that decide the reserved amounts of their runner Pods.

The runner Pod carries most fields too, since the VM controller copies labels and annotations (C1). Only the VM itself
has its phase and its actual size (D23).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.unstructured import Unstructured
from situate.objects.values.durations import BadDuration, parse_duration
from situate.vm.api.claims import read_migration_times
from situate.vm.api.eviction_request import read_evacuation
from situate.vm.api.parse_errors import ParseError, ParseFailure, ParseResult, Part, Place
from situate.vm.api.quantities import (
    Bounds,
    GuestResources,
    parse_guest,
    read_amounts,
    read_bounds,
    read_overcommit,
    read_unit,
)
from situate.vm.api.well_known import (
    APPROVED,
    BOUNDS,
    CLAIM_CLOSED,
    DOWNTIME,
    ENABLED_LABEL,
    EVACUATE,
    MIGRATION_TIMES,
    OVERCOMMIT,
    REQUESTED,
    SCALING_UNIT,
)
from situate.vm.model.pods_and_nodes import Evacuation, Phase, Ref
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import RESOURCES, Amounts

_PHASES: Final[Mapping[str, Phase]] = {
    "Running": Phase.RUNNING,
    "Scaling": Phase.RUNNING,
    "PreMigrating": Phase.FROZEN,
    "Migrating": Phase.FROZEN,
}
"""VMs in other phases are not alive."""


@dataclass(frozen=True, slots=True)
class MachineAnnotations:
    """Values of annotations that both the VM and its Pod carry."""

    minimum: Amounts
    maximum: Amounts
    """For scaling: the bounds, inside the hard limits (C5)."""
    closed_claim: str
    moved_at: tuple[float, ...]
    evacuation: Evacuation | None = None
    downtime_s: float | None = None
    """Pause of the VM in its last migration; None: unknown (B17)."""


@dataclass(frozen=True, slots=True)
class ObservedMachine:
    """A VirtualMachine in its current state."""

    ref: Ref
    own: bool
    """Whether it has this scheduler's name."""
    phase: Phase
    use: Amounts
    """The use in its spec."""
    used: Amounts
    """The larger of spec and status (D23)."""
    notes: MachineAnnotations
    pod: str
    """Name of its runner Pod; empty before there is one."""
    approved: Amounts | None = None
    """Approved amount of an autoscaled VM; None: absent or unreadable."""


def read_machine(vm: Unstructured, rules: Rules) -> ParseResult[ObservedMachine]:
    """Parse a VirtualMachine. `value` is None if `spec.guest` or the sizes in `status` are unreadable."""
    metadata = vm.metadata
    about = f"VirtualMachine {metadata.namespace}/{metadata.name}"
    root = Part(Place(about, ""), vm.content)
    try:
        spec, status = root["spec"], root["status"]
        guest = parse_guest(spec["guest"], rules.resources)
        cpus, memory = status["cpus"], status["memorySize"]
        came_to = Amounts.from_values(
            cpus.milli() if cpus.is_present else 0,
            memory.units() if memory.is_present else 0,
            *(0,) * (len(rules.resources) - len(RESOURCES)),
        )
        seen_as = status["phase"].text(default="")
        own = spec["schedulerName"].text(default="") == rules.scheduler_name
        pod = status["podName"].text(default="")
    except ParseFailure as problem:
        return ParseResult(None, (problem.error,))
    notes, wrong = read_machine_annotations(metadata, about, guest, rules)
    wrong += _errors_in_pod_copy(metadata, about, rules)
    return ParseResult(
        ObservedMachine(
            ref=Ref(metadata.namespace, metadata.name, metadata.uid),
            own=own,
            phase=_PHASES.get(seen_as, Phase.OTHER),
            use=guest.use,
            used=guest.use.maximum(came_to),
            notes=notes,
            pod=pod,
            approved=_approved_amount(metadata, about, rules),
        ),
        wrong,
    )


def _approved_amount(metadata: ObjectMeta, about: str, rules: Rules) -> Amounts | None:
    text = metadata.annotations.get(APPROVED)
    if text is None or metadata.labels.get(ENABLED_LABEL) != "true":
        return None
    read = read_amounts(text, Place.annotation(about, APPROVED))
    return read.with_others_from(Amounts.zero(len(rules.resources))) if isinstance(read, Amounts) else None


def _errors_in_pod_copy(metadata: ObjectMeta, about: str, rules: Rules) -> tuple[ParseError, ...]:
    """Return the errors in annotations that vm reads from the Pod's copy. Users write and correct them on the VM."""
    readers = {SCALING_UNIT: read_unit, APPROVED: read_amounts, REQUESTED: read_amounts, OVERCOMMIT: read_overcommit}
    found = (
        reader(metadata.annotations[name], Place.annotation(about, name), rules.resources)
        for name, reader in readers.items()
        if name in metadata.annotations
    )
    return tuple(each for each in found if isinstance(each, ParseError))


def read_machine_annotations(
    metadata: ObjectMeta, about: str, guest: GuestResources, rules: Rules
) -> tuple[MachineAnnotations, tuple[ParseError, ...]]:
    """Return the readable values of the annotations, and the errors. Unreadable bounds mean the hard limits."""
    annotations = metadata.annotations
    wrong: list[ParseError] = []
    minimum, maximum = guest.minimum, guest.maximum
    if BOUNDS in annotations:
        place = Place.annotation(about, BOUNDS)
        bounds = read_bounds(annotations[BOUNDS], place, guest.slot_size, rules.resources)
        if isinstance(bounds, Bounds):
            minimum, maximum = minimum.maximum(bounds.minimum), maximum.minimum(bounds.maximum)
        else:
            wrong += bounds
    moved_at: tuple[float, ...] = ()
    if MIGRATION_TIMES in annotations:
        moves = read_migration_times(annotations[MIGRATION_TIMES], Place.annotation(about, MIGRATION_TIMES))
        if isinstance(moves, ParseError):
            wrong.append(moves)
        else:
            moved_at = moves
    evacuation: Evacuation | None = None
    if EVACUATE in annotations:
        wish = read_evacuation(annotations[EVACUATE], Place.annotation(about, EVACUATE))
        if isinstance(wish, ParseError):
            wrong.append(wish)
        else:
            evacuation = wish
    downtime_s: float | None = None
    if DOWNTIME in annotations:
        try:
            downtime_s = max(0.0, parse_duration(annotations[DOWNTIME]))
        except BadDuration as problem:
            place = Place.annotation(about, DOWNTIME)
            wrong.append(place.parse_error(annotations[DOWNTIME], "a duration", str(problem)))
    notes = MachineAnnotations(minimum, maximum, annotations.get(CLAIM_CLOSED, ""), moved_at, evacuation, downtime_s)
    return notes, tuple(wrong)
