"""`situate run`: the composition root of the process that schedules."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import structlog
import typer

from situate.cli.configured import configuration_file, vpod_entries
from situate.cli.failures import ExitCode, WrongInput, mendable_failures
from situate.cli.options import ContextOption, FileOption, KubeconfigOption, SetOption
from situate.cli.reaching import Reaching
from situate.cli.streams import complain
from situate.kube.client import Client
from situate.kube.connect import connect, find_connection
from situate.kube.connection import Connection
from situate.kube.election import Candidacy
from situate.kube.errors import KubeError
from situate.kube.events import EventRecorder
from situate.kube.lease_record import ElectionTimes
from situate.runtime.configuration import BadConfiguration, Configuration
from situate.runtime.health import CannotListen, Health, HealthServer
from situate.runtime.logs import configure_logging
from situate.runtime.manager import Manager, ServiceFailed, stop_on_signals
from situate.runtime.metrics import Metrics
from situate.runtime.reload import ConfigurationFile, follow
from situate.runtime.startup import collector_paused, run_process
from situate.vpod.configuration import StatefulSetSettings, served_kinds
from situate.vpod.controller import VPodController
from situate.vpod.controller.reporting import VPodMetrics

_ELECTION_QPS = 20.0
"""Of each client for Leases and Events: work never uses up what leadership depends on."""


def run(
    file: FileOption,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    assignments: SetOption = None,
) -> None:
    """Run the schedulers of the configuration against a cluster, until SIGTERM or Ctrl-C.

    A change of the file takes effect while running; a bad one is reported and changes nothing.
    """
    with mendable_failures():
        source = configuration_file(file, assignments or ())
        configuration = source.load()
        if not vpod_entries(configuration):
            raise WrongInput(f"{file}: nothing to run; name a product, such as vpod")
        connection = find_connection(kubeconfig, context)
        log = configuration.runtime.log
        configure_logging(log.level, log.format)
        raise typer.Exit(run_process(_run(source, configuration, connection)))


async def _run(source: ConfigurationFile, configuration: Configuration, connection: Connection) -> ExitCode:
    runtime = configuration.runtime
    rng = random.Random()
    clients = [
        connect(connection, rng, qps=runtime.client.qps, burst=runtime.client.burst),
        connect(connection, rng, qps=_ELECTION_QPS),
        connect(connection, rng, qps=_ELECTION_QPS),
    ]
    try:
        await _compose(source, configuration, connection, clients).run()
    except ServiceFailed as failed:
        if failed.name == Reaching.name and isinstance(failed.__cause__, KubeError):
            raise failed.__cause__ from None
        if not isinstance(failed.__cause__, CannotListen):
            structlog.get_logger().error("a defect ends the process", service=failed.name, exc_info=failed.__cause__)
        complain(str(failed))
        return ExitCode.NO
    finally:
        for client in clients:
            await client.close()
    return ExitCode.DONE


def _compose(
    source: ConfigurationFile, configuration: Configuration, connection: Connection, clients: list[Client]
) -> Manager:
    """Everything that the process runs, in the order in which it starts."""
    runtime = configuration.runtime
    work, elections, events = clients
    manager = Manager(shutdown_timeout_s=runtime.shutdown_timeout)
    stop_on_signals(manager)
    metrics, health = Metrics(), Health()
    identity = runtime.leader_election.identity or f"{socket.gethostname()}_{os.urandom(4).hex()}"
    recorder = EventRecorder(events, "situate", identity, wall_clock=_wall, rng=random.Random())
    metrics.add_events(recorder)
    health.add_readiness("stopping", lambda: "the process is stopping" if manager.stopping else None)
    if runtime.health.address is not None:
        manager.add(HealthServer(runtime.health.address, health, metrics.render))
    reaching = Reaching(work, random.Random())
    health.add_readiness("connection", reaching.not_ready)
    manager.add(reaching, ready=reaching.reached)
    manager.add(recorder)
    times = runtime.leader_election
    candidacy = Candidacy(
        times.namespace or os.environ.get("SITUATE_NAMESPACE") or connection.namespace,
        identity,
        ElectionTimes(times.lease_duration, times.renew_deadline, times.retry_period),
    )
    vpod_metrics = VPodMetrics(metrics.registry)
    controllers: list[VPodController] = []
    entries = vpod_entries(configuration)
    served = served_kinds(entries)
    teller = next((entry for entry in entries if any(s.source_kind for s in entry.completed_sources())), None)
    for entry in entries:
        controller = VPodController(
            entry,
            work,
            candidacy,
            record=recorder.record,
            metrics=vpod_metrics,
            wall=_wall,
            rng=random.Random(),
            election_client=elections,
            workers=runtime.workers,
            observe_election=metrics.observe_election,
            served=served if entry is teller else None,
        )
        controllers.append(controller)
        health.add_readiness(controller.name, controller.not_ready)
        metrics.add_queue(controller.name, controller.queue)
        for reflector in controller.watched.reflectors():
            metrics.add_reflector(reflector)
        manager.add(controller)
    manager.add(_FirstListing(controllers))
    manager.add(_Reload(source, controllers, metrics))
    return manager


class _FirstListing:
    """Spares the first listing of everything the garbage collections that would come to nothing."""

    name = "first listing"
    _AT_MOST_S = 60.0  # a resource that is missing may never be listed, and the collector must come back

    def __init__(self, controllers: Sequence[VPodController]) -> None:
        self._controllers = controllers

    async def run(self) -> None:
        with collector_paused(), contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._AT_MOST_S):
                for controller in self._controllers:
                    await controller.watched.wait_synced()
        await asyncio.get_running_loop().create_future()  # until cancelled: a service runs as long as the process


class _Reload:
    """Follows the configuration file."""

    name = "configuration"

    def __init__(self, source: ConfigurationFile, controllers: Iterable[VPodController], metrics: Metrics) -> None:
        self._source = source
        self._controllers = {_name(controller.settings): controller for controller in controllers}
        self._metrics = metrics
        self._log = structlog.get_logger()

    async def run(self) -> None:
        await follow(self._source, self._accepted, self._rejected)

    def _accepted(self, configuration: Configuration) -> None:
        self._metrics.observe_reload(accepted=True)
        entries = {_name(entry): entry for entry in vpod_entries(configuration)}
        for name, controller in self._controllers.items():
            if name in entries and entries[name] != controller.settings:
                controller.reconfigure(entries[name])
        if entries.keys() != self._controllers.keys():
            changed = sorted(entries.keys() ^ self._controllers.keys())
            self._log.warning("entries were added or removed; restart to take them over", statefulsets=changed)
        self._log.info("the configuration was taken over")

    def _rejected(self, problem: BadConfiguration) -> None:
        self._metrics.observe_reload(accepted=False)
        self._log.error("the configuration is not in force; the last good one stays", mistakes=str(problem))


def _name(entry: StatefulSetSettings) -> str:
    return f"{entry.stateful_set_namespace}/{entry.stateful_set_name}"


def _wall() -> datetime:
    return datetime.now(UTC)
