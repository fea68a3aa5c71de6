"""Where loads are read (C36)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from situate.vm.agent.controller.load_sources import (
    MAX_GUEST_ANSWER,
    AnnotationLoadSource,
    FileLoadSource,
    PrometheusLoadSource,
    select_load_source,
)
from situate.vm.agent.decide.goal import CacheMetrics, SystemMetrics
from situate.vm.agent.model.settings import CacheMetricsAccess, MetricsAccess, SystemMetricsAccess
from situate.vm.agent.protocol.machines import MachineSnapshot
from situate.vm.agent.protocol.samples import UNREPORTED_MEMORY, NoMetrics
from situate.vm.model.pods_and_nodes import Ref
from tests.kube.servers import serving
from tests.vm.agent.builders import guest
from tests.waiting import WITHIN_S

pytestmark = pytest.mark.rule("vm:C36")

MACHINE = MachineSnapshot(Ref("shop", "a", "u"), "vm-a", "127.0.0.1", "n1", "Running", "situate-vm", True, guest(), 0)
TEXT = """# TYPE host_load1 gauge
host_load1 1.5
host_load5 1
host_memory_total_bytes 4e9
host_memory_available_bytes 3e9
host_memory_cached_bytes{instance="x"} 5e8
lfc_approximate_working_set_size_windows{duration_seconds="60"} 10
lfc_approximate_working_set_size_windows{duration_seconds="120"} 20
lfc_hits 7
"""


def access(port: int, source: str = "guest", endpoint: str | None = None) -> MetricsAccess:
    return MetricsAccess(
        source=source,  # type: ignore[arg-type]  # a literal of the table
        endpoint=endpoint,
        system=SystemMetricsAccess(port=port, request_timeout_seconds=WITHIN_S),
        lfc=CacheMetricsAccess(port=port, request_timeout_seconds=WITHIN_S),
    )


async def test_a_guest_is_scraped_at_its_own_address() -> None:
    async def metrics(request: web.Request) -> web.Response:
        return web.Response(text=TEXT if request.path == "/metrics" else "")

    async with serving(metrics) as port, aiohttp.ClientSession() as session:
        loads = select_load_source(access(port), session)
        assert await loads.system(MACHINE) == SystemMetrics(1.5, 1.0, 1e9 + UNREPORTED_MEMORY, 5e8)
        assert await loads.cache(MACHINE) == CacheMetrics((10.0, 20.0))


async def test_one_endpoint_speaks_of_all_machines() -> None:
    asked: list[str] = []

    async def metrics(request: web.Request) -> web.Response:
        asked.append(request.path)
        lines = [f'{line.split()[0]}{{namespace="shop",name="a"}} {line.split()[1]}' for line in TEXT.splitlines()[1:5]]
        return web.Response(text="\n".join([*lines, 'host_load1{name="b"} 9', TEXT.splitlines()[5], ""]))

    async with serving(metrics) as port, aiohttp.ClientSession() as session:
        endpoint = f"http://127.0.0.1:{port}/of/{{namespace}}/{{name}}"
        loads = PrometheusLoadSource(session, access(1, "endpoint", endpoint))
        found = await loads.system(MACHINE)
    assert asked == ["/of/shop/a"]
    assert isinstance(found, SystemMetrics)
    assert found.load1 == 1.5


@pytest.mark.parametrize(
    ("status", "text", "why"),
    [
        (404, "", "answered with status 404"),
        (200, "", "host_load1 is missing"),
        (200, "<html><body>", "host_load1 is missing"),
        (200, 'host_load1{a="b 3', "is not Prometheus text"),
        (200, "host_load1 much", "is not Prometheus text"),
        (200, TEXT.replace("3e9", "NaN"), "host_memory_available_bytes is nan"),
        (200, TEXT + "#" * MAX_GUEST_ANSWER, f"longer than {MAX_GUEST_ANSWER} bytes"),
    ],
)
async def test_what_is_no_load_is_a_value(status: int, text: str, why: str) -> None:
    async def metrics(_: web.Request) -> web.Response:
        return web.Response(status=status, text=text)

    async with serving(metrics) as port, aiohttp.ClientSession() as session:
        found = await PrometheusLoadSource(session, access(port)).system(MACHINE)
    assert isinstance(found, NoMetrics)
    assert why in found.why


async def test_what_a_guest_says_beside_or_at_length_is_not_read() -> None:
    labels = ",".join(f'a{number}="b"' for number in range(1000))

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(text=f'pg_up{{x="\n{TEXT}host_load1{{{labels}}} 9\n')

    async with serving(metrics) as port, aiohttp.ClientSession() as session:
        found = await PrometheusLoadSource(session, access(port)).system(MACHINE)
    assert found == SystemMetrics(1.5, 1.0, 1e9 + UNREPORTED_MEMORY, 5e8)


async def test_an_endpoint_may_say_more_than_a_guest() -> None:
    async def metrics(_: web.Request) -> web.Response:
        return web.Response(text=TEXT + "#" * MAX_GUEST_ANSWER)

    async with serving(metrics) as port, aiohttp.ClientSession() as session:
        loads = PrometheusLoadSource(session, access(1, "endpoint", f"http://127.0.0.1:{port}/"))
        assert isinstance(await loads.system(MACHINE), SystemMetrics)


async def test_a_guest_that_is_not_there_is_a_value() -> None:
    async def metrics(_: web.Request) -> web.Response:
        return web.Response()

    async with serving(metrics) as port:
        pass
    async with aiohttp.ClientSession() as session:
        found = await PrometheusLoadSource(session, access(port)).cache(MACHINE)
    assert isinstance(found, NoMetrics)
    assert "the request to " in found.why


async def test_the_machine_itself_says_it() -> None:
    loads = AnnotationLoadSource()
    said = replace(MACHINE, load='{"load1": 2, "memoryUsed": 5}')
    assert await loads.system(said) == SystemMetrics(2.0, 2.0, 5.0, 0.0)
    for missing in (
        await loads.cache(said),
        await loads.system(MACHINE),
        await loads.system(replace(MACHINE, load="x")),
    ):
        assert isinstance(missing, NoMetrics)


async def test_a_file_says_it_and_may_change(tmp_path: Path) -> None:
    file = tmp_path / "loads.yaml"
    loads = FileLoadSource(file)
    assert isinstance(await loads.system(MACHINE), NoMetrics)
    file.write_text("shop/a: {load1: 3, workingSetPages: [1]}\n")
    assert await loads.system(MACHINE) == SystemMetrics(3.0, 3.0, 0.0, 0.0)
    assert await loads.cache(MACHINE) == CacheMetrics((1.0,))
    for text in ("shop/b: {load1: 3}\n", "shop/a: {load1: high}\n", "[", "shop/a"):
        file.write_text(text)
        assert isinstance(await loads.system(MACHINE), NoMetrics)
