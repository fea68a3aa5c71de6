from __future__ import annotations

import asyncio
import gc

import pytest

from situate.runtime.process.startup import COLLECT_AFTER, pause_collector, run_process


@pytest.mark.parametrize("enabled", [True, False])
def test_pauses_and_freezes_and_leaves_the_setting_as_it_was(enabled: bool) -> None:
    frozen = gc.get_freeze_count()
    try:
        if not enabled:
            gc.disable()
        with pause_collector():
            assert not gc.isenabled()
            made: list[list[object]] = [[] for _ in range(1000)]
        assert gc.isenabled() is enabled
        assert gc.get_freeze_count() >= frozen + len(made)
    finally:
        gc.enable()


def test_a_process_collects_seldom_and_leaves_the_setting_as_it_was() -> None:
    async def threshold() -> tuple[int, int, int]:
        return gc.get_threshold()

    before = gc.get_threshold()
    assert run_process(threshold()) == COLLECT_AFTER != before
    assert gc.get_threshold() == before


def test_a_process_runs_on_the_loop_of_the_extra_where_it_is_installed() -> None:
    async def loop_module() -> str:
        return type(asyncio.get_running_loop()).__module__

    assert run_process(loop_module()) == "uvloop"  # a development dependency


async def _written_too_late(transport: asyncio.WriteTransport) -> RuntimeError:
    """What uvloop says once the socket itself is closed, which is some turns of the loop later."""
    for _ in range(1000):
        await asyncio.sleep(0)
        try:
            transport.write(b"too late")
        except RuntimeError as error:
            return error
    raise AssertionError("uvloop writes to what it has closed")


def test_says_what_breaks_in_a_callback_but_not_what_comes_too_late_for_a_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
        transport, _ = await loop.create_connection(asyncio.Protocol, *server.sockets[0].getsockname())
        server.close()
        transport.abort()
        late = await _written_too_late(transport)
        loop.call_exception_handler({"message": "late", "exception": late, "transport": transport})
        loop.call_exception_handler({"message": "ours", "exception": ValueError("broken"), "transport": transport})
        loop.call_soon(lambda: 1 // 0)

    run_process(main())
    said = [record.getMessage().splitlines()[0] for record in caplog.records]
    assert [line.split(" <")[0] for line in said] == ["ours", "Exception in callback"], said
