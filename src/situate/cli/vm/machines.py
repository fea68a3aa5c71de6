"""`situate vm machines`: lets virtual machines of a cluster without a hypervisor live, grow and move."""

from __future__ import annotations

import os
import random
import socket
from datetime import UTC, datetime
from typing import Annotated

import typer

from situate.cli.ending import ended
from situate.cli.failures import ExitCode, mendable_failures
from situate.cli.options import ContextOption, KubeconfigOption
from situate.cli.reaching import Reaching
from situate.kube.connect import connect, find_connection
from situate.kube.connection import Connection
from situate.kube.election import Candidacy
from situate.kube.events import EventRecorder
from situate.kube.lease_record import ElectionTimes
from situate.runtime.health import Health, HealthServer
from situate.runtime.logs import configure_logging
from situate.runtime.manager import Manager, ServiceFailed, stop_on_signals
from situate.runtime.metrics import Metrics
from situate.runtime.startup import run_process
from situate.vm.machines import Settings
from situate.vm.machines.controller import MachinesController

_QPS, _BURST = 100.0, 200
_ELECTION_QPS = 20.0
_DEFAULT = Settings()
_GIVES_UP, _RETRIES = 10 / 15, 2 / 15
"""Of the Lease's duration: until a leader that cannot renew gives up, and between two attempts (client-go's)."""


def machines(
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Only machines of this namespace; default: of all.")
    ] = None,
    lease_namespace: Annotated[
        str | None, typer.Option(help="Of the Lease; default: the namespace of the kubeconfig's context.")
    ] = None,
    lease_seconds: Annotated[float, typer.Option(min=1.0, help="Until another process may take over.")] = 15.0,
    scale_seconds: Annotated[
        float, typer.Option(min=0.0, help="How long a machine takes to change its size.")
    ] = _DEFAULT.scale_s,
    handover_seconds: Annotated[
        float, typer.Option(min=0.0, help="How long the pod that was left waits for a hand-over to be written.")
    ] = _DEFAULT.handover_s,
    health_address: Annotated[str, typer.Option(help="HOST:PORT of /healthz, /readyz and /metrics; empty: none.")] = "",
    compat: Annotated[
        bool, typer.Option("--compat", help="A second migration of a machine waits, as NeonVM's, and does not fail.")
    ] = False,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Play VM controller and migrator on a cluster without a hypervisor, until SIGTERM or Ctrl-C.

    VirtualMachines get runner pods, grow and shrink as their spec says, and move as VirtualMachineMigrations
    say. No guest ever runs. What a machine's hypervisor does stands in its annotation
    vm.situate.dev/hypervisor, such as {"usedMemory": "2Gi", "dirtyRate": "50Mi", "failAtPercent": 99}.

    \b
    situate crds vm | kubectl apply --server-side -f -
    situate vm machines

    Never run it beside NeonVM: both would act upon the same objects. `situate manifests vm-machines` prints what a
    cluster needs for it.
    """
    with mendable_failures():
        settings = Settings(scale_s=scale_seconds, handover_s=handover_seconds, compat=compat)
        connection = find_connection(kubeconfig, context)
        times = ElectionTimes(lease_seconds, lease_seconds * _GIVES_UP, lease_seconds * _RETRIES)
        identity = f"{socket.gethostname()}_{os.urandom(4).hex()}"
        candidacy = Candidacy(lease_namespace or connection.namespace, identity, times)
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
    reaching = Reaching(elections, random.Random())
    health.add_readiness("connection", reaching.not_ready)
    manager.add(reaching, ready=reaching.reached)
    metrics.add_events(recorder)
    manager.add(recorder)
    controller = MachinesController(
        client,
        candidacy,
        settings,
        record=recorder.record,
        wall=lambda: datetime.now(UTC),
        rng=random.Random(),
        namespace=namespace,
        election_client=elections,
        observe_election=metrics.observe_election,
    )
    health.add_readiness(controller.name, controller.not_ready)
    metrics.add_queue(controller.name, controller.queue)
    for reflector in controller.watched.reflectors.values():
        metrics.add_reflector(reflector)
    manager.add(controller)
    try:
        await manager.run()
    except ServiceFailed as failed:
        return ended(failed)
    finally:
        await elections.close()
        await client.close()
    return ExitCode.DONE
