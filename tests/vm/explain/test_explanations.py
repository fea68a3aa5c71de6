from __future__ import annotations

from dataclasses import replace

import pytest

from situate.vm.explain.explanations import build_explanation
from situate.vm.explain.would_help import BiggerNode
from situate.vm.model.migrations import CopyProgress, Stage
from situate.vm.model.pods_and_nodes import Load
from situate.vm.model.state import Waiter
from situate.vm.planning.plan import Way
from situate.vm.protocol.permit import PermitReason
from tests.vm.planning.shapes import NOW, RULES, claim, move, node, plain, state, units, vm

A = vm("A", 4, 7, migratable=False)
QUIET = Load(dirty_rate=0.0, memory_used=2**30)


@pytest.mark.rule("vm:B39")
def test_who_waits_for_nothing_that_will_come() -> None:
    first = vm("first", 2, 3, priority=5, migratable=False)
    seen = state(node("n1", 10, A, first, plain("p", 4)), node("n2", 10))
    seen = replace(seen, waiters={"A": Waiter("A", NOW - 9), "first": Waiter("first", NOW)})
    found = build_explanation(seen, "A", NOW, RULES)
    assert found is not None
    assert (found.reason, found.short_by, found.position) == (PermitReason.NO_ROOM, units(3), 2)
    assert [each.name for each in found.queue] == ["first", "A"]
    assert (found.moves, found.eta) == ((), None)
    assert BiggerNode("n1", units(3)) in found.would_help
    assert {each.kind for each in found.plan.alternatives} >= {Way.NEIGHBOURS, Way.ITSELF, Way.CHAIN, Way.EVICTION}


@pytest.mark.rule("vm:B39")
def test_moves_for_it_are_told_with_what_is_left_of_them() -> None:
    copying = replace(
        move("B", "n1", "n2", 6, claim="1"),
        progress=CopyProgress(remaining=1, total=4, changed_at=NOW),
        bandwidth=2**30,
    )
    waits = replace(move("C", "n1", "n2", 1, stage=Stage.PLANNED, claim="2"))
    pods = (A, vm("B", 5, load=QUIET), vm("C", 1, load=QUIET))
    claims = (claim("1", "n1", "A", "B", units(2)), claim("2", "n1", "A", "C", units(1)))
    found = build_explanation(
        state(node("n1", 10, *pods), node("n2", 10), moves=(copying, waits), claims=claims), "A", NOW, RULES
    )
    assert found is not None
    assert [(each.move.machine.name, each.remaining_s) for each in found.moves] == [("B", 0.25), ("C", 1.0)]
    assert found.eta == NOW + 1.25
    assert [each.cost for each in found.moves] == [pytest.approx(6.0), pytest.approx(6.0)]


@pytest.mark.rule("vm:B39", "vm:B41")
def test_where_nothing_moves_yet_the_plan_is_told() -> None:
    seen = state(node("n1", 10, A, vm("B", 6, load=QUIET)), node("n2", 10))
    found = build_explanation(seen, "A", NOW, RULES)
    assert found is not None
    assert [(each.move.machine.name, each.move.target_node) for each in found.moves] == [("B", "n2")]
    assert found.eta == NOW + 1.0
    assert build_explanation(seen, "unknown", NOW, RULES) is None
