from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.vm.ledger.grants.arithmetic import pod_after_grant
from situate.vm.model.migrations import ClaimState
from situate.vm.model.resource_amounts import Amounts
from situate.vm.planning.rules.shortfall import capacity_for, capacity_to_free, promised_capacity, shortage, whole_units
from tests.vm.planning.shapes import UNIT, claim, node, plain, state, units, vm


@pytest.mark.rule("vm:B16")
@pytest.mark.parametrize(
    ("wants", "count", "short"),
    [
        pytest.param(units(2), 0, units(0), id="nothing"),
        pytest.param(units(1), 0, units(0), id="less than it has"),
        pytest.param(units(5), 3, units(3), id="three units of both"),
        pytest.param(units(5, 3), 3, units(3, 1), id="more of one than of the other"),
        pytest.param(Amounts.from_values(2001, 2 * 2**30), 1, units(1, 0), id="a little is a whole unit"),
    ],
)
def test_what_is_short_is_counted_in_whole_units(wants: Amounts, count: int, short: Amounts) -> None:
    pod = vm("a", 2, wants)
    assert whole_units(pod) == count
    assert shortage(pod, count) == short


@pytest.mark.rule("vm:B35")
def test_a_pod_without_units_is_short_of_what_it_asks_for() -> None:
    pod = replace(plain("a", 2), requested=Amounts.from_values(2300, 2 * 2**30 + 7))
    assert shortage(pod, whole_units(pod)) == Amounts.from_values(300, 7)


@pytest.mark.rule("vm:B16", "vm:C7")
@given(st.integers(1, 9), st.integers(1, 9), st.sampled_from((500, 1000, 1500, 3000)), st.integers(1, 20))
def test_the_room_is_the_least_in_which_so_many_units_are_granted(
    cpu: int, memory: int, over: int, units_: int
) -> None:
    pod = vm("a", 1, units(1 + cpu, 1 + memory), overcommit=over)
    wanted = shortage(pod, min(units_, whole_units(pod)))
    room = capacity_for(pod, wanted)
    assert wanted.fits_within(pod_after_grant(pod, room).reserved - pod.reserved)
    for index in range(2):
        less = Amounts(tuple(each - (at == index) for at, each in enumerate(room)))
        assert not wanted.fits_within(pod_after_grant(pod, less).reserved - pod.reserved)


@pytest.mark.rule("vm:B4", "vm:B16")
def test_what_is_free_and_what_moves_will_leave_is_not_needed() -> None:
    pod = vm("a", 2, 8)
    seen = state(node("n1", 3, pod))
    assert capacity_to_free(seen, "n1", pod, 6) == UNIT + UNIT + UNIT + UNIT + UNIT
    coming = replace(seen, claims={"1": claim("1", "n1", "a", "b", units(2))})
    assert promised_capacity(coming, "a") == units(2)
    assert capacity_to_free(coming, "n1", pod, 6) == units(3)
    freed = {"1": replace(claim("1", "n1", "a", "b", units(2)), state=ClaimState.FREED)}
    assert promised_capacity(replace(coming, claims=freed), "a") == units(0), "it is free for it by now"
    others = replace(seen, claims={"1": claim("1", "n1", "other", "b", units(2))})
    assert capacity_to_free(others, "n1", pod, 6) == units(5)


@pytest.mark.rule("vm:B35")
def test_a_resize_that_the_kubelet_put_off_is_short_of_what_does_not_fit_beside_all_others() -> None:
    pod = replace(plain("a", 6), used=units(2), deferred=True)
    seen = state(node("n1", 10, pod, vm("b", 7)))
    assert (whole_units(pod), shortage(pod, 1)) == (1, units(4))
    assert capacity_to_free(seen, "n1", pod, 1) == units(3)
    assert capacity_to_free(state(node("n1", 13, pod, vm("b", 7))), "n1", pod, 1) == units(0)
    assert whole_units(replace(pod, used=units(6))) == 0
