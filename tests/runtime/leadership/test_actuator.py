from __future__ import annotations

import asyncio

import pytest

from situate.runtime.leadership.actuator import ANSWER_S, Actuator


class Server:
    """Carries out a request after a while, whoever waits for it."""

    def __init__(self, seconds: float = 1.0) -> None:
        self.seconds = seconds
        self.carried_out = 0

    async def request(self) -> int:
        await asyncio.sleep(self.seconds)
        self.carried_out += 1
        return self.carried_out


class NotNow(Exception):
    pass


@pytest.mark.rule("vpod:S7")
@pytest.mark.looptime
async def test_nothing_is_sent_by_who_may_not_write() -> None:
    def refuse() -> None:
        raise NotNow

    server = Server()
    with pytest.raises(NotNow):
        await Actuator(refuse).write(server.request())
    await asyncio.sleep(10.0)
    assert server.carried_out == 0


@pytest.mark.rule("vpod:S7")
@pytest.mark.looptime
async def test_a_term_waits_for_answers_of_writes_that_nobody_awaits_any_more() -> None:
    server, actuator = Server(), Actuator(lambda: None)
    waiting = asyncio.ensure_future(actuator.write(server.request()))
    await asyncio.sleep(0.1)
    waiting.cancel()
    await actuator.wait_answers()
    assert server.carried_out == 1
    assert asyncio.get_running_loop().time() == pytest.approx(1.0)


@pytest.mark.looptime
async def test_it_does_not_wait_for_ever() -> None:
    actuator = Actuator(lambda: None)
    waiting = asyncio.ensure_future(actuator.write(Server(3600.0).request()))
    await asyncio.sleep(0.0)
    await actuator.wait_answers()
    assert asyncio.get_running_loop().time() == pytest.approx(ANSWER_S)
    waiting.cancel()


@pytest.mark.looptime
async def test_the_answer_and_the_failure_go_to_who_asked() -> None:
    async def failing() -> None:
        raise ConnectionError("no")

    actuator = Actuator(lambda: None)
    assert await actuator.write(Server().request()) == 1
    with pytest.raises(ConnectionError):
        await actuator.write(failing())
