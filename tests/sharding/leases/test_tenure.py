"""For how long an executor may work, by numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.sharding.leases.membership import LeaseTimes
from situate.sharding.leases.tenure import Tenure

TIMES = LeaseTimes()


def begun(at: float = 0.0) -> Tenure:
    tenure = Tenure(TIMES)
    tenure.record_renewal(at)
    tenure.record_known_objects(at)
    assert tenure.may_begin(at)
    tenure.begin()
    return tenure


@pytest.mark.rule("sharding:S1")
def test_it_lasts_until_the_deadline_after_a_renewal_was_sent() -> None:
    tenure = begun()
    assert tenure.is_valid(9.9)
    assert not tenure.is_valid(10.0)
    tenure.record_renewal(4.0)
    tenure.record_known_objects(5.0)
    assert (tenure.is_valid(13.9), tenure.is_valid(14.0)) == (True, False)
    assert tenure.deadline == 14.0


@pytest.mark.rule("sharding:S1")
@pytest.mark.parametrize("what", ["record_renewal", "record_known_objects"])
def test_both_are_needed(what: str) -> None:
    tenure = begun()
    getattr(tenure, what)(9.0)
    assert not tenure.is_valid(10.0)


def test_late_answers_take_nothing_back() -> None:
    tenure = begun()
    tenure.record_renewal(8.0)
    tenure.record_renewal(4.0)
    tenure.record_known_objects(8.0)
    assert tenure.is_valid(17.9)


@pytest.mark.rule("sharding:S1")
def test_once_lost_it_stays_lost_until_it_is_begun_anew_by_what_is_newer() -> None:
    tenure = begun()
    tenure.lose(10.0)
    tenure.record_renewal(9.5)
    tenure.record_known_objects(9.5)
    assert not tenure.is_valid(9.6)
    assert not tenure.may_begin(11.0), "both are from before the loss"
    tenure.record_renewal(10.5)
    assert not tenure.may_begin(11.0)
    tenure.record_known_objects(10.6)
    assert tenure.may_begin(11.0)
    tenure.begin()
    assert (tenure.number, tenure.is_valid(11.0)) == (2, True)


def test_a_lease_that_was_given_back_is_none() -> None:
    tenure = begun()
    tenure.record_release()
    assert not tenure.is_valid(0.1)


@pytest.mark.rule("sharding:S1")
@given(st.floats(0, 100), st.floats(0, 100))
def test_a_process_has_ended_before_anybody_may_take_over(sent_at: float, late_s: float) -> None:
    """Whoever judges sees the renewal no earlier than it was sent, by a clock that may be a little faster."""
    tenure = begun(sent_at)
    noticed = tenure.deadline
    tenure.lose(noticed)
    taken_over = sent_at + late_s + TIMES.lease_s * (1 - TIMES.max_clock_drift)
    assert tenure.ends_process_at() <= taken_over + 1e-9
