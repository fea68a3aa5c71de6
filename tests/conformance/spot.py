"""Spot's vectors: which runner each file has. The README beside the vectors defines fields and expectations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.conformance import spot_admission, spot_invariants, spot_moves
from tests.conformance.outcome import Case, CaseRunner
from tests.conformance.spot_cases import leveled

RUNNERS: Mapping[str, CaseRunner] = {
    "admission.json": leveled(spot_admission.admission),
    "cost.json": leveled(spot_moves.cost),
    "evictions.json": leveled(spot_moves.evictions),
    "invariants.json": leveled(spot_invariants.invariants),
    "ledger.json": leveled(spot_admission.ledger),
    "merge.json": leveled(spot_moves.merge),
    "scaledown.json": leveled(spot_moves.scaledown),
    "signals.json": leveled(spot_moves.signals),
    "targets.json": leveled(spot_admission.targets),
}
"""By file name; each runs one case."""

CASES: Mapping[str, Callable[[Any], list[Case]]] = {
    "invariants.json": spot_invariants.invariants_cases,
    "merge.json": spot_moves.merge_cases,
    "scaledown.json": spot_moves.scaledown_cases,
}
"""By file name: how the cases stand in files that are more than a list of them."""
