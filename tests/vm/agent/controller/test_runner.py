"""One machine on virtual time: schedulers, API servers and guests that are slow, lying, repeating or absent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from situate.objects.kinds.unstructured import Unstructured, unstructured_from
from situate.vm.agent.controller.machine_writer import WriteFailure, WrittenMachine
from situate.vm.agent.controller.metrics import AgentMetrics
from situate.vm.agent.controller.monitor import Monitor, MonitorFailed, MonitorLost
from situate.vm.agent.controller.runner import Runner, RunnerDependencies
from situate.vm.agent.controller.stand_in_monitor import StandInMonitor
from situate.vm.agent.decide.core import SizeChange
from situate.vm.agent.decide.goal import CacheMetrics, SystemMetrics
from situate.vm.agent.decide.scaling import Scaling
from situate.vm.agent.model.settings import AgentSettings
from situate.vm.agent.protocol.machines import MachineSnapshot, parse_machine
from situate.vm.agent.protocol.permits import BadAnswer, PermitResponse
from situate.vm.agent.protocol.samples import NoMetrics
from situate.vm.api.parse_errors import Part, Place
from situate.vm.api.quantities import parse_amounts
from situate.vm.model.resource_amounts import Amounts
from tests.vm.agent.builders import GIB, needs, units, vm_content

pytestmark = pytest.mark.looptime

SLOW_S = 0.1
"""Of whatever is asked."""
Answer = Callable[[Amounts], PermitResponse | BadAnswer]


def now_s() -> float:
    return asyncio.get_running_loop().time()


class Scheduler:
    """Grants what `answer` says; notes what it is asked for."""

    def __init__(self) -> None:
        self.answer: Answer = PermitResponse
        self.asked: list[tuple[float, Amounts, Amounts | None]] = []
        self.takes_s = SLOW_S
        self.numbers: list[tuple[str, int] | None] = []

    async def ask(self, body: bytes) -> PermitResponse | BadAnswer:
        said = json.loads(body)
        assert said["pod"] == {"namespace": "default", "name": "vm-a-x"}
        resources = parse_amounts(Part(Place("", ""), said["resources"]))
        last = said["lastPermit"]
        permit = None if last is None else parse_amounts(Part(Place("", ""), last))
        self.asked.append((round(now_s(), 1), resources, permit))
        self.numbers.append((said["run"], said["sequence"]) if "sequence" in said else None)
        await asyncio.sleep(self.takes_s)
        return self.answer(resources)


class Api:
    """Holds the VirtualMachine."""

    def __init__(self) -> None:
        self.content = vm_content(use=1)
        self.writes: list[tuple[float, Amounts]] = []
        self.outcome: WriteFailure | None = None
        self.applies = True

    def machine(self) -> MachineSnapshot:
        found = parse_machine(unstructured_from(self.content), Scaling()).value
        assert found is not None
        return found

    async def write(self, machine: MachineSnapshot, change: SizeChange) -> WrittenMachine | WriteFailure:
        self.writes.append((round(now_s(), 1), change.target))
        await asyncio.sleep(SLOW_S)
        if self.applies:
            self.apply(change.target)
        return self.outcome or WrittenMachine(unstructured_from(self.content))

    def apply(self, size: Amounts) -> None:
        """At once, as a machine without a hypervisor does."""
        guest, status = self.content["spec"]["guest"], self.content["status"]
        guest["cpus"]["use"] = status["cpus"] = f"{size.cpu}m"
        guest["memorySlots"]["use"] = size.memory // GIB
        status["memorySize"] = str(size.memory)
        self.content["metadata"]["generation"] += 1

    async def look(self, machine: MachineSnapshot) -> Unstructured | None:
        return unstructured_from(self.content)


class Load:
    def __init__(self) -> None:
        self.metrics: SystemMetrics | NoMetrics = needs(1)

    async def system(self, machine: MachineSnapshot) -> SystemMetrics | NoMetrics:
        return self.metrics

    async def cache(self, machine: MachineSnapshot) -> CacheMetrics | NoMetrics:
        return NoMetrics("there is none")


class World:
    """A runner and all that it talks to."""

    def __init__(self, monitor: Callable[..., Monitor] | None = None, **settings: Any) -> None:
        self.scheduler, self.api, self.load = Scheduler(), Api(), Load()
        self.registry = CollectorRegistry()
        agent = AgentSettings(**settings)
        tools = RunnerDependencies(
            agent,
            self.scheduler,
            self.api,
            self.load,
            monitor or (lambda _, system, alive: StandInMonitor(system, alive)),
            AgentMetrics(self.registry),
            lambda: round(1_000_000 + now_s() * 1000),
        )
        self.runner = Runner(self.api.machine(), tools, agent.config(jitter_ms=0), "run-1")

    @property
    def size(self) -> Amounts:
        return self.api.machine().guest.use

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"situate_vm_agent_{name}", labels)


@asynccontextmanager
async def running(world: World) -> AsyncIterator[World]:
    """From 0 s on; the first contact with everybody takes less than a second."""
    task = asyncio.create_task(world.runner.run())
    try:
        await asyncio.sleep(1)
        yield world
    finally:
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled(), task.exception()


@pytest.mark.rule("vm:C2", "vm:C35", "vm:C39")
async def test_a_machine_grows_with_its_load_and_shrinks_unit_by_unit() -> None:
    async with running(World()) as world:
        world.load.metrics = needs(4)
        await asyncio.sleep(10)
        assert world.size == units(4)
        world.load.metrics = needs(1)
        await asyncio.sleep(10)
        assert world.size == units(1)
    sizes = [size for _, size in world.api.writes]
    assert (sizes[0], sizes[-1]) == (units(4), units(1))
    assert all(later.fits_within(earlier) for earlier, later in pairwise(sizes))
    assert world.value("requests_total", kind="monitorDown", outcome="ok") == 3
    assert world.scheduler.asked[:2] == [(0.0, units(1), None), (5.0, units(4), units(1))]
    assert world.scheduler.asked[-1][1:] == (units(1), units(1))  # told when it has happened, and lowered with it
    assert world.value("requests_total", kind="scheduler", outcome="ok") == len(world.scheduler.asked)


@pytest.mark.rule("vm:C39")
async def test_a_quiet_machine_is_told_of_every_fifteen_seconds() -> None:
    async with running(World()) as world:
        await asyncio.sleep(50)
    assert [at_s for at_s, *_ in world.scheduler.asked] == [0.0, 15.0, 30.0, 45.0]
    assert world.scheduler.numbers == [("run-1", each) for each in (1, 2, 3, 4)], "whatever the clock says (F14)"


@pytest.mark.rule("vm:C35", "vm:F5", "vm:D21")
async def test_an_absent_scheduler_is_asked_again_and_the_machine_becomes_unhealthy() -> None:
    world = World()
    with capture_logs() as logs:
        async with running(world):
            world.scheduler.answer = lambda _: BadAnswer("nobody answers")
            world.load.metrics = needs(3)
            await asyncio.sleep(60)
            assert world.size == units(1)
            assert world.value("unhealthy", complaint="scheduler failures") == 1
            failed = [entry["failures"] for entry in logs if entry["event"] == "request failed"]
            assert failed == [1, 10]
            world.scheduler.answer = PermitResponse
            await asyncio.sleep(130)
            assert world.size == units(3)
            assert world.value("unhealthy", complaint="scheduler failures") == 0
    apart = [
        round(later[0] - earlier[0], 1)
        for earlier, later in zip(world.scheduler.asked[1:9], world.scheduler.asked[2:10], strict=True)
    ]
    assert set(apart) == {3.1}  # a failure takes 0.1 s here, and 3 s follow it
    assert [entry["complaints"] for entry in logs if entry["event"] == "VM unhealthy"] == [["scheduler failures"]]


@pytest.mark.rule("vm:C35")
async def test_within_the_last_permit_scaling_goes_on_without_a_scheduler() -> None:
    async with running(World()) as world:
        world.api.applies, world.api.outcome = False, WriteFailure("the API server refuses")
        world.load.metrics = needs(4)
        await asyncio.sleep(6)
        assert world.scheduler.asked[-1][1] == units(4)
        world.scheduler.answer = lambda _: BadAnswer("nobody answers")
        world.api.applies, world.api.outcome = True, None
        await asyncio.sleep(20)
        assert world.size == units(4)


@pytest.mark.rule("vm:C18", "vm:F5")
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(lambda asked: PermitResponse(asked + asked), id="more than was asked for"),
        pytest.param(lambda _: PermitResponse(Amounts.zero()), id="nothing"),
        pytest.param(lambda _: PermitResponse(Amounts.from_values(100, 2**20)), id="less than is used"),
    ],
)
async def test_a_lying_scheduler_moves_nothing(answer: Answer) -> None:
    async with running(World()) as world:
        world.scheduler.answer = answer
        world.load.metrics = needs(3)
        await asyncio.sleep(40)
        assert world.api.writes == []
        assert world.value("requests_total", kind="scheduler", outcome="ok") == 1  # before it began to lie
        assert (world.value("requests_total", kind="scheduler", outcome="failed") or 0) >= 10
        world.scheduler.answer = PermitResponse
        await asyncio.sleep(10)
        assert world.size == units(3)


@pytest.mark.rule("vm:C39", "vm:F5")
async def test_a_slow_scheduler_is_never_asked_twice_at_once() -> None:
    async with running(World()) as world:
        world.scheduler.takes_s = 20.0
        for number in (3, 2, 4, 1, 4):
            world.load.metrics = needs(number)
            await asyncio.sleep(8)
    began = [at_s for at_s, *_ in world.scheduler.asked[1:]]
    assert all(later - earlier >= 20 for earlier, later in pairwise(began))


@pytest.mark.rule("vm:C39", "vm:B28")
async def test_a_part_is_used_and_the_rest_is_asked_for_when_the_scheduler_says() -> None:
    async with running(World()) as world:
        world.scheduler.answer = lambda asked: PermitResponse(
            asked.minimum(units(2)), reason="partial", retry_after_ms=500
        )
        world.load.metrics = needs(4)
        await asyncio.sleep(7)
        assert world.size == units(2)
        assert world.value("requests_total", kind="scheduler", outcome="partial") == 1
        asked = [at_s for at_s, size, _ in world.scheduler.asked if size == units(4)]
        assert [round(later - earlier, 1) for earlier, later in pairwise(asked)][:2] == [0.6, 0.6]
        world.scheduler.answer = PermitResponse
        await asyncio.sleep(1.5)
        assert world.size == units(4)


@pytest.mark.rule("vm:D16")
async def test_a_machine_that_was_denied_grows_as_soon_as_room_is_written_on_it() -> None:
    async with running(World()) as world:
        world.scheduler.answer = lambda asked: PermitResponse(asked.minimum(units(1)), retry_after_ms=60_000)
        world.load.metrics = needs(3)
        await asyncio.sleep(6)
        world.scheduler.answer = PermitResponse
        annotations = {"internal.autoscaling.neon.tech/resources-approved": '{"vCPUs":"750m","mem":"3Gi"}'}
        world.api.content["metadata"]["annotations"] = annotations
        world.runner.update(world.api.machine())
        await asyncio.sleep(2.5 * SLOW_S)
        assert world.size == units(3)


@pytest.mark.rule("vm:D23", "vm:F1")
async def test_a_write_that_may_have_happened_is_looked_at() -> None:
    async with running(World()) as world:
        world.api.outcome = WriteFailure("timed out", unclear=True)
        world.load.metrics = needs(3)
        await asyncio.sleep(6)
        world.api.outcome = None
        assert world.runner.state.guest.use == units(3)
        await asyncio.sleep(10)
    assert [size for _, size in world.api.writes] == [units(3)]


@pytest.mark.rule("vm:D13")
async def test_a_machine_that_is_about_to_be_moved_is_not_written() -> None:
    async with running(World()) as world:
        world.load.metrics = needs(4)
        world.api.content["status"]["phase"] = "PreMigrating"
        world.runner.update(world.api.machine())
        asked = len(world.scheduler.asked)
        await asyncio.sleep(60)
        assert (world.api.writes, len(world.scheduler.asked)) == ([], asked)
        world.api.content["status"]["phase"] = "Running"
        world.runner.update(world.api.machine())
        await asyncio.sleep(5)
        assert world.size == units(4)


class Fleeting:
    """A monitor whose connection ends after a second, with an answer under way."""

    def __init__(self) -> None:
        self.began: list[float] = []

    async def run(self, connected: Callable[[], None], wants_more: Callable[[], None]) -> None:
        self.began.append(now_s())
        connected()
        wants_more()
        await asyncio.sleep(1)
        raise MonitorLost("it went away")

    async def upscale(self, granted: Amounts) -> None:
        await asyncio.get_running_loop().create_future()

    async def downscale(self, target: Amounts) -> Any:
        await asyncio.get_running_loop().create_future()


@pytest.mark.rule("vm:C35", "vm:C38")
async def test_a_lost_connection_clears_what_the_monitor_said_and_is_made_anew_in_five_seconds() -> None:
    fleeting = Fleeting()
    async with running(World(lambda *_: fleeting)) as world:
        await asyncio.sleep(0.5)
        assert world.runner.state.monitor.approved is None
        assert world.runner.state.monitor.wanted is None
        await asyncio.sleep(15)
    assert fleeting.began == pytest.approx([0, 5, 10, 15], abs=0.01)


class Mute:
    """A monitor that is connected late, and is not heard again."""

    def __init__(self, after_s: float) -> None:
        self._after_s = after_s

    async def run(self, connected: Callable[[], None], wants_more: Callable[[], None]) -> None:
        await asyncio.sleep(self._after_s)
        connected()
        await asyncio.get_running_loop().create_future()

    async def upscale(self, granted: Amounts) -> None:
        raise MonitorFailed("it did not answer within 5 s")

    async def downscale(self, target: Amounts) -> Any:
        raise MonitorFailed("it did not answer within 5 s")


@pytest.mark.rule("vm:C35")
async def test_a_monitor_is_silent_twenty_seconds_after_it_was_heard_last() -> None:
    async with running(World(lambda *_: Mute(15))) as world:
        await asyncio.sleep(33)
        assert world.value("unhealthy", complaint="monitor silent") == 0
        await asyncio.sleep(4)
        assert world.value("unhealthy", complaint="monitor silent") == 1
    assert world.value("unhealthy", complaint="monitor silent") == 0, "nobody looks after it any more"


@pytest.mark.rule("vm:C35", "vm:C39")
async def test_a_monitor_that_answers_nothing_is_unhealthy_and_takes_nothing_away() -> None:
    world = World(lambda *_: Mute(0))
    world.api.apply(units(4))
    world.runner.update(world.api.machine())
    async with running(world):
        await asyncio.sleep(15)
        assert world.size == units(4)
        assert world.value("requests_total", kind="monitorDown", outcome="failed") == 6, "3 s lie between two"
        assert world.value("unhealthy", complaint="monitor failures") == 1
        assert world.value("unhealthy", complaint="scheduler failures") == 0


@pytest.mark.rule("vm:D23", "vm:F2")
async def test_what_is_seen_late_takes_nothing_back() -> None:
    async with running(World()) as world:
        before = world.api.machine()
        world.load.metrics = needs(3)
        await asyncio.sleep(10)
        assert world.runner.state.guest.use == units(3)
        world.runner.update(before)
        assert world.runner.state.guest.use == world.runner.machine.guest.use == units(3)


@pytest.mark.rule("vm:F9", "vm:F1")
async def test_another_machine_of_its_name_says_nothing_of_a_lost_write() -> None:
    async with running(World()) as world:
        world.api.outcome, world.api.applies = WriteFailure("timed out", unclear=True), False
        world.api.content["metadata"]["uid"] = "u2"
        world.api.apply(units(2))
        world.load.metrics = needs(3)
        await asyncio.sleep(6)
        assert world.runner.machine.ref.uid == "u1"
        assert world.runner.state.guest.use == units(1)


@pytest.mark.rule("vm:C38")
async def test_a_guest_that_needs_its_memory_keeps_it() -> None:
    async with running(World()) as world:
        world.load.metrics = needs(4)
        await asyncio.sleep(10)
        world.load.metrics = SystemMetrics(0.0, 0.0, 2.8 * GIB)  # 4 units by the goal; the guest holds three
        await asyncio.sleep(20)
        assert world.size == units(4)


async def test_what_is_not_known_of_a_load_is_said_once_and_changes_nothing() -> None:
    world = World()
    with capture_logs() as logs:
        async with running(world):
            world.load.metrics = NoMetrics("metric host_load1 is missing")
            await asyncio.sleep(30)
    said = [entry for entry in logs if entry.get("kind") == "system metrics"]
    assert [entry["error"] for entry in said] == ["metric host_load1 is missing"]
    assert world.size == units(1)
