"""The `ttl_policies` of archive.json: what a supervisor does with one object at one age. `ksched_archive` runs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from situate.sharding.assignment.decide import decide
from situate.sharding.model.actions import Archive
from situate.sharding.model.decision_inputs import INITIAL_MEMORY, ClusterView
from situate.sharding.model.executors import Members
from situate.sharding.model.names import PREFIX
from situate.sharding.model.object_view import view_of
from situate.sharding.model.supervisor_config import ArchiveTtl, SupervisorConfig
from tests.conformance.ksched_world import ADAPTER
from tests.conformance.outcome import PASSED, Case, Outcome, UnknownOperationError, failed
from tests.sharding import builders

NOW: Final = 2_000_000_000.0
_NAMES: Final = {
    (): "keep",
    (Archive(True),): "archive_and_delete",
    (Archive(False),): "archive_then_release_finalizer",
}


def ttl_policy(case: Case) -> Outcome:
    """One case."""
    if case["expect"] not in _NAMES.values():
        raise UnknownOperationError(f"expect {case['expect']!r}; known: {', '.join(_NAMES.values())}")
    age, rank = case.get("completed_age_s"), case.get("rank_by_completion_in_owner")
    content = builders.report(
        completed=None if age is None else NOW - age,
        successful=case.get("successful", True) if age is not None else None,
        deleting=case.get("deleting", False),
        annotations={name if "/" in name else PREFIX + name: text for name, text in _annotations(case).items()},
        ours=True,
        owner="owner",
    )
    situation = ClusterView(
        now=NOW,
        wall=builders.wall(NOW),
        members=Members(15.0, synced_at=0.0),
        choose=_nobody,
        term=1,
        config=_config(case.get("ttl_s")),
        has_archiver=True,
        rank=lambda _: rank,
    )
    decision = decide(view_of(content, ADAPTER), INITIAL_MEMORY, situation)
    orders = tuple(action for action in decision.actions if isinstance(action, Archive))
    found = _NAMES[orders]
    return PASSED if found == case["expect"] else failed(f"expected {case['expect']}, got {found}")


def _config(ttl: Any) -> SupervisorConfig:
    if not isinstance(ttl, Mapping):
        return SupervisorConfig(archive_ttl=ttl)
    unknown = ttl.keys() - {"successful", "failed", "ttl", "keep_last_per_owner"}
    if unknown:
        raise UnknownOperationError(f"ttl_s with {', '.join(sorted(unknown))}")
    age = ttl.get("ttl")
    by_outcome = ArchiveTtl(ttl.get("successful", age), ttl.get("failed", age))
    return SupervisorConfig(archive_ttl=by_outcome, keep_last_per_owner=ttl.get("keep_last_per_owner"))


def _annotations(case: Case) -> Mapping[str, str]:
    found: Mapping[str, str] = case.get("annotations") or {}
    return found


def _nobody(_view: object, _among: object) -> str:
    raise AssertionError("an object of these cases is not placed")
