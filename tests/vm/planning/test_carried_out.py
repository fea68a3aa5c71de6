"""Plans as the step carries them out, where planning itself does not show what becomes of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from situate.vm.ledger.step import step
from situate.vm.model.actions import StartMove
from situate.vm.model.decision import Decision
from situate.vm.model.events import NodeObserved, TimerFired
from situate.vm.model.state import LedgerState, Waiter
from tests.vm.planning.shapes import NOW, RULES, node, plain, state, units, vm


def waiting(seen: LedgerState, *uids: str) -> LedgerState:
    return replace(seen, waiters={uid: Waiter(uid, NOW - 60.0, next_attempt_at=NOW - 1.0) for uid in uids})


@pytest.mark.rule("vm:B19", "vm:B1")
def test_who_moves_itself_claims_nothing_of_what_it_leaves() -> None:
    seen = waiting(state(node("n1", 10, vm("A", 4, 7), plain("p", 6)), node("n2", 10)), "A")
    made = step(seen, TimerFired(), NOW, RULES)
    (begun,) = (each for each in made.actions if isinstance(each, StartMove))
    assert (begun.move.machine.name, begun.move.target_node, begun.move.amount) == ("A", "n2", units(7))
    assert made.state.claims == {}


@pytest.mark.rule("vm:B46")
def test_thin_nodes_are_looked_at_where_they_may_be_emptied() -> None:
    seen = state(node("n1", 10, vm("a", 1)), node("n2", 10, vm("b", 5)))
    changed = NodeObserved(replace(seen.nodes["n1"], labels={"zone": "z"}))
    assert not _begun(step(step(seen, changed, NOW, RULES).state, TimerFired(), NOW, RULES))
    thin = structs.replace(RULES, consolidate=True)
    first = step(seen, changed, NOW, thin)
    second = step(first.state, TimerFired(), NOW, thin)
    assert [*_begun(first), *_begun(second)] == ["a"]


def _begun(made: Decision) -> list[str]:
    return [each.move.machine.name for each in made.actions if isinstance(each, StartMove)]


@pytest.mark.rule("vm:B1", "vm:B31")
def test_what_it_leaves_is_claimed_by_whoever_else_waits_there() -> None:
    other = vm("X", 3, 5, migratable=False)
    seen = waiting(state(node("n1", 10, vm("A", 4, 7, priority=1), other, plain("p", 3)), node("n2", 10)), "A", "X")
    made = step(seen, TimerFired(), NOW, RULES)
    assert [claim.beneficiary.ref.uid for claim in made.state.claims.values()] == ["X"]
