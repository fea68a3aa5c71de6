"""Neon's vectors: which runner each file has. The README beside the vectors defines fields and expectations.

The agent's files, the migration controller's and the scenarios have runners of their own; each module is named in
`_PARTS` once it runs its files, and the files stand in the folder from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from tests.conformance import (
    neon_agent,
    neon_bookings,
    neon_configuration,
    neon_first_generation,
    neon_migration,
    neon_placing,
    neon_protocol,
    neon_queue,
    neon_scenarios,
)
from tests.conformance.neon_cases import listed, tagged
from tests.conformance.outcome import CaseRunner, optional, skipped


class _Part(Protocol):
    RUNNERS: Mapping[str, CaseRunner]
    CASES: Mapping[str, Callable[[Any], Any]]


_PARTS: Final[tuple[_Part, ...]] = (neon_agent, neon_migration, neon_scenarios)
_RUNNERS: Final[Mapping[str, CaseRunner]] = {
    "config_defaults.json": neon_configuration.defaults,
    "derived_permit_protocol.json": neon_protocol.permit_protocol,
    "derived_pod_reconcile.json": neon_bookings.pod_reconcile,
    "derived_reconcile_queue.json": neon_queue.reconcile_queue,
    "derived_schedule_and_migrate.json": neon_placing.schedule_and_migrate,
    "e2e_scenarios.json": optional(lambda _: skipped("it is in words, about guests that run: a checklist for people")),
    "gen1_agent_request.json": optional(neon_first_generation.agent_request),
    "gen1_derived_pressure.json": optional(neon_first_generation.pressure),
    "gen1_reserve.json": optional(neon_first_generation.reserve),
    "node_label_updates.json": neon_bookings.node_label_updates,
    "node_operations.json": neon_bookings.node_operations,
    "normalize_score.json": neon_placing.normalize_score,
    "permit_reconcile.json": neon_bookings.permit_reconcile,
    "pod_state_extraction.json": neon_bookings.pod_state_extraction,
    "transactional_map.json": neon_bookings.transactional_map,
}
_CASES: Final[Mapping[str, Callable[[Any], Any]]] = {
    "config_defaults.json": neon_configuration.cases,
    "derived_permit_protocol.json": neon_protocol.cases,
    "derived_reconcile_queue.json": neon_queue.cases,
    "derived_schedule_and_migrate.json": tagged("score", "filter", "migration_selection"),
    "gen1_derived_pressure.json": tagged("too_much_pressure", "bookkeeping"),
    "node_operations.json": listed("sequences"),
    "transactional_map.json": listed("sequences"),
}

RUNNERS: Final[Mapping[str, CaseRunner]] = {
    **_RUNNERS,
    **{file: runner for part in _PARTS for file, runner in part.RUNNERS.items()},
}
"""By file name; each runs one case."""

CASES: Final[Mapping[str, Callable[[Any], Any]]] = {
    **_CASES,
    **{file: layout for part in _PARTS for file, layout in part.CASES.items()},
}
"""By file name: how the cases stand in files that are more than a list of them."""
