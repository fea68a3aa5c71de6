"""Random stories of two supervisors and four executors under faults; everything is the shipped code."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random

import pytest

from situate.sharding.adapter import Content
from situate.sharding.configuration import SupervisorConfig
from situate.sharding.controller.work import Work
from situate.sharding.executing import Outcome
from situate.sharding.rebalancing import Goal, RebalanceConfig
from situate.testing.network import CALM, Weather
from situate.testing.sharding import events
from situate.testing.undisturbed import collector_at_rest, logs_off
from tests.sharding.controller.place import NAMESPACE, Member
from tests.sharding.controller.reports import REPORTS
from tests.sharding.controller.town import Leader, Town

OBJECTS = 8
SECONDS = 200
CALM_FROM = 130
BALANCE = RebalanceConfig(Goal.EVEN, hysteresis_s=5.0, interval_s=10.0, cool_down_s=5.0, quiet_period_s=3.0)
CONFIG = SupervisorConfig(archive_ttl=20.0, requeue_delay=20.0)
FAULTS = [
    *("crash", "term", "unready", "terminated", "pause", "weather", "weather", "down", "cut", "calm"),
    *("edit", "delete", "cordon", "leader-crash", "leader-crash", "leader-term", "leader-pause", "leader-pause"),
]


class Story:
    """One history: every third second something happens, until it is calm."""

    def __init__(self, seed: int) -> None:
        self.town = Town(CONFIG, archive=True)
        self.happened: Counter[str] = Counter()
        self._rng = Random(seed)
        self._lives = 0
        self._paused: dict[str, Member | Leader] = {}
        self.town.tolerated.add("S1")  # who stands still in the middle of its work has not stopped
        self.town.s4_slack_s = 1e9  # events are late: what a supervisor knows is old
        for pod in "abcd":
            self.town.work(pod, self._script, concurrency=5)
        for name in ("s1", "s2"):
            self.town.leader(name, rebalance=BALANCE)
        self._born = 0

    def play(self) -> None:
        for second in range(SECONDS):
            if self._born < OBJECTS and second % 7 == 0:
                self.town.create(f"r-{self._born}")
                self._born += 1
            if second < CALM_FROM and second % 3 == 0:
                self._something()
            elif second == CALM_FROM:
                self._calm()
            self.town.run(1.0)

    async def _script(self, member: Member, obj: Content, work: Work) -> Outcome | None:
        rng = Random(f"{work.token} {obj['metadata']['name']}")
        for step in range(rng.randint(1, 20)):
            await work.patch_status({"step": step, "by": member.uid})
            await asyncio.sleep(rng.random() * 6)
        return Outcome.succeeded() if rng.random() < 0.3 else Outcome.again(1.0)

    def _something(self) -> None:
        town, rng = self.town, self._rng
        alive = [each for each in town.members if each.process.is_alive and each.pod not in self._paused]
        leading = [each for each in town.leaders if each.process.is_alive and each.name not in self._paused]
        kind = rng.choice(FAULTS)
        self.happened[kind] += 1
        member = rng.choice(alive) if alive else None
        leader = rng.choice(leading) if leading else None
        name = f"r-{rng.randrange(max(1, self._born))}"
        match kind:
            case "crash" | "terminated" if member is not None:
                member.crash()
                if kind == "terminated":
                    town.tell_pod(member.pod, terminated=True)
                    town.run(rng.uniform(0, 3))
                town.work(member.pod, self._script, concurrency=5)
            case "term" if member is not None:
                member.stop()
                town.run(rng.uniform(0, 10))
                if not member.ended:
                    member.crash()
                town.work(member.pod, self._script, concurrency=5)
            case "unready" if member is not None:
                town.tell_pod(member.pod, ready=rng.random() < 0.7)
            case "pause" if member is not None:
                self._pause(member.pod, member)
            case "leader-pause" if leader is not None:
                self._pause(leader.name, leader)
            case "leader-crash" | "leader-term" if leader is not None:
                leader.crash() if kind == "leader-crash" else leader.stop()
                self._lives += 1
                town.leader(f"s{self._lives + 2}", rebalance=BALANCE)
            case "weather":
                town.network.weather = Weather(
                    latency_s=(0.0005, rng.choice([0.005, 0.3])),
                    lose_request=rng.choice([0.0, 0.1]),
                    lose_answer=rng.choice([0.0, 0.1]),
                    refuse=rng.choice([0.0, 0.1]),
                    conflict=rng.choice([0.0, 0.2]),
                    event_delay_s=rng.choice([0.0, 3.0]),
                    lose_event=rng.choice([0.0, 0.3]),
                    swap_events=rng.choice([0.0, 0.2]),
                )
            case "down":
                town.network.down = True
                town.network.cut_watches()
                town.world.timeline.after(rng.uniform(1, 20), self._up)
            case "cut":
                town.network.cut_watches()
            case "calm":
                town.network.weather = CALM
            case "edit" if town.exists(name):
                self._edit(name)
            case "cordon" if member is not None:
                town.cordon(member.pod)
            case "delete" if rng.random() < 0.3 and town.exists(name):
                town.call("DELETE", REPORTS.path(NAMESPACE, name))

    def _edit(self, name: str) -> None:
        """A user takes the assignment away, or half of it."""
        content = self.town.get(name)
        spec = {key: value for key, value in content["spec"].items() if key != "assignedTo"}
        self.town.call("PUT", REPORTS.path(NAMESPACE, name), content | {"spec": spec})

    def _pause(self, name: str, who: Member | Leader) -> None:
        who.process.pause()
        self._paused[name] = who
        self.town.world.timeline.after(self._rng.uniform(1, 40), lambda: self._resume(name, who))

    def _resume(self, name: str, who: Member | Leader) -> None:
        if self._paused.get(name) is who:
            del self._paused[name]
            who.process.resume()

    def _up(self) -> None:
        self.town.network.down = False

    def _calm(self) -> None:
        self.town.network.weather = CALM
        self._up()
        for name, who in [*self._paused.items()]:
            self._resume(name, who)
        for pod in "abcd":
            self.town.tell_pod(pod)
            self.town.cordon(pod, "false")


@pytest.mark.rule(
    "sharding:S2", "sharding:S3", "sharding:S5", "sharding:S6", "sharding:S7", "sharding:S8", "sharding:S9"
)
@pytest.mark.rule("sharding:S10", "sharding:S11", "sharding:L2", "sharding:L6")
@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_broken_and_all_is_repaired(seed: int) -> None:
    with logs_off(), collector_at_rest():
        story = Story(seed)
        town = story.town
        try:
            story.play()
            left = [view for view in town.views() if not view.completed]
            working = {name for each in town.members if each.process.is_alive for name in each.running}
            assert {view.name for view in left} == working | {view.name for view in left if view.holder is not None}
        finally:
            town.close()
    assert story.happened.total() > 30
    assert sum(isinstance(event, events.Assign) for event in town.log) > OBJECTS
