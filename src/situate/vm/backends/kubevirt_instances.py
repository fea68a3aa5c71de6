"""VirtualMachineInstances, as far as their booking and their moves depend on them.

A machine that can be live-migrated is one whose condition LiveMigratable says so: KubeVirt knows its volumes, devices
and networks, and nothing of that is judged here again (B49).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from situate.objects.kinds.unstructured import Unstructured
from situate.objects.values.timestamps import BadTime, parse_time
from situate.vm.api.claims import read_moved
from situate.vm.api.parse_errors import Misread, Part, Place, Read, Unreadable
from situate.vm.api.well_known import ALWAYS_MIGRATE_LABEL, AUTO_MIGRATION_LABEL, CLAIM_CLOSED, MOVED
from situate.vm.backends.kubevirt_names import INSTANCE_KIND, LIVE_MIGRATABLE
from situate.vm.model.pods_and_nodes import Phase, Ref
from situate.vm.model.policy import Rules

_RUNNING: Final = "Running"


@dataclass(frozen=True, slots=True)
class LastMigration:
    """What its status says of the migration that it is in, or was in last."""

    uid: str
    """Of the migration; empty while none has reached its target."""
    over: bool
    """Completed, well or not."""
    source_pod: str
    """Empty where this version of KubeVirt does not say."""
    ended_at: float | None
    """Seconds of the epoch."""


@dataclass(frozen=True, slots=True)
class InstanceSeen:
    """A VirtualMachineInstance as it is now."""

    ref: Ref
    phase: Phase
    node: str
    """Where it runs; empty before it does."""
    live_migratable: bool
    wanted: bool
    """Its labels allow that it is moved (C9)."""
    always: bool
    last: LastMigration
    memory: int
    """Bytes of its guest, so much there is to copy; 0 where that is not said."""
    closed_claim: str
    moved_at: tuple[float, ...]

    @property
    def migrating(self) -> str:
        """The uid of the migration that is under way; empty: none is."""
        return "" if self.last.over else self.last.uid


def read_instance(vmi: Unstructured, rules: Rules) -> Read[InstanceSeen]:  # noqa: ARG001  # as every system reads
    """`value` is None where its status cannot be read. What is wrong with its notes is left out and told of."""
    metadata = vmi.metadata
    about = f"{INSTANCE_KIND} {metadata.namespace}/{metadata.name}"
    root = Part(Place(about, ""), vmi.content)
    try:
        status = root["status"]
        last = _last(status["migrationState"])
        node, phase = status["nodeName"].text(default=""), status["phase"].text(default="")
        conditions = status["conditions"].items() if status["conditions"].there else ()
        migratable = any(
            each["type"].value == LIVE_MIGRATABLE and each["status"].value == "True" for each in conditions
        )
        guest = root["spec"]["domain"]["memory"]["guest"]
        memory = guest.units() if guest.there else 0
    except Misread as problem:
        return Read(None, (problem.unreadable,))
    wrong: tuple[Unreadable, ...] = ()
    moved_at: tuple[float, ...] = ()
    if MOVED in metadata.annotations:
        moves = read_moved(metadata.annotations[MOVED], Place.annotation(about, MOVED))
        if isinstance(moves, Unreadable):
            wrong = (moves,)
        else:
            moved_at = moves
    wanted, always = allows_moving(metadata.labels)
    seen = InstanceSeen(
        ref=Ref(metadata.namespace, metadata.name, metadata.uid),
        phase=_phase(phase, last),
        node=node,
        live_migratable=migratable,
        wanted=wanted,
        always=always,
        last=last,
        memory=memory,
        closed_claim=metadata.annotations.get(CLAIM_CLOSED, ""),
        moved_at=moved_at,
    )
    return Read(seen, wrong)


def allows_moving(labels: Mapping[str, str]) -> tuple[bool, bool]:
    """Whether it may be moved, and whether that is for the second reason (C9)."""
    always = labels.get(ALWAYS_MIGRATE_LABEL) == "true"
    return always or labels.get(AUTO_MIGRATION_LABEL) == "true", always


def _phase(phase: str, last: LastMigration) -> Phase:
    if phase != _RUNNING:
        return Phase.OTHER
    return Phase.FROZEN if last.uid and not last.over else Phase.RUNNING


def _last(state: Part) -> LastMigration:
    completed = state["completed"].value is True or state["failed"].value is True
    return LastMigration(
        state["migrationUid"].text(default=""),
        completed,
        state["sourcePod"].text(default=""),
        _time(state["endTimestamp"]),
    )


def _time(part: Part) -> float | None:
    if not part.there:
        return None
    try:
        return parse_time(part.text()).timestamp()
    except BadTime as problem:
        raise part.misread("a time such as 2024-01-31T12:00:00Z") from problem
