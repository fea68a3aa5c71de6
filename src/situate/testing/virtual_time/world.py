"""A cluster, a network and the processes of one product on one virtual clock. Each product defines its processes.

The processes run the shipped controller, client, reflectors and election. Only the transport is replaced.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import msgspec

from situate.cluster.apiserver.assembly import Cluster
from situate.cluster.apiserver.controller_writes import DeferWrite
from situate.cluster.controllers import ControllerFactory, MachinerySettings
from situate.cluster.storage.effects import ADMIN, Identity
from situate.cluster.storage.names import NameGenerator
from situate.cluster.storage.stored_object import StoredObject
from situate.cluster.storage.watch import Watch
from situate.objects.messages import Request, Response
from situate.runtime.leadership.leader import Leader
from situate.sim.timeline import ScheduledCall
from situate.testing.virtual_time.network import Network, Wire
from situate.testing.virtual_time.processes import Process, ProcessState, World

EPOCH = 1_800_000_000.0
"""Unix seconds at virtual time zero."""
RESTART_S = 5.0
"""Seconds from the end of a process to the start of its replacement."""
_START_TIME = datetime.fromtimestamp(EPOCH, UTC)
_JSON = {"accept": "application/json", "content-type": "application/json"}
_MERGE = {"accept": "application/json", "content-type": "application/merge-patch+json"}


class Controller(Protocol):
    """The interface that every product's controller has."""

    @property
    def leader(self) -> Leader: ...

    def stop(self) -> None: ...

    async def run(self) -> None: ...


C = TypeVar("C", bound=Controller)


@dataclass(slots=True)
class Member(Generic[C]):
    """One process of the product."""

    identity: str
    process: Process
    wire: Wire
    controller: C

    @property
    def leads(self) -> bool:
        """Return whether this member leads now, by its own account."""
        running = self.process.state is ProcessState.RUNNING
        return running and self.controller.leader.is_leading()


class ClusterWorld(ABC, Generic[C]):
    """Everything of one history. Close it at the end."""

    step_delay_s: ClassVar[float] = 0.001
    """Seconds from a change until the controllers of the cluster act on it and on all changes made meanwhile."""

    def __init__(
        self,
        seed: int,
        machinery: MachinerySettings,
        later: DeferWrite | None = None,
        further: Sequence[ControllerFactory] = (),
    ) -> None:
        """`later` is that of `Cluster`, for histories with webhooks. `further` are additional controllers."""
        self.rng = Random(f"world {seed}")
        self.world = World()
        self.timeline = self.world.timeline
        self.cluster = Cluster(
            NameGenerator(self.rng), self.rng, machinery, now=EPOCH, tracks_managers=False, later=later, further=further
        )
        self.network = Network(self, self.timeline, Random(f"network {seed}"), epoch=EPOCH)
        self.members: list[Member[C]] = []
        self.events: Counter[str] = Counter()
        """How often each reason occurred among the recorded Events."""
        self.happened: Counter[str] = Counter()
        """How often each fault took effect and each kind of action occurred, for histories that count them."""
        self.request_listeners: list[Callable[[Request, Response | Watch, Identity], None]] = []
        """Listeners called with every write of a process that the server carried out, and with its answer."""
        self._planned: ScheduledCall | None = None
        self._names = 0
        self._decoded: dict[str, tuple[StoredObject, dict[str, Any]]] = {}
        """By UID: the stored object at its last decoding, and its content."""

    @abstractmethod
    def start_member(self) -> None:
        """Start a process, with `add_member`."""

    def add_member(self, identity: str, wire: Wire, build: Callable[[Process], C]) -> None:
        """Start a process that runs the controller of `build`, and add it to `members`."""
        made: list[C] = []

        async def main() -> None:
            await made[0].run()

        process = self.world.start(identity, main)
        made.append(build(process))
        self.members.append(Member(identity, process, wire, made[0]))

    def new_identity(self, product: str) -> tuple[str, Wire]:
        """Return a name that no process has had, and its connection to the server."""
        self._names += 1
        identity = f"{product}-{self._names}"
        return identity, self.network.connect(Identity(identity, ("system:authenticated",)))

    @property
    def now(self) -> float:
        return self.timeline.now

    def wall(self) -> datetime:
        return _START_TIME + timedelta(seconds=self.now)

    def answer(self, request: Request, now: float, identity: Identity) -> Response | Watch:
        """Answer a request of the network."""
        answer = self.cluster.answer(request, now, identity)
        if request.method != "GET":
            for listener in tuple(self.request_listeners):
                listener(request, answer, identity)
            self.plan_step()
        return answer

    def call(self, method: str, path: str, body: object = None, *, patch: bool = False) -> dict[str, Any]:
        """Carry out a request of the history itself at once. Return a refusal like any other answer."""
        data = b"" if body is None else msgspec.json.encode(body)
        request = Request(method, path, (), _MERGE if patch else _JSON, data)
        response = self.cluster.answer(request, EPOCH + self.now, ADMIN)
        assert isinstance(response, Response)
        self.plan_step()
        content: dict[str, Any] = msgspec.json.decode(response.body)
        return content

    def create_object(self, collection: str, content: Mapping[str, Any]) -> dict[str, Any]:
        """Create an object of the history. Raises `AssertionError` if the server refuses it."""
        answer = self.call("POST", collection, content)
        if answer["kind"] == "Status":
            raise AssertionError(f"{collection} refuses an object of the history: {answer['message']}")
        return answer

    def decode_object(self, stored: StoredObject) -> dict[str, Any]:
        """Return the content of a stored object. The caller must not change it: all callers share one copy."""
        known = self._decoded.get(stored.uid)
        if known is None or known[0] is not stored:
            known = self._decoded[stored.uid] = (stored, stored.object())
        return known[1]

    def let_pass(self, seconds: float, *, stop: Callable[[], bool] = lambda: False) -> bool:
        return self.world.run_until(self.now + seconds, stop=stop)

    def close(self) -> None:
        for member in self.members:
            member.wire.disconnect()
        self.world.close()

    def leader(self) -> Member[C] | None:
        """Return the member that leads now, by its own account."""
        return next((member for member in self.members if member.leads), None)

    def end(self, member: Member[C]) -> None:
        """Kill a process. Another one starts later."""
        member.process.kill()
        member.wire.disconnect()
        self.members.remove(member)
        self.timeline.call_after(RESTART_S, self.start_member)

    def stop(self, member: Member[C]) -> None:
        """End a process with SIGTERM. Another one starts later."""
        member.process.loop.call_soon_threadsafe(member.controller.stop)
        self.members.remove(member)
        self.timeline.call_after(RESTART_S, self.start_member)

    def plan_step(self) -> None:
        """Plan the next step of the cluster's controllers. Call it after every change.

        The controllers act soon after a change, and at the times that they requested.
        """
        due = self.cluster.machinery.next_due()
        if due is None:
            return
        when = max(self.now + self.step_delay_s, due - EPOCH)
        if self._planned is not None:
            if self._planned.when <= when:
                return
            self._planned.cancel()
        self._planned = self.timeline.call_at(when, self._step)

    def _step(self) -> None:
        self._planned = None
        self.cluster.step(EPOCH + self.now)
        self.plan_step()
