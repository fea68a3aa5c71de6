"""The reference profile in the shipped path against its own procedures on plain listings, call after call."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.vpod.knative_era.schedule import MaxFillUp, PredicatesAndPriorities, era_decision
from situate.vpod.knative_era.state import Reservations
from situate.vpod.model.options import Options, PolicyName, Profile
from situate.vpod.model.vpod import Key, PlainVPod
from situate.vpod.placement.decide import commit, decide
from situate.vpod.policy.registry import DEFAULT_PLACING, DEFAULT_REMOVING
from situate.vpod.state.state import State
from tests.vpod.policy.clusters import STATEFULSET, cluster

SHIPPED = PredicatesAndPriorities(DEFAULT_PLACING, DEFAULT_REMOVING)
CALLS = st.lists(st.tuples(st.sampled_from("uvw"), st.integers(0, 9), st.booleans(), st.booleans()), max_size=12)


def without_empty(reserved: Reservations) -> dict[Key, dict[str, int]]:
    return {key: dict(by_pod) for key, by_pod in reserved.items() if by_pod}


@pytest.mark.parametrize("policy", [PolicyName.POLICY, PolicyName.PACK])
@given(zones=st.text("ab", min_size=1, max_size=4), calls=CALLS)
def test_the_kept_state_answers_as_fresh_listings_do(
    policy: PolicyName, zones: str, calls: list[tuple[str, int, bool, bool]]
) -> None:
    over = cluster(zones, capacity=4)
    mode = MaxFillUp() if policy is PolicyName.PACK else SHIPPED
    options = Options("ns", STATEFULSET, 4, policy=policy, profile=Profile.REFERENCE)
    vpods = {name: PlainVPod(Key("ns", name), 0) for name in "uvw"}
    state = State.rebuild(options, over.replicas, over.pods, vpods.values(), 0.0, over.nodes, reserved={})
    reserved: Reservations = {}
    for name, wanted, scheduled, written in calls:
        vpods[name] = PlainVPod(vpods[name].key, wanted, vpods[name].placements)
        state.observe_vpod(vpods[name], 0.0)
        if not scheduled:
            continue
        expected = era_decision(over, vpods.values(), reserved, vpods[name], mode)
        reserved = expected.reserved
        decision = decide(state, vpods[name], 0.0)
        commit(state, decision)
        assert (decision.placements, decision.left) == (expected.placements, expected.left)
        held = {key: {f"s-{o}": n for o, n in places.items()} for key, places in state.reservations().items()}
        assert held == without_empty(reserved)
        if written:
            vpods[name] = PlainVPod(vpods[name].key, wanted, decision.placements)
            status = state.observe_vpod(vpods[name], 0.0).status
            # what is reserved beyond the result is not in the status
            assert status == {int(p.pod_name.removeprefix("s-")): p.vreplicas for p in decision.placements}
