"""How many pods must be on demand (P10, P11)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.spot.workloads.on_demand_policy import (
    AllOnDemand,
    AllSpot,
    BadPolicy,
    Count,
    Default,
    LeastAndShare,
    Percent,
    on_demand_target,
    parse_policy,
)


@pytest.mark.rule("spot:P10", "spot:S25", "spot:S27", "spot:S28", "spot:S29", "spot:D11")
@pytest.mark.parametrize(
    ("text", "replicas", "stateful", "want"),
    [
        pytest.param("default", 1, False, 0, id="a Deployment of one may be spot"),
        pytest.param("default", 10, False, 0, id="so may a large one"),
        pytest.param("default", 1, True, 1, id="the only pod of a StatefulSet may not"),
        *[
            pytest.param("default", r, True, m, id=f"majority of {r}")
            for r, m in ((2, 2), (3, 2), (4, 3), (5, 3), (6, 4))
        ],
        pytest.param("7", 5, False, 5, id="never more than there are"),
        pytest.param("1" + "0" * 30, 5, False, 5, id="however many that is"),
        pytest.param("0", 5, True, 0, id="a StatefulSet may be weakened"),
        pytest.param("33%", 10, False, 4, id="a percentage rounds up"),
        pytest.param("0%", 10, False, 0, id="nothing of a hundred"),
        pytest.param("100%", 7, False, 7, id="all of it"),
        pytest.param("base=2,weight=1:3", 10, False, 4, id="two, then a quarter of eight"),
        pytest.param("base=2,weight=1:3", 1, False, 1, id="a base beyond the replicas"),
        pytest.param("base=0,weight=1:0", 4, False, 4, id="no weight on spot"),
        pytest.param("all-on-demand", 4, False, 4, id="all on demand"),
        pytest.param("all-in-spot", 4, True, 0, id="the author's name for all spot"),
        pytest.param("majority-in-on-demand", 4, False, 3, id="the author's name for more than half"),
        pytest.param("majority", 1, False, 1, id="more than half of one"),
        *[pytest.param(text, 0, True, 0, id=f"{text} of nothing") for text in ("default", "3", "50%", "majority")],
    ],
)
def test_targets(text: str, replicas: int, stateful: bool, want: int) -> None:
    assert on_demand_target(parse_policy(text), replicas, stateful=stateful) == want


@pytest.mark.rule("spot:P11", "spot:D11")
@pytest.mark.parametrize(
    "text",
    ["", " ", "-1", "+1", "1.5", "101%", "-5%", "50 %", "%", "abc", "3 pods", "３", "base=1", "base=1,weight=0:0",
     "base=-1,weight=1:1", "9" * 5000, "9" * 30 + "%", "Majority"],
)  # fmt: skip
def test_what_is_no_policy_is_named_and_never_guessed(text: str) -> None:
    with pytest.raises(BadPolicy, match="allowed: a number of pods"):
        parse_policy(text)


@pytest.mark.rule("spot:P10", "spot:D11")
@given(st.integers(0, 2000), st.integers(0, 3000), st.integers(0, 100), st.booleans())
def test_a_target_is_between_none_and_all(replicas: int, count: int, percent: int, stateful: bool) -> None:
    for policy in (Default(), Count(count), Percent(percent), AllOnDemand(), AllSpot(), LeastAndShare(count, percent)):
        assert 0 <= on_demand_target(policy, replicas, stateful=stateful) <= replicas
    share = on_demand_target(Percent(percent), replicas, stateful=stateful)
    assert share * 100 >= replicas * percent > (share - 1) * 100 or replicas * percent == 0
    majority = on_demand_target(Default(), replicas, stateful=True)
    assert 2 * majority > replicas or replicas == 0


@pytest.mark.rule("spot:S35")
def test_one_switch_keeps_one_pod_of_larger_deployments() -> None:
    assert [on_demand_target(Default(), r, stateful=False, safe_deployments=True) for r in (0, 1, 2, 9)] == [0, 0, 1, 1]
    assert on_demand_target(Default(), 5, stateful=True, safe_deployments=True) == 3


def test_a_policy_reads_back_as_it_was_written() -> None:
    for text in ("default", "3", "30%", "base=2,weight=1:3", "all-on-demand", "all-spot", "majority"):
        assert str(parse_policy(text)) == text
