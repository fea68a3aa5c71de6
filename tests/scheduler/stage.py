"""A small world for tests of the live scheduler: one process, a few pods, and answers that somebody meddles with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from situate.cluster.storage.effects import Identity
from situate.cluster.storage.watch import Watch
from situate.objects.messages import Request, Response
from situate.scheduler.config.setup import Setup
from situate.scheduler.controller.action_writer import ExtenderClient
from situate.testing.builders.objects import pod as pod_object
from situate.testing.scheduler.invariants import SchedulerWatchdog
from situate.testing.scheduler.world import NAMESPACE, SchedulerWorld
from situate.testing.virtual_time.network import RequestHandler

PODS_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"
Answer = Response | Watch | None
Meddle = Callable[[Request, Callable[[], Response | Watch]], Answer]
"""Given a request and what carries it out; None never answers."""


@contextmanager
def stage(setup: Setup | None = None, *, nodes: int = 10, extending: ExtenderClient | None = None) -> Iterator[Stage]:
    """Invariants are checked at the end."""
    world = SchedulerWorld(1, setup, processes=1, extending=extending)
    try:
        for number in range(nodes, 10):
            world.call("DELETE", f"/api/v1/nodes/node-{number}")
        made = Stage(world)
        world.let_pass(3.0)
        yield made
        made.watchdog.check()
    finally:
        world.close()


class Stage:
    def __init__(self, world: SchedulerWorld) -> None:
        self.world = world
        self.watchdog = SchedulerWatchdog(world)

    def create(self, name: str, cpu: str = "100m", priority: int = 0, **spec: Any) -> None:
        made = pod_object(name, cpu=cpu, scheduler="situate")
        made["spec"] |= {"priorityClassName": f"worth-{priority}", "terminationGracePeriodSeconds": 1, **spec}
        answer = self.world.call("POST", PODS_PATH, made)
        assert answer["kind"] == "Pod", answer

    def delete(self, name: str, *, at_once: bool = False) -> None:
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
        self.world.call("DELETE", f"{PODS_PATH}/{name}", options if at_once else None)

    def pod(self, name: str) -> dict[str, Any]:
        return self.world.call("GET", f"{PODS_PATH}/{name}")

    def node_of(self, name: str) -> str:
        return str(self.pod(name)["spec"].get("nodeName", ""))

    def condition(self, name: str, type_: str = "PodScheduled") -> Mapping[str, Any]:
        conditions = self.pod(name)["status"].get("conditions", ())
        return next((each for each in conditions if each["type"] == type_), {})

    def notes(self, name: str, reason: str) -> list[str]:
        return [words for about, why, words in self.world.notes if (about, why) == (name, reason)]

    def let_pass(self, seconds: float) -> None:
        self.world.let_pass(seconds)
        self.watchdog.check()

    def wait_bound(self, *names: str, within_s: float = 30.0) -> None:
        def bound() -> bool:
            return all(self.node_of(name) for name in names)

        assert self.world.let_pass(within_s, stop=bound), {name: self.pod(name)["status"] for name in names}
        self.let_pass(0.5)

    def meddle(self, suffix: str, with_: Meddle, times: int = 1) -> None:
        """The next requests with such a path are answered by somebody else. Several may meddle, the last one first."""
        self.world.network.server = _Meddler(self.world, self.world.network.server, suffix, with_, times)


class _Meddler:
    def __init__(self, world: SchedulerWorld, behind: RequestHandler, suffix: str, with_: Meddle, times: int) -> None:
        self._world = world
        self._behind = behind
        self._suffix = suffix
        self._with = with_
        self._left = times

    def answer(self, request: Request, now: float, identity: Identity) -> Answer:
        if request.method == "GET" or not request.path.endswith(self._suffix) or not self._left:
            return self._behind.answer(request, now, identity)
        self._left -= 1
        return self._with(request, lambda: self._world.answer(request, self._world.network.now(), identity))
