"""A cluster, a network and the processes of the scheduler, all on one virtual clock.

The processes run the shipped controller, client, reflectors and election; only the transport is ours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from situate.cluster.assembly import Cluster
from situate.cluster.controllers import KubeletSettings, MachinerySettings
from situate.cluster.controllers.nodes import node as node_object
from situate.cluster.effects import ADMIN, Identity
from situate.cluster.names import Names
from situate.cluster.watch import Watch
from situate.framework.actions import BindByExtender
from situate.framework.extenders import Reply
from situate.framework.profiles import Registry
from situate.kube.client import Client
from situate.kube.election import Candidacy
from situate.kube.lease_record import ElectionTimes
from situate.objects.events import ObjectReference
from situate.objects.messages import Request, Response
from situate.plugins.registry import registry
from situate.scheduler.acting import Extending
from situate.scheduler.configuration import SchedulerSettings
from situate.scheduler.controller import SchedulerController
from situate.scheduler.metrics import SchedulerMetrics
from situate.scheduler.setup import Setup, set_up
from situate.testing.network import Network, Wire
from situate.testing.processes import Process, ProcessState, World
from situate.testing.scheduler.history import NODE_CPU_MILLI, NODE_PODS, NODES, PRIORITIES, PROCESSES

EPOCH = 1_800_000_000.0
"""Unix seconds at virtual zero."""
NAMESPACE = "work"
LEASE = "scheduler"
TIMES = ElectionTimes(lease_s=15.0, renew_deadline_s=10.0, retry_s=2.0)
RESTART_S = 5.0
"""After a process has ended, until another one takes its place."""
FOREIGN = "foreign"
"""A cordoned node that others bind to."""

_IDLE = frozenset(
    {
        "statefulset",
        "deployment",
        "replicaset",
        "scheduler",
        "namespace",
        "serviceaccount",
        "disruption",
        "endpoint-slices",
    }
)
"""Controllers of the cluster that have nothing to do in a history."""
_JSON = {"accept": "application/json", "content-type": "application/json"}
_MERGE = {"accept": "application/json", "content-type": "application/merge-patch+json"}


class NoExtenders:
    """Of schedulers that have none."""

    async def ask(self, questions: object) -> list[Reply]:
        raise NotImplementedError(f"there is nobody to ask {questions}")

    async def bind(self, action: BindByExtender) -> None:
        raise NotImplementedError(f"there is nobody to bind {action.pod}")


@dataclass(slots=True)
class Member:
    """One process of the scheduler."""

    identity: str
    process: Process
    wire: Wire
    controller: SchedulerController

    @property
    def leads(self) -> bool:
        """By its own account, at this moment."""
        running = self.process.state is ProcessState.RUNNING
        return running and self.controller.elector is not None and self.controller.elector.leading()


def default_setup(plugins: Registry | None = None, settings: SchedulerSettings | None = None) -> Setup:
    """What the configuration comes to; the section as it is without anything in it."""
    found, mistakes = set_up(settings or SchedulerSettings(calls_in_flight=8), None, plugins or registry(())[0])
    assert found is not None, mistakes
    return found


class SchedulerWorld:
    """Everything of one history. Close it when done."""

    def __init__(
        self, seed: int, setup: Setup | None = None, processes: int = PROCESSES, extending: Extending | None = None
    ) -> None:
        """`setup` None: the built-in profile; `extending` None: there are no extenders."""
        self._extending = extending or NoExtenders()
        self.rng = Random(f"world {seed}")
        self.setup = setup or default_setup()
        self.world = World()
        self.timeline = self.world.timeline
        machinery = MachinerySettings(
            disabled=_IDLE,
            kubelet=KubeletSettings(start_delay=0.5, stop_delay=0.5, lease_renewal=0.0),
            events=False,
        )
        self.cluster = Cluster(Names(self.rng), self.rng, machinery, now=EPOCH, tracks_managers=False)
        self.network = Network(self, self.timeline, Random(f"network {seed}"), epoch=EPOCH)
        self.members: list[Member] = []
        self.events: Counter[str] = Counter()
        """Reasons of the Events that were recorded."""
        self.notes: list[tuple[str, str, str]] = []
        """Object, reason and words of those Events."""
        self.registry = CollectorRegistry()
        """Metrics of the process that was started last."""
        self.told: list[Callable[[Request, Response | Watch, Identity], None]] = []
        """Told of every request of a process that was carried out, and its answer."""
        self._step_due: float | None = None
        self._names = 0
        self.call("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        for value in PRIORITIES:
            made = {"metadata": {"name": f"worth-{value}"}, "value": value}
            self.call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", made)
        for number in range(NODES):
            self.add_node(number)
        foreign = node_object(FOREIGN, pods=1000) | {"spec": {"unschedulable": True}}
        self.call("POST", "/api/v1/nodes", foreign)
        for _ in range(processes):
            self.start_member()

    @property
    def now(self) -> float:
        return self.timeline.now

    def answer(self, request: Request, now: float, identity: Identity) -> Response | Watch:
        """The server's end of the network."""
        answer = self.cluster.answer(request, now, identity)
        for listener in tuple(self.told):
            listener(request, answer, identity)
        self.plan_step()
        return answer

    def call(self, method: str, path: str, body: object = None, *, patch: bool = False) -> dict[str, Any]:
        """A request of the story's own, carried out at once; refusals are returned as they are."""
        data = b"" if body is None else msgspec.json.encode(body)
        request = Request(method, path, (), _MERGE if patch else _JSON, data)
        response = self.cluster.answer(request, EPOCH + self.now, ADMIN)
        assert isinstance(response, Response)
        self.plan_step()
        content: dict[str, Any] = msgspec.json.decode(response.body)
        return content

    def objects(self, table: str) -> list[dict[str, Any]]:
        """All objects of a table, as the server holds them."""
        return [dict(each.object()) for each in self.cluster.api.store.table(table).objects.values()]

    def pods(self) -> list[dict[str, Any]]:
        return self.objects("pods")

    def add_node(self, number: int) -> None:
        made = node_object(f"node-{number}", cpu=f"{NODE_CPU_MILLI}m", pods=NODE_PODS, zone=f"zone-{number % 3}")
        self.call("POST", "/api/v1/nodes", made)

    def let_pass(self, seconds: float, *, stop: Callable[[], bool] = lambda: False) -> bool:
        return self.world.run_until(self.now + seconds, stop=stop)

    def close(self) -> None:
        for member in self.members:
            member.wire.unplug()
        self.world.close()

    def leader(self) -> Member | None:
        """Who leads at this moment, by its own account."""
        return next((member for member in self.members if member.leads), None)

    def end(self, member: Member) -> None:
        """The process is gone; another one starts after a while."""
        member.process.kill()
        member.wire.unplug()
        self.members.remove(member)
        self.timeline.after(RESTART_S, self.start_member)

    def stop(self, member: Member) -> None:
        """SIGTERM. Another one starts after a while."""
        member.process.loop.call_soon_threadsafe(member.controller.stop)
        self.members.remove(member)
        self.timeline.after(RESTART_S, self.start_member)

    def start_member(self) -> None:
        """A new process of the scheduler."""
        self._names += 1
        identity = f"scheduler-{self._names}"
        wire = self.network.wire(Identity(identity, ("system:authenticated",)))
        made: list[SchedulerController] = []
        self.registry = CollectorRegistry()

        def main() -> Coroutine[Any, Any, None]:
            return _run(made)

        process = self.world.start(identity, main)
        made.append(
            SchedulerController(
                self.setup,
                Client(wire),
                Candidacy(NAMESPACE, identity, TIMES),
                record=self._record,
                metrics=SchedulerMetrics(self.registry),
                wall=self.wall,
                rng=Random(f"{identity} {self.rng.random()}"),
                extending=self._extending,
                stopwatch=lambda: self.now,
            )
        )
        self.members.append(Member(identity, process, wire, made[0]))

    def wall(self) -> datetime:
        return datetime.fromtimestamp(EPOCH, UTC) + timedelta(seconds=self.now)

    def _record(
        self,
        regarding: ObjectReference,
        type_: str,
        reason: str,
        message: str,
        action: str = "",
        related: ObjectReference | None = None,
        reporter: str = "",
    ) -> None:
        assert type_
        assert action
        assert reporter
        assert related is None or related.name
        self.events[reason] += 1
        self.notes.append((regarding.name, reason, message))

    def plan_step(self) -> None:
        """Call after every change: the controllers of the cluster act soon after a change, and when they asked to."""
        due = self.cluster.machinery.next_due()
        if due is None:
            return
        when = max(self.now + 0.001, due - EPOCH)
        if self._step_due is not None and self._step_due <= when:
            return
        self._step_due = when
        self.timeline.at(when, self._step)

    def _step(self) -> None:
        if self._step_due is not None and self._step_due > self.now:
            return  # an earlier plan that was replaced
        self._step_due = None
        self.cluster.step(EPOCH + self.now)
        self.plan_step()


async def _run(made: list[SchedulerController]) -> None:
    await made[0].run()
