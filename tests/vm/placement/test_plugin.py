"""The framework plugin against the plain rules of `placing`, and what it does at each point."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from situate.framework.cycle.cycle import PluginFailed
from situate.framework.engine.decisions import Failed, Placed, Refused, Waiting
from situate.framework.engine.messages import refusal
from situate.framework.pod.pods import PodInfo
from situate.framework.snapshot.snapshot import Snapshot
from situate.objects.kinds import nodes, pods
from situate.vm.api.pods import read_pod
from situate.vm.api.well_known import APPROVED, DRAIN, SCALING_UNIT
from situate.vm.config.settings import Scoring
from situate.vm.model import node_fit
from situate.vm.model.events import NodeRemoved, PodObserved
from situate.vm.model.migrations import Beneficiary, BeneficiaryKind, Claim, ClaimState, Move, Stage
from situate.vm.model.node_accounting import with_pods
from situate.vm.model.pods_and_nodes import Pod, Ref
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from situate.vm.placement.plugin import CANCEL_S, DRAINED_REASON, HELD_REASON, PreFilterState
from tests.vm.ledgers import Bench
from tests.vm.objects import VM_OWNER, container, migration_owner, node, pod, runner

GIB = 2**30
IGNORED = "overprovisioning"
PLAIN = Rules(scoring=Scoring(randomize=False), ignored_namespaces=(IGNORED,))
UNIT = {SCALING_UNIT: '{"vCPUs":"250m","mem":"1Gi"}'}


def claim(node_name: str, cpu: int, gib: int, uid: str = "uid-somebody", name: str = "c") -> Claim:
    beneficiary = Beneficiary(BeneficiaryKind.VM, Ref("default", "somebody", uid))
    amount = Amounts.from_values(cpu, gib * GIB)
    return Claim(name, "p", node_name, beneficiary, "uid-gone", amount, 9e9, ClaimState.FREED)


def move(target: str, cpu: int = 1000, gib: int = 2, *, stage: Stage = Stage.STARTING, name: str = "m") -> Move:
    """Of the machine `a`, from n1."""
    amount = Amounts.from_values(cpu, gib * GIB)
    machine, source = Ref("default", "a", "uid-vm-a"), Ref("default", "a-xyz", "uid-a-xyz")
    return Move(name, "p", machine, source, "n1", target, amount, 0.0, uid="uid-m", stage=stage)


def target_pod(name: str = "a-new") -> pods.Pod:
    """C: controlled by the migration `m`."""
    return runner(name, owners=({**VM_OWNER, "controller": False}, migration_owner(controller=True)))


def host(name: str, cpu: str = "10", **more: Any) -> nodes.Node:
    return node(name, cpu=cpu, further={"pods": "110"}, **more)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Bench, pods.Pod, Random]:
    rng = Random(draw(st.integers(0, 2**32)))
    bench = Bench(structs.replace(PLAIN, compat=rng.random() < 0.2))
    names = [f"n{number}" for number in range(1, rng.randint(2, 5))]
    for name in names:
        bench.add(host(name, cpu=str(rng.randint(2, 8)), memory=f"{rng.randint(4, 24)}Gi"))
    bench.listed()
    for number in range(rng.randint(0, 12)):
        bench.add(a_pod(rng, f"p{number}", nodeName=rng.choice([*names, "nowhere"])))
    bench.hold(
        [
            claim(rng.choice(names), rng.randint(0, 3000), rng.randint(0, 4), name=f"c{n}")
            for n in range(rng.randint(0, 2))
        ],
        [
            move(rng.choice(names), rng.randint(0, 3000), rng.randint(0, 4), name=f"m{n}")
            for n in range(rng.randint(0, 2))
        ],
    )
    return bench, a_pod(rng, "new"), rng


def a_pod(rng: Random, name: str, **spec: Any) -> pods.Pod:
    if rng.random() < 0.5:
        approved = f'{{"vCPUs":{rng.randint(1, 3)},"mem":"{rng.randint(1, 5)}Gi"}}'
        annotations = {APPROVED: approved, **UNIT, "vm.neon.tech/overcommit": f'{{"cpu":{rng.randint(1, 3)}}}'}
        labels = {"autoscaling.neon.tech/enabled": "true"} if rng.random() < 0.7 else {}
        return runner(name, annotations, labels=labels, metadata={"labels": labels}, **spec)
    namespace = IGNORED if rng.random() < 0.2 else "default"
    amounts = container(cpu=f"{rng.randint(0, 3000)}m", memory=f"{rng.randint(0, 4)}Gi")
    return pod(name, amounts, metadata={"namespace": namespace}, **spec)


def twins(bench: Bench, snapshot: Snapshot, new: Pod) -> Iterator[tuple[bool, int]]:
    """Whether it fits on each node, and the node's score, by the plain rules."""
    state = bench.ledger.state
    for index in range(snapshot.count):
        name = snapshot.name(index)
        entry = state.nodes[name]
        proposed = [read(bench, info) for info in snapshot.pods_on(index)]
        kept = state.held_for_others(name, new.uid) + state.incoming_amount(name, new.uid)
        fit = node_fit.fit(entry, proposed, new, kept)
        without = with_pods(entry, [entry.pods.get(each.uid, each) for each in proposed])
        yield fit.fits, node_fit.score(without, new, bench.ledger.largest, bench.rules.scoring, kept).points


def read(bench: Bench, info: PodInfo) -> Pod:
    known = bench.ledger.state.pod(info.uid)
    found = known or read_pod(info.pod, bench.rules).value
    assert found is not None
    return found


@pytest.mark.rule("vm:N18", "vm:N21", "vm:C19", "vm:C20", "vm:C28", "vm:B4")
@given(worlds())
def test_it_says_of_all_nodes_what_the_plain_rules_say_of_each(world: tuple[Bench, pods.Pod, Random]) -> None:
    bench, wire, rng = world
    info = bench.engine.cache.reader.read(wire)
    found = bench.plugin.pre_filter(info, bench.snapshot)
    assert isinstance(found.state, PreFilterState), found.status
    whole = bench.snapshot
    row = rng.randrange(whole.count)
    alone = whole.single_node(row)
    for gone in alone.pods_on(0)[:2]:
        alone = alone.forget(gone)
    for snapshot in (whole, whole.select_nodes(np.arange(0, whole.count, 2)), alone, whole):
        verdict = bench.plugin.filter(found.state, info, snapshot)
        normalised = bench.plugin.pre_score(found.state, info, snapshot).state
        scores = bench.plugin.score(normalised, info, snapshot)
        expected = list(twins(bench, snapshot, found.state.pod))
        assert list(zip(verdict.passes.tolist(), scores.tolist(), strict=True)) == expected
        refused = verdict.refusals()
        assert [not refused.reasons_at(index) for index in range(snapshot.count)] == verdict.passes.tolist()


@pytest.mark.rule("vm:C19")
def test_what_changed_on_a_node_counts_at_once() -> None:
    bench = Bench(PLAIN)
    bench.add(host("n1", cpu="4"), host("n2", cpu="4"))
    bench.listed()
    first = pod("first", container(cpu="3"), nodeName="n1")
    bench.add(first)
    info = bench.engine.cache.reader.read(pod("new", container(cpu="2")))
    state = bench.plugin.pre_filter(info, bench.snapshot).state
    assert bench.plugin.filter(state, info, bench.snapshot).passes.tolist() == [False, True]
    bench.remove(first)
    bench.add(pod("second", container(cpu="3"), nodeName="n2"))
    assert bench.plugin.filter(state, info, bench.snapshot).passes.tolist() == [True, False]
    grown = read_pod(pod("second", container(cpu="1"), nodeName="n2"), PLAIN).value
    assert grown is not None
    bench.ledger.apply(PodObserved(grown, "n2"))  # the ledger alone knows: the framework's columns are as they were
    assert bench.plugin.filter(state, info, bench.snapshot).passes.tolist() == [True, True]


@pytest.mark.rule("vm:N17", "vm:D18", "vm:C3")
def test_a_pod_that_cannot_be_read_is_refused_with_what_is_wrong_and_others_go_on() -> None:
    bench = Bench(PLAIN)
    bench.add(host("n1"), pod("broken", owners=(VM_OWNER,)), pod("web"))
    bench.listed()
    broken, web = sorted(bench.decide(), key=lambda each: each.pod.info.name)
    assert isinstance(broken, Refused)
    assert 'metadata.annotations["vm.neon.tech/resources"]: missing' in refusal(broken)
    assert isinstance(web, Placed)


@pytest.mark.rule("vm:N17")
def test_a_pod_of_another_scheduler_is_an_error() -> None:
    bench = Bench(PLAIN)
    bench.add(host("n1"))
    info = bench.engine.cache.reader.read(pod("theirs", schedulerName="default-scheduler"))
    with pytest.raises(Exception, match="has schedulerName default-scheduler, allowed: situate-vm"):
        bench.plugin.pre_filter(info, bench.snapshot)


@pytest.mark.rule("vm:C19")
@pytest.mark.parametrize("compat", [False, True])
def test_a_node_that_does_not_say_how_large_it_is_takes_nothing(compat: bool) -> None:
    bench = Bench(structs.replace(PLAIN, compat=compat))
    bench.add(host("n1"), node("n2", cpu="0", further={"pods": "110"}), pod("web"))
    bench.listed()
    (decision,) = bench.decide()
    if compat:
        assert isinstance(decision, Failed)
        assert "node n2 is not in the ledger" in decision.error
    else:
        assert isinstance(decision, Placed)
        assert decision.node == "n1"


@pytest.mark.rule("vm:B14", "vm:N17", "vm:I12")
def test_a_target_is_offered_the_reserved_node_alone() -> None:
    bench = Bench(PLAIN)
    bench.add(*(host(f"n{number}") for number in range(1, 5)))
    bench.listed()
    bench.hold(moves=[move("n3")])
    bench.add(target_pod())
    assert bench.place() == {"a-new": "n3"}


@pytest.mark.rule("vm:B14", "vm:I12", "vm:N9")
def test_a_target_never_goes_to_its_sources_node() -> None:
    bench = Bench(PLAIN)
    bench.add(host("n1"), host("n2", cpu="1"))
    bench.listed()
    bench.hold(moves=[move("")])
    bench.add(target_pod(), pod("full", container(cpu="1"), nodeName="n2"))
    (decision,) = bench.decide()
    assert isinstance(decision, Refused)
    bench.hold(moves=[move("n1")])
    info = bench.engine.cache.reader.read(target_pod())
    assert "has the source node as its target" in bench.plugin.pre_filter(info, bench.snapshot).status.message


@pytest.mark.rule("vm:B14")
@pytest.mark.parametrize(
    ("moves", "why"),
    [
        pytest.param([], "is not known yet", id="not seen yet"),
        pytest.param([move("n2", stage=Stage.FAILED)], "has ended", id="failed"),
        pytest.param([move("n2", stage=Stage.DONE)], "has ended", id="done"),
    ],
)
def test_a_target_without_a_migration_that_wants_it_waits(moves: list[Move], why: str) -> None:
    bench = Bench(PLAIN)
    bench.add(host("n1"), host("n2"))
    bench.listed()
    bench.hold(moves=moves)
    bench.add(pod("victim", container(cpu="9"), nodeName="n2", priority=-1), target_pod())
    (decision,) = bench.decide()
    assert isinstance(decision, Refused)
    assert why in refusal(decision)
    assert not decision.actions, "no pod has to go for it"


@pytest.mark.rule("vm:N24", "vm:F9")
def test_a_target_whose_machine_is_gone_is_a_target_still() -> None:
    """Seed 20111 of the processes: its owner was taken off it, and Permit refused it as often as it was placed."""
    bench = Bench(PLAIN)
    bench.add(host("n1"))
    bench.listed()
    bench.add(runner("a-new", owners=(migration_owner(controller=True),)))
    (decision,) = bench.decide()
    assert isinstance(decision, Refused)
    assert "is not known yet" in refusal(decision)
    assert ("Reserve", False) not in bench.ledger.counts.calls


@pytest.mark.rule("vm:B4", "vm:I4")
def test_room_that_is_held_or_reserved_for_others_is_nobody_elses() -> None:
    bench = Bench(PLAIN)
    bench.add(host("n1"), host("n2"), host("n3"))
    bench.listed()
    bench.hold([claim("n1", 4000, 4)], [move("n2", 4000, 4)])
    info = bench.engine.cache.reader.read(pod("new", container(cpu="7")))
    state = bench.plugin.pre_filter(info, bench.snapshot).state
    verdict = bench.plugin.filter(state, info, bench.snapshot)
    assert verdict.passes.tolist() == [False, False, True]
    assert verdict.refusals().reasons_at(0) == verdict.refusals().reasons_at(1) == (HELD_REASON,)
    own = bench.engine.cache.reader.read(target_pod())
    state = bench.plugin.pre_filter(own, bench.snapshot).state
    assert bench.plugin.filter(state, own, bench.snapshot).passes.tolist() == [True, True, True]


@pytest.mark.rule("vm:B14", "vm:F6", "vm:F10")
@pytest.mark.parametrize(("priority", "refused"), [(0, True), (-1, False)])
def test_a_target_that_its_node_does_not_take_is_told_of_unless_preemption_may_help(
    priority: int, refused: bool
) -> None:
    """Another scheduler has filled the room that was reserved for it."""
    bench = Bench(PLAIN)
    bench.add(host("n1"), host("n2"))
    bench.listed()
    bench.hold(moves=[replace(move("n2"), uid="uid-m", stage=Stage.STARTING, created_at=bench.now)])
    bench.add(pod("other", container(cpu="10"), nodeName="n2", priority=priority), target_pod())

    bench.decide()

    (found,) = bench.ledger.state.moves.values()
    assert found.refused == ("node n2 rejected the target Pod (plugins: NodeResourcesFit)" if refused else "")


@pytest.mark.rule("vm:B46")
@pytest.mark.parametrize(
    "drained",
    [
        {"metadata": {"annotations": {DRAIN: "true"}}},
        {"spec": {"taints": [{"key": DRAIN, "effect": "PreferNoSchedule"}]}},
    ],
    ids=("by an annotation", "by a taint"),
)
def test_a_node_that_is_emptied_takes_no_more_machines_until_that_is_over(drained: dict[str, Any]) -> None:
    bench = Bench(PLAIN)
    bench.add(host("n1", **drained), runner("a-xyz"), pod("web"))
    bench.listed()
    refused, placed = bench.decide()
    assert isinstance(refused, Refused)
    assert f"1 {DRAINED_REASON}" in refusal(refused)
    assert isinstance(placed, Placed), "a pod that is no machine is nobody's business"
    bench.now += 100.0
    bench.add(host("n1", **drained))
    assert bench.decide() == []
    bench.add(host("n1"))
    assert bench.place() == {"a-xyz": "n1"}


@pytest.mark.rule("vm:B46", "vm:B14")
def test_a_target_goes_where_room_is_reserved_for_it_though_that_node_is_emptied_by_now() -> None:
    bench = Bench(PLAIN)
    bench.add(host("n1"), host("n2", metadata={"annotations": {DRAIN: "true"}}))
    bench.listed()
    bench.hold(moves=[move("n2")])
    bench.add(target_pod())
    assert bench.place() == {"a-new": "n2"}


@pytest.mark.rule("vm:B46")
def test_as_the_reference_a_node_that_is_emptied_takes_machines() -> None:
    bench = Bench(structs.replace(PLAIN, compat=True))
    bench.add(host("n1", metadata={"annotations": {DRAIN: "true"}}), runner("a-xyz"))
    bench.listed()
    assert bench.place() == {"a-xyz": "n1"}


@pytest.mark.rule("vm:N19")
def test_a_denial_is_counted_and_explained_and_preemption_still_runs() -> None:
    bench = Bench(PLAIN)
    bench.add(host("n1"))
    bench.listed()
    bench.add(pod("victim", container(cpu="5"), nodeName="n1"))
    bench.hold([claim("n1", 4000, 4)])
    bench.add(pod("new", container(cpu="2")))
    (decision,) = bench.decide()
    assert isinstance(decision, Refused)
    assert f"1 {HELD_REASON}" in refusal(decision)
    assert "1 node(s) have capacity that is reserved for others" in refusal(decision)
    assert bench.ledger.counts.unplaced == bench.ledger.counts.unplaced_for_held_capacity == 1
    bench.add(pod("important", container(cpu="4"), priority=10))
    (decision,) = [each for each in bench.decide() if each.pod.info.name == "important"]
    assert isinstance(decision, Refused)
    assert decision.nominate == "n1"
    assert len(decision.actions) == 1


@pytest.mark.rule("vm:N22", "vm:C21", "vm:I10")
def test_scores_are_drawn_between_one_and_themselves_and_the_same_for_the_same_pod() -> None:
    bench = Bench(Rules(), seed=7)
    info = bench.engine.cache.reader.read(pod("web"))
    raw = np.array([0, 1, 50, 100] * 50, dtype=np.int64)
    drawn = bench.plugin.normalize(None, info, raw)
    assert (drawn == bench.plugin.normalize(None, info, raw)).all()
    assert (drawn[raw == 0] == 0).all()
    assert ((drawn >= 1) & (drawn <= raw))[raw > 0].all()
    assert len(set(drawn[raw == 100].tolist())) > 20
    other = bench.engine.cache.reader.read(pod("other"))
    assert (bench.plugin.normalize(None, other, raw) != drawn).any()
    assert (Bench(PLAIN).plugin.normalize(None, info, raw) == raw).all()


@pytest.mark.rule("vm:N23", "vm:C22")
def test_reserving_books_and_unreserving_undoes_exactly_that() -> None:
    bench = Bench(PLAIN)
    bench.add(host("n1"))
    bench.listed()
    bench.add(pod("there", nodeName="n1"))
    before = bench.ledger.state.nodes
    info = bench.engine.cache.reader.read(pod("web", container(cpu="20")))
    reserved = bench.plugin.reserve(info, "n1", bench.snapshot)
    assert reserved.status.ok, "it never denies"
    assert bench.ledger.counts.should_deny == 1
    booked = bench.ledger.state.pod("uid-web")
    assert booked is not None
    assert booked.tentative
    assert not bench.plugin.reserve(info, "n1", bench.snapshot).status.ok, "it is reserved already"
    for _ in range(2):
        bench.plugin.unreserve(info, "n1")
    assert bench.ledger.state.nodes == before
    bench.add(pod("web", container(cpu="1"), nodeName="n1"))
    bench.plugin.unreserve(info, "n1")
    assert bench.ledger.state.pod("uid-web") is not None, "it was seen to be bound since"


@pytest.mark.rule("vm:C22", "vm:C28")
def test_pods_of_ignored_namespaces_are_placed_and_not_booked() -> None:
    bench = Bench(PLAIN)
    bench.add(host("n1"), pod("filler", container(cpu="8"), metadata={"namespace": IGNORED}))
    bench.listed()
    assert bench.place() == {"filler": "n1"}
    assert bench.ledger.state.pod("uid-filler") is None
    bench.add(pod("web", container(cpu="4")))
    (decision,) = bench.decide()
    assert isinstance(decision, Refused), "Filter counts it"


@pytest.mark.rule("vm:N24")
def test_permit_waits_while_a_cancellation_is_decided_and_denies_what_is_gone() -> None:
    bench = Bench(PLAIN)
    info = bench.engine.cache.reader.read(target_pod())
    assert not bench.plugin.permit(info, "n2", 0.0)[0].ok
    bench.hold(moves=[move("n2")])
    assert bench.plugin.permit(info, "n2", 0.0)[0].ok
    bench.hold(moves=[move("n2", stage=Stage.FAILED)])
    assert not bench.plugin.permit(info, "n2", 0.0)[0].ok
    bench.hold(moves=[move("n2", stage=Stage.ENDING)])
    status, seconds = bench.plugin.permit(info, "n2", 0.0)
    assert (status.code.title, seconds) == ("Wait", CANCEL_S)
    assert bench.ledger.paused == {"uid-a-new": "default/m"}
    assert bench.plugin.permit(bench.engine.cache.reader.read(pod("web")), "n2", 0.0)[0].ok


@pytest.mark.rule("vm:N24")
def test_a_target_whose_migration_is_being_cancelled_is_held_and_let_go_when_that_fails() -> None:
    bench = Bench(PLAIN)
    bench.add(host("n1"), host("n2"))
    bench.listed()
    bench.hold(moves=[move("n2", stage=Stage.ENDING)])
    bench.add(target_pod())
    (decision,) = bench.decide()
    assert isinstance(decision, Waiting)
    assert decision.node == "n2"
    (refused,) = bench.engine.tick(bench.now + CANCEL_S)
    assert refused.pod.info.name == "a-new"
    assert bench.ledger.state.pod("uid-a-new") is None, "what was booked for it is free again"


@pytest.mark.rule("vm:N25", "vm:B44")
def test_nothing_is_bound_by_a_process_that_lost_the_lease() -> None:
    bench = Bench(PLAIN)
    bench.add(host("n1"), pod("web"))
    bench.listed()
    (placed,) = bench.decide()
    assert isinstance(placed, Placed)
    assert bench.engine.binding(placed).bind
    bench.leads = False
    with pytest.raises(PluginFailed, match="no longer holds the Lease"):
        bench.engine.binding(placed)


@pytest.mark.rule("vm:C10")
def test_a_what_if_over_a_copy_books_nothing_into_the_ledger_at_work() -> None:
    bench = Bench(PLAIN)
    bench.add(host("n1"))
    bench.listed()
    twin = bench.plugin.independent_copy()
    info = bench.engine.cache.reader.read(pod("web"))
    twin.reserve(info, "n1", bench.snapshot)
    assert bench.ledger.state.pod("uid-web") is None
    assert twin._ledger.state.pod("uid-web") is not None


@pytest.mark.rule("vm:D17")
def test_the_largest_node_is_forgotten_when_it_leaves_but_not_in_compat() -> None:
    for compat, cpu in ((False, 4000), (True, 16000)):
        bench = Bench(structs.replace(PLAIN, compat=compat))
        bench.add(host("n1", cpu="4"), host("n2", cpu="16"))
        bench.ledger.apply(NodeRemoved("n2"))
        assert bench.ledger.largest.cpu == cpu
