"""The world of a history: processes of vm with their permit ports, clocks that jump, and a server that refuses writes.

Requests reach a permit port without sockets. The code behind it is the shipped code.
"""

from __future__ import annotations

from asyncio import Task
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import Any, Final, TypeAlias

from prometheus_client import CollectorRegistry

from situate.cluster.storage.effects import Identity
from situate.cluster.storage.watch import Watch
from situate.kube.client import Client
from situate.objects.messages import Request, Response
from situate.runtime.serving.access import Access
from situate.runtime.serving.webhook_server import Reply
from situate.testing.vm.world.processes import MACHINES, MIGRATIONS, VmMember, VmWorld
from situate.vm.controller.setup import VmSetup
from situate.vm.server.agents import AgentRules
from situate.vm.server.authorization import CallerAuthorizer
from situate.vm.server.change_notifier import ChangeNotifier
from situate.vm.server.eviction_handler import EvictionHandler
from situate.vm.server.metrics import PermitMetrics
from situate.vm.server.permit_handler import PermitHandler
from situate.vm.server.request_context import RequestContext
from situate.vm.server.resize_handler import ResizeHandler
from situate.vm.server.router import RequestRouter

Obj: TypeAlias = Mapping[str, Any]
IGNORED_NAMESPACE: Final = "spare"
"""An ignored namespace (C28)."""
_WAIT_S: Final = 1.0
_BUSY = b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","code":429,"message":"busy"}'
_INVALID = (
    b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,"message":"the test failed"}'
)
_REFUSALS: Final = {"busy": (429, _BUSY), "invalid": (422, _INVALID)}
_JSON: Final = {"content-type": "application/json"}


class VmHistoryWorld(VmWorld):
    """Everything of one history. Close it at the end."""

    def __init__(self, seed: int, setup: VmSetup, *, nodes: Mapping[str, str], processes: int = 2) -> None:
        self.clock_off_s = 0.0
        """Seconds by which the wall clock of our processes is off."""
        self.permit_ports: dict[str, RequestRouter] = {}
        """By identity of the process: its permit port."""
        self._evictions: dict[str, EvictionHandler] = {}
        """By identity of the process: its eviction webhook."""
        self.new_leader_listeners: list[Callable[[VmMember], None]] = []
        """Listeners called with each process after its ledger has read the whole cluster, before its first decision."""
        self.applied_listeners: list[Callable[[VmMember], None]] = []
        """Listeners called with each process whose ledger has applied an event."""
        super().__init__(seed, setup, nodes=nodes, processes=processes)
        self.call("POST", "/api/v1/namespaces", {"metadata": {"name": IGNORED_NAMESPACE}})
        self.refusing_server = _RefusingServer(self, Random(f"refusals {seed}"))
        self.network.server = self.refusing_server

    def wall(self) -> datetime:
        return super().wall() + timedelta(seconds=self.clock_off_s)

    def objects(self, table: str) -> Iterator[Obj]:
        """Yield the present objects of a table. The caller must not change them: all callers share one decoded copy."""
        return map(self.decode_object, self.cluster.api.store.table(table).sorted_objects())

    def object(self, table: str, namespace: str, name: str) -> Obj | None:
        """Return one present object or None. The caller must not change it."""
        stored = self.cluster.api.store.get(table, namespace, name)
        return None if stored is None else self.decode_object(stored)

    def start_member(self) -> None:
        super().start_member()
        member = self.members[-1]
        leading, client, rounds = member.controller, Client(member.wire), ChangeNotifier()
        desk = RequestContext(leading, client, self.setup.call_timeout_s)
        self.permit_ports[member.identity] = RequestRouter(
            desk,
            CallerAuthorizer(
                Access(client, lambda: self.now),
                "any",
                AgentRules(frozenset()),
                leading.informers.all.pods.store.get,
            ),
            PermitHandler(desk, rounds, _WAIT_S),
            ResizeHandler(desk, rounds, _WAIT_S),
            PermitMetrics(CollectorRegistry(), compat=False),
            lambda: self.now,
            _WAIT_S,
        )
        self._evictions[member.identity] = EvictionHandler(desk, lambda _: None)
        leading.ledger.listeners.append(rounds.notify_change)
        leading.informers.all.pods.store.on_change(lambda _, __: rounds.notify_change())
        leading.ledger.listeners.insert(0, _StartWatcher(member, self.new_leader_listeners).notify_if_started)
        leading.ledger.listeners.insert(1, partial(self._notify_applied, member))
        member.process.loop.create_task(_serve(rounds))

    def _notify_applied(self, member: VmMember) -> None:
        for each in self.applied_listeners:
            each(member)

    def send_permit_request(self, member: VmMember, body: bytes) -> Task[Response]:
        """Return the task of the answer. It never ends if the process is killed before."""
        request = Request("POST", "/", (), {}, body)
        task: Task[Response] = member.process.loop.create_task(
            self.permit_ports[member.identity].answer(request, "10.0.0.9")
        )
        return task

    def send_eviction_review(self, member: VmMember, body: bytes) -> Task[Reply]:
        """Return the task of the eviction webhook's answer. It never ends if the process is killed before."""
        task: Task[Reply] = member.process.loop.create_task(self._evictions[member.identity].answer(body))
        return task


class _StartWatcher:
    """Calls listeners once per term, when a ledger has read the whole cluster."""

    def __init__(self, member: VmMember, tell: Sequence[Callable[[VmMember], None]]) -> None:
        self._member = member
        self._listeners = tell
        self._started = False

    def notify_if_started(self) -> None:
        started = self._member.controller.ledger.state.started
        if started and not self._started:
            for each in self._listeners:
                each(self._member)
        self._started = started


async def _serve(rounds: ChangeNotifier) -> None:
    await rounds.run()


class _RefusingServer:
    """The server, which refuses some writes of our processes with 429 or 422."""

    def __init__(self, behind: VmHistoryWorld, rng: Random) -> None:
        self._world = behind
        self._rng = rng
        self.refusal_kind = ""
        """`busy` or `invalid`. Empty: refuse no writes."""

    def answer(self, request: Request, now: float, identity: Identity) -> Response | Watch:
        if self.refusal_kind and write_kind(request) and self._rng.random() < 0.4:
            code, said = _REFUSALS[self.refusal_kind]
            self._world.network.happened[f"write answered {code}"] += 1
            return Response(code, said, _JSON)
        return self._world.answer(request, now, identity)


def write_kind(request: Request) -> str:
    """Return the kind of a write of ours. Empty for reads, Leases and Events."""
    method, path = request.method, request.path
    if method == "GET" or "/leases" in path or "/events" in path:
        return ""
    if path.startswith(MIGRATIONS):
        return {"POST": "migration", "DELETE": "cancel"}.get(
            method, "hand-over" if b"handover" in request.body else "other"
        )
    if path.startswith(MACHINES):
        return "approval" if b"resources-approved" in request.body else "other"
    return "binding" if path.endswith("/binding") else "other"
