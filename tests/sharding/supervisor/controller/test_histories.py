"""Random stories of executors under faults, with a supervisor that sees every lease and judges it by its own clock."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import Any

import pytest

from situate.sharding.executor.controller.work import Work
from situate.sharding.executor.next_step import Outcome
from situate.sharding.model.field_paths import Content
from situate.sharding.model.object_view import view_of
from situate.testing.sharding import events
from situate.testing.sharding.world.executor_world import NAMESPACE, ExecutorProcess, ExecutorWorld
from situate.testing.sharding.world.reports import PATHS
from situate.testing.virtual_time.isolation import suppress_logs
from situate.testing.virtual_time.network import NO_FAULTS, NetworkFaults

LEASE_S = 15.0
OBJECTS = [f"r-{number}" for number in range(6)]
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
SECONDS = 150


class Story:
    """One history: every second the supervisor looks, and every third something happens."""

    def __init__(self, seed: int, *, pauses: bool) -> None:
        self.place = ExecutorWorld()
        self.happened: Counter[str] = Counter()
        self._rng = Random(seed)
        self._pauses = pauses
        self._seen: dict[str, tuple[Any, float]] = {}
        self._alive: set[str] = set()
        self._revoked_at: dict[str, float] = {}
        self._lives = 0
        self._paused: dict[str, ExecutorProcess] = {}
        for pod in "abcd":
            self._begin(pod, f"{pod}-0")
        self.place.tolerated_invariants.add("S4")  # who has crashed a moment ago no supervisor can know
        if pauses:
            self.place.tolerated_invariants.add("S1")  # who stands still in the middle of its work has not stopped
        for name in OBJECTS:
            self.place.create(name)

    def play(self) -> None:
        for second in range(SECONDS):
            if second % 3 == 0 and second < SECONDS - 40:
                self._something()
            elif second == SECONDS - 40:
                self._calm()
            self.place.run(1.0)
            self._supervise()

    def _begin(self, pod: str, uid: str) -> None:
        self.place.start_executor(pod, uid, self._script, concurrency=5, announce=False)

    async def _script(self, member: ExecutorProcess, obj: Content, work: Work) -> Outcome | None:
        rng = Random(f"{work.token} {obj['metadata']['name']}")
        steps = rng.randint(1, 40)
        for step in range(steps):
            await work.patch_status({"step": step, "by": member.uid})
            await asyncio.sleep(rng.random() * 6)
            if rng.random() < 0.001:
                raise ValueError("a bad day")
        return Outcome.succeeded() if rng.random() < 0.2 else Outcome.again(1.0)

    def _something(self) -> None:
        place, rng = self.place, self._rng
        living = [each for each in place.members if each.process.is_alive and each.pod not in self._paused]
        kinds = ["crash", "begun anew", "weather", "weather", "down", "drain", "drain", "revoke", "term", "cut", "calm"]
        kind = rng.choice([*kinds, "pause", "pause"] if self._pauses else kinds)
        self.happened[kind] += 1
        member = rng.choice(living) if living else None
        match kind:
            case "crash" | "begun anew" if member is not None:
                member.crash()
                self._lives += 1
                self._begin(member.pod, member.uid if kind == "begun anew" else f"{member.pod}-{self._lives}")
            case "term" if member is not None:
                member.stop()
                self._lives += 1
                self._begin(member.pod, f"{member.pod}-{self._lives}")
            case "pause" if member is not None:
                member.process.pause()
                self._paused[member.pod] = member
                place.world.timeline.call_after(rng.uniform(1, 40), lambda: self._resume(member))
            case "weather":
                place.network.faults = NetworkFaults(
                    latency_s=(0.0005, rng.choice([0.005, 0.5])),
                    lose_request=rng.choice([0.0, 0.1]),
                    lose_answer=rng.choice([0.0, 0.1]),
                    refuse=rng.choice([0.0, 0.1]),
                    conflict=rng.choice([0.0, 0.2]),
                    event_delay_s=rng.choice([0.0, 3.0]),
                    lose_event=rng.choice([0.0, 0.3]),
                    swap_events=rng.choice([0.0, 0.2]),
                )
            case "down":
                place.network.down = True
                place.network.cut_watches()
                place.world.timeline.call_after(rng.uniform(1, 20), self._up)
            case "cut":
                place.network.cut_watches()
            case "calm":
                place.network.faults = NO_FAULTS
            case "drain" | "revoke":
                name = rng.choice(OBJECTS)
                view = view_of(place.get(name), PATHS)
                if view.holder is not None and not view.completed:
                    if kind == "drain":
                        place.drain(name)
                    else:
                        place.revoke(name)
                        self._revoked_at[name] = place.world.now

    def _resume(self, member: ExecutorProcess) -> None:
        if self._paused.pop(member.pod, None) is not None and not member.has_ended:
            member.process.resume()

    def _up(self) -> None:
        self.place.network.down = False

    def _calm(self) -> None:
        self.place.network.faults = NO_FAULTS
        self._up()
        for member in [*self._paused.values()]:
            self._resume(member)

    def _supervise(self) -> None:
        place, now = self.place, self.place.world.now
        members = {each.uid: each for each in place.members}
        for lease in place.call("GET", LEASES)["items"]:
            uid = lease["metadata"]["annotations"]["sharding.situate.dev/executor-uid"]
            if self._seen.get(uid, (None, 0))[0] != lease["spec"]:
                self._seen[uid] = (lease["spec"], now)
            alive = lease["spec"].get("holderIdentity") == uid and now - self._seen[uid][1] < LEASE_S
            if alive and uid not in self._alive:
                self._alive.add(uid)
                place.log_event(events.Eligible(now, members[uid].pod, uid))
            elif not alive and uid in self._alive:
                self._alive.discard(uid)
                place.log_event(events.LeaseLost(now, members[uid].pod, uid))
        for name in OBJECTS:
            view = view_of(place.get(name), PATHS)
            waits = now < self._revoked_at.get(name, -1e9) + LEASE_S
            held = view.holder is not None and view.executor_uid in self._alive
            if not view.completed and not held and not waits and self._alive:
                place.assign(name, members[self._rng.choice(sorted(self._alive))])
                self._revoked_at.pop(name, None)


@pytest.mark.rule("sharding:S1", "sharding:S2", "sharding:S3", "sharding:S5", "sharding:S11")
@pytest.mark.parametrize("pauses", [False, True], ids=["running", "paused"])
@pytest.mark.parametrize("seed", range(4))
def test_no_stale_write_and_no_double_run(seed: int, pauses: bool) -> None:
    with suppress_logs():
        story = Story(seed, pauses=pauses)
        try:
            story.play()
        finally:
            story.place.close()
    writes = [event for event in story.place.log if isinstance(event, events.Write)]
    assert sum(write.accepted for write in writes) > 30
    assert story.happened.total() > 30
