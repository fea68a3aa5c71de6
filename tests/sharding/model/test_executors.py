"""Of two incarnations of one id, and of two revisions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.sharding.assignment.executor_choice import newest_revision_executors
from situate.sharding.model.executors import ExecutorStatus, LiveExecutor, Members
from tests.sharding.deciding import executor, members

A_OLD = executor("a", ExecutorStatus.UNHEALTHY, uid="old", expires_at=50.0)


@pytest.mark.rule("sharding:X4", "sharding:S4")
@given(st.permutations([A_OLD, executor("a", uid="new", expires_at=40.0), executor("b")]))
def test_the_incarnation_whose_pod_is_there_goes_by_the_id(order: list[LiveExecutor]) -> None:
    found = members(*order)
    assert found.current["a"].uid == "new"
    assert set(found.eligible) == {"a", "b"}
    assert found.eligible["a"].uid == "new"


def test_of_two_that_are_equally_well_the_one_that_renewed_last() -> None:
    found = members(executor("a", uid="1", expires_at=50.0), executor("a", uid="2", expires_at=51.0))
    assert found.current["a"].uid == "2"
    assert found.next_expiry == 50.0
    assert Members(15.0).next_expiry is None


@pytest.mark.rule("sharding:B5")
def test_the_newest_revision_is_preferred_only_while_there_are_two() -> None:
    two = members(executor("a", revision="1"), executor("b", revision="2"), newest_revision="2")
    assert newest_revision_executors(two) == {"b"}
    assert newest_revision_executors(members(executor("a", revision="2"), newest_revision="2")) == frozenset()
