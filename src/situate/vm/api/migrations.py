"""VirtualMachineMigrations as the ledger sees migrations: those of vm and those made by hand (C3, C6, C34, B2, B10)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.unstructured import Unstructured
from situate.vm.api.claims import read_amount, read_claim, read_handover, read_moment
from situate.vm.api.parse_errors import ParseError, ParseFailure, ParseResult, Part, Place
from situate.vm.api.well_known import (
    CLAIM,
    CREATED_BY_SCHEDULER_LABEL,
    FOR_NODE,
    HANDOVER,
    MIGRATION_PREFIX,
    TARGET_AMOUNT,
    TARGET_NODE,
    TARGET_RECHOSEN,
)
from situate.vm.model.events import MigrationObserved, MigrationPhase, WrittenClaim, WrittenHandOver
from situate.vm.model.migrations import CopyProgress
from situate.vm.model.pods_and_nodes import Ref
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts

_PHASES: Final = {
    "": MigrationPhase(starting=True),
    "Pending": MigrationPhase(starting=True),
    "Running": MigrationPhase(copying=True),
    "Succeeded": MigrationPhase(succeeded=True),
}


def read_migration(vmm: Unstructured, rules: Rules, now: float) -> ParseResult[MigrationObserved]:
    """Parse a VirtualMachineMigration. `now` (seconds since the epoch) is the time of the observed progress.

    `value` is None if it names no VM. An unreadable claim or hand-over is left out and reported in `errors`.
    """
    metadata = vmm.metadata
    about = f"VirtualMachineMigration {metadata.namespace}/{metadata.name}"
    written = read_migration_annotations(metadata, about, rules)
    wrong = [*written.errors]
    root = Part(Place(about, ""), vmm.content)
    try:
        name = root["spec"]["vmName"].text()
        status = root["status"]
        phase = _phase(status)
        source, target = status["sourcePodName"].text(default=""), status["targetPodName"].text(default="")
        source_node, target_node = status["sourceNode"].text(default=""), status["targetNode"].text(default="")
    except ParseFailure as problem:
        return ParseResult(None, (problem.error, *wrong))
    progress, downtime_s = None, None
    try:
        progress = _progress(status, now)
        downtime_s = _downtime_s(status) if phase.succeeded else None
    except ParseFailure as problem:
        wrong.append(problem.error)
    seen = observed_migration(metadata, written, name, phase, (source, source_node), (target, target_node))
    return ParseResult(replace(seen, progress=progress, downtime_s=downtime_s), tuple(wrong))


def observed_migration(
    metadata: ObjectMeta,
    written: MigrationAnnotations,
    machine: str,
    phase: MigrationPhase,
    source: tuple[str, str],
    target: tuple[str, str],
) -> MigrationObserved:
    """Build the part that is the same for all VM systems. `source` and `target` are Pod and node, empty if unknown.

    vm names its own migrations after the source Pod (C6). That name, and the UID and the node in the claim, are used
    until the status names the source.
    """
    claim, (pod, node), (target_pod, target_node) = written.claim, source, target
    own = metadata.labels.get(CREATED_BY_SCHEDULER_LABEL) == "true"
    if own and not pod and metadata.name.startswith(MIGRATION_PREFIX):
        pod = metadata.name.removeprefix(MIGRATION_PREFIX)
    created = metadata.creation_timestamp
    return MigrationObserved(
        machine=Ref(metadata.namespace, machine),
        name=metadata.name,
        uid=metadata.uid,
        own=own,
        phase=phase,
        source=Ref(metadata.namespace, pod, claim.source_uid if claim is not None else "") if pod else None,
        source_node=node or (claim.node if claim is not None else ""),
        target=Ref(metadata.namespace, target_pod) if target_pod else None,
        target_node=metadata.annotations.get(TARGET_NODE) or target_node,
        amount=written.amount if own else None,
        plan=claim.plan if claim is not None else "",
        claim=claim,
        handover=written.handover,
        deleting=metadata.deletion_timestamp is not None,
        created_at=created.timestamp() if created is not None else 0.0,
        rechosen_at=written.rechosen_at,
        for_node=written.for_node,
    )


@dataclass(frozen=True, slots=True)
class MigrationAnnotations:
    """Annotations that vm has written on a migration."""

    claim: WrittenClaim | None
    handover: WrittenHandOver | None
    rechosen_at: float | None
    for_node: bool
    amount: Amounts | None
    """Reserved on the target: more than the VM has, if the VM is to grow there (B19)."""
    errors: tuple[ParseError, ...]
    """Unreadable annotations."""


def read_migration_annotations(metadata: ObjectMeta, about: str, rules: Rules) -> MigrationAnnotations:
    """Return the readable annotations of a migration of any backend (B2, B10, B14), and the errors."""
    wrong: list[ParseError] = []
    claim: WrittenClaim | None = None
    handover: WrittenHandOver | None = None
    if (text := metadata.annotations.get(CLAIM)) is not None:
        read = read_claim(text, Place.annotation(about, CLAIM), rules.resources)
        claim = read if isinstance(read, WrittenClaim) else None
        wrong += [read] if isinstance(read, ParseError) else []
    if (text := metadata.annotations.get(HANDOVER)) is not None:
        begun = read_handover(text, Place.annotation(about, HANDOVER), rules.resources)
        handover = begun if isinstance(begun, WrittenHandOver) else None
        wrong += [begun] if isinstance(begun, ParseError) else []
    amount: Amounts | None = None
    if (text := metadata.annotations.get(TARGET_AMOUNT)) is not None:
        reserved = read_amount(text, Place.annotation(about, TARGET_AMOUNT), rules.resources)
        amount = reserved if isinstance(reserved, Amounts) else None
        wrong += [reserved] if isinstance(reserved, ParseError) else []
    rechosen_at: float | None = None
    if (text := metadata.annotations.get(TARGET_RECHOSEN)) is not None:
        at = read_moment(text, Place.annotation(about, TARGET_RECHOSEN))
        rechosen_at = at if isinstance(at, float) else None
        wrong += [at] if isinstance(at, ParseError) else []
    for_node = metadata.annotations.get(FOR_NODE) == "true"
    return MigrationAnnotations(claim, handover, rechosen_at, for_node, amount, tuple(wrong))


def _phase(status: Part) -> MigrationPhase:
    phase = status["phase"].choice(*_PHASES, "Failed") if status["phase"].is_present else ""
    if phase != "Failed":
        return _PHASES[phase]
    conditions = status["conditions"].items() if status["conditions"].is_present else ()
    degraded = [each for each in conditions if each["type"].value == "Degraded" and each["status"].value == "True"]
    return MigrationPhase(failed=True, reason=degraded[0]["reason"].text(default="") if degraded else "")


def _progress(status: Part, now: float) -> CopyProgress | None:
    """None before the hypervisor has reported progress."""
    ram = status["info"]["ram"]
    if not ram["total"].is_present:
        return None
    return CopyProgress(ram["remaining"].integer(), ram["total"].integer(), now)


def _downtime_s(status: Part) -> float | None:
    told = status["info"]["downtimeMs"]
    return told.integer() / 1000 if told.is_present else None
