"""Kopf and an executor in one process: `python -m tests.sharding.processes.kopf_program KUBECONFIG POD UID LOG LEASE`.

What is long is the executor's, through `KopfHandler`; Kopf's own loop runs a handler for each event of an object that
is this executor's, and one for each event of all of them. Both write a line into LOG.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import kopf

from situate.kube.client import Client
from situate.kube.connect import find_connection
from situate.runtime.process.manager import Manager, stop_on_signals
from situate.sharding import Executor, ExecutorConfig, ExecutorIdentity, KopfHandler
from situate.testing.sharding.world.reports import GROUP, REPORTS
from tests.sharding.processes.hearing import hearing
from tests.sharding.processes.program import NAMESPACE, TIMES


async def main(kubeconfig: str, pod: str, uid: str, log: str, lease: str) -> None:
    os.environ["KUBECONFIG"] = kubeconfig  # where Kopf looks
    connection = find_connection(Path(kubeconfig))

    def client() -> Client:
        return hearing(connection)

    def build(name: str, spec: kopf.Spec, patch: kopf.Patch, retry: int, stopped: Any, **_: Any) -> str:
        if retry == 0:
            raise kopf.TemporaryError("the first time never works", delay=0.1)
        # Kopf may look at the latest of several events only
        while not stopped and f"mine {name} " not in Path(log).read_text():
            stopped.wait(0.05)
        patch.status["by"] = spec["assignedTo"]
        return f"at the {retry + 1}. call"

    config = ExecutorConfig(REPORTS, namespace=NAMESPACE, times=TIMES[lease])
    executor = Executor(ExecutorIdentity(pod, NAMESPACE, uid), KopfHandler(build, retries=3), config, client)

    def told(what: str, meta: kopf.Meta) -> None:
        with Path(log).open("a") as lines:
            lines.write(f"{what} {meta.name} {meta['resourceVersion']}\n")

    @kopf.on.event(GROUP, "v1", "reports", when=executor.owns)
    async def mine(meta: kopf.Meta, **_: Any) -> None:
        told("mine", meta)

    @kopf.on.event(GROUP, "v1", "reports")
    async def seen(meta: kopf.Meta, **_: Any) -> None:
        told("seen", meta)

    manager = Manager()
    executor.setup(manager)
    stop_on_signals(manager)
    running = asyncio.create_task(manager.run())
    await executor.wait_first_tenure()  # before it, nothing is anybody's
    stop = asyncio.Event()
    operating = asyncio.create_task(kopf.operator(namespaces=[NAMESPACE], standalone=True, stop_flag=stop))
    await running
    stop.set()
    await operating


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
