from __future__ import annotations

import pytest

from situate.sim.spot.results.account import EndCause, SpotAccount
from situate.spot.model.pods_nodes_workloads import Capacity


def account() -> SpotAccount:
    """Four pods of `web` serve, one of them on demand; nothing has been counted yet."""
    made = SpotAccount(0.0, discount=0.5)
    made.change_replicas(0.0, "web", 4)
    made.change_serving(0.0, "web", 4)
    made.change_running(0.0, Capacity.ON_DEMAND, 1)
    made.change_running(0.0, Capacity.SPOT, 3)
    return made.fork(100.0)


def test_seconds_without_service_are_added_up() -> None:
    made = account()
    made.change_serving(110.0, "web", -2)  # half
    made.change_serving(120.0, "web", -2)  # none
    made.change_serving(125.0, "web", 1)
    made.change_serving(135.0, "web", 3)
    found = made.close(200.0, ()).outcomes["web"]
    assert (found.outage_s, found.half_s, found.least_ready) == (5.0, 25.0, 0)
    assert found.pod_s_short == 10 * 2 + 5 * 4 + 10 * 3


def test_one_more_than_half_is_more_than_half() -> None:
    made = account()
    made.change_serving(110.0, "web", -1)
    assert made.close(120.0, ()).outcomes["web"].half_s == 0.0


def test_what_is_wanted_may_change() -> None:
    made = account()
    made.change_replicas(110.0, "web", 2)
    made.change_serving(115.0, "web", 2)
    assert made.close(120.0, ()).outcomes["web"].pod_s_short == 2 * 5
    made = account()
    made.change_replicas(110.0, "web", -3)
    made.change_serving(115.0, "web", -3)
    found = made.close(120.0, ()).outcomes["web"]
    assert (found.pod_s_short, found.replicas) == (0.0, 1)


def test_cost_is_a_share_of_all_on_demand() -> None:
    made = account()
    assert made.close(110.0, ()).cost == pytest.approx((1 + 3 * 0.5) / 4)
    made.change_running(110.0, Capacity.SPOT, -3)
    made.change_running(110.0, Capacity.ON_DEMAND, 3)
    assert made.close(120.0, ()).cost == pytest.approx((2.5 + 4) / 8)


def test_places_that_are_kept_are_paid_until_they_are_used() -> None:
    made = account()
    made.set_paid_places(100.0, 4)
    assert made.close(110.0, ()).cost == pytest.approx((4 + 1.5) / 4)
    made.change_running(110.0, Capacity.ON_DEMAND, 3)
    assert made.close(120.0, ()).cost == pytest.approx((4 + 1.5) / 4)


def test_samples_are_what_held_at_their_moment() -> None:
    made = account()
    made.change_serving(110.0, "web", -3)
    made.change_running(115.0, Capacity.ON_DEMAND, 3)
    played = made.close(120.0, (0.0, 9.9, 10.0, 14.0, 20.0))
    assert played.ready == (4, 4, 1, 1, 1)
    assert played.on_demand == (1, 1, 1, 1, 4)
    assert played.least_ready == 1


def test_restarts_are_those_that_nobody_asked_for() -> None:
    made = account()
    for cause in (*EndCause, EndCause.LOST):
        made.count_end(cause)
    assert made.close(110.0, ()).restarts == 5
