"""One object before a server, executors in processes, and a supervisor's writes, made by the test."""

from __future__ import annotations

import os
import sys
import time
import uuid
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from situate.sharding.model.object_view import Holder, ObjectView, view_of
from situate.sharding.model.patches import Operations
from situate.testing.sharding.world.reports import PATHS, REPORTS, assignment_patch, report, revocation_patch
from tests.contract.servers import Server
from tests.controlplane.process import Process
from tests.sharding.processes.gate import Gate
from tests.sharding.processes.place import Place
from tests.sharding.processes.program import NAMESPACE, TIMES
from tests.waiting import eventually

ROOT = Path(__file__).resolve().parents[3]


class Scene:
    """Names are of this test alone, for the server is shared."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.name = f"r-{uuid.uuid4().hex[:8]}"
        self.place = Place(server, NAMESPACE, folder)
        self._suffix = uuid.uuid4().hex[:8]
        self._folder = folder
        self._cleanup = ExitStack()
        self._uids: dict[str, str] = {}
        self.place.call("POST", REPORTS.path(NAMESPACE), report(self.name))

    def end(self) -> None:
        self._cleanup.close()
        self.place.call("DELETE", REPORTS.path(NAMESPACE, self.name))
        self.place.check()

    def executor(
        self,
        name: str,
        handler: str,
        gate: Gate | None = None,
        *,
        lease: str = "short",
        program: str = "tests.sharding.processes.program",
    ) -> Process:
        """A process that is ready to be given work, in a pod of its own."""
        pod = self.pod(name)
        uid = self._uids[name] = self.place.pod(pod)
        path = self.place.executor_kubeconfig(pod, uid)
        if gate is not None:
            path.write_text(path.read_text().replace(f"127.0.0.1:{self.place.port}", f"127.0.0.1:{gate.port}"))
        command = (sys.executable, "-m", program, str(path), pod, uid, handler, lease)
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        process = Process(name, command, self._folder / f"{name}.log", environment=environment)
        process.start()
        self._cleanup.callback(process.kill)
        eventually(f"{name} holds its lease", lambda: self.lease_holder(name) == uid or _ended(process))
        assert process.running, process.tail(40)
        return process

    def gate(self) -> Gate:
        return self._cleanup.enter_context(Gate(self.place.port))

    def pod(self, name: str) -> str:
        return f"{name}-{self._suffix}"

    def assign(self, name: str) -> None:
        """As a supervisor does; what is the executor's is taken for lost."""
        self._patched(
            lambda content: assignment_patch(content, Holder(self.pod(name), self._uids[name]), datetime.now(UTC))
        )

    def revoke(self) -> None:
        self._patched(revocation_patch)

    def works(self, name: str, by: str) -> None:
        """Waits until the handler has begun, assigning anew where a lease was lost on a machine that is too busy."""

        def look() -> bool:
            content = self.get()
            if view_of(content, PATHS).holder is None:
                self.assign(name)
            return bool((content.get("status") or {}).get("by") == by)

        eventually(f"{name} works on {self.name}", look)

    def get(self) -> dict[str, Any]:
        return self.place.call("GET", REPORTS.path(NAMESPACE, self.name))

    def view(self) -> ObjectView:
        return view_of(self.get(), PATHS)

    def lease_holder(self, name: str) -> str:
        """Empty if there is no such Lease, or nobody holds it."""
        return self.place.lease_holder(self.pod(name), self._uids[name])

    def wait_expired(self, name: str) -> None:
        """As a supervisor judges: for the lease's duration nobody has seen it change."""
        path = self.place.lease_path(self.pod(name), self._uids[name])
        seen, since = self.place.call("GET", path), time.monotonic()

        def look() -> bool:
            nonlocal seen, since
            found = self.place.call("GET", path)
            if found["spec"] != seen["spec"]:
                seen, since = found, time.monotonic()
            return time.monotonic() - since >= TIMES["short"].lease_s

        eventually(f"the lease of {name} has run out", look)

    def _patched(self, operations: Any) -> None:
        """Again and again, for somebody else may be writing all the time."""

        def attempt() -> bool:
            made: Operations = operations(self.get())
            status, answer = self.place.ask("PATCH", REPORTS.path(NAMESPACE, self.name), [*made], supervisor=True)
            assert status in (200, 409), answer
            return status == 200

        eventually(f"{self.name} can be written", attempt)


def _ended(process: Process) -> bool:
    return not process.running
