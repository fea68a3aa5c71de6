"""Objects of a kind that does not exist elsewhere, and records of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from situate.archive.records.record import GroupKind, Record, record_of

KIND = GroupKind("batch.example.com", "Report")
NOON = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)


def report(
    name: str = "nightly",
    namespace: str = "ns1",
    uid: str = "",
    version: int | str = 10,
    labels: Mapping[str, str] | None = None,
    owner: str = "",
    kind: str = "Report",
    **spec: Any,
) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": namespace,
        "uid": uid or f"uid-{namespace}-{name}",
        "resourceVersion": str(version),
    }
    if labels is not None:
        metadata["labels"] = dict(labels)
    if owner:
        metadata["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "Plan", "name": "o", "uid": owner, "controller": True}
        ]
    return {"apiVersion": "batch.example.com/v1", "kind": kind, "metadata": metadata, "spec": spec}


def archived(
    content: dict[str, Any] | None = None,
    *,
    at_s: float = 0.0,
    completed_s: float | None = -60.0,
    successful: bool | None = True,
    reason: str = "",
    term: int = 1,
) -> Record:
    """Times in seconds after noon."""
    return record_of(
        report() if content is None else content,
        resource="reports",
        completed_at=None if completed_s is None else NOON + timedelta(seconds=completed_s),
        successful=successful,
        reason=reason,
        archived_at=NOON + timedelta(seconds=at_s),
        term=term,
    )
