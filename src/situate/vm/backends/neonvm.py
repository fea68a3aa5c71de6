"""Backends that migrate VMs, behind four verbs: create, observe, cancel, delete (N13).

A verb returns a value: a write that the shell performs, or a parsed object. So a backend needs no client, and the
ledger does not know the backend. This module has NeonVM's; KubeVirt's is `situate.vm.backends.kubevirt_migrations`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from situate.objects.kinds.unstructured import Unstructured
from situate.objects.resources import ResourceType, unstructured
from situate.vm.api.claims import amount_text, claim_text
from situate.vm.api.migrations import read_migration
from situate.vm.api.parse_errors import ParseResult
from situate.vm.api.patches import CreateObject, DeleteObject
from situate.vm.api.quantities import memory_value
from situate.vm.api.well_known import (
    CLAIM,
    CREATED_BY_SCHEDULER_LABEL,
    FOR_NODE,
    GROUP,
    MACHINE_KIND,
    MIGRATION_KIND,
    TARGET_AMOUNT,
    TARGET_NODE,
)
from situate.vm.model.events import MigrationObserved
from situate.vm.model.migrations import Claim, Move
from situate.vm.model.policy import Rules

MACHINES: Final = unstructured(GROUP, "v1", MACHINE_KIND, "virtualmachines")
MIGRATIONS: Final = unstructured(GROUP, "v1", MIGRATION_KIND, "virtualmachinemigrations")


class Backend(Protocol):
    """Backend of one VM system. A single object holds the whole state of a migration."""

    @property
    def resource(self) -> ResourceType[Unstructured]:
        """The watched resource of its migrations."""
        ...

    def create(self, move: Move, claim: Claim | None) -> CreateObject:
        """Return the object with its claim and its target, created in one call (B2)."""
        ...

    def observe(self, migration: Unstructured, now: float) -> ParseResult[MigrationObserved]:
        """Parse the state of a migration. `now` is in seconds since the epoch."""
        ...

    def cancel(self, namespace: str, name: str, uid: str) -> DeleteObject:
        """Stop an unfinished migration. The VM runs on where it is."""
        ...

    def delete(self, namespace: str, name: str, uid: str) -> DeleteObject:
        """Remove a migration that has ended and has a closed claim."""
        ...


def migration_object(
    resource: ResourceType[Unstructured], move: Move, claim: Claim | None, spec: Mapping[str, Any], rules: Rules
) -> CreateObject:
    """Return a migration with this spec, the label of vm, the claim, the target and the reserved amount (B2, C6)."""
    annotations: dict[str, str] = {}
    if claim is not None:
        annotations[CLAIM] = claim_text(claim, rules.resources)
    if move.target_node:
        annotations[TARGET_NODE] = move.target_node
        annotations[TARGET_AMOUNT] = amount_text(move.amount, rules.resources)
    if move.for_node:
        annotations[FOR_NODE] = "true"
    metadata: dict[str, Any] = {
        "name": move.name,
        "namespace": move.machine.namespace,
        "labels": {CREATED_BY_SCHEDULER_LABEL: "true"},
    }
    if annotations:
        metadata["annotations"] = annotations
    return CreateObject(resource, move.machine.namespace, {"metadata": metadata, "spec": spec})


class NeonVM:
    """VirtualMachineMigration of `vm.neon.tech/v1` (C6, C34). Deleting an ongoing one cancels it."""

    resource = MIGRATIONS

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def create(self, move: Move, claim: Claim | None) -> CreateObject:
        return migration_object(self.resource, move, claim, self._spec(move), self._rules)

    def _spec(self, move: Move) -> Mapping[str, Any]:
        """Return the spec with all defaults written out, so that no defaults of the cluster apply."""
        return {
            "vmName": move.machine.name,
            "preventMigrationToSameHost": True,
            "completionTimeout": int(self._rules.deadlines.completion_s),
            "incremental": True,
            "allowPostCopy": self._rules.costs.post_copy,
            "autoConverge": True,
            "maxBandwidth": str(memory_value(move.bandwidth or self._rules.max_bytes_per_s)),
        }

    def observe(self, migration: Unstructured, now: float) -> ParseResult[MigrationObserved]:
        return read_migration(migration, self._rules, now)

    def cancel(self, namespace: str, name: str, uid: str) -> DeleteObject:
        return DeleteObject(self.resource, namespace, name, uid)

    def delete(self, namespace: str, name: str, uid: str) -> DeleteObject:
        return DeleteObject(self.resource, namespace, name, uid)
