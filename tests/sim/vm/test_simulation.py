"""Loads played by the shipped step: what calm promises, and what the reference's rules make of the same."""

from __future__ import annotations

import random
from dataclasses import replace

import msgspec
import pytest

from situate.sim.vm.account import RunOutcome, Wait
from situate.sim.vm.comparison import Comparison, compare_traces
from situate.sim.vm.scenarios import DAY_S, GIB_PER_CPU, SCENARIOS, cpus
from situate.sim.vm.simulation import LOST_S, VMSimulation
from situate.sim.vm.trace import Bounds, Change, Trace, Vector
from situate.vm.model.policy import GIB, Rules

SETTLED_S = 600.0


def node(name: str, size: int, time: float = 0, **labels: str) -> Change:
    return Change(time=time, event="node-added", uid=name, allocatable=Vector.from_amounts(cpus(size)), labels=labels)


def machine(name: str, size: float, at: str, time: float = 0, **affinity: str) -> Change:
    return Change(
        time=time,
        event="pod-added",
        uid=name,
        node=at,
        resources=Vector.from_amounts(cpus(size)),
        bounds=Bounds(min=Vector.from_amounts(cpus(0.25)), max=Vector.from_amounts(cpus(16))),
        affinity=affinity,
        used_memory=GIB_PER_CPU * GIB,
    )


def wish(time: float, name: str, size: float) -> Change:
    return Change(time=time, event="pod-changed", uid=name, resources=Vector.from_amounts(cpus(size)))


def played(*changes: Change, duration_s: float = 120, rules: Rules | None = None) -> RunOutcome:
    return VMSimulation(Trace("test", duration_s, changes), rules or Rules()).play()


@pytest.mark.rule("vm:B27", "vm:I7")
def test_a_day_of_steady_load_moves_nobody_once_it_has_settled() -> None:
    day = SCENARIOS["steady"](random.Random(1), 3)
    assert day.duration_s == DAY_S
    found = VMSimulation(day, Rules(), tick_s=SETTLED_S).play()
    assert found.moves, "one node is over its watermark in the beginning"
    assert max(found.moves) <= SETTLED_S
    assert (found.short_s, found.overcommitted_s, found.claims_broken) == (0, 0, 0)


@pytest.mark.rule("vm:B42")
@pytest.mark.parametrize(("load", "seeds"), [("burst", (1,)), ("heterogeneous", (3,))])
def test_a_load_is_borne_no_worse_than_by_the_reference_with_fewer_moves_and_shorter_waits(
    load: str, seeds: tuple[int, ...]
) -> None:
    found = compare_traces([begin_of(SCENARIOS[load](random.Random(seed), 4)) for seed in seeds], tick_s=60)
    assert not found.failing_rows()
    assert found.waiting_requests
    assert found.default.frozen_s < found.compat.frozen_s / 5


def begin_of(trace: Trace, seconds: float = 1500) -> Trace:
    return replace(trace, duration_s=seconds, changes=tuple(each for each in trace.changes if each.time < seconds))


def test_who_is_granted_nothing_with_either_bears_no_bound_on_its_time() -> None:
    lasting = Comparison(outcome(Wait(600, granted=False)), outcome(Wait(600, granted=False)))
    assert "p99 s to grant, if waiting" not in {row.name for row in lasting.failing_rows()}
    granted = Comparison(outcome(Wait(600, granted=True)), outcome(Wait(600, granted=False)))
    assert {row.name for row in granted.failing_rows()} == {
        "p50 s to grant, if waiting",
        "p99 s to grant, if waiting",
    }


def outcome(*waits: Wait) -> RunOutcome:
    return RunOutcome({("a", float(at)): each for at, each in enumerate(waits)})


@pytest.mark.rule("vm:B42", "vm:I10")
def test_the_same_trace_has_the_same_outcome() -> None:
    trace = (node("n1", 8), node("n2", 8), machine("a", 2, "n1"), machine("b", 5, "n1"), wish(10, "a", 6))
    assert played(*trace) == played(*trace)


@pytest.mark.rule("vm:N1", "vm:B42")
def test_a_neighbour_moves_for_one_who_grows() -> None:
    trace = (node("n1", 8), node("n2", 8), machine("a", 2, "n1"), machine("b", 5, "n1"), wish(10, "a", 6))
    found = played(*trace)
    assert (len(found.moves), found.completed) == (1, 1)
    assert found.bytes_moved >= GIB_PER_CPU * GIB
    (waited,) = found.waits.values()
    assert waited.granted
    assert 5 <= waited.seconds <= 30, "demand, a pod that starts, 4 GiB at 1 GiB/s"
    assert found.short_s == pytest.approx(waited.seconds)


def test_a_wish_that_nothing_helps_is_counted_for_as_long_as_it_lasts() -> None:
    found = played(node("n1", 8), machine("a", 8, "n1"), wish(10, "a", 9), wish(70, "a", 8))
    (waited,) = found.waits.values()
    assert (waited.seconds, waited.granted) == (60, False)
    assert found.short_s == 60
    assert found.denied > 5


def test_machines_of_a_lost_node_begin_anew_where_their_affinity_lets_them() -> None:
    lost = Change(time=10, event="node-deleted", uid="n1")
    nodes = (node("n1", 8, disk="fast"), node("n2", 8), node("n3", 8, disk="fast"))
    found = played(*nodes, machine("a", 2, "n1", disk="fast"), lost, duration_s=100)
    assert LOST_S + 2 < found.short_s < LOST_S + 5, "from when its node is lost until it runs on the third one"
    back = Change(
        time=70, event="node-added", uid="n1", allocatable=Vector.from_amounts(cpus(8)), labels={"disk": "fast"}
    )
    waits = played(*nodes[:2], machine("a", 2, "n1", disk="fast"), lost, back, duration_s=100)
    assert 60 < waits.short_s < 66, "only the node itself would take it, once it is back"


def test_a_node_that_is_back_in_time_keeps_its_machines() -> None:
    lost = Change(time=10, event="node-deleted", uid="n0")
    found = played(node("n0", 8), machine("a", 2, "n0"), lost, node("n0", 8, time=20))
    assert found.short_s == 10


@pytest.mark.rule("vm:B42")
def test_bounds_that_change_alone_bind_the_wish_that_stands() -> None:
    narrower = Change(
        time=40,
        event="pod-changed",
        uid="a",
        bounds=Bounds(min=Vector.from_amounts(cpus(1)), max=Vector.from_amounts(cpus(3))),
    )
    begin = (node("n0", 8), machine("a", 2, "n0"), machine("b", 6, "n0"), wish(20, "a", 4))
    assert played(*begin).short_s == 100
    found = played(*begin, narrower, msgspec.structs.replace(narrower, time=50), wish(60, "b", 5))
    assert 20 + 20 <= found.short_s < 45


@pytest.mark.rule("vm:B42")
def test_names_of_a_trace_are_nobody_elses() -> None:
    """Pods that the simulation makes have names of their own: those of a trace may end in numbers, too."""
    begin = (node("n1", 8), node("n2", 8), machine("a", 2, "n1"), machine("b", 6, "n1"))
    small = [machine(f"{name}-{number}", 0.25, "n2") for name in "ab" for number in range(1, 5)]
    gone = [Change(time=60, event="pod-deleted", uid=each.uid) for each in small]
    found = played(*begin, *small, wish(10, "a", 4), *gone, wish(70, "a", 5))
    assert len(found.moves) == 1
    assert [waited.granted for waited in found.waits.values()] == [True, True]
    assert found.short_s < 60


@pytest.mark.rule("vm:B42")
def test_a_machine_that_wishes_while_it_waits_for_a_node_asks_once_it_is_bound() -> None:
    later = (20.0, 20.01, 20.02, 20.03, 20.05, 20.06, 20.08, 20.1)
    nodes = (
        Change(time=at, event="node-added", uid=f"n{at}", allocatable=Vector.from_amounts(cpus(4))) for at in later
    )
    asks = (each for number, at in enumerate(later) for each in _begins_small(f"a{number}", at))
    found = played(*sorted((*nodes, *asks), key=lambda change: change.time))
    assert all(waited.granted for waited in found.waits.values())
    assert len(found.waits) == len(later)


def _begins_small(name: str, time: float) -> tuple[Change, Change]:
    return machine(name, 2, "", time=10), wish(time + 0.03, name, 3)


@pytest.mark.rule("vm:B42")
def test_a_node_that_is_lost_before_a_pod_is_bound_to_it_holds_nobody_up() -> None:
    lost = Change(time=10.02, event="node-deleted", uid="n1")
    found = played(node("n1", 8), machine("a", 2, "", time=10), lost, node("n2", 8, time=20))
    assert 10 < found.short_s < 20
