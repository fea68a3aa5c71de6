"""The admission policy and the parser have one grammar."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.spot.admission.policy_admission import on_demand_policy
from situate.spot.workloads.on_demand_policy import (
    LONGEST_POLICY,
    POLICY_PATTERN,
    STRATEGIES,
    ZERO_WEIGHTS_PATTERN,
    BadPolicy,
    parse_policy,
)
from situate.spot.workloads.owners import DEFAULT_KINDS, KINDS

pytestmark = pytest.mark.finding("N19")
_DIGITS = st.from_regex(r"[0-9]{0,12}", fullmatch=True) | st.integers(90, 105).map(lambda many: "0" * many)
_RATIOS = st.tuples(_DIGITS, _DIGITS, _DIGITS).map(lambda each: "base={},weight={}:{}".format(*each))
_PERCENTS = st.tuples(_DIGITS, st.integers(0, 200)).map(lambda each: f"{each[0]}{each[1]}%")
TEXTS = st.one_of(
    st.text(max_size=6),
    st.sampled_from([*STRATEGIES, "majority ", "All-spot"]),
    st.text("0123456789%=,:-basewight \n", max_size=24),
    _DIGITS,
    _DIGITS.map(lambda digits: digits + "%"),
    _PERCENTS,
    _RATIOS,
)


@pytest.mark.rule("spot:P10", "spot:P11")
@given(TEXTS)
def test_the_expression_matches_what_the_parser_reads(text: str) -> None:
    try:
        parse_policy(text)
        readable = True
    except BadPolicy:
        readable = False
    matched = re.fullmatch(POLICY_PATTERN, text) is not None and re.fullmatch(ZERO_WEIGHTS_PATTERN, text) is None
    assert (len(text) <= LONGEST_POLICY and matched) == readable


@pytest.mark.rule("spot:P11", "spot:B42")
def test_the_policy_covers_each_kind_that_spot_reads_and_namespaces() -> None:
    def resources(*kinds: str) -> list[str]:
        policy, _ = on_demand_policy("situate", {}, [KINDS[kind] for kind in kinds])
        rules = policy["spec"]["matchConstraints"]["resourceRules"]
        return [f"{each['resources'][0]}.{each['apiGroups'][0]}" for each in rules]

    assert resources(*DEFAULT_KINDS) == ["deployments.apps", "statefulsets.apps", "namespaces."]
    assert "rollouts.argoproj.io" in resources(*KINDS)
