from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from situate.kube.errors import Conflict, Unreachable
from situate.kube.retry.backoff import Backoff
from situate.runtime.reconcile.outcomes import BrokenInvariant, Result, Retriable, Terminal
from situate.runtime.reconcile.reconciler import Attempt, Reconciler, Verdict
from situate.runtime.reconcile.workqueue import WorkQueue
from situate.testing.virtual_time.processes import World


def virtually(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with World() as world:
        world.run(main)


def queue() -> WorkQueue[str]:
    return WorkQueue(rng=random.Random(1), backoff=Backoff(initial_s=1.0, cap_s=60.0, jitter=0.0))


@pytest.mark.parametrize(
    ("outcome", "verdict", "again_after_s"),
    [
        pytest.param(Result(), Verdict.SUCCESS, None, id="done: only an event calls for it"),
        pytest.param(Result(requeue_after=7.0), Verdict.REQUEUED, 7.0, id="asks to be seen again"),
        pytest.param(Retriable("full", after_s=5.0), Verdict.RETRIABLE, 5.0, id="says when"),
        pytest.param(Retriable("full"), Verdict.RETRIABLE, 1.0, id="its own back-off"),
        pytest.param(Conflict(409, "Conflict", "changed"), Verdict.RETRIABLE, 1.0, id="the API server says no"),
        pytest.param(
            Conflict(409, "Conflict", "changed", retry_after_s=3.0), Verdict.RETRIABLE, 3.0, id="and says when"
        ),
        pytest.param(Unreachable("no answer", outcome_unknown=True), Verdict.RETRIABLE, 1.0, id="no answer"),
        pytest.param(Terminal("bad spec"), Verdict.TERMINAL, None, id="rests until its next event"),
        pytest.param(ZeroDivisionError("oh"), Verdict.UNEXPECTED, 1.0, id="a defect is tried again"),
    ],
)
def test_each_outcome_has_its_consequence(
    outcome: Result | Exception, verdict: Verdict, again_after_s: float | None
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        begun: list[float] = []
        seen: list[Attempt[str]] = []

        async def reconcile(_: str) -> Result:
            begun.append(loop.time())
            if len(begun) > 1:
                return Result()
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        keys = queue()
        keys.add("a")
        reconciler = Reconciler("test", keys, reconcile, observe=seen.append)
        task = asyncio.create_task(reconciler.run())
        await asyncio.sleep(1000)
        assert begun == ([0.0] if again_after_s is None else [0.0, again_after_s])
        assert (seen[0].verdict, seen[0].retry_after_s) == (verdict, again_after_s)
        assert keys.failures("a") == 0
        reconciler.stop()
        await task

    virtually(main)


def test_one_bad_key_does_not_stop_the_others() -> None:
    async def main() -> None:
        done: list[str] = []

        async def reconcile(key: str) -> Result:
            if key == "bad":
                raise ValueError("bad")
            done.append(key)
            return Result()

        keys = queue()
        for key in ("bad", "a", "b"):
            keys.add(key)
        reconciler = Reconciler("test", keys, reconcile)
        task = asyncio.create_task(reconciler.run())
        await asyncio.sleep(100)
        assert done == ["a", "b"]
        assert keys.failures("bad") == 7
        reconciler.stop()
        await task

    virtually(main)


def test_stopping_finishes_what_is_in_flight_and_takes_nothing_more() -> None:
    async def main() -> None:
        done: list[str] = []

        async def reconcile(key: str) -> Result:
            await asyncio.sleep(10)
            done.append(key)
            return Result(requeue_after=1)

        keys = queue()
        for key in "abcd":
            keys.add(key)
        reconciler = Reconciler("test", keys, reconcile, workers=2)
        task = asyncio.create_task(reconciler.run())
        await asyncio.sleep(1)
        reconciler.stop()
        await task
        assert done == ["a", "b"]

    virtually(main)


def test_a_broken_invariant_stops_everything() -> None:
    async def main() -> None:
        async def reconcile(key: str) -> Result:
            await asyncio.sleep(1 if key == "broken" else 100)
            raise BrokenInvariant("pod web-0 holds 3 vreplicas twice")

        keys = queue()
        keys.add("slow")
        keys.add("broken")
        with pytest.raises(BrokenInvariant, match="web-0"):
            await Reconciler("test", keys, reconcile, workers=2).run()
        assert asyncio.get_running_loop().time() == 1

    virtually(main)
