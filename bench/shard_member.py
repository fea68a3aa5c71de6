"""A supervisor or an executor as a process of its own, as an operator's `main` would have it, for `bench.shard`.

    python -m bench.shard_member KUBECONFIG NAMESPACE supervisor NAME [--archive FOLDER]
    python -m bench.shard_member KUBECONFIG NAMESPACE executor POD UID [--work-s S] [--concurrency N]

Settings are the defaults. A handler waits for so long and has succeeded then; without `--work-s` it has nothing to do,
and the object stays open. The first line says that executors and objects are listed, or that the executor may work.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

from situate.archive.stores.folder.archiver import FilesystemArchiver
from situate.kube.client import Client
from situate.kube.connect import connect, find_connection
from situate.objects.resources import unstructured
from situate.runtime.process.logs import configure_logging
from situate.runtime.process.manager import Manager, stop_on_signals
from situate.runtime.process.startup import run_process
from situate.sharding.executor.config import ExecutorConfig, ExecutorIdentity
from situate.sharding.executor.controller.executor import Executor
from situate.sharding.executor.controller.work import Work
from situate.sharding.executor.next_step import Outcome
from situate.sharding.leases.membership import ExecutorWatch
from situate.sharding.model.field_paths import Content, FieldPaths
from situate.sharding.model.supervisor_config import SupervisorConfig
from situate.sharding.strategies import MinScheduled
from situate.sharding.supervisor.controller.supervisor import Supervisor
from situate.sharding.supervisor.scope import Scope

UNITS: Final = unstructured("bench.example.com", "v1", "Unit", "units")
Connect: TypeAlias = Callable[[], Client]
LABELS: Final = {"app": "units"}
_SELECTOR: Final = ",".join(f"{key}={value}" for key, value in LABELS.items())


class _Said:
    """A service that says when what was added before it is ready."""

    name = "first line"

    def __init__(self) -> None:
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await self._stopped.wait()

    def stop(self) -> None:
        self._stopped.set()


async def _main(chosen: argparse.Namespace) -> None:
    connection = find_connection(chosen.kubeconfig)

    def client() -> Client:
        return connect(connection, random.Random())

    manager = Manager()
    if chosen.role == "executor":
        _executor(chosen, client).setup(manager)
    else:
        _supervisor(chosen, client).setup(manager)
    manager.add(_Said())
    stop_on_signals(manager)
    await manager.run()


def _executor(chosen: argparse.Namespace, connect_: Connect) -> Executor:
    work_s: float | None = chosen.work_s

    async def handle(_: Content, __: Work) -> Outcome | None:
        if work_s is None:
            return None
        await asyncio.sleep(work_s)
        return Outcome.succeeded("Done")

    config = ExecutorConfig(UNITS, namespace=chosen.namespace, concurrency=chosen.concurrency)
    return Executor(ExecutorIdentity(chosen.name, chosen.namespace, chosen.uid), handle, config, connect_)


def _supervisor(chosen: argparse.Namespace, connect_: Connect) -> Supervisor:
    watch = ExecutorWatch(_SELECTOR, chosen.namespace)
    scope = Scope(UNITS, watch, chosen.name, chosen.namespace, chosen.namespace)
    archiver = None if chosen.archive is None else FilesystemArchiver(chosen.archive)
    config = SupervisorConfig(archive_ttl=None if archiver is None else 0.0)
    return Supervisor(FieldPaths(), MinScheduled(), archiver, config, scope=scope, connect=connect_)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.shard_member")
    parser.add_argument("kubeconfig", type=Path)
    parser.add_argument("namespace")
    parser.add_argument("role", choices=("supervisor", "executor"))
    parser.add_argument("name")
    parser.add_argument("uid", nargs="?", default="")
    parser.add_argument("--archive", type=Path)
    parser.add_argument("--work-s", type=float)
    parser.add_argument("--concurrency", type=int, default=16)
    configure_logging("warning")
    run_process(_main(parser.parse_args()))


if __name__ == "__main__":
    main()
