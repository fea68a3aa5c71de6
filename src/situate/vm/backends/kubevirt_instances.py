"""VirtualMachineInstances: the fields that decide their reserved amounts and their migrations.

The condition LiveMigratable decides whether a VM can be live-migrated. KubeVirt knows its volumes, devices and
networks, and vm does not judge them again (B49).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from situate.objects.kinds.unstructured import Unstructured
from situate.objects.values.timestamps import BadTime, parse_time
from situate.vm.api.claims import read_migration_times
from situate.vm.api.parse_errors import ParseError, ParseFailure, ParseResult, Part, Place
from situate.vm.api.well_known import ALWAYS_MIGRATE_LABEL, AUTO_MIGRATION_LABEL, CLAIM_CLOSED, MIGRATION_TIMES
from situate.vm.backends.kubevirt_names import INSTANCE_KIND, LIVE_MIGRATABLE
from situate.vm.model.pods_and_nodes import Phase, Ref
from situate.vm.model.policy import Rules

_RUNNING: Final = "Running"


@dataclass(frozen=True, slots=True)
class LastMigration:
    """The current or the last migration in the status of a VM."""

    uid: str
    """UID of the migration; empty until one has reached its target."""
    over: bool
    """Completed or failed."""
    source_pod: str
    """Empty if this version of KubeVirt does not report it."""
    ended_at: float | None
    """Seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class ObservedInstance:
    """A VirtualMachineInstance in its current state."""

    ref: Ref
    phase: Phase
    node: str
    """The node that it runs on; empty before it runs."""
    live_migratable: bool
    wanted: bool
    """Its labels allow its migration (C9)."""
    always: bool
    last: LastMigration
    memory: int
    """Guest memory to copy, in bytes; 0 if unknown."""
    closed_claim: str
    moved_at: tuple[float, ...]

    @property
    def ongoing_migration(self) -> str:
        """UID of the ongoing migration; empty if there is none."""
        return "" if self.last.over else self.last.uid


def read_instance(vmi: Unstructured, rules: Rules) -> ParseResult[ObservedInstance]:  # noqa: ARG001  # as every system reads
    """Parse a VirtualMachineInstance. `value` is None if its status is unreadable.

    Unreadable annotations are left out and reported in `wrong`.
    """
    metadata = vmi.metadata
    about = f"{INSTANCE_KIND} {metadata.namespace}/{metadata.name}"
    root = Part(Place(about, ""), vmi.content)
    try:
        status = root["status"]
        last = _last_migration(status["migrationState"])
        node, phase = status["nodeName"].text(default=""), status["phase"].text(default="")
        conditions = status["conditions"].items() if status["conditions"].is_present else ()
        migratable = any(
            each["type"].value == LIVE_MIGRATABLE and each["status"].value == "True" for each in conditions
        )
        guest = root["spec"]["domain"]["memory"]["guest"]
        memory = guest.units() if guest.is_present else 0
    except ParseFailure as problem:
        return ParseResult(None, (problem.error,))
    wrong: tuple[ParseError, ...] = ()
    moved_at: tuple[float, ...] = ()
    if MIGRATION_TIMES in metadata.annotations:
        moves = read_migration_times(metadata.annotations[MIGRATION_TIMES], Place.annotation(about, MIGRATION_TIMES))
        if isinstance(moves, ParseError):
            wrong = (moves,)
        else:
            moved_at = moves
    wanted, always = allows_migration(metadata.labels)
    seen = ObservedInstance(
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
    return ParseResult(seen, wrong)


def allows_migration(labels: Mapping[str, str]) -> tuple[bool, bool]:
    """Return whether the labels allow migration, and whether `testing-only-always-migrate` does (C9)."""
    always = labels.get(ALWAYS_MIGRATE_LABEL) == "true"
    return always or labels.get(AUTO_MIGRATION_LABEL) == "true", always


def _phase(phase: str, last: LastMigration) -> Phase:
    if phase != _RUNNING:
        return Phase.OTHER
    return Phase.FROZEN if last.uid and not last.over else Phase.RUNNING


def _last_migration(state: Part) -> LastMigration:
    completed = state["completed"].value is True or state["failed"].value is True
    return LastMigration(
        state["migrationUid"].text(default=""),
        completed,
        state["sourcePod"].text(default=""),
        _optional_time(state["endTimestamp"]),
    )


def _optional_time(part: Part) -> float | None:
    if not part.is_present:
        return None
    try:
        return parse_time(part.text()).timestamp()
    except BadTime as problem:
        raise part.failure("a time such as 2024-01-31T12:00:00Z") from problem
