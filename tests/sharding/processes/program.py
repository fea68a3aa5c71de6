"""An executor as a process of its own: `python -m tests.sharding.processes.program KUBECONFIG POD UID HANDLER LEASE`.

It writes a word into the status of its object when its handler begins, so that whoever watches knows.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from situate.kube.client import Client
from situate.kube.connect import find_connection
from situate.runtime.process.manager import Manager, stop_on_signals
from situate.sharding.executor.config import ExecutorConfig, ExecutorIdentity
from situate.sharding.executor.controller.executor import Executor
from situate.sharding.executor.controller.runs import Handler
from situate.sharding.executor.controller.work import Work
from situate.sharding.executor.next_step import Outcome
from situate.sharding.leases.membership import LeaseTimes
from situate.sharding.model.field_paths import Content
from situate.testing.sharding.world.reports import REPORTS
from tests.sharding.processes.hearing import hearing

TIMES = {
    "short": LeaseTimes(lease_s=9.0, renew_s=1.0, retry_s=0.3, renew_deadline_s=6.0, cancel_grace_s=2.4),
    "long": LeaseTimes(lease_s=120.0, renew_s=1.0, retry_s=0.3, renew_deadline_s=90.0, cancel_grace_s=2.0),
}
"""Short where a lease is to be lost; long where a machine that is too busy must not lose it."""
NAMESPACE = "shop"


async def writes(obj: Content, work: Work) -> Outcome | None:
    """On and on, as fast as the server answers."""
    by, count = str(obj["spec"]["assignedTo"]), 0
    while True:
        count += 1
        await work.patch_status({"by": by, "count": count})
        await asyncio.sleep(0.005)


async def blocks(_: Content, work: Work) -> Outcome | None:
    """Holds up the whole event loop."""
    await work.patch_status({"by": "blocks"})
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        time.sleep(0.05)  # noqa: ASYNC251 - what no handler should do
    return None


async def ignores(_: Content, work: Work) -> Outcome | None:
    """Its cancellation."""
    await work.patch_status({"by": "ignores"})
    while True:
        try:
            await asyncio.sleep(300)
        except asyncio.CancelledError:
            continue


async def thread(_: Content, work: Work) -> Outcome | None:
    """Works in a thread that looks whether it is to stop."""
    await work.patch_status({"by": "thread"})
    await work.in_thread(work.stopping.wait)
    return None


HANDLERS: dict[str, Handler] = {"writes": writes, "blocks": blocks, "ignores": ignores, "thread": thread}


async def main(kubeconfig: str, pod: str, uid: str, handler: str, lease: str) -> None:
    connection = find_connection(Path(kubeconfig))

    def client() -> Client:
        return hearing(connection)

    config = ExecutorConfig(REPORTS, namespace=NAMESPACE, times=TIMES[lease], stall_limit=2.0)
    executor = Executor(ExecutorIdentity(pod, NAMESPACE, uid), HANDLERS[handler], config, client)
    manager = Manager()
    executor.setup(manager)
    stop_on_signals(manager)
    await manager.run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
