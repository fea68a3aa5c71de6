"""How much of a request is granted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from situate.vm.ledger.grants.arithmetic import joint_reservation, pod_after_grant, reservation_after_grant, try_grant
from situate.vm.model.pods_and_nodes import Pod
from situate.vm.model.resource_amounts import Amounts
from tests.vm.entries import GIB, amounts, node, pod

SMALL = st.integers(0, 60)
VECTORS = st.builds(Amounts.from_values, SMALL, SMALL)
UNITS = st.builds(Amounts.from_values, st.integers(1, 9), st.integers(1, 9))
OVERCOMMITS = st.builds(Amounts.from_values, st.integers(500, 3000), st.integers(500, 3000))
ASKERS = st.builds(
    lambda reserved, requested, factor, overcommit: replace(
        pod("a"), reserved=reserved, requested=requested, factor=factor, overcommit=overcommit
    ),
    VECTORS,
    VECTORS,
    UNITS,
    OVERCOMMITS,
)


@pytest.mark.rule("vm:C11")
@pytest.mark.parametrize(
    ("reserved", "requested", "factor", "overcommit", "room", "wanted"),
    [
        pytest.param(3, 3, 1, 1000, 0, 3, id="nothing to do"),
        pytest.param(3, 1, 1, 1000, 0, 1, id="a decrease at once, without any room"),
        pytest.param(3, 9, 2, 1000, 5, 7, id="whole units of what is there"),
        pytest.param(3, 4, 2, 1000, 5, 4, id="never more than is asked for"),
        pytest.param(3, 9, 2, 1000, 1, 3, id="less than a unit is nothing"),
        pytest.param(3, 9, 2, 2000, 2, 7, id="overcommitted room counts twice"),
        pytest.param(3, 9, 1, 1000, -5, 3, id="no room at all"),
        pytest.param(3, 9, 0, 1000, 4, 7, id="without a unit, one by one"),
    ],
)
def test_one_resource(reserved: int, requested: int, factor: int, overcommit: int, room: int, wanted: int) -> None:
    assert reservation_after_grant(reserved, requested, factor, overcommit, room) == wanted


@pytest.mark.rule("vm:C11")
def test_grants_go_up_to_the_total_and_not_to_the_watermark() -> None:
    asks = pod("a", 4, wants=12)
    grant = try_grant(node(10, [asks, pod("b", 4)], watermark=0.5), asks)
    assert grant.pod.reserved == amounts(6)
    assert grant.node.reserved == amounts(10)
    assert not grant.done


@pytest.mark.rule("vm:B4")
def test_room_that_is_kept_for_others_is_not_granted() -> None:
    asks = pod("a", 4, wants=8)
    assert try_grant(node(10, [asks]), asks, amounts(1)).pod.reserved == amounts(5)
    assert try_grant(node(10, [asks]), asks, amounts(0)).node == node(10, [asks])


@pytest.mark.rule("vm:I1")
@given(ASKERS, VECTORS, st.booleans())
def test_what_is_granted_fits_into_the_room_that_counts_after_overcommit(asks: Pod, room: Amounts, joint: bool) -> None:
    after = pod_after_grant(asks, room, joint=joint)
    for resource in range(2):
        before, now = asks.counted_amount(asks.reserved)[resource], after.counted_amount(after.reserved)[resource]
        assert now - before <= room[resource]
        assert after.reserved[resource] <= max(asks.reserved[resource], asks.requested[resource])


@pytest.mark.rule("vm:C13", "vm:I11")
@given(ASKERS, VECTORS, st.booleans())
def test_a_permit_is_the_request_or_between_it_and_what_was_there(asks: Pod, room: Amounts, joint: bool) -> None:
    after = pod_after_grant(asks, room, joint=joint)
    for had, wants, gets in zip(asks.reserved, asks.requested, after.reserved, strict=True):
        assert gets == wants if wants <= had else had <= gets <= wants


@pytest.mark.rule("vm:B30", "vm:I11")
@given(ASKERS, VECTORS)
def test_a_joint_grant_is_the_largest_number_of_units_for_which_all_have_room(asks: Pod, room: Amounts) -> None:
    grows = [r for r in range(2) if asks.requested[r] > asks.reserved[r]]
    assume(grows)

    def fits(count: int) -> bool:
        return all(count * asks.factor[r] <= room[r] * asks.overcommit[r] // 1000 for r in grows)

    most = max(count for count in range(400) if fits(count))
    got = joint_reservation(asks, room)
    for r in grows:
        assert got[r] == min(asks.requested[r], asks.reserved[r] + most * asks.factor[r])


@pytest.mark.rule("vm:B30")
@given(ASKERS, VECTORS)
def test_a_request_for_one_resource_is_the_same_jointly(asks: Pod, room: Amounts) -> None:
    single = replace(
        asks, requested=Amounts.from_values(asks.requested.cpu, min(asks.reserved.memory, asks.requested.memory))
    )
    assert pod_after_grant(single, room, joint=True) == pod_after_grant(single, room)


@pytest.mark.rule("vm:B30")
def test_a_joint_grant_is_never_lopsided() -> None:
    """Memory for one unit, CPU for eight: one unit of both."""
    asks = pod("a", 1, wants=3)
    room = Amounts.from_values(2000, GIB // 4)
    assert pod_after_grant(asks, room).reserved == Amounts.from_values(3000, GIB + GIB // 4)
    assert pod_after_grant(asks, room, joint=True).reserved == amounts(1.25)
