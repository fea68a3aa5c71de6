from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from situate.vm.config.settings import CostWeights, MigrationLimits
from situate.vm.model.pods_and_nodes import Load, Pod
from situate.vm.model.policy import GIB, MIB
from situate.vm.model.resource_amounts import Amounts
from situate.vm.planning.rules.migration_cost import bandwidth, converges, copying_s, cost, surplus_share
from tests.vm.planning.shapes import NOW, RULES, units, vm

QUIET = Load(memory_used=GIB, dirty_rate=0.0)


def price(pod: Pod, surplus: float = 0.0) -> float:
    assert pod.machine is not None
    return cost(pod, pod.machine, surplus, NOW, RULES)


@pytest.mark.rule("vm:B17")
@pytest.mark.parametrize(
    ("pod", "seconds"),
    [
        pytest.param(vm("a", 2, load=QUIET), 1 + 5, id="a GiB at a GiB/s, and a tenth of a second's pause"),
        pytest.param(vm("a", 2, load=replace(QUIET, memory_used=0)), 2 + 5, id="all that it uses, where nobody says"),
        pytest.param(vm("a", 2, load=replace(QUIET, dirty_rate=GIB / 2)), 2 + 5, id="half of it is written meanwhile"),
        pytest.param(vm("a", 2, load=replace(QUIET, dirty_rate=5.0 * GIB)), 10 + 5, id="more than can be copied"),
        pytest.param(vm("a", 2, load=replace(QUIET, load1=2.0)), 3 + 5, id="at work on both CPUs"),
        pytest.param(vm("a", 2, load=replace(QUIET, last_downtime_s=1.0)), 1 + 50, id="paused for a second last time"),
        pytest.param(vm("a", 2, load=QUIET, priority=1_000_000), (1 + 5) * 2, id="of priority a million"),
        pytest.param(vm("a", 2, load=QUIET, priority=2_000_000_000), (1 + 5) * 10, id="of the highest priority"),
        pytest.param(vm("a", 2, load=QUIET, priority=-5), 1 + 5, id="of a negative one"),
        pytest.param(vm("a", 2, load=QUIET, moved_at=(NOW - 90_000, NOW - 3600, NOW - 700)), 1 + 5 + 120, id="moved"),
    ],
)
def test_cost_in_seconds(pod: Pod, seconds: float) -> None:
    assert price(pod) == pytest.approx(seconds)


@pytest.mark.rule("vm:B17")
def test_an_unknown_dirty_rate_counts_as_50_mib_a_second() -> None:
    unknown = vm("a", 2, load=Load(memory_used=GIB))
    assert price(unknown) == price(vm("a", 2, load=Load(memory_used=GIB, dirty_rate=50.0 * MIB)))


@pytest.mark.rule("vm:B17")
def test_surplus_counts_by_the_node() -> None:
    assert price(vm("a", 2, load=QUIET), 0.5) == pytest.approx(6 + 5)
    assert surplus_share(units(6), units(3), units(10)) == pytest.approx(0.3)
    assert surplus_share(units(3), units(6), units(10)) == 0
    assert surplus_share(Amounts.from_values(1000, 8 * GIB), units(4), units(10)) == pytest.approx(0.4)
    assert surplus_share(units(6), units(3), Amounts.zero()) == 0


@pytest.mark.rule("vm:B17")
@pytest.mark.parametrize(("rate", "comes_to_an_end"), [(0.9 * GIB, False), (0.9 * GIB - 1, True), (None, True)])
def test_copying_comes_to_an_end_below_nine_tenths_of_the_bandwidth(rate: float | None, comes_to_an_end: bool) -> None:
    machine = vm("a", 2, load=Load(dirty_rate=rate)).machine
    assert machine is not None
    assert converges(machine, RULES) is comes_to_an_end


@pytest.mark.rule("vm:B17", "vm:B26")
def test_the_bandwidth_is_what_a_move_may_use_and_at_most_half_the_link() -> None:
    assert bandwidth(RULES) == GIB
    assert bandwidth(structs.replace(RULES, calm=MigrationLimits(link="1Gi"))) == GIB // 2
    assert bandwidth(structs.replace(RULES, max_bandwidth="1Mi")) == MIB


@pytest.mark.rule("vm:B17")
def test_weights_are_configuration() -> None:
    weights = CostWeights(load=0, downtime=0, recent_move=1, surplus=0, priority=1.0)
    pod = vm("a", 2, priority=3, load=replace(QUIET, load1=9.0), moved_at=(NOW - 1,))
    assert pod.machine is not None
    assert cost(pod, pod.machine, 1.0, NOW, structs.replace(RULES, costs=weights)) == pytest.approx(4 + 1)
    assert copying_s(pod, pod.machine, RULES) == 1
