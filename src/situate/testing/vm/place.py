"""The world of a history: two processes of vm with their permit ports, clocks that jump, and a server that refuses.

Requests reach a permit port without sockets; everything behind it is the shipped code.
"""

from __future__ import annotations

from asyncio import Task
from collections.abc import Mapping
from datetime import datetime, timedelta
from random import Random
from typing import Final

from prometheus_client import CollectorRegistry

from situate.cluster.effects import Identity
from situate.cluster.watch import Watch
from situate.kube.client import Client
from situate.objects.messages import Request, Response
from situate.runtime.serving.access import Access
from situate.testing.vm.shipped import MACHINES, MIGRATIONS, VmMember, VmWorld
from situate.vm.controller.setup import VmSetup
from situate.vm.server.answering import Answering
from situate.vm.server.callers import Callers
from situate.vm.server.desk import Desk
from situate.vm.server.metrics import PermitMetrics
from situate.vm.server.permits import Permits
from situate.vm.server.resizing import Resizing
from situate.vm.server.rounds import Rounds

_WAIT_S: Final = 1.0
_BUSY = b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","code":429,"message":"busy"}'
_INVALID = (
    b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,"message":"the test failed"}'
)
_REFUSALS: Final = {"busy": (429, _BUSY), "invalid": (422, _INVALID)}
_JSON: Final = {"content-type": "application/json"}


class Place(VmWorld):
    """Everything of one history. Close it when done."""

    def __init__(self, seed: int, setup: VmSetup, *, nodes: Mapping[str, str]) -> None:
        self.clock_off_s = 0.0
        """By so much the wall clock of our processes is off."""
        self.ports: dict[str, Answering] = {}
        """By identity of the process."""
        super().__init__(seed, setup, nodes=nodes, processes=2)
        self.refusing = _Refusing(self, Random(f"refusals {seed}"))
        self.network.server = self.refusing

    def wall(self) -> datetime:
        return super().wall() + timedelta(seconds=self.clock_off_s)

    def start_member(self) -> None:
        super().start_member()
        member = self.members[-1]
        leading, client, rounds = member.controller, Client(member.wire), Rounds()
        desk = Desk(leading, client, self.setup.call_timeout_s)
        self.ports[member.identity] = Answering(
            desk,
            Callers(Access(client, lambda: self.now), "any"),
            Permits(desk, rounds, _WAIT_S),
            Resizing(desk, rounds, _WAIT_S),
            PermitMetrics(CollectorRegistry(), compat=False),
            lambda: self.now,
        )
        leading.ledger.listeners.append(rounds.changed)
        leading.watched.all.pods.store.on_change(lambda _, __: rounds.changed())
        member.process.loop.create_task(_serve(rounds))

    def ask_port(self, member: VmMember, body: bytes) -> Task[Response]:
        """The answer to come; never, if the process is killed before."""
        request = Request("POST", "/", (), {}, body)
        task: Task[Response] = member.process.loop.create_task(self.ports[member.identity].answer(request, "10.0.0.9"))
        return task


async def _serve(rounds: Rounds) -> None:
    await rounds.run()


class _Refusing:
    """The server, which refuses some writes of our processes with 429 or 422."""

    def __init__(self, behind: Place, rng: Random) -> None:
        self._behind = behind
        self._rng = rng
        self.how = ""
        """`busy` or `invalid`; empty: it refuses nothing of its own."""

    def answer(self, request: Request, now: float, identity: Identity) -> Response | Watch:
        if self.how and kind_of(request) and self._rng.random() < 0.4:
            code, said = _REFUSALS[self.how]
            self._behind.network.happened[f"write answered {code}"] += 1
            return Response(code, said, _JSON)
        return self._behind.answer(request, now, identity)


def kind_of(request: Request) -> str:
    """Of a write of ours; empty of what is none, and of those that only elect or tell."""
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
