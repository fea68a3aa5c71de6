"""VirtualMachineInstanceMigrations behind the four verbs of N13 (B49).

KubeVirt creates the target Pod itself, under the scheduler of its VM. So the plugin offers it only the reserved node
(B14). Deleting an ongoing migration cancels it, and the VM runs on where it is. Bandwidth and post-copy are not on the
object, but in KubeVirt's own configuration and its migration policies.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from situate.objects.kinds.unstructured import Unstructured
from situate.vm.api.migrations import observed_migration, read_migration_annotations
from situate.vm.api.parse_errors import ParseFailure, ParseResult, Part, Place
from situate.vm.api.patches import CreateObject, DeleteObject
from situate.vm.backends.kubevirt_names import HOSTNAME_LABEL, INSTANCE_MIGRATIONS
from situate.vm.backends.neonvm import migration_object
from situate.vm.model.events import MigrationObserved, MigrationPhase
from situate.vm.model.migrations import Claim, Move
from situate.vm.model.policy import Rules

_STARTING: Final = MigrationPhase(starting=True)
_PHASES: Final = {
    "": _STARTING,
    "Pending": _STARTING,
    "Scheduling": _STARTING,
    "Scheduled": _STARTING,
    "PreparingTarget": _STARTING,
    "TargetReady": _STARTING,
    # phases of migrations to another cluster, before copying
    "WaitingForSync": _STARTING,
    "Synchronizing": _STARTING,
    "Running": MigrationPhase(copying=True),
    "Succeeded": MigrationPhase(succeeded=True),
}


class KubeVirtMigrations:
    """Backend of one cluster."""

    resource = INSTANCE_MIGRATIONS

    def __init__(self, rules: Rules, *, pin_target: bool) -> None:
        """With `pin_target` the object also names its target node.

        Versions of KubeVirt without `addedNodeSelector` drop that field.
        """
        self._rules = rules
        self._pin_target = pin_target

    def create(self, move: Move, claim: Claim | None) -> CreateObject:
        spec: dict[str, Any] = {"vmiName": move.machine.name}
        if self._pin_target and move.target_node:
            spec["addedNodeSelector"] = {HOSTNAME_LABEL: move.target_node}
        return migration_object(self.resource, move, claim, spec, self._rules)

    def observe(self, migration: Unstructured, now: float) -> ParseResult[MigrationObserved]:  # noqa: ARG002  # tells no progress
        """Parse a migration. `value` is None if it names no VM or has an unknown phase."""
        metadata = migration.metadata
        about = f"{self.resource.kind} {metadata.namespace}/{metadata.name}"
        written = read_migration_annotations(metadata, about, self._rules)
        root = Part(Place(about, ""), migration.content)
        try:
            name = root["spec"]["vmiName"].text()
            phase, state = _phase(root["status"]), root["status"]["migrationState"]
            pinned = root["spec"]["addedNodeSelector"][HOSTNAME_LABEL].is_present
            source, target = state["sourcePod"].text(default=""), state["targetPod"].text(default="")
            source_node, target_node = state["sourceNode"].text(default=""), state["targetNode"].text(default="")
        except ParseFailure as problem:
            return ParseResult(None, (problem.error, *written.errors))
        seen = observed_migration(metadata, written, name, phase, (source, source_node), (target, target_node))
        return ParseResult(replace(seen, reports_progress=False, pinned=pinned), written.errors)

    def cancel(self, namespace: str, name: str, uid: str) -> DeleteObject:
        return DeleteObject(self.resource, namespace, name, uid)

    def delete(self, namespace: str, name: str, uid: str) -> DeleteObject:
        return DeleteObject(self.resource, namespace, name, uid)


def _phase(status: Part) -> MigrationPhase:
    phase = status["phase"].choice(*_PHASES, "Failed") if status["phase"].is_present else ""
    if phase != "Failed":
        return _PHASES[phase]
    return MigrationPhase(failed=True, reason=status["migrationState"]["failureReason"].text(default=""))
