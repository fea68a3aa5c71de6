"""The framework's points as vm stands at them: what is its own to say there, and what it leaves to others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

from situate.framework.engine.decisions import Failed, Placed
from situate.framework.engine.engine import Engine
from situate.framework.plugin_api.actions import Bind
from situate.framework.plugin_api.plugin import PreScored
from situate.objects.kinds import pods
from situate.vm.api.nodes import read_node
from situate.vm.api.pods import read_pod
from situate.vm.api.well_known import AUTO_MIGRATION_LABEL
from situate.vm.backends.systems import NEONVM
from situate.vm.controller.setup import VmSetup, scheduler_setup
from situate.vm.model.actions import StartMove
from situate.vm.model.events import NodeObserved, PodObserved, PodReserved, TimerFired
from situate.vm.model.policy import Rules
from situate.vm.placement.plugin import VirtualMachines
from situate.vm.placement.queue_sort import TargetsFirst
from tests.vm.ledgers import Bench
from tests.vm.objects import VM_OWNER, container, migration_owner, pod, runner
from tests.vm.placement.test_plugin import IGNORED, PLAIN, host, move, target_pod

LATER_S = 60.0


@pytest.mark.rule("vm:N2")
def test_what_is_planned_reaches_the_queue_as_a_pod_of_the_api_and_by_no_other_way() -> None:
    bench = Bench(structs.replace(PLAIN, watermarks={"n1": 0.05}))
    bench.add(host("n1"), host("n2"), runner("a-xyz", labels={AUTO_MIGRATION_LABEL: "true"}, nodeName="n1"))
    bench.listed()
    assert bench.ledger.handle is not None
    bench.ledger.handle.activate(["uid-a-new"])
    bench.now += LATER_S
    bench.ledger.apply(TimerFired())
    (started,) = [each for each in bench.ledger.take_actions() if isinstance(each, StartMove)]
    assert bench.engine.schedule(bench.now) is None, "the migration is asked of the API, and there is no pod yet"
    made_for = {**migration_owner(controller=True), "name": started.move.name}
    bench.add(runner("a-new", owners=({**VM_OWNER, "controller": False}, made_for)))
    assert bench.place() == {"a-new": started.move.target_node}


@pytest.mark.rule("vm:I9")
@pytest.mark.parametrize("compat", [False, True])
@pytest.mark.parametrize(("namespace", "leave"), [(IGNORED, []), ("default", ["uid-a-xyz"])])
def test_pods_of_ignored_namespaces_bring_no_node_over_its_watermark(
    compat: bool, namespace: str, leave: list[str]
) -> None:
    """Placed beside a machine that could leave, which does for any other pod."""
    bench = Bench(structs.replace(PLAIN, watermarks={"n1": 0.5}, compat=compat))
    bench.add(host("n1"), runner("a-xyz", labels={AUTO_MIGRATION_LABEL: "true"}, nodeName="n1"))
    bench.listed()
    bench.add(pod("filler", container(cpu="7"), metadata={"namespace": namespace}))
    assert bench.place() == {"filler": "n1"}
    bench.add(host("n2"))
    bench.now += LATER_S
    bench.ledger.apply(TimerFired())
    moves = [each.move for each in bench.ledger.take_actions() if isinstance(each, StartMove)]
    assert [each.source.uid for each in moves] == leave


@pytest.mark.rule("vm:N15")
def test_the_next_pod_is_placed_while_the_last_one_is_still_being_bound() -> None:
    """One cycle after the other, each with what those before it have booked; bindings end in any order."""
    bench = Bench(PLAIN)
    bench.add(host("n1"), host("n2"), pod("first", container(cpu="6")), pod("second", container(cpu="6")))
    bench.listed()
    first, second = bench.decide()
    assert isinstance(first, Placed)
    assert isinstance(second, Placed)
    assert {first.node, second.node} == {"n1", "n2"}
    for placed in (second, first):
        assert bench.engine.binding(placed).bind
        bench.engine.binding_succeeded(placed)
    assert bench.engine.queue.being_bound == 0


def order(rules: Rules, *listed: pods.Pod) -> list[str]:
    """In which the pods have their turn; they came in this order."""
    bench = Bench(rules)
    bench.add(host("n1"), host("n2"))
    bench.listed()
    bench.hold(moves=[move("n2")])
    for each in listed:
        bench.now += 1.0
        bench.add(each)
    return [each.pod.info.name for each in bench.decide()]


@pytest.mark.rule("vm:N16")
@pytest.mark.parametrize(
    ("targets_first", "expected"),
    [
        pytest.param(False, ["important", "web", "a-new", "late"], id="as by default"),
        pytest.param(True, ["important", "a-new", "web", "late"], id="targets first"),
    ],
)
def test_a_target_goes_before_other_pods_of_its_priority_where_that_is_wished(
    targets_first: bool, expected: list[str]
) -> None:
    rules = structs.replace(PLAIN, targets_first=targets_first)
    assert order(rules, pod("web"), target_pod(), pod("late"), pod("important", priority=1)) == expected


@pytest.mark.rule("vm:N16", "vm:N26")
@pytest.mark.parametrize(
    ("targets_first", "sorter"), [pytest.param(False, "PrioritySort"), pytest.param(True, TargetsFirst.name)]
)
def test_queue_and_binding_are_the_defaults_unless_targets_come_first(targets_first: bool, sorter: str) -> None:
    bench = Bench(structs.replace(PLAIN, targets_first=targets_first))
    (profile,) = bench.engine.profiles.values()
    assert profile.queue_sort.name == sorter
    assert [each.name for each in profile.bind] == ["DefaultBinder"]


@pytest.mark.rule("vm:N26")
def test_a_pod_is_bound_as_every_scheduler_binds() -> None:
    bench = Bench(PLAIN)
    bench.add(host("n1"), pod("web"))
    bench.listed()
    (placed,) = bench.decide()
    assert isinstance(placed, Placed)
    info = placed.pod.info
    assert bench.engine.binding(placed).bind == (Bind(info.key, info.uid, "n1"),)


@pytest.mark.rule("vm:N20", "vm:C20")
def test_scores_are_shares_of_the_largest_node_as_it_was_when_the_cycle_began() -> None:
    bench = Bench(PLAIN)
    bench.add(host("n1", cpu="8", memory="32Gi"), host("n2", cpu="16", memory="64Gi"))
    bench.listed()
    info = bench.engine.cache.reader.read(pod("web", container(cpu="4", memory="16Gi")))
    found = bench.plugin.pre_filter(info, bench.snapshot)
    before = bench.plugin.pre_score(found.state, info, bench.snapshot)
    both = bench.plugin.score(before.state, info, bench.snapshot)
    smaller = bench.plugin.score(before.state, info, bench.snapshot.select_nodes(np.array([0])))
    assert smaller.tolist() == both[:1].tolist(), "as well where the largest one is none of those to be scored"
    larger = read_node(host("n3", cpu="64", memory="256Gi"), PLAIN).value
    assert larger is not None
    bench.ledger.apply(NodeObserved(larger))
    assert bench.plugin.score(before.state, info, bench.snapshot).tolist() == both.tolist()
    after = bench.plugin.pre_score(found.state, info, bench.snapshot)
    assert (bench.plugin.score(after.state, info, bench.snapshot) < both).all()


class WithoutNormalisers(VirtualMachines):
    """Fails at PreScore."""

    def pre_score(self, *_: object) -> PreScored:
        raise ValueError("no normalisers")


@pytest.mark.rule("vm:N20")
def test_an_error_in_prescore_ends_the_cycle() -> None:
    bench = Bench(PLAIN)
    broken = WithoutNormalisers(bench.ledger, NEONVM, lambda each: read_pod(each, PLAIN), 1)
    bench.engine = Engine(scheduler_setup(VmSetup(PLAIN), broken).profiles)
    bench.add(host("n1"), host("n2"), pod("web"))
    bench.listed()
    (decision,) = bench.decide()
    assert isinstance(decision, Failed)
    assert (decision.plugin, "no normalisers" in decision.error) == (VirtualMachines.name, True)
    assert bench.ledger.state.pod("uid-web") is None


@pytest.mark.rule("vm:N27", "vm:B15", "vm:N23")
def test_a_target_is_timed_from_its_binding_and_is_tentative_no_longer() -> None:
    """What takes a pod from Reserve to its machine's start is timed apart from what takes it to its node."""
    bench = Bench(PLAIN)
    bench.add(host("n1"), host("n2"))
    bench.listed()
    bench.hold(moves=[move("n2")])
    read = read_pod(target_pod(), PLAIN).value
    assert read is not None
    bench.ledger.apply(PodReserved(replace(read, tentative=True), "n2"))
    booked, paired = bench.ledger.state.pod(read.uid), bench.ledger.state.moves["default/m"]
    assert booked is not None
    assert (booked.tentative, paired.target_counted, paired.target_bound_at) == (True, True, None)
    bench.now += 1.0
    for _ in range(2):  # what repeats the news does not begin anew
        bench.ledger.apply(PodObserved(read, "n2"))
        bench.now += 1.0
    booked, paired = bench.ledger.state.pod(read.uid), bench.ledger.state.moves["default/m"]
    assert booked is not None
    assert (booked.tentative, paired.target_bound_at) == (False, bench.now - 2.0)
