"""The text that keeps valid policies: what is written is read again, and its size is bounded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.spot.workloads.on_demand_policy import (
    AllOnDemand,
    AllSpot,
    Count,
    Default,
    LeastAndShare,
    Majority,
    Percent,
    Policy,
    Ratio,
    decode_policy,
    encode_policy,
    on_demand_target,
)
from situate.spot.workloads.on_demand_target import TargetRules, stricter_policy
from situate.spot.workloads.policy_record import MOST_BYTES, from_text, to_text
from tests.spot.builders import owner

_NUMBERS = st.integers(0, 10**9 - 1)
POLICIES: st.SearchStrategy[Policy] = st.one_of(
    st.sampled_from([Default(), AllOnDemand(), AllSpot(), Majority()]),
    st.builds(Count, st.integers(0, 10**100 - 1)),
    st.builds(Percent, st.integers(0, 100)),
    st.builds(Ratio, _NUMBERS, _NUMBERS.filter(bool), _NUMBERS),
    st.builds(LeastAndShare, st.integers(0, 10**100 - 1), st.integers(0, 100)),
)
pytestmark = pytest.mark.finding("N19")


@pytest.mark.rule("spot:P11")
@given(POLICIES, st.integers(0, 2**31 - 1), st.booleans())
def test_a_recorded_policy_asks_for_as_many_pods(policy: Policy, replicas: int, stateful: bool) -> None:
    text = encode_policy(policy)
    found = decode_policy(text)
    assert found is not None
    assert len(text) <= 44
    assert on_demand_target(found, replicas, stateful=stateful) == on_demand_target(policy, replicas, stateful=stateful)


@pytest.mark.rule("spot:P11")
def test_what_is_written_is_read_again_and_damage_says_nothing() -> None:
    policies: dict[str, Policy] = {"uid-b": Count(3), "uid-a": Ratio(2, 1, 3), "uid-c": LeastAndShare(2, 70)}
    text, missing = to_text(policies)
    assert text == "uid-a base=2,weight=1:3\nuid-b 3\nuid-c min-on-demand=2,spot-percentage=70\n"
    assert (from_text(text), missing) == (policies, 0)
    assert from_text("uid-a lots\n\nuid-b\nuid-c 4\n") == {"uid-c": Count(4)}
    assert from_text("uid-a min-on-demand=1,spot-percentage=170") == {}


@pytest.mark.rule("spot:P11")
def test_ten_thousand_of_the_longest_policies_fit_and_new_ones_push_none_out() -> None:
    longest: Policy = LeastAndShare(2**31 - 1, 100)
    many = {f"{number:036}": longest for number in range(10_000)}
    text, missing = to_text(many)
    assert (len(from_text(text)), missing) == (10_000, 0)
    more = {f"-{number:035}": longest for number in range(10_000)}  # first by name
    full, left_out = to_text({**more, **many}, from_text(text))
    assert len(full) <= MOST_BYTES
    assert many.items() <= from_text(full).items()
    assert left_out == 20_000 - len(from_text(full))


@pytest.mark.rule("spot:P11")
def test_of_two_valid_values_the_stricter_holds() -> None:
    web = owner(10)
    assert stricter_policy(Count(3), Percent(50), web, TargetRules()) == Percent(50)
    assert stricter_policy(Count(5), Percent(50), web, TargetRules()) == Count(5), "of equals the first"
    assert stricter_policy(None, Count(1), web, TargetRules()) == Count(1)
    assert stricter_policy(Count(1), None, web, TargetRules()) == Count(1)
    assert stricter_policy(None, None, web, TargetRules()) is None
