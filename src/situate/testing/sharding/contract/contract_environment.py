"""The server and the executor's process. The place records each request that reaches the server."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from situate.cluster.apiserver.faults import FaultKind, FaultRule
from situate.cluster.storage.effects import ADMIN, Identity
from situate.cluster.storage.store import Event
from situate.embedded.embedded_server import EmbeddedServer, Settings
from situate.embedded.kubeconfig import kubeconfig, write_kubeconfig
from situate.objects.messages import Request, Response
from situate.sharding.fencing import admit as admitting
from situate.sharding.fencing.admit import Fence, Refusal, Role, Writer, admit
from situate.sharding.leases.membership import lease_name
from situate.sharding.model.object_view import ObjectView, view_of
from situate.testing.sharding.contract.rules import Timing
from situate.testing.sharding.world.reports import CRDS, PATHS, definition

GROUP: Final = "contract.situate.dev"
NAMESPACE: Final = "contract"
POD: Final = "executor-0"
POOL: Final = "default"
UNITS: Final = f"/apis/{GROUP}/v1/namespaces/{NAMESPACE}/units"
LEASES: Final = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
_USER: Final = "executor-under-test"
_POLL_S: Final = 0.02
_PATCH: Final = {"accept": "application/json", "content-type": "application/json-patch+json"}
_JSON: Final = {"accept": "application/json", "content-type": "application/json"}


@dataclass(frozen=True, slots=True)
class LandedWrite:
    """A write of an object by the executor."""

    at: float
    """Monotonic time of the write."""
    name: str
    before: ObjectView
    after: ObjectView
    refusal: Refusal | None
    """The policy's refusal of this write, if any."""


class ContractEnvironment:
    """The server and process of one run. Call `start`, and `stop` in any case."""

    def __init__(self, command: str, timing: Timing, folder: Path) -> None:
        self.timing = timing
        self.folder = folder
        self.uid = ""
        self.landed_writes: list[LandedWrite] = []
        self.renewals: list[float] = []
        """Times at which the executor's Lease changed."""
        self.process: asyncio.subprocess.Process | None = None
        self._command = command
        token = uuid.uuid4().hex
        self._token = token
        tokens = {token: Identity(_USER, ("system:masters", "system:authenticated"))}
        self._server = EmbeddedServer(Settings(tokens=tokens, machinery=None))
        self._is_own_request = False

    async def start(self) -> None:
        await self._server.start()
        self.call("POST", CRDS, definition(group=GROUP, kind="Unit"))
        self.call("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        self._server.api.store.subscribe(self._record_change)
        container = {"name": "executor", "image": "executor"}
        pod = {"metadata": {"name": POD}, "spec": {"containers": [container]}}
        self.uid = self.call("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", pod)["metadata"]["uid"]
        write_kubeconfig(self.folder / "kubeconfig", kubeconfig(self._server.url, token=self._token))
        await self.start_executor()

    async def start_executor(self) -> None:
        """Start the executor's process."""
        environment = os.environ | self.timing.environment()
        environment |= {
            "KUBECONFIG": str(self.folder / "kubeconfig"),
            "POD_NAME": POD,
            "POD_NAMESPACE": NAMESPACE,
            "POD_UID": self.uid,
            "SITUATE_RESOURCE": f"{GROUP}/v1/units",
            "SITUATE_NAMESPACE": NAMESPACE,
            "SITUATE_POOL": POOL,
        }
        with (self.folder / "executor.log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *shlex.split(self._command),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=asyncio.subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )

    async def stop(self) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()
        await self._server.stop()

    @property
    def has_ended(self) -> bool:
        return self.process is not None and self.process.returncode is not None

    def log_tail(self, lines: int = 12) -> list[str]:
        """Return the last lines of the executor's output."""
        return (self.folder / "executor.log").read_text(errors="replace").splitlines()[-lines:]

    def now(self) -> float:
        return time.monotonic()

    def wall(self) -> datetime:
        return datetime.now(UTC)

    def call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """Send a request of the supervisor's part, carried out at once. It must succeed."""
        headers = _PATCH if method == "PATCH" else _JSON
        data = b"" if body is None else json.dumps(body).encode()
        self._is_own_request = True
        try:
            answer = self._server.api.answer(Request(method, path, (), headers, data), time.time(), ADMIN)
        finally:
            self._is_own_request = False
        assert isinstance(answer, Response)
        assert answer.status < 300, (method, path, answer)
        return dict(json.loads(answer.body))

    def get(self, name: str) -> dict[str, Any]:
        return self.call("GET", f"{UNITS}/{name}")

    def view(self, name: str) -> ObjectView:
        return view_of(self.get(name), PATHS)

    def worker_of(self, name: str) -> str:
        """Return the UID of the executor that worked on the object, from the object's status."""
        return str((self.get(name).get("status") or {}).get("by", ""))

    def lease(self) -> dict[str, Any] | None:
        stored = self._server.api.store.get("leases.coordination.k8s.io", NAMESPACE, self.lease_name)
        return None if stored is None else self.call("GET", f"{LEASES}/{self.lease_name}")

    @property
    def lease_name(self) -> str:
        return lease_name(POOL, POD, self.uid)

    def leases(self) -> list[str]:
        return [each["metadata"]["name"] for each in self.call("GET", LEASES)["items"]]

    def delay(self, name: str, seconds: float) -> None:
        """Delay the executor's next write of the object."""
        path = f"{UNITS}/{name}*"
        self._add_fault(
            FaultRule(fault=FaultKind.DELAY, methods=("PATCH", "PUT"), path=path, users=(_USER,), delay_s=seconds)
        )

    def delayed_write_arrived(self) -> bool:
        """Return whether the delayed write has arrived."""
        return not self._server.faults.active

    def refuse_renewals(self) -> None:
        self._add_fault(FaultRule(fault=FaultKind.REFUSE, path=f"{LEASES}*", users=(_USER,), times=None))

    def clear_faults(self) -> None:
        """End all faults."""
        self._server.faults.clear()

    async def wait_until(self, holds: Callable[[], object], within_s: float) -> bool:
        """Wait until a condition holds and return whether it did in time. The process may end meanwhile."""
        end = self.now() + within_s
        while not holds():
            if self.now() >= end:
                return False
            await asyncio.sleep(_POLL_S)
        return True

    def writes_of(self, name: str, since: float = 0.0) -> list[LandedWrite]:
        return [each for each in self.landed_writes if each.name == name and each.at >= since]

    def _add_fault(self, rule: FaultRule) -> None:
        self._server.faults.add(rule)

    def _record_change(self, event: Event) -> None:
        """Record each change before the answer to its request leaves."""
        if self._is_own_request or event.new is None:
            return
        if event.resource == "leases.coordination.k8s.io":
            self.renewals.append(self.now())
        elif event.resource == f"units.{GROUP}" and event.old is not None:
            before, after = event.old.object(), event.new.object()
            status = before.get("status") != after.get("status")
            request = admitting.WriteRequest(Writer(Role.EXECUTOR, self.uid), after, "status" if status else "")
            refusal = admit(before, request, Fence(PATHS))
            name = str(after["metadata"]["name"])
            landed = LandedWrite(self.now(), name, view_of(before, PATHS), view_of(after, PATHS), refusal)
            self.landed_writes.append(landed)
