from __future__ import annotations

import asyncio
import socket

import aiohttp
import pytest

from situate.runtime.metrics import Metrics
from situate.runtime.process.health import CannotListen, Health, HealthServer


def test_a_report_names_what_is_wrong() -> None:
    health = Health()
    health.add_readiness("watch pods", lambda: "cannot list pods: 403 Forbidden")
    health.add_readiness("leader", lambda: None)
    report = health.readiness_report()
    assert not report.ok
    assert report.text("readyz") == (
        "[+]ping ok\n[-]watch pods failed: cannot list pods: 403 Forbidden\n[+]leader ok\nreadyz check failed\n"
    )
    assert health.liveness_report().ok


def test_a_check_that_fails_itself_is_a_reason() -> None:
    health = Health()
    health.add_liveness("broken", lambda: str(1 // 0))
    assert health.liveness_report().reasons["broken"] == (
        "the check raised ZeroDivisionError: integer division or modulo by zero"
    )


async def test_answers_over_http_until_it_is_stopped() -> None:
    health = Health()
    reason: list[str | None] = [None]
    health.add_readiness("watch pods", lambda: reason[0])
    server = HealthServer("127.0.0.1:0", health, Metrics().render)
    task = asyncio.create_task(server.run())
    await server.wait_listening()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session:

        async def get(path: str) -> tuple[int, str]:
            async with session.get(path) as response:
                return response.status, await response.text()

        assert await get("/healthz") == (200, "ok")
        assert await get("/livez/ping") == (200, "ok")
        assert await get("/readyz?verbose") == (200, "[+]ping ok\n[+]watch pods ok\nreadyz check passed\n")
        reason[0] = "it is not listed yet"
        status, text = await get("/readyz")
        assert (status, "[-]watch pods failed: it is not listed yet" in text) == (503, True)
        assert (await get("/readyz/ping"))[0] == 200
        assert await get("/readyz/other") == (404, "no check other; the checks are ping, watch pods\n")
        status, text = await get("/metrics")
        assert (status, "situate_configuration_rejected 0.0" in text) == (200, True)
    server.stop()
    await task


async def test_what_is_no_request_is_refused_and_fills_no_log(caplog: pytest.LogCaptureFixture) -> None:
    server = HealthServer("127.0.0.1:0", Health(), Metrics().render)
    task = asyncio.create_task(server.run())
    await server.wait_listening()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
    assert b" 400 " in (await reader.read()).splitlines()[0]
    writer.close()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert not [each for each in caplog.records if each.name.startswith("aiohttp")]


@pytest.mark.finding("N13")
async def test_an_address_that_is_taken_is_told_with_the_argument_that_takes_another() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        other = f"127.0.0.1:{taken.getsockname()[1] + 1}"
        with pytest.raises(CannotListen) as told:
            await HealthServer(address, Health(), bytes).run()
        assert str(told.value) == (
            f"cannot listen on health.address {address}: address already in use; choose another address with "
            f"--set health.address={other}, or turn the server off with --set health.address=none"
        )
        with pytest.raises(CannotListen) as told:
            await HealthServer(address, Health(), bytes, setting="--health-address").run()
        assert str(told.value).endswith(f"; choose another address with --health-address {other}")


@pytest.mark.parametrize("address", ["nowhere", "localhost:", ":http", "127.0.0.1:65536"])
async def test_an_address_that_is_none_is_told_in_a_sentence(address: str) -> None:
    server = HealthServer(address, Health(), lambda: b"")
    with pytest.raises(CannotListen, match=f"health.address: found '{address}', allowed: HOST:PORT"):
        await server.run()
