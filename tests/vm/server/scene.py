"""The permit port beside the shipped vm process, on a virtual clock and without sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from situate.cluster.storage.effects import Identity
from situate.cluster.storage.watch import Watch
from situate.kube.client import Client
from situate.objects.messages import Request, Response
from situate.testing.virtual_time.network import RequestHandler as Behind
from situate.testing.vm.world.processes import NAMESPACE, VmWorld
from situate.vm.agent.protocol.permits import VERSION
from situate.vm.api.quantities import GIB, amounts_value
from situate.vm.api.well_known import APPROVED
from situate.vm.config.settings import PermitSettings
from situate.vm.controller.setup import VmSetup
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from situate.vm.server.service import PermitServer

AGENT, STRANGER, PERSON = "agent-token", "stranger-token", "person-token"
"""Of a service account that may all, of one that may nothing but ask, and of a user who is no service account."""
HOME = "situate"
"""Namespace of the process and of its agents."""
ACCOUNTS = {
    AGENT: f"system:serviceaccount:{HOME}:situate-vm-agent",
    STRANGER: "system:serviceaccount:other:default",
    PERSON: "alice",
}
UNIT = Amounts.from_values(250, GIB)


def cores(count: float) -> Amounts:
    """With 4 GiB for each."""
    return Amounts.from_values(round(1000 * count), round(4 * GIB * count))


class _Reviews:
    """Answers reviews: the embedded server would allow everything to everybody."""

    def __init__(self, behind: Behind) -> None:
        self._behind = behind
        self.asked: list[dict[str, Any]] = []
        self.broken = self.silent = False
        self.claims: dict[str, dict[str, str]] = {AGENT: {"node-name": "n1", "pod-name": "agent-x", "pod-uid": "u"}}
        """By token: what it is bound to."""

    def answer(self, request: Request, now: float, identity: Identity) -> Response | Watch | None:
        if not request.path.endswith(("/tokenreviews", "/subjectaccessreviews")):
            return self._behind.answer(request, now, identity)
        spec = json.loads(request.body)["spec"]
        self.asked.append(spec)
        if self.silent:
            return None
        if self.broken:
            return Response(503, b'{"kind":"Status","status":"Failure","code":503,"message":"not now"}')
        if request.path.endswith("/tokenreviews"):
            name = ACCOUNTS.get(spec["token"])
            bound = self.claims.get(spec["token"], {})
            extra = {f"authentication.kubernetes.io/{key}": [value] for key, value in bound.items()}
            user = {"username": name or "", "extra": extra}
            status: dict[str, Any] = {"authenticated": name is not None, "user": user}
        else:
            status = {"allowed": spec["user"] == ACCOUNTS[AGENT]}
        return Response(201, json.dumps({"status": status}).encode())


class Stage:
    def __init__(self, world: VmWorld, settings: PermitSettings) -> None:
        self.world = world
        self.reviews = world.network.server = _Reviews(world.network.server)
        self.writes: list[str] = []
        """Paths of writes about machines and pods."""
        world.request_listeners.append(self._note)
        self.registry = CollectorRegistry()
        self.servers = [self._serve(number, settings) for number in range(len(world.members))]

    def _note(self, request: Request, answer: Response | Watch, _: Identity) -> None:
        if "/virtualmachines/" in request.path or "/pods/" in request.path:
            self.writes.append(request.path)

    def _serve(self, number: int, settings: PermitSettings) -> PermitServer:
        member = self.world.members[number]
        made: list[PermitServer] = []

        async def make() -> None:
            made.append(
                PermitServer(
                    member.controller,
                    settings,
                    Client(member.wire),
                    Client(member.wire),
                    self.registry if not number else CollectorRegistry(),
                    folder=Path(),
                    namespace=HOME,
                    call_timeout_s=1.0,
                    stopwatch=lambda: self.world.now,
                )
            )
            self._rounds = asyncio.create_task(made[0]._rounds.run())

        asyncio.run_coroutine_threadsafe(make(), member.process.loop)
        self.wait(lambda: bool(made))
        return made[0]

    def wait(self, for_: Callable[[], bool], within_s: float = 30.0) -> None:
        assert self.world.let_pass(within_s, stop=for_), self.world.notes

    def run(self, name: str, **more: Any) -> str:
        """A machine that runs; its pod."""
        self.world.create_machine(name, **more)
        self.wait(lambda: self.world.all_running(name))
        pod = self.world.runner_pod(name)["metadata"]["name"]
        self.wait(lambda: self.controller.informers.all.pods.store.get(pod, NAMESPACE) is not None)
        return str(pod)

    @property
    def controller(self) -> Any:
        return self.world.members[0].controller

    @property
    def state(self) -> Any:
        return self.controller.ledger.state

    def begin(self, request: Request, peer: str = "10.0.0.9", server: int = 0) -> Any:
        """The answer to come, a future."""
        loop = self.world.members[server].process.loop
        return asyncio.run_coroutine_threadsafe(self.servers[server].router.answer(request, peer), loop)

    def run_there(self, work: Coroutine[Any, Any, Any]) -> Any:
        """What comes of it in the first process, a future."""
        return asyncio.run_coroutine_threadsafe(work, self.world.members[0].process.loop)

    def send(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        token: str | None = AGENT,
        peer: str = "10.0.0.9",
        server: int = 0,
    ) -> Response:
        headers: Mapping[str, str] = {} if token is None else {"authorization": f"Bearer {token}"}
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        coming = self.begin(Request(method, path, (), headers, data), peer, server)
        self.wait(coming.done, within_s=10.0)
        answer: Response = coming.result()
        return answer

    def permit(self, pod: str, wanted: Amounts, held: Amounts | None, **more: Any) -> dict[str, Any]:
        answer = self.send("POST", "/", asking(pod, wanted, held, **more))
        assert answer.status == 200, answer.body
        found: dict[str, Any] = json.loads(answer.body)
        return found

    def approved(self, name: str) -> Any:
        return self.world.annotation(name, APPROVED)

    def node(self) -> Any:
        return self.state.nodes["n1"]


def asking(pod: str, wanted: Amounts, held: Amounts | None, **more: Any) -> dict[str, Any]:
    """The body of a request."""
    return {
        "protoVersion": VERSION,
        "pod": {"namespace": NAMESPACE, "name": pod},
        "computeUnit": amounts_value(UNIT),
        "resources": amounts_value(wanted),
        "lastPermit": None if held is None else amounts_value(held),
        "metrics": {"loadAvg1M": 0.5},
        **more,
    }


def shown(amounts: Amounts) -> dict[str, Any]:
    """As an answer has it."""
    return dict(amounts_value(amounts))


@contextmanager
def stage(
    rules: Rules = Rules(),  # noqa: B008  # frozen
    settings: PermitSettings = PermitSettings(),  # noqa: B008  # frozen
    *,
    processes: int = 1,
    **nodes: str,
) -> Iterator[Stage]:
    world = VmWorld(1, VmSetup(rules), nodes=nodes or {"n1": "8"}, processes=processes)
    try:
        world.let_pass(3.0)
        yield Stage(world, settings)
    finally:
        world.close()
