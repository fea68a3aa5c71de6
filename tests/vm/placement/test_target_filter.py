"""Where machines may move, by the scheduler's own filters."""

from __future__ import annotations

from typing import Any

import pytest

from situate.objects.kinds import nodes
from situate.vm.api.well_known import RESOURCES
from situate.vm.backends.systems import NEONVM
from situate.vm.model.policy import Rules
from situate.vm.placement.target_filter import TargetFilter
from tests.vm.ledgers import Bench
from tests.vm.objects import GUEST, VM_OWNER, container, node, pod, runner

TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


def host(name: str, cpu: str = "10", **more: Any) -> nodes.Node:
    return node(name, cpu=cpu, further={"pods": "110"}, **more)


def fitting(*objects: Any, rules: Rules | None = None) -> tuple[Bench, TargetFilter]:
    bench = Bench(rules or Rules())
    bench.add(*objects)
    bench.listed()
    return bench, TargetFilter(bench.engine, bench.ledger, NEONVM)


@pytest.mark.rule("vm:B12")
def test_a_target_is_asked_for_by_all_filters() -> None:
    labelled = host("n3", metadata={"labels": {"disk": "fast"}})
    bench, fits = fitting(
        host("n1"),
        host("n2", spec={"taints": [TAINT]}),
        labelled,
        runner("plain", nodeName="n1"),
        runner("tolerant", nodeName="n1", tolerations=[{"key": "gpu", "operator": "Exists"}]),
        runner("picky", nodeName="n1", nodeSelector={"disk": "fast"}),
    )
    found = {
        name: [each for each in ("n1", "n2", "n3") if fits(f"uid-{name}", each)]
        for name in ("plain", "tolerant", "picky")
    }
    assert found == {"plain": ["n1", "n3"], "tolerant": ["n1", "n2", "n3"], "picky": ["n3"]}
    assert not fits("uid-plain", "n9")
    assert not fits("uid-of-nobody", "n1")
    bench.add(host("n2"))
    assert fits("uid-plain", "n2"), "the taint is gone"


@pytest.mark.rule("vm:B12", "vm:B19")
def test_requests_count_where_the_ledger_has_room_and_not_where_a_plan_would_have_to_make_some() -> None:
    """A runner pod may request more than its machine holds; then the target would never be bound."""
    _, fits = fitting(
        host("n1"),
        host("n2", cpu="4"),
        host("n3", cpu="4"),
        runner("greedy", nodeName="n1"),
        pod("large", container(cpu="3500m"), nodeName="n3"),
    )
    assert fits("uid-greedy", "n2")
    assert fits("uid-greedy", "n3"), "it is full by the ledger too: a plan may make room there first"
    bench, fits = fitting(host("n1"), host("n2", cpu="4"))
    bench.add(pod("a-c", container(cpu="5"), nodeName="n1", owners=(VM_OWNER,), annotations={RESOURCES: GUEST}))
    assert not fits("uid-a-c", "n2"), "the ledger has room for the machine, and no node for its pod"


@pytest.mark.rule("vm:C28", "vm:B12")
def test_pods_of_ignored_namespaces_count_where_a_plan_would_make_room_for_they_stay() -> None:
    """Else the plan's first move is made, its second is refused, and both are tried again for ever."""
    spare = pod("spare", container(cpu="3500m"), nodeName="n2", metadata={"namespace": "spare"})
    there = host("n1"), host("n2", cpu="4"), runner("greedy", nodeName="n1"), runner("other", nodeName="n2")
    _, fits = fitting(*there, spare, rules=Rules(ignored_namespaces=("spare",)))
    assert not fits("uid-greedy", "n2")
    _, fits = fitting(*there)
    assert fits("uid-greedy", "n2")


@pytest.mark.rule("vm:C19", "vm:C28", "vm:B12")
def test_beside_pods_of_ignored_namespaces_machines_count_for_all_that_they_hold_as_when_they_are_placed() -> None:
    """Their pods may request less, so that the scheduler's own filter would take one that the ledger's refuses."""
    for memory, taken in (("8Gi", True), ("8704Mi", False)):
        spare = pod("spare", container(cpu="1", memory=memory), nodeName="n2", metadata={"namespace": "spare"})
        there = host("n1"), host("n2", memory="10Gi"), runner("greedy", nodeName="n1"), spare
        bench, fits = fitting(*there, rules=Rules(ignored_namespaces=("spare",)))
        held = bench.ledger.state.pod("uid-greedy")
        assert held is not None
        assert held.reserved.memory == 2 * 2**30, "and its pod requests 1 GiB"
        assert fits("uid-greedy", "n2") == taken
