from __future__ import annotations

from dataclasses import replace

import pytest

from situate.vm.model.migrations import Stage
from situate.vm.model.pods_and_nodes import Phase, Role
from situate.vm.model.state import LedgerState
from situate.vm.planning.retarget import another_target
from tests.vm.planning.shapes import NOW, RULES, move, node, state, vm

FROZEN = vm("B", 6, role=Role.SOURCE, phase=Phase.FROZEN)
BEGUN = move("B", "n1", "n2", 6, stage=Stage.STARTING)


def lost(*nodes: tuple[str, int]) -> LedgerState:
    return state(node("n1", 10, FROZEN), *(node(name, size) for name, size in nodes), moves=(BEGUN,))


@pytest.mark.rule("vm:B14", "vm:B13", "vm:I12")
@pytest.mark.parametrize(
    ("nodes", "target"),
    [
        pytest.param([("n2", 10), ("n3", 6)], "n3", id="another one that has room"),
        pytest.param([("n3", 6)], "n3", id="the first one is gone"),
        pytest.param([("n2", 10), ("n3", 5)], "", id="the other one is too small"),
        pytest.param([], "", id="only its own node is left"),
    ],
)
def test_another_node_is_chosen_than_the_one_that_refused(nodes: list[tuple[str, int]], target: str) -> None:
    assert another_target(lost(*nodes), BEGUN, NOW, RULES) == target


@pytest.mark.rule("vm:B14", "vm:B12")
def test_filters_are_asked_again() -> None:
    seen = lost(("n3", 6), ("n4", 6))
    assert another_target(seen, BEGUN, NOW, RULES, lambda _uid, name: name == "n4") == "n4"


@pytest.mark.rule("vm:B14")
def test_nobody_goes_anywhere_when_the_machine_is_gone() -> None:
    gone = replace(lost(("n3", 6)), where={}, nodes={"n3": node("n3", 6)})
    assert another_target(gone, BEGUN, NOW, RULES) == ""
