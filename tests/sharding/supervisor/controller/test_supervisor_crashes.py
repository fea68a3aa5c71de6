"""A supervisor that dies, is answered no more, or stands still at any one of its writes: the next one goes on.

The story is one in which each kind of write is made. It is played once undisturbed to count them, and then with one
fault at each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from situate.cluster.storage.effects import Identity
from situate.objects.messages import Request
from situate.sharding.executor.controller.work import Work
from situate.sharding.executor.next_step import Outcome
from situate.sharding.model.field_paths import Content
from situate.sharding.model.supervisor_config import SupervisorConfig
from situate.testing.sharding import events
from situate.testing.sharding.world.executor_world import NAMESPACE, ExecutorProcess
from situate.testing.sharding.world.reports import REPORTS
from situate.testing.sharding.world.supervisor_world import SupervisorProcess, SupervisorWorld
from situate.testing.virtual_time.isolation import disable_collector, suppress_logs
from situate.testing.virtual_time.network import NO_FAULTS

SECONDS = 130
CONFIG = SupervisorConfig(archive_ttl=5.0, drain_timeout=10.0)
NAMES = ("done", "deleted", "moved", "stubborn", "lost")


async def work(member: ExecutorProcess, obj: Content, at: Work) -> Outcome | None:
    """`done` ends soon, `stubborn` never gives up, the others go on."""
    name = obj["metadata"]["name"]
    if name == "done":
        await asyncio.sleep(5)
        return Outcome.succeeded()
    while True:
        try:
            await asyncio.sleep(1e9)
        except asyncio.CancelledError:
            if name != "stubborn" or member.pod != "a":
                raise
            await asyncio.sleep(12)  # longer than a drain may take
            raise


class Story:
    """The same as often as it is played, but for the fault."""

    def __init__(
        self, fault: Callable[[Story, SupervisorProcess], None] = lambda _, __: None, at: int = 0, *, before: bool
    ) -> None:
        """`at`: the number of the write, from 1; 0: none. `before`: whether that is before it has left, or after the
        server has carried it out."""
        self.town = SupervisorWorld(CONFIG, archive=True)
        self.writes = 0
        self.faults = 0
        self._fault, self._at = fault, at
        if before:
            self.town.network.send_listeners.append(self._written)
        else:
            self.town.on_write = self._written

    def play(self) -> None:
        town = self.town
        first = town.create_executor("a", work)
        town.start_supervisor("s1")
        town.start_supervisor("s2")
        town.run(1)
        for name in NAMES:
            town.create(name)
        town.run(8)
        town.create_executor("b", work)
        town.run(8)
        town.call("DELETE", REPORTS.path(NAMESPACE, "deleted")) if town.exists("deleted") else None
        town.run(4)
        town.cordon("a")
        town.run(20)
        first.crash()
        town.run(SECONDS - 41)

    def _written(self, request: Request, identity: Identity) -> None:
        if not identity.user.startswith("supervisor") or "/leases" in request.path or "/events" in request.path:
            return
        self.writes += 1
        if self.writes == self._at:
            self.faults += 1
            name = identity.user.removeprefix("supervisor ")
            self._fault(self, next(each for each in self.town.leaders if each.name == name))


def outcome(town: SupervisorWorld) -> dict[str, tuple[str, bool]]:
    """By name, who has it, and whether it is completed."""
    return {view.name: (view.executor, view.completed) for view in town.views()}


def die(story: Story, leader: SupervisorProcess) -> None:
    leader.crash()
    story.town.start_supervisor("s3")


def pause(story: Story, leader: SupervisorProcess) -> None:
    """Longer than its lease; it goes on when another one has led for a while."""
    leader.process.pause()
    story.town.world.timeline.call_after(40, leader.process.resume)


def pause_with_a_write_under_way(story: Story, leader: SupervisorProcess) -> None:
    """The write arrives when another one leads."""
    story.town.network.faults = replace(NO_FAULTS, latency_s=(30.0, 30.0))
    story.town.world.timeline.call_after(0, lambda: setattr(story.town.network, "faults", NO_FAULTS))
    pause(story, leader)


def lose_the_answer(story: Story, _: SupervisorProcess) -> None:
    story.town.network.faults = replace(NO_FAULTS, lose_answer=1.0)
    story.town.world.timeline.call_after(0, lambda: setattr(story.town.network, "faults", NO_FAULTS))


FAULTS = {
    "dies before it": (die, True),
    "dies after it": (die, False),
    "pauses after it": (pause, False),
    "pauses with it under way": (pause_with_a_write_under_way, True),
    "loses the answer": (lose_the_answer, False),
}

QUICK = ("dies after it", "pauses with it under way", "loses the answer")
"""What `make test` lets happen at each write; `make verify` has the others."""


@cache
def undisturbed() -> tuple[int, dict[str, tuple[str, bool]]]:
    with suppress_logs(), disable_collector():
        story = Story(before=True)
        story.play()
        found = outcome(story.town)
        kinds = {type(event) for event in story.town.log}
        story.town.close()
    assert {events.Assign, events.Revoke, events.FinalizerRemoved, events.Deleted, events.Ack} <= kinds
    return story.writes, found


def test_the_story_has_each_kind_of_write() -> None:
    writes, found = undisturbed()
    assert found == {"moved": ("b", False), "stubborn": ("b", False), "lost": ("b", False)}
    assert writes > 10


@pytest.mark.rule("sharding:S3", "sharding:S5", "sharding:S7", "sharding:S8", "sharding:S9", "sharding:S10")
@pytest.mark.rule("sharding:B2", "sharding:L2")
@pytest.mark.parametrize(
    "fault", [each if each in QUICK else pytest.param(each, marks=pytest.mark.verify) for each in FAULTS]
)
def test_whatever_happens_at_a_write_the_end_is_the_same(fault: str) -> None:
    writes, wanted = undisturbed()
    happens, before = FAULTS[fault]
    with suppress_logs(), disable_collector():
        for at in range(1, writes + 1):
            story = Story(happens, at, before=before)
            try:
                story.play()
                assert story.faults == 1, f"write {at} was not made"
                assert outcome(story.town) == wanted, f"{fault}: write {at}"
            finally:
                story.town.close()
