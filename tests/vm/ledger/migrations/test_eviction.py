from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from situate.vm.api.eviction_request import REQUEST_LIFETIME_S, evacuation_text, must_leave, read_evacuation
from situate.vm.api.parse_errors import ParseError, Place
from situate.vm.api.well_known import EVACUATE
from situate.vm.config.settings import MigrationLimits
from situate.vm.explain.nodes import explain_node
from situate.vm.explain.pods import explain_pod
from situate.vm.ledger.migrations.eviction import EvictionRefusalReason, eviction_refusal, stay_message
from situate.vm.ledger.migrations.planner import Planner
from situate.vm.ledger.step import step
from situate.vm.model.actions import StartMove
from situate.vm.model.decision import Decision
from situate.vm.model.events import PodObserved, TimerFired
from situate.vm.model.migrations import Stage
from situate.vm.model.pods_and_nodes import Evacuation, Phase, Pod, Role
from situate.vm.model.state import LedgerState
from situate.vm.planning.drain import plan_drain
from situate.vm.planning.plan import Way
from tests.vm.planning.shapes import NOW, RULES, move, node, plain, state, vm

WIDE = structs.replace(RULES, calm=MigrationLimits(link="1Ti"))
PLACE = Place.annotation("VirtualMachine shop/a", EVACUATE)


def leaving(pod: Pod, home: str = "n1", at: float = NOW) -> Pod:
    assert pod.machine is not None
    return replace(pod, machine=replace(pod.machine, evacuation=Evacuation(home, at)))


def told(seen: LedgerState, uid: str = "a") -> tuple[EvictionRefusalReason, str] | None:
    found = eviction_refusal(seen, uid, NOW, RULES, Planner())
    return None if found is None else (found.reason, found.message)


@pytest.mark.rule("vm:B48")
@pytest.mark.parametrize(
    ("home", "want"),
    [
        pytest.param(
            [vm("a", 1)],
            (EvictionRefusalReason.MOVES, "is about to be migrated to node n2; its pod ends after the migration"),
            id="its move is named before it begins",
        ),
        pytest.param(
            [vm("a", 6)],
            (
                EvictionRefusalReason.WAITS,
                "cannot be migrated now: it stays because no schedulable node has capacity for it below the watermark",
            ),
            id="nobody has room",
        ),
        pytest.param(
            [vm("a", 1, moved_at=(NOW - 1,))],
            (
                EvictionRefusalReason.WAITS,
                "cannot be migrated now: it was migrated, and its cool-down lasts another 599 s",
            ),
            id="it has just come",
        ),
        pytest.param(
            [vm("a", 1, phase=Phase.OTHER)],
            (EvictionRefusalReason.WAITS, "cannot be migrated now: it is not running, or is frozen"),
            id="it does not run",
        ),
        pytest.param([vm("a", 1, migratable=False)], None, id="it may not be moved: as if we were not there"),
        pytest.param([vm("a", 1, own=False)], None, id="another scheduler's"),
        pytest.param([plain("a", 1)], None, id="no machine"),
        pytest.param([replace(vm("a", 1), ignored=True)], None, id="of a namespace that is ignored"),
    ],
)
def test_only_a_machine_that_may_be_moved_is_kept(
    home: list[Pod], want: tuple[EvictionRefusalReason, str] | None
) -> None:
    seen = state(node("n1", 10, *home), node("n2", 5))
    assert told(seen) == (None if want is None else (want[0], f"VirtualMachine shop/a {want[1]}"))
    assert eviction_refusal(seen, "a", NOW, structs.replace(RULES, compat=True), Planner()) is None


@pytest.mark.rule("vm:B48")
def test_one_on_its_way_is_said_to_be_and_whither() -> None:
    seen = state(node("n1", 10, vm("a", 1), vm("b", 1)), node("n2", 5))
    copying = replace(seen, moves={each.key: each for each in (move("a", "n1", "n2"),)})
    assert told(copying) == (
        EvictionRefusalReason.MOVES,
        "VirtualMachine shop/a is being migrated to node n2; its pod ends after the migration",
    )
    planned = replace(seen, moves={each.key: each for each in (move("a", "n1", "n2", stage=Stage.PLANNED),)})
    assert told(planned) == (
        EvictionRefusalReason.MOVES,
        "VirtualMachine shop/a waits for its migration to node n2; its pod ends after the migration",
    )
    others = replace(seen, moves={each.key: each for each in (move("b", "n1", "n2"),)})
    because, said = told(others) or (None, "")
    assert because is EvictionRefusalReason.WAITS
    assert said.startswith(
        "VirtualMachine shop/a cannot be migrated now: it waits: migrations from and to node n1 use the whole"
    ), said


@pytest.mark.rule("vm:B48", "vm:C3")
def test_neither_pod_of_a_machine_that_moves_is_evicted() -> None:
    source, target = vm("a", 1, role=Role.SOURCE, phase=Phase.FROZEN), vm("t", 1, role=Role.TARGET, migratable=False)
    assert source.machine is not None
    arriving = replace(target, machine=replace(source.machine, role=Role.TARGET, migratable=False))
    under_way = {each.key: each for each in (move("a", "n1", "n2"),)}
    seen = replace(state(node("n1", 10, source), node("n2", 5, arriving)), moves=under_way)
    assert (told(seen, "a") or ("",))[0] is EvictionRefusalReason.MOVES
    assert told(seen, "t") == (
        EvictionRefusalReason.WAITS,
        "VirtualMachine shop/a is being migrated into this pod; its next migration starts afterwards",
    )
    assert told(replace(seen, moves={}), "t") is None, "nobody moves into it any more"


@pytest.mark.rule("vm:B48")
def test_the_wish_is_written_once_in_a_while_and_lapses_when_nobody_asks_any_more() -> None:
    def wish(at: float, home: str = "n1") -> Evacuation | None:
        found = eviction_refusal(
            state(node("n1", 10, leaving(vm("a", 1), home, at)), node("n2", 5)), "a", NOW, RULES, Planner()
        )
        assert found is not None
        return found.evacuation

    assert wish(NOW - 299) is None
    assert wish(NOW - 301) == wish(NOW, "n0") == Evacuation("n1", NOW)
    one = leaving(vm("a", 1))
    assert [must_leave(one, "n1", NOW + late) for late in (0, REQUEST_LIFETIME_S - 1, REQUEST_LIFETIME_S)] == [
        True,
        True,
        False,
    ]
    assert not must_leave(one, "n2", NOW), "it has left"
    assert not must_leave(leaving(vm("a", 1), at=NOW + 1e6), "n1", NOW), "nobody asks in the future"


@pytest.mark.rule("vm:B48", "vm:B46")
def test_it_leaves_alone_by_the_rules_of_a_drain() -> None:
    pods = (leaving(vm("a", 2)), vm("b", 1), leaving(vm("c", 1)), leaving(vm("huge", 8)))
    seen = state(node("n1", 20, *pods), node("n2", 5))
    made = plan_drain(seen, "n1", NOW, WIDE)
    assert (made.way, [each.machine.name for each in made.moves]) == (Way.EVACUATION, ["c", "a"])
    assert made.reasons == ("shop/huge waits: 2 migrations leave node n1, and at most 2 may",), (
        "of those that are to leave"
    )
    assert plan_drain(seen, "n1", NOW + REQUEST_LIFETIME_S, WIDE).moves == ()


@pytest.mark.rule("vm:B48", "vm:B24")
def test_a_cordoned_node_over_its_watermark_loses_who_is_to_leave_first_and_others_if_none_can() -> None:
    def begun(*pods: Pod) -> list[str]:
        crowded = replace(node("n1", 10, *pods, watermark=0.5), schedulable=False)
        seen = state(crowded, node("n2", 10))
        first = step(seen, PodObserved(crowded.pods["a"], "n1"), NOW, RULES)
        return [*_begun(first), *_begun(step(first.state, TimerFired(), NOW, RULES))]

    assert begun(vm("b", 3), leaving(vm("a", 4))) == ["a"]
    assert begun(vm("b", 3), leaving(vm("a", 4, moved_at=(NOW - 1,)))) == ["b"]


def _begun(made: Decision) -> list[str]:
    return [each.move.machine.name for each in made.actions if isinstance(each, StartMove)]


@pytest.mark.rule("vm:B48", "vm:I5")
def test_a_wish_without_a_target_is_tried_until_it_lapses_and_no_longer() -> None:
    seen = state(node("n1", 10, vm("a", 6)), node("n2", 5))
    wished = step(seen, PodObserved(leaving(vm("a", 6)), "n1"), NOW, RULES)
    assert "n1" in wished.state.looks
    beaten = step(wished.state, TimerFired(), NOW, RULES)
    assert not _begun(beaten)
    assert beaten.wake_at == NOW + RULES.retry_s
    over = step(beaten.state, TimerFired(), NOW + REQUEST_LIFETIME_S, RULES)
    assert over.state.looks == {}
    assert over.wake_at is None


def test_what_it_waits_for_is_explained() -> None:
    seen = state(node("n1", 10, leaving(vm("a", 6)), vm("b", 1)), node("n2", 5))
    pods = seen.nodes["n1"].pods
    assert "no schedulable node has capacity" in stay_message(seen, pods["a"], NOW, RULES, Planner())
    assert stay_message(seen, pods["b"], NOW, RULES, Planner()) == ""
    told_a, told_b = (explain_pod(seen, "shop", name, NOW, RULES) or {} for name in "ab")
    assert told_a["evacuation"] == stay_message(seen, pods["a"], NOW, RULES, Planner())
    assert told_b, "and of the other one no such thing"
    assert "evacuation" not in told_b
    node_told = explain_node(seen, "n1", NOW, RULES) or {}
    assert node_told["plan"]["reasons"] == [
        "shop/a stays because no schedulable node has capacity for it below the watermark"
    ]


def test_what_is_written_comes_back() -> None:
    wish = Evacuation("n1", 1769860800.25)
    text = evacuation_text(wish)
    assert text == '{"node":"n1","at":"2026-01-31T12:00:00.250000Z"}'
    assert read_evacuation(text, PLACE) == wish
    for broken in (
        "",
        "n1",
        "[]",
        '{"node":"n1"}',
        '{"node":1,"at":"2026-01-31T12:00:00Z"}',
        '{"node":"n","at":"now"}',
    ):
        assert isinstance(read_evacuation(broken, PLACE), ParseError)
