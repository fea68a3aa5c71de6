"""Supervisors and executors in a namespace of a test's own."""

from __future__ import annotations

import os
import sys
import uuid
from pathlib import Path
from typing import Any

from situate.testing.sharding.world.reports import REPORTS, report
from tests.contract.servers import Server
from tests.controlplane.process import Process
from tests.sharding.processes.place import Place
from tests.sharding.processes.scene import ROOT


class Company:
    """A namespace, supervisors and executors; none of them outlives the test."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.namespace = f"company-{uuid.uuid4().hex[:8]}"
        self.place = Place(server, self.namespace, folder)
        self.folder = folder
        self.archive = folder / "archive"
        self.archive.mkdir()
        self.processes: dict[str, Process] = {}
        self.uids: dict[str, str] = {}
        """Of executors' pods."""

    def start(self, role: str, name: str, kubeconfig: Path, extra: str, program: str, **environment: str) -> None:
        program = f"tests.sharding.processes.{program}"
        command = (sys.executable, "-m", program, str(kubeconfig), self.namespace, role, name, extra)
        plain = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        log = self.folder / f"{name}.log"
        self.processes[name] = Process(name, command, log, environment={**plain, **environment})
        self.processes[name].start()

    def supervisor(self, name: str, program: str = "supervised", **environment: str) -> None:
        kubeconfig = self.place.supervisor_kubeconfig(name)
        self.start("supervisor", name, kubeconfig, str(self.archive), program, **environment)

    def executor(self, name: str, program: str = "supervised", **environment: str) -> None:
        """In a pod that is ready."""
        self.uids[name] = uid = self.place.pod(name)
        self.start("executor", name, self.place.executor_kubeconfig(name, uid), uid, program, **environment)

    def create(self, name: str, annotations: dict[str, str] | None = None, **spec: Any) -> None:
        made = report(name, **spec)
        made["metadata"]["annotations"] = annotations or {}
        self.place.call("POST", REPORTS.path(self.namespace), made)

    def log(self, name: str) -> str:
        return self.processes[name].log.read_text()

    def reports(self) -> dict[str, dict[str, Any]]:
        items = self.place.call("GET", REPORTS.path(self.namespace))["items"]
        return {each["metadata"]["name"]: each for each in items}

    def by(self) -> dict[str, str]:
        """Who works on each object, as it says itself."""
        return {name: each.get("status", {}).get("by", "") for name, each in self.reports().items()}

    def counts(self) -> dict[str, int]:
        """How far the work on each object is."""
        return {name: each.get("status", {}).get("count", 0) for name, each in self.reports().items()}

    def leader(self) -> str:
        """Empty if nobody leads."""
        status, found = self.place.ask("GET", self.lease)
        return str(found["spec"].get("holderIdentity") or "") if status == 200 else ""

    @property
    def lease(self) -> str:
        """Where the supervisors' is."""
        name = f"{REPORTS.group_resource}.default.supervisor"
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/{name}"

    def end(self) -> None:
        for process in self.processes.values():
            process.kill()
        self.place.check()
