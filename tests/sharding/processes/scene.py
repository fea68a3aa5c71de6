"""One object before a server, executors in processes, and a supervisor's writes, made by the test."""

from __future__ import annotations

import http.client
import json
import os
import sys
import time
import uuid
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from situate.sharding.assignment import Holder, ObjectView, view_of
from situate.sharding.leases import lease_name
from situate.sharding.patching import Operations
from situate.testing.sharding.shipped.reports import CRDS, PATHS, REPORTS, assigning, definition, report, revoking
from tests.contract.servers import Server
from tests.controlplane.process import Process
from tests.sharding.processes.gate import Gate
from tests.sharding.processes.program import NAMESPACE, TIMES
from tests.waiting import eventually

ROOT = Path(__file__).resolve().parents[3]
_JSON_PATCH = "application/json-patch+json"


class Scene:
    """Names are of this test alone, for the server is shared."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.name = f"r-{uuid.uuid4().hex[:8]}"
        self._suffix = uuid.uuid4().hex[:8]
        self._server = server
        self._folder = folder
        self._cleanup = ExitStack()
        self._uids: dict[str, str] = {}
        self._ensure(CRDS, definition())
        self._ensure("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        listing = REPORTS.path(NAMESPACE)
        eventually("reports are served", lambda: self.ask("GET", listing), lambda answer: answer[0] == 200)
        self.call("POST", REPORTS.path(NAMESPACE), report(self.name))

    def end(self) -> None:
        self._cleanup.close()
        self.call("DELETE", REPORTS.path(NAMESPACE, self.name))

    def executor(
        self,
        name: str,
        handler: str,
        gate: Gate | None = None,
        *,
        lease: str = "short",
        program: str = "tests.sharding.processes.program",
    ) -> Process:
        """A process that is ready to be given work."""
        pod, uid = self.pod(name), uuid.uuid4().hex
        self._uids[name] = uid
        kubeconfig = self._server.kubeconfig(self._folder).read_text()
        if gate is not None:
            kubeconfig = kubeconfig.replace(f"{self._port}", f"{gate.port}")
        path = self._folder / f"{name}.kubeconfig"
        path.write_text(kubeconfig)
        command = (sys.executable, "-m", program, str(path), pod, uid, handler, lease)
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        process = Process(name, command, self._folder / f"{name}.log", environment=environment)
        process.start()
        self._cleanup.callback(process.kill)
        eventually(f"{name} holds its lease", lambda: self.lease_holder(name) == uid or _ended(process))
        assert process.running, process.tail(40)
        return process

    def gate(self) -> Gate:
        return self._cleanup.enter_context(Gate(self._port))

    def pod(self, name: str) -> str:
        return f"{name}-{self._suffix}"

    def assign(self, name: str) -> None:
        """As a supervisor does; what is the executor's is taken for lost."""
        self._patched(lambda content: assigning(content, Holder(self.pod(name), self._uids[name]), datetime.now(UTC)))

    def revoke(self) -> None:
        self._patched(revoking)

    def works(self, name: str, by: str) -> None:
        """Waits until the handler has begun, assigning anew where a lease was lost on a machine that is too busy."""

        def look() -> bool:
            content = self.get()
            if view_of(content, PATHS).holder is None:
                self.assign(name)
            return bool((content.get("status") or {}).get("by") == by)

        eventually(f"{name} works on {self.name}", look)

    def get(self) -> dict[str, Any]:
        return self.call("GET", REPORTS.path(NAMESPACE, self.name))

    def view(self) -> ObjectView:
        return view_of(self.get(), PATHS)

    def lease_holder(self, name: str) -> str:
        """Empty if there is no such Lease, or nobody holds it."""
        status, found = self.ask("GET", self._lease_path(name))
        assert status in (200, 404), found
        return str(found["spec"].get("holderIdentity", "")) if status == 200 else ""

    def lease(self, name: str) -> dict[str, Any]:
        return self.call("GET", self._lease_path(name))

    def _lease_path(self, name: str) -> str:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
        return f"{path}/{lease_name('default', self.pod(name), self._uids[name])}"

    def wait_expired(self, name: str) -> None:
        """As a supervisor judges: for the lease's duration nobody has seen it change."""
        seen, since = self.lease(name), time.monotonic()

        def look() -> bool:
            nonlocal seen, since
            found = self.lease(name)
            if found["spec"] != seen["spec"]:
                seen, since = found, time.monotonic()
            return time.monotonic() - since >= TIMES["short"].lease_s

        eventually(f"the lease of {name} has run out", look)

    def call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """A request of the test's own, which must succeed, if need be when storage is initialized after a restart."""
        status, answer = eventually(
            "the server takes requests", lambda: self.ask(method, path, body), lambda told: told[0] != 429
        )
        assert status < 300, (method, path, status, answer)
        return answer

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, dict[str, Any]]:
        parts = urlsplit(self._server.url)
        tls = self._server.tls()
        connection = (
            http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
            if tls is None
            else http.client.HTTPSConnection("127.0.0.1", self._port, timeout=60, context=tls)
        )
        assert parts.hostname == "127.0.0.1", parts
        try:
            headers = {"Authorization": f"Bearer {self._server.token}"}
            if body is not None:
                headers["Content-Type"] = _JSON_PATCH if method == "PATCH" else "application/json"
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read().decode()
            return answer.status, dict(json.loads(text)) if text.startswith("{") else {"text": text}
        finally:
            connection.close()

    @property
    def _port(self) -> int:
        port = urlsplit(self._server.url).port
        assert port is not None
        return port

    def _patched(self, operations: Any) -> None:
        """Again and again, for somebody else may be writing all the time."""

        def attempt() -> bool:
            made: Operations = operations(self.get())
            status, answer = self.ask("PATCH", REPORTS.path(NAMESPACE, self.name), [*made])
            assert status in (200, 409), answer
            return status == 200

        eventually(f"{self.name} can be written", attempt)

    def _ensure(self, path: str, content: dict[str, Any]) -> None:
        status, answer = self.ask("POST", path, content)
        assert status in (201, 409), answer


def _ended(process: Process) -> bool:
    return not process.running
