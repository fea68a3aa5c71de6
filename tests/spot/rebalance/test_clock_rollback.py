"""A clock that was set back leaves nothing waiting for times that are far away (F15)."""

from __future__ import annotations

import pytest

from situate.spot.model.policy_limits import EvictionLimits, Limits, ReturnConditions
from situate.spot.nodes.pool_stability import PoolMemory, Pools
from situate.spot.rebalance.clock_rollback import correct_future_times
from situate.spot.rebalance.decision import State
from situate.spot.workloads.cluster_objects import WorkloadMemory

NOW, AHEAD = 1_000.0, 100_000.0
LIMITS = Limits(evictions=EvictionLimits(stop_s=300.0), returns=ReturnConditions(distrust_s=600.0))


@pytest.mark.rule("spot:F15")
def test_what_lies_ahead_begins_now() -> None:
    memory = WorkloadMemory(moved="uid", moved_at=AHEAD, stopped_until=AHEAD, returned_at=AHEAD, awaited_since=AHEAD)
    pool = PoolMemory(interrupted_at=AHEAD, flaps=(900.0, AHEAD), distrusted_until=AHEAD)
    found = correct_future_times(
        State({"web": memory}, Pools({"a": pool}, {"spot-1": "a"}), (900.0, AHEAD)), LIMITS, NOW
    )
    since_now = WorkloadMemory(moved="uid", moved_at=NOW, stopped_until=NOW + 300.0, returned_at=NOW, awaited_since=NOW)
    assert found.memories == {"web": since_now}
    assert found.pools == Pools({"a": PoolMemory(NOW, (900.0, NOW), NOW + 600.0)}, {"spot-1": "a"})
    assert found.moved_at == (900.0, NOW)


@pytest.mark.rule("spot:F15", "spot:I12")
def test_what_is_over_or_lasts_as_long_as_it_may_stays() -> None:
    memory = WorkloadMemory(moved_at=NOW, stopped_until=NOW + 300.0, returned_at=None)
    pools = Pools({"a": PoolMemory(990.0, (900.0,), NOW + 600.0)}, {})
    state = State({"web": memory}, pools, (NOW,))
    assert correct_future_times(state, LIMITS, NOW) is state
