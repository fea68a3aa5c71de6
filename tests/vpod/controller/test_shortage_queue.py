"""Who takes room first among vpods that are short: the round of retries, and whoever comes up before its turn."""

from __future__ import annotations

import asyncio
import random

import pytest

from situate.runtime.reconcile.workqueue import WorkQueue
from situate.testing.virtual_time.processes import World
from situate.testing.vpod.builders import make_placements, schedule, state, vpod
from situate.vpod.controller.shortage_queue import LONGEST_WAIT_S, ShortageQueue
from situate.vpod.model.vpod import Key
from situate.vpod.placement.decide import retry_order
from situate.vpod.state.state import State

OLD, YOUNG = Key("a", "old"), Key("a", "young")


def short() -> State:
    """Two vpods that are short, and then a pod with room."""
    kept = state(1, 2, [vpod("a/full", 2, make_placements(2))])
    schedule(kept, vpod("a/young", 1), now=2.0)
    schedule(kept, vpod("a/old", 1), now=3.0)
    kept.vpods[OLD].short_since = 1.0
    kept.remove_vpod(Key("a", "full"), 4.0)
    return kept


def begun(kept: State) -> tuple[ShortageQueue, WorkQueue[Key]]:
    queue: WorkQueue[Key] = WorkQueue(rng=random.Random(1))
    turns = ShortageQueue(queue)
    turns.start_round(retry_order(kept))
    return turns, queue


@pytest.mark.rule("vpod:L5")
async def test_who_comes_up_too_early_is_queued_again_after_those_before_it() -> None:
    kept = short()
    turns, queue = begun(kept)
    assert not turns.must_wait(kept, OLD)
    assert turns.must_wait(kept, YOUNG)
    turns.mark_decided(OLD)
    assert await queue.get() == YOUNG
    assert not turns.must_wait(kept, YOUNG)


async def test_nobody_gives_way_without_room_or_without_being_short() -> None:
    kept = short()
    turns, _ = begun(kept)
    assert not turns.must_wait(kept, Key("a", "unknown"))
    schedule(kept, vpod("a/full", 2))
    assert not kept.open
    assert not turns.must_wait(kept, YOUNG)


@pytest.mark.rule("vpod:L2")
def test_a_write_that_is_lost_does_not_hold_up_everybody() -> None:
    async def main() -> None:
        kept = short()
        turns, _ = begun(kept)
        assert turns.must_wait(kept, YOUNG)
        await asyncio.sleep(LONGEST_WAIT_S)
        assert not turns.must_wait(kept, YOUNG)

    with World() as world:
        world.run(main)


async def test_who_is_kept_short_by_a_rule_is_not_waited_for() -> None:
    kept = short()
    turns, _ = begun(kept)
    kept.vpods[OLD].rule = "QuotaExceeded"
    assert not turns.must_wait(kept, YOUNG)
