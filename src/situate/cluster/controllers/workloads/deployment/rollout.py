"""A Deployment and its ReplicaSets as one value, with the counts that rollouts need."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from situate.cluster.controllers.machinery.tables import Obj

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"
NEVER = 2**31 - 1
"""progressDeadlineSeconds and revisionHistoryLimit of this size mean no limit."""


@dataclass(frozen=True)
class OwnedReplicaSet:
    """One ReplicaSet."""

    obj: Obj

    @property
    def name(self) -> str:
        return self.obj["metadata"]["name"]  # type: ignore[no-any-return]  # decoded JSON

    @property
    def uid(self) -> str:
        return self.obj["metadata"]["uid"]  # type: ignore[no-any-return]  # decoded JSON

    @property
    def age_key(self) -> tuple[str, str]:
        """Sort key from the oldest to the newest; equal times sort by name."""
        return self.obj["metadata"].get("creationTimestamp", ""), self.name

    @property
    def size(self) -> int:
        """Replicas in its spec."""
        return self.obj["spec"].get("replicas", 1)  # type: ignore[no-any-return]  # decoded JSON

    @property
    def annotations(self) -> dict[str, str]:
        return self.obj["metadata"].get("annotations") or {}

    @property
    def template(self) -> Obj:
        return self.obj["spec"]["template"]  # type: ignore[no-any-return]  # decoded JSON

    @property
    def revision(self) -> int:
        return parse_number(self.annotations.get(REVISION, "")) or 0

    @property
    def status(self) -> Obj:
        return self.obj.get("status") or {}

    def count(self, field: str) -> int:
        """Return a count in the status."""
        return self.status.get(field, 0)  # type: ignore[no-any-return]  # decoded JSON


def parse_number(text: str) -> int | None:
    """Parse a non-negative number in an annotation; None if it is malformed."""
    return int(text) if text.isascii() and text.isdigit() else None


def scaled_value(value: object, total: int, *, up: bool) -> int:
    """Return an IntOrString as a number. Percentages refer to `total_replicas` and are rounded up or down."""
    if isinstance(value, str) and value.endswith("%") and value[:-1].isdigit():
        part = int(value[:-1]) * total
        return -(-part // 100) if up else part // 100
    return value if isinstance(value, int) else 0


def total_replicas(replica_sets: Iterable[OwnedReplicaSet]) -> int:
    """Return the sum of the replicas in the specs."""
    return sum(entry.size for entry in replica_sets)


@dataclass(frozen=True)
class Rollout:
    """A Deployment, the ReplicaSet of its present template if it exists, and the others, oldest first."""

    deployment: Obj
    new: OwnedReplicaSet | None
    old: Sequence[OwnedReplicaSet]

    @property
    def replica_sets(self) -> list[OwnedReplicaSet]:
        return [*self.old, self.new] if self.new else list(self.old)

    @property
    def active_old(self) -> list[OwnedReplicaSet]:
        return [entry for entry in self.old if entry.size > 0]

    @property
    def namespace(self) -> str:
        return self.deployment["metadata"]["namespace"]  # type: ignore[no-any-return]  # decoded JSON

    @property
    def name(self) -> str:
        return self.deployment["metadata"]["name"]  # type: ignore[no-any-return]  # decoded JSON

    @property
    def spec(self) -> Obj:
        return self.deployment["spec"]  # type: ignore[no-any-return]  # decoded JSON

    @property
    def status(self) -> Obj:
        return self.deployment.get("status") or {}

    @property
    def replicas(self) -> int:
        return self.spec.get("replicas", 1)  # type: ignore[no-any-return]  # decoded JSON

    @property
    def rolling(self) -> bool:
        return bool((self.spec.get("strategy") or {}).get("type", "RollingUpdate") == "RollingUpdate")

    @property
    def paused(self) -> bool:
        return bool(self.spec.get("paused"))

    @property
    def progress_deadline(self) -> int | None:
        """Seconds without progress after which a rollout has failed; None for no limit."""
        deadline = self.spec.get("progressDeadlineSeconds")
        return None if deadline in (None, NEVER) else deadline

    @property
    def history_limit(self) -> int | None:
        """Number of old ReplicaSets that remain; None for all."""
        limit = self.spec.get("revisionHistoryLimit")
        return None if limit in (None, NEVER) else limit

    @cached_property
    def _fenceposts(self) -> tuple[int, int]:
        """maxSurge and maxUnavailable in pods. At most one is zero in a rolling update; else both are."""
        if not self.rolling:
            return 0, 0
        update = (self.spec.get("strategy") or {}).get("rollingUpdate") or {}
        surge = scaled_value(update.get("maxSurge", 0), self.replicas, up=True)
        unavailable = scaled_value(update.get("maxUnavailable", 0), self.replicas, up=False)
        return surge, unavailable or int(not surge)

    @property
    def max_surge(self) -> int:
        return self._fenceposts[0]

    @property
    def max_unavailable(self) -> int:
        return min(self._fenceposts[1], self.replicas)

    def is_complete(self, status: Obj) -> bool:
        """Return whether in this status every replica runs the present template and is available."""
        counts = ("updatedReplicas", "replicas", "availableReplicas")
        generation: int = self.deployment["metadata"].get("generation", 0)
        if status.get("observedGeneration", 0) < generation:
            return False
        return all(status.get(field, 0) == self.replicas for field in counts)


def build_rollout(deployment: Obj, replica_sets: Iterable[Obj]) -> Rollout:
    """Separate the ReplicaSet of the present template (the oldest if several match) from the others."""
    ordered = sorted((OwnedReplicaSet(obj) for obj in replica_sets), key=lambda entry: entry.age_key)
    template = without_hash(deployment["spec"]["template"])
    new = next((entry for entry in ordered if without_hash(entry.template) == template), None)
    return Rollout(deployment, new, [entry for entry in ordered if entry is not new])


def without_hash(template: Obj) -> dict[str, Any]:
    """Return a template without the label that distinguishes ReplicaSets."""
    metadata = dict(template.get("metadata") or {})
    metadata["labels"] = {name: value for name, value in (metadata.get("labels") or {}).items() if name != HASH_LABEL}
    kept = {field: value for field, value in metadata.items() if value and field != "creationTimestamp"}
    return {**template, "metadata": kept}


def round_half_away(value: float) -> int:
    """Round to the nearest integer, halves away from zero (integer.RoundToInt32)."""
    return math.floor(value + 0.5) if value >= 0 else math.ceil(value - 0.5)
