from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from situate.kube.errors import Conflict
from situate.runtime.actuator import Actuator, Effect, bounded, raise_first_failure
from situate.runtime.outcomes import Retriable
from situate.testing.processes import World


def virtually(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with World() as world:
        world.run(main)


def test_applies_in_order_and_goes_on_after_a_failure() -> None:
    async def main() -> None:
        done: list[str] = []

        async def perform(action: str) -> int:
            if action == "bad":
                raise Conflict(409, "Conflict", "changed")
            done.append(action)
            return len(done)

        seen: list[Effect] = []
        actuator = Actuator[str, str](perform, observe=lambda outcome: seen.append(outcome.effect))
        outcomes = await actuator.apply("web", actuator.next_generation("web"), ["a", "bad", "b"])
        assert done == ["a", "b"]
        assert [each.effect for each in outcomes] == seen == [Effect.DONE, Effect.FAILED, Effect.DONE]
        assert [each.value for each in outcomes] == [1, None, 2]
        with pytest.raises(Conflict):
            raise_first_failure(outcomes)

    virtually(main)


@pytest.mark.rule("vpod:S7")
def test_asks_for_leadership_before_each_action() -> None:
    async def main() -> None:
        valid, done = [True], list[str]()

        async def perform(action: str) -> None:
            done.append(action)
            valid[0] = False

        actuator = Actuator[str, str](perform, may_write=lambda: valid[0])
        outcomes = await actuator.apply("web", actuator.next_generation("web"), ["a", "b", "c"])
        assert done == ["a"]
        assert [each.effect for each in outcomes] == [Effect.DONE, Effect.NOT_LEADING, Effect.NOT_LEADING]
        with pytest.raises(Retriable, match="another process may lead"):
            raise_first_failure(outcomes)

    virtually(main)


@pytest.mark.parametrize("fails", [False, True], ids=["late answer", "late error"])
def test_a_newer_decision_ends_the_older_one(fails: bool) -> None:
    async def main() -> None:
        done: list[str] = []

        async def perform(action: str) -> None:
            done.append(action)
            await asyncio.sleep(5)
            if fails:
                raise Conflict(409, "Conflict", "changed")

        actuator = Actuator[str, str](perform)
        old = asyncio.create_task(actuator.apply("web", actuator.next_generation("web"), ["a", "b"]))
        other = asyncio.create_task(actuator.apply("db", actuator.next_generation("db"), ["x"]))
        await asyncio.sleep(1)
        actuator.next_generation("web")
        outcomes = await old
        assert done == ["a", "x"]
        assert [each.effect for each in outcomes] == [Effect.SUPERSEDED] * 2
        raise_first_failure(outcomes)
        assert (await other)[0].effect is (Effect.FAILED if fails else Effect.DONE), "another key is another decision"

    virtually(main)


def test_a_defect_is_not_an_outcome() -> None:
    async def main() -> None:
        async def perform(_: str) -> None:
            raise ZeroDivisionError

        actuator = Actuator[str, str](perform)
        with pytest.raises(ZeroDivisionError):
            await actuator.apply("web", actuator.next_generation("web"), ["a"])

    virtually(main)


def test_a_write_is_waited_for_only_while_leadership_lasts() -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError):
            await bounded(asyncio.sleep(10), 2.0)
        assert asyncio.get_running_loop().time() == 2

    virtually(main)
