"""A supervisor or an executor as a process of its own, in a namespace of the test's.

`python -m tests.sharding.processes.supervised KUBECONFIG NAMESPACE supervisor NAME FOLDER`, and
`python -m tests.sharding.processes.supervised KUBECONFIG NAMESPACE executor POD UID`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

from situate.archive.protocol import Archiver
from situate.archive.stores.folder.archiver import FilesystemArchiver
from situate.kube.client import Client
from situate.kube.connect import find_connection
from situate.kube.election.lease_record import ElectionTimes
from situate.kube.login.connection import Connection
from situate.runtime.process.manager import Manager, stop_on_signals
from situate.sharding.executor.config import ExecutorConfig, ExecutorIdentity
from situate.sharding.executor.controller.executor import Executor
from situate.sharding.executor.controller.runs import Handler
from situate.sharding.executor.controller.work import Work
from situate.sharding.executor.next_step import Outcome
from situate.sharding.leases.membership import ExecutorWatch, LeaseTimes
from situate.sharding.model.field_paths import Content, FieldPaths
from situate.sharding.model.supervisor_config import SupervisorConfig
from situate.sharding.strategies import MinScheduled
from situate.sharding.supervisor.controller.supervisor import Supervisor
from situate.sharding.supervisor.scope import Scope
from situate.testing.sharding.world.reports import REPORTS
from tests.sharding.processes.hearing import hearing

TIMES = LeaseTimes(lease_s=9.0, renew_s=1.0, retry_s=0.3, renew_deadline_s=6.0, cancel_grace_s=2.4)
ELECTION = ElectionTimes(lease_s=6.0, renew_deadline_s=4.0, retry_s=0.5)
_AT_ONCE = SupervisorConfig(archive_ttl=0.0)


async def works(obj: Content, work: Work) -> Outcome | None:
    """What is quick is done at once; the rest goes on for ever."""
    if obj["spec"].get("quick"):
        return Outcome.succeeded("Done")
    by, count = str(obj["spec"]["assignedTo"]), 0
    while True:
        count += 1
        await work.patch_status({"by": by, "count": count})
        await asyncio.sleep(0.2)


async def main(
    kubeconfig: str,
    namespace: str,
    role: str,
    name: str,
    extra: str,
    *,
    connected: Callable[[Connection], Client] = hearing,
    archiving: Callable[[Archiver], Archiver] = lambda archiver: archiver,
    times: LeaseTimes = TIMES,
    handler: Handler = works,
    config: SupervisorConfig = _AT_ONCE,
    max_handler_failures: int | None = None,
) -> None:
    connection = find_connection(Path(kubeconfig))

    def client() -> Client:
        return connected(connection)

    manager = Manager()
    if role == "executor":
        executing = ExecutorConfig(
            REPORTS, namespace=namespace, times=times, stall_limit=2.0, max_handler_failures=max_handler_failures
        )
        Executor(ExecutorIdentity(name, namespace, extra), handler, executing, client).setup(manager)
    else:
        watch = ExecutorWatch("app=reports", namespace)
        scope = Scope(REPORTS, watch, name, namespace, namespace, times=times, election=ELECTION)
        archiver = archiving(FilesystemArchiver(Path(extra)))
        Supervisor(FieldPaths(), MinScheduled(), archiver, config, scope=scope, connect=client).setup(manager)
    stop_on_signals(manager)
    await manager.run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
