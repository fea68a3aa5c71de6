"""Supervisors on virtual time, with executors that are the shipped ones: who gets what, and when."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator

import pytest

from situate.sharding.adapter import Content
from situate.sharding.controller.work import Work
from situate.sharding.executing import Outcome
from tests.sharding.controller.place import Member
from tests.sharding.controller.town import Town


@pytest.fixture
def town() -> Iterator[Town]:
    """Checked at the end."""
    made = Town()
    yield made
    made.close()


async def quick(_: Member, __: Content, ___: Work) -> Outcome:
    await asyncio.sleep(1)
    return Outcome.succeeded("Done")


@pytest.mark.rule("sharding:K3", "sharding:K5", "sharding:L1", "sharding:S4")
def test_objects_are_spread_over_executors(town: Town) -> None:
    members = [town.work(name) for name in ("a", "b", "c")]
    town.leader()
    for number in range(12):
        town.create(f"r-{number}")
    assert town.run(60, lambda: sum(len(each.running) for each in members) == 12)
    assert Counter(each.executor for each in town.views()) == {"a": 4, "b": 4, "c": 4}


def test_what_comes_later_is_assigned_within_a_second(town: Town) -> None:
    town.work("a")
    town.leader()
    town.run(30)
    town.create("r")
    assert town.run(1, lambda: "r" in town.placed)


@pytest.mark.rule("sharding:K8", "sharding:L2")
def test_a_crash_moves_the_objects_when_the_lease_has_run_out(town: Town) -> None:
    first, second = town.work("a"), town.work("b")
    town.leader()
    for number in range(4):
        town.create(f"r-{number}")
    assert town.run(30, lambda: len(first.running) == len(second.running) == 2)
    town.run(20)
    crashed_at = town.world.now
    first.crash()
    assert town.run(20, lambda: len(second.running) == 4)
    assert 10 < town.world.now - crashed_at < 17.1
    assert Counter(each.why for each in town.views()) == {"new": 2, "lost": 2}
