"""Implement `situate vm machines`: run, resize and move virtual machines in a cluster without a hypervisor."""

from __future__ import annotations

import os
import random
import socket
from datetime import UTC, datetime

import typer

from situate.cli.run.end import report_end
from situate.cli.run.reach_cluster import ConnectionCheck
from situate.cli.terminal.failures import ExitCode, report_failures
from situate.cli.terminal.options import ClusterOptions
from situate.cli.vm.options import EmulatorTimes
from situate.kube.connect import connect, find_connection
from situate.kube.election.election import Candidacy
from situate.kube.election.lease_record import ElectionTimes
from situate.kube.events import EventRecorder
from situate.kube.login.connection import Connection
from situate.runtime.leadership.leader import ControllerContext
from situate.runtime.metrics import Metrics
from situate.runtime.process.health import Health, HealthServer
from situate.runtime.process.logs import configure_logging
from situate.runtime.process.manager import Manager, ServiceFailed, stop_on_signals
from situate.runtime.process.startup import run_process
from situate.vm.emulator import Settings
from situate.vm.emulator.controller import MachinesController

_QPS, _BURST = 100.0, 200
_ELECTION_QPS = 20.0
_GIVES_UP, _RETRIES = 10 / 15, 2 / 15
"""Shares of the Lease's duration, as in client-go.

The first one is the time until a leader that cannot renew gives up, the second one is the retry interval.
"""


def run(
    namespace: str | None,
    installation: str | None,
    seconds: EmulatorTimes,
    health_address: str,
    where: ClusterOptions,
    *,
    compat: bool,
) -> None:
    """Run until a signal, and end the command. `installation` is None for the context's namespace."""
    with report_failures():
        settings = Settings(scale_s=seconds.scale_seconds, handover_s=seconds.handover_seconds, compat=compat)
        connection = find_connection(where.kubeconfig, where.context)
        lease_s = seconds.lease_seconds
        times = ElectionTimes(lease_s, lease_s * _GIVES_UP, lease_s * _RETRIES)
        identity = f"{socket.gethostname()}_{os.urandom(4).hex()}"
        candidacy = Candidacy(installation or connection.namespace, identity, times)
        configure_logging()
        raise typer.Exit(run_process(_run(settings, candidacy, namespace, health_address, connection)))


async def _run(
    settings: Settings, candidacy: Candidacy, namespace: str | None, health_address: str, connection: Connection
) -> ExitCode:
    client = connect(connection, random.Random(), qps=_QPS, burst=_BURST)
    elections = connect(connection, random.Random(), qps=_ELECTION_QPS)
    manager, metrics, health = Manager(), Metrics(), Health()
    stop_on_signals(manager)
    if health_address:
        manager.add(HealthServer(health_address, health, metrics.render, setting="--health-address"))
    recorder = EventRecorder(
        elections,
        "situate-vm-machines",
        candidacy.identity,
        wall_clock=lambda: datetime.now(UTC),
        rng=random.Random(),
    )
    reaching = ConnectionCheck(elections, random.Random())
    health.add_readiness("connection", reaching.not_ready)
    manager.add(reaching, ready=reaching.wait_reached)
    metrics.add_events(recorder)
    manager.add(recorder)
    controller = MachinesController(
        settings,
        ControllerContext(
            client, candidacy, lambda: datetime.now(UTC), random.Random(), elections, metrics.observe_election
        ),
        record=recorder.record,
        namespace=namespace,
    )
    health.add_readiness(controller.name, controller.not_ready)
    metrics.add_queue(controller.name, controller.queue)
    for reflector in controller.informers.reflectors.values():
        metrics.add_reflector(reflector)
    manager.add(controller)
    try:
        await manager.run()
    except ServiceFailed as failed:
        return report_end(failed)
    finally:
        await elections.close()
        await client.close()
    return ExitCode.DONE
