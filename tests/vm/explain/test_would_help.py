from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from situate.vm.config.settings import MigrationLimits
from situate.vm.explain.would_help import (
    BiggerNode,
    ChangeableSetting,
    CooldownEnd,
    FewerMigrations,
    HelpfulChange,
    MigrationPermission,
    NewNode,
    NodeUncordon,
    PodRemoval,
    SettingChange,
    describe_change,
    helpful_changes,
)
from situate.vm.model.migrations import Stage
from situate.vm.model.pods_and_nodes import Load, Phase, Ref
from situate.vm.model.policy import Rules
from situate.vm.model.state import LedgerState, Waiter
from situate.vm.planning.plan_for_pod import plan
from tests.vm.planning.playing import granted as all_it_gets
from tests.vm.planning.playing import played
from tests.vm.planning.shapes import NOW, RULES, claim, cluster, move, node, plain, state, units, vm

A = vm("A", 4, 7, migratable=False)
WIDE = structs.replace(RULES, calm=MigrationLimits(link="1Ti"))


def ref(name: str) -> Ref:
    return Ref("shop", name, name)


@pytest.mark.rule("vm:B40")
@pytest.mark.parametrize(
    ("seen", "rules", "change"),
    [
        pytest.param(
            state(node("n1", 10, A, plain("p", 6)), node("n2", 10)),
            RULES,
            BiggerNode("n1", units(3)),
            id="nothing may be moved, so the node itself",
        ),
        pytest.param(
            state(node("n1", 10, A, plain("p", 3), plain("q", 1), plain("r", 2))),
            RULES,
            PodRemoval(ref("p")),
            id="one that goes",
        ),
        pytest.param(
            state(node("n1", 10, A, vm("B", 6, migratable=False)), node("n2", 10)),
            RULES,
            MigrationPermission(ref("B")),
            id="a label",
        ),
        pytest.param(
            state(node("n1", 10, vm("A", 4, 7, migratable=False), plain("p", 6)), node("n2", 10)),
            RULES,
            MigrationPermission(ref("A")),
            id="a label of its own",
        ),
        pytest.param(state(node("n1", 10, A, vm("B", 6))), RULES, NewNode(units(6)), id="a new node"),
        pytest.param(
            state(node("n1", 10, A, vm("B", 6)), replace(node("n2", 10), schedulable=False)),
            RULES,
            NodeUncordon("n2"),
            id="a node that is cordoned",
        ),
        pytest.param(
            state(node("n1", 10, A, vm("B", 6, moved_at=(NOW - 1,))), node("n2", 10)),
            RULES,
            CooldownEnd(ref("B"), NOW + 599),
            id="waiting for the end of a cool-down",
        ),
        pytest.param(
            state(
                node("n1", 10, A, vm("B", 6)),
                node("n2", 10),
                moves=tuple(move(f"m{number}", "n3", "n4", stage=Stage.COPYING) for number in range(5)),
            ),
            WIDE,
            FewerMigrations(),
            id="a limit lifted",
        ),
        pytest.param(
            state(node("n1", 10, A, plain("p", 6, priority=-1))),
            RULES,
            SettingChange(ChangeableSetting.EVICT),
            id="eviction allowed",
        ),
        pytest.param(
            state(node("n1", 10, A, vm("B", 6, load=Load(dirty_rate=2.0**31))), node("n2", 10)),
            RULES,
            SettingChange(ChangeableSetting.POST_COPY),
            id="post-copy allowed",
        ),
        pytest.param(
            state(node("n1", 10, A, vm("B", 6)), node("n2", 10, vm("F", 6)), node("n3", 6)),
            structs.replace(RULES, chain_depth=1, calm=RULES.calm),
            None,
            id="a plan is made without",
        ),
    ],
)
def test_what_would_help_is_named(seen: LedgerState, rules: Rules, change: HelpfulChange | None) -> None:
    found = helpful_changes(seen, "A", NOW, rules)
    assert found, "something always does"
    if change is None:
        assert {type(each) for each in found} <= {PodRemoval, BiggerNode}
    else:
        assert change in found


@pytest.mark.rule("vm:B40")
def test_chains_allowed_would_help() -> None:
    nodes = node("n1", 10, A, vm("B", 6)), node("n2", 10, vm("F", 5)), node("n3", 5)
    found = helpful_changes(state(*nodes), "A", NOW, structs.replace(RULES, chain_depth=1))
    assert SettingChange(ChangeableSetting.CHAINS) in found


@pytest.mark.rule("vm:B40", "vm:C10")
@settings(max_examples=50)
@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 8))
def test_whatever_is_named_helps_when_it_is_done(seed: int, nodes: int, on_first: int) -> None:
    seen = cluster(Random(seed), nodes, on_first)
    before = all_it_gets(seen, "short")
    found = helpful_changes(seen, "short", NOW, RULES)
    assert bool(found) is (before.reserved != before.requested)
    for change in found:
        after, rules, now = change.apply(seen, RULES, NOW)
        if all_it_gets(after, "short").reserved != before.requested:
            after = played(after, plan(after, "short", now, rules))
        assert all_it_gets(after, "short").reserved == before.requested, describe_change(change, rules.resources)


@pytest.mark.rule("vm:B40", "vm:F11", "vm:B31")
@settings(max_examples=50)
@given(st.integers(0, 2**32), st.integers(1, 9))
def test_a_bigger_node_helps_also_where_more_is_held_than_it_has_or_saved_up_for_others(seed: int, size: int) -> None:
    rng = Random(seed)
    seen = cluster(rng, 2, 4)
    shrunk = replace(seen.nodes["n000"], total=units(size), watermark=units(size))
    saved = rng.choice(sorted(shrunk.pods))
    waiters = {saved: Waiter(saved, 0.0, overtaken_count=3, held_capacity=units(rng.randint(1, 5)))}
    for each in (
        replace(seen, nodes={**seen.nodes, "n000": shrunk}),
        replace(seen, waiters=waiters),
        replace(seen, nodes={**seen.nodes, "n000": shrunk}, waiters=waiters),
    ):
        bigger = [change for change in helpful_changes(each, "short", NOW, RULES) if isinstance(change, BiggerNode)]
        assert len(bigger) == (all_it_gets(each, "short").reserved != seen.nodes["n000"].pods["short"].requested)
        for change in bigger:
            after = change.apply(each, RULES, NOW)[0]
            assert all_it_gets(after, "short").reserved == seen.nodes["n000"].pods["short"].requested


@pytest.mark.rule("vm:B40")
def test_nothing_is_named_for_who_lacks_nothing_or_is_frozen() -> None:
    fine = state(node("n1", 10, A))
    assert helpful_changes(fine, "A", NOW, RULES) == ()
    assert helpful_changes(fine, "unknown", NOW, RULES) == ()
    frozen = state(node("n1", 10, vm("A", 4, 7, phase=Phase.FROZEN), vm("B", 6)), node("n2", 10))
    assert helpful_changes(frozen, "A", NOW, RULES) == ()


@pytest.mark.rule("vm:B40")
def test_while_room_is_on_its_way_only_what_is_quicker_is_named() -> None:
    promised = claim("1", "n1", "A", "B", units(3))
    seen = state(node("n1", 10, A, vm("B", 6)), node("n2", 10), moves=(move("B", "n1", "n2", 6),), claims=(promised,))
    assert helpful_changes(seen, "A", NOW, RULES) == (BiggerNode("n1", units(3)),), "B goes anyway"
    beside = state(
        node("n1", 10, A, vm("B", 3), plain("p", 3)),
        node("n2", 10),
        moves=(move("B", "n1", "n2", 3),),
        claims=(promised,),
    )
    assert helpful_changes(beside, "A", NOW, RULES) == (PodRemoval(ref("p")), BiggerNode("n1", units(3)))


@pytest.mark.rule("vm:B40")
def test_of_those_who_leave_by_the_plan_nobody_is_named() -> None:
    seen = state(node("n1", 10, A, vm("B", 3), plain("p", 3)), node("n2", 10))
    assert plan(seen, "A", NOW, RULES).moves[0].source.uid == "B"
    assert helpful_changes(seen, "A", NOW, RULES) == (PodRemoval(ref("p")), BiggerNode("n1", units(3)))


@pytest.mark.rule("vm:B39")
@pytest.mark.parametrize(
    ("change", "text"),
    [
        (BiggerNode("n1", units(3, 0)), "3 cpu more on node n1"),
        (NewNode(units(1, 2)), "one more node with 1 cpu and 2Gi memory free below its watermark"),
        (PodRemoval(ref("p")), "the removal of pod shop/p"),
        (MigrationPermission(ref("p")), "permission to live-migrate the VM of pod shop/p"),
        (NodeUncordon("n2"), "node n2 ready and uncordoned"),
        (FewerMigrations(), "fewer migrations in progress, or higher limits for them"),
        (CooldownEnd(ref("p"), NOW), "the end of the cool-down of the VM of pod shop/p"),
        (SettingChange(ChangeableSetting.EVICT), "evict enabled"),
        (SettingChange(ChangeableSetting.CHAINS), "chainDepth set to 2"),
    ],
)
def test_changes_are_told(change: HelpfulChange, text: str) -> None:
    assert describe_change(change, RULES.resources) == text
