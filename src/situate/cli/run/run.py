"""Implement `situate run`: the composition root of the process that schedules."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import structlog
import typer

from situate.cli.input.configuration import (
    configuration_file,
    configuration_without_file,
    require_product,
    scheduler_settings,
    sharding_entries,
    spot_settings,
    vm_settings,
    vpod_entries,
)
from situate.cli.manifests.spot import POD_VARIABLE
from situate.cli.run.end import report_end
from situate.cli.run.reach_cluster import ConnectionCheck
from situate.cli.run.scheduler_setup import effective_scheduler_section, require_setup
from situate.cli.terminal.failures import ExitCode, WrongInput, report_failures
from situate.cli.terminal.streams import print_line
from situate.framework.engine.engine import Engine
from situate.framework.plugin_api.configuration import Extender
from situate.framework.preemption.extenders import read_only_extenders
from situate.kube.client import Client
from situate.kube.connect import connect, find_connection
from situate.kube.election.election import Candidacy
from situate.kube.election.lease_record import ElectionTimes
from situate.kube.events import MOST_SERIES, EventRecorder
from situate.kube.login.connection import Connection
from situate.kube.login.urls import is_loopback
from situate.kube.watch.reflector import Reflector
from situate.kube.watch.store import Store
from situate.objects.kinds.unstructured import Unstructured
from situate.runtime.configuration.file import BadConfiguration, Configuration
from situate.runtime.configuration.reload import ConfigurationFile, follow
from situate.runtime.leadership.leader import ControllerContext
from situate.runtime.metrics import Metrics
from situate.runtime.process.health import Health, HealthServer
from situate.runtime.process.logs import configure_logging
from situate.runtime.process.manager import Manager, Service, ServiceFailed, stop_on_signals
from situate.runtime.process.startup import pause_collector, run_process
from situate.runtime.serving.listener import CannotServe
from situate.scheduler.config.settings import ClientRate
from situate.scheduler.config.setup import Setup
from situate.scheduler.controller.controller import SchedulerController
from situate.scheduler.extenders.client import WHOLE_NODES, ApiDocuments, Extenders, wants_whole_nodes
from situate.scheduler.metrics.metrics import SchedulerMetrics
from situate.scheduler.shadow.service import ShadowNotifier, ShadowScheduler
from situate.spot.config.settings import SpotSettings
from situate.vm.config.settings import VmSettings
from situate.vpod.config.settings import StatefulSetSettings, served_kinds
from situate.vpod.controller import VPodController
from situate.vpod.controller.notify import VPodMetrics

if TYPE_CHECKING:
    from situate.spot.controller.controller import SpotController
    from situate.vm.controller.controller import VmController

_NO_FILE = Path("situate.yaml")
"""Names of files are relative to this path's folder, the working directory, if no configuration file is given."""
_ANY_PORT = "127.0.0.1:0"
_NODES, _ZONES = 3, ("a", "b", "c")
"""Nodes and zones of the cluster of `--embedded`."""
_ELECTION_QPS = 20.0
"""Calls per second of each client for Leases and Events. Other work cannot use up their rate."""
_REVIEWS_QPS = 50.0
"""TokenReviews per second, for known and for unknown callers each.

Results are cached. Reviews of unknown callers delay only one another.
"""
_WRITERS, _WRITERS_OF_MANY = 4, 12
"""Number of Events written at a time, without and with a scheduler.

It is smaller than the scheduler's number of calls, so that bindings come first where the API server is the bottleneck.
kube-scheduler's Events lag farther behind (bench.e2e shows both).
"""
_MANY_EVENTS = 50_000
"""Largest number of waiting Events where each binding creates one."""
_OTHER_CALLS = 8
"""Calls of the scheduler in addition to `callsInFlight`: relists, reads, calls that PreBind waits for."""


def run_schedulers(
    file: Path | None, assignments: Sequence[str], kubeconfig: Path | None, context: str | None, *, embedded: bool
) -> None:
    """Run until the process is stopped, and exit with its exit code."""
    with report_failures():
        if embedded and (kubeconfig or context):
            raise WrongInput("--embedded starts its own cluster; leave out --kubeconfig and --context")
        source = None if file is None else configuration_file(file, assignments)
        configuration = configuration_without_file(assignments) if source is None else source.load()
        settings = scheduler_settings(configuration)
        require_product(configuration, file)
        setup = None if settings is None else require_setup(settings, file or _NO_FILE)
        connection = None if embedded else find_connection(kubeconfig, context)
        log = configuration.runtime.log
        configure_logging(log.level, log.format)
        if connection is None:
            raise typer.Exit(run_process(_run_embedded(source, configuration, setup)))
        raise typer.Exit(run_process(_run(source, configuration, connection, setup)))


async def _run_embedded(
    source: ConfigurationFile | None, configuration: Configuration, setup: Setup | None
) -> ExitCode:
    # only `--embedded` needs this import
    from situate.cluster.controllers.node.nodes import nodes
    from situate.embedded.embedded_server import EmbeddedServer

    async with EmbeddedServer() as server:
        server.create_nodes(nodes(_NODES, zones=_ZONES))
        print_line(f"a cluster of {_NODES} nodes runs until this command ends: kubectl --server {server.url} get nodes")
        sys.stdout.flush()
        return await _run(source, configuration, Connection(server.url, "--embedded"), setup)


async def _run(
    source: ConfigurationFile | None, configuration: Configuration, connection: Connection, setup: Setup | None
) -> ExitCode:
    to_close: list[Closable] = []
    try:
        await _Composition(source, configuration, connection, to_close).manager(setup).run()
    except ServiceFailed as failed:
        return report_end(failed)
    except CannotServe as wrong:
        raise WrongInput(str(wrong)) from None
    finally:
        for each in to_close:
            await each.close()
    return ExitCode.DONE


def _health_address(configuration: Configuration, connection: Connection) -> str | None:
    """Return the address of the health server, from the configuration.

    The default on a cluster at a loopback address is a free loopback port. Otherwise several processes on one machine
    would compete for port 8080.
    """
    given = configuration.given.get("health")
    says = isinstance(given, Mapping) and "address" in given
    return _ANY_PORT if not says and is_loopback(connection.server) else configuration.runtime.health.listens


class Closable(Protocol):
    """Owner of connections."""

    async def close(self) -> None: ...


class _Controller(Service, Protocol):
    """Service that reports whether it is ready."""

    def not_ready(self) -> str | None: ...


class _Composition:
    """All services of the process, in the order in which they start."""

    def __init__(
        self,
        source: ConfigurationFile | None,
        configuration: Configuration,
        connection: Connection,
        to_close: list[Closable],
    ) -> None:
        """`source` is None if there is no file to follow. Objects to close at the end are added to `to_close`."""
        self._source = source
        self._configuration = configuration
        self._connection = connection
        self._to_close = to_close
        runtime = configuration.runtime
        self._manager = Manager(shutdown_timeout_s=runtime.shutdown_timeout)
        self._metrics, self._health = Metrics(), Health()
        self._shared_scheduler_metrics: SchedulerMetrics | None = None
        times = runtime.leader_election
        self._candidacy = Candidacy(
            times.namespace or os.environ.get("SITUATE_NAMESPACE") or connection.namespace,
            times.identity or f"{socket.gethostname()}_{os.urandom(4).hex()}",
            ElectionTimes(times.lease_duration, times.renew_deadline, times.retry_period),
        )
        self._elections = self._make_client(_ELECTION_QPS)

    def manager(self, setup: Setup | None) -> Manager:
        """Return the manager of all services. `setup` is None without a scheduler section."""
        manager = self._manager
        stop_on_signals(manager)
        self._health.add_readiness("stopping", lambda: "the process is stopping" if manager.stopping else None)
        address = _health_address(self._configuration, self._connection)
        if address is not None:
            manager.add(HealthServer(address, self._health, self._metrics.render))
        reaching = ConnectionCheck(self._elections, random.Random())
        self._health.add_readiness("connection", reaching.not_ready)
        manager.add(reaching, ready=reaching.wait_reached)
        vm = vm_settings(self._configuration)
        recorder = self._add_recorder(setup.rate if setup is not None else ClientRate() if vm is not None else None)
        controllers = [*self._add_vpod(recorder)]
        listings = [controller.informers.wait_synced for controller in controllers]
        if setup is not None:
            scheduler = self._add_shadow(setup, recorder) if setup.shadow else self._add_scheduler(setup, recorder)
            listings.append(scheduler.informers.wait_synced)
        spot = self._add_spot(recorder)
        if spot is not None:
            listings.append(spot.informers.wait_synced)
        if vm is not None:
            listings.append(self._add_vm(vm, recorder).informers.all.wait_synced)
        self._add_sharding()
        manager.add(_InitialListing(listings))
        if self._source is not None:
            manager.add(_ReloadService(self._source, self._configuration, controllers, spot, self._metrics))
        return manager

    def _add_vpod(self, recorder: EventRecorder) -> Iterator[VPodController]:
        runtime, metrics = self._configuration.runtime, self._metrics
        entries = vpod_entries(self._configuration)
        if not entries:
            return
        work = self._make_client(runtime.client.qps, runtime.client.burst)
        vpod_metrics = VPodMetrics(metrics.registry)
        served = served_kinds(entries)
        teller = next((entry for entry in entries if any(s.source_kind for s in entry.completed_sources())), None)
        for entry in entries:
            controller = VPodController(
                entry,
                self._context(work),
                record=recorder.record_separately,
                metrics=vpod_metrics,
                workers=runtime.workers,
                served=served if entry is teller else None,
            )
            metrics.add_queue(controller.name, controller.queue)
            self._add_controller(controller, controller.informers.reflectors())
            yield controller

    def _add_spot(self, recorder: EventRecorder) -> SpotController | None:
        settings = spot_settings(self._configuration)
        if settings is None:
            return None
        # a web server and cryptography: skip this import without a spot section
        from situate.spot.controller.controller import ProcessLocation, SpotController
        from situate.spot.controller.observe.prices import PriceReader
        from situate.spot.server.metrics import AdmissionMetrics

        runtime = self._configuration.runtime
        namespace = os.environ.get("SITUATE_NAMESPACE") or self._connection.namespace
        client = self._make_client(runtime.client.qps, runtime.client.burst)
        controller = SpotController(
            settings,
            self._context(client),
            ProcessLocation(namespace, os.environ.get(POD_VARIABLE, "")),
            record=recorder.record,
            metrics=AdmissionMetrics(self._metrics.registry),
            token=lambda: os.urandom(8).hex(),
        )
        self._health.add_readiness(controller.name, controller.not_ready)
        for reflector in controller.reflectors():
            self._metrics.add_reflector(reflector)
        folder = _NO_FILE.parent if self._source is None else self._source.folder
        self._manager.add(
            PriceReader(client, lambda: controller.settings.prices, folder, controller.decision_loop.set_prices)
        )
        self._manager.add(controller)
        return controller

    def _add_sharding(self) -> None:
        entries = sharding_entries(self._configuration)
        if not entries:
            return
        # archives and strategies: skip this import without a sharding section
        from situate.cli.run.supervise import SupervisorService

        rate = self._configuration.runtime.client
        for entry in entries:
            service = SupervisorService(
                entry,
                lambda: connect(self._connection, random.Random(), qps=rate.qps, burst=rate.burst),
                self._candidacy,
                self._metrics,
            )
            self._health.add_readiness(service.name, service.not_ready)
            self._manager.add(service)

    def _add_scheduler(self, setup: Setup, recorder: EventRecorder) -> SchedulerController:
        work = self._make_client(setup.rate.qps, setup.rate.burst, setup.calls_in_flight + _OTHER_CALLS)
        controller = SchedulerController(
            setup,
            self._context(work),
            record=recorder.record,
            metrics=self._scheduler_metrics(),
            rebuilding=pause_collector,
            extending=self._add_extender_client(setup.extenders, work),
        )
        self._add_controller(controller, controller.informers.reflectors())
        return controller

    def _add_vm(self, settings: VmSettings, recorder: EventRecorder) -> VmController:
        # numpy and a scheduler: skip this import without a vm section
        from situate.vm.controller.controller import VmController
        from situate.vm.controller.metrics import VmMetrics
        from situate.vm.controller.setup import vm_setup
        from situate.vm.server.service import PermitServer

        namespace = os.environ.get("SITUATE_NAMESPACE") or self._connection.namespace
        setup = replace(vm_setup(settings), namespace=namespace, pod=os.environ.get(POD_VARIABLE, ""))
        work = self._make_client(setup.rate.qps, setup.rate.burst, setup.calls_in_flight + setup.workers + _OTHER_CALLS)
        controller = VmController(
            setup,
            self._context(work),
            record=recorder.record,
            metrics=self._scheduler_metrics(),
            vm_metrics=VmMetrics(
                self._metrics.registry, compat=setup.rules.compat, node_labels=setup.node_metric_labels
            ),
            rebuilding=pause_collector,
            extending=self._add_extender_client((), work),
        )
        self._add_controller(controller, controller.reflectors())
        self._manager.add(
            PermitServer(
                controller,
                settings.permits,
                work,
                self._make_client(_REVIEWS_QPS),
                self._metrics.registry,
                folder=_NO_FILE.parent if self._source is None else self._source.folder,
                namespace=namespace,
                call_timeout_s=setup.call_timeout_s,
                certificates=controller.certificates if setup.issues_certificate else None,
                for_known=self._make_client(_REVIEWS_QPS),
            )
        )
        return controller

    def _add_controller(self, controller: _Controller, reflectors: Iterable[Reflector[Any]]) -> None:
        """Add a controller with its readiness and the metrics of its watches."""
        self._health.add_readiness(controller.name, controller.not_ready)
        for reflector in reflectors:
            self._metrics.add_reflector(reflector)
        self._manager.add(controller)

    def _context(self, client: Client) -> ControllerContext:
        """Return the context of one controller that works with this client."""
        return ControllerContext(
            client, self._candidacy, _utc_now, random.Random(), self._elections, self._metrics.observe_election
        )

    def _scheduler_metrics(self) -> SchedulerMetrics:
        """Return the metrics that all schedulers of the process share."""
        if self._shared_scheduler_metrics is None:
            self._shared_scheduler_metrics = SchedulerMetrics(self._metrics.registry)
        return self._shared_scheduler_metrics

    def _add_shadow(self, setup: Setup, recorder: EventRecorder) -> ShadowScheduler:
        """Add a shadow of another scheduler. It has no performer, so nothing can bind."""
        work = self._make_client(setup.rate.qps, setup.rate.burst)
        reporter = ShadowNotifier(self._metrics.registry, recorder.record if setup.shadow_events else None)
        extenders = read_only_extenders(setup.extenders)
        shadow = ShadowScheduler(
            lambda: Engine(setup.profiles, setup.queue, extenders=extenders),
            work,
            reporter,
            reporter.report_decision,
            rng=random.Random(),
            ask=self._add_extender_client(extenders, work).ask if extenders else None,
        )
        self._add_controller(shadow, shadow.informers.reflectors())
        return shadow

    def _add_extender_client(self, extenders: Sequence[Extender], client: Client) -> Extenders:
        nodes: Store[Unstructured] = Store("whole nodes")
        if wants_whole_nodes(extenders):
            reflector = Reflector(client, WHOLE_NODES, nodes, rng=random.Random())
            self._manager.add(reflector, ready=nodes.wait_synced)
        found = Extenders.create(extenders, ApiDocuments(client, nodes), os.environ)
        self._to_close.append(found)
        return found

    def _add_recorder(self, rate: ClientRate | None) -> EventRecorder:
        """Add the recorder of Events. `rate` is the rate of bindings, which create Events; None without bindings."""
        client = self._make_client(_ELECTION_QPS) if rate is None else self._make_client(rate.qps, rate.burst)
        recorder = EventRecorder(
            client,
            "situate",
            self._candidacy.identity,
            wall_clock=_utc_now,
            rng=random.Random(),
            writers=_WRITERS if rate is None else _WRITERS_OF_MANY,
            most=MOST_SERIES if rate is None else _MANY_EVENTS,
        )
        self._metrics.add_events(recorder)
        self._manager.add(recorder)
        return recorder

    def _make_client(self, qps: float, burst: int = 100, connections: int = 64) -> Client:
        client = connect(self._connection, random.Random(), qps=qps, burst=burst, max_connections=connections)
        self._to_close.append(client)
        return client


class _InitialListing:
    """Service that pauses the garbage collector during the first lists, when collections would free nothing."""

    name = "first listing"
    _AT_MOST_S = 60.0  # a missing resource may never be listed, and the collector must resume

    def __init__(self, listings: Sequence[Callable[[], Awaitable[None]]]) -> None:
        self._listings = listings

    async def run(self) -> None:
        with pause_collector(), contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._AT_MOST_S):
                for seen in self._listings:
                    await seen()
        await asyncio.get_running_loop().create_future()  # until cancelled: a service runs as long as the process


class _ReloadService:
    """Service that applies changes of the configuration file."""

    name = "configuration"

    def __init__(
        self,
        source: ConfigurationFile,
        configuration: Configuration,
        controllers: Iterable[VPodController],
        spot: SpotController | None,
        metrics: Metrics,
    ) -> None:
        self._source = source
        self._spot = spot
        self._scheduler = self._effective_scheduler(configuration)
        self._sharding = sharding_entries(configuration)
        self._vm = vm_settings(configuration)
        self._controllers = {_entry_name(controller.settings): controller for controller in controllers}
        self._metrics = metrics
        self._log = structlog.get_logger()

    async def run(self) -> None:
        await follow(self._source, self._apply, self._report_mistakes)

    def _apply(self, configuration: Configuration) -> None:
        self._metrics.observe_reload(accepted=True)
        entries = {_entry_name(entry): entry for entry in vpod_entries(configuration)}
        for name, controller in self._controllers.items():
            if name in entries and entries[name] != controller.settings:
                controller.reconfigure(entries[name])
        if entries.keys() != self._controllers.keys():
            changed = sorted(entries.keys() ^ self._controllers.keys())
            self._log.warning("vpod entries were added or removed; restart to apply the change", statefulsets=changed)
        self._apply_spot(spot_settings(configuration))
        if self._effective_scheduler(configuration) != self._scheduler:
            self._log.warning("scheduler settings have changed; restart to apply them")
        if sharding_entries(configuration) != self._sharding:
            self._log.warning("sharding settings have changed; restart to apply them")
        if vm_settings(configuration) != self._vm:
            self._log.warning("vm settings have changed; restart to apply them")
        self._log.info("configuration applied")

    def _effective_scheduler(self, configuration: Configuration) -> dict[str, Any] | None:
        """Return the scheduler's values in force, because the section may name a file."""
        settings = scheduler_settings(configuration)
        if settings is None:
            return None
        return effective_scheduler_section(settings, self._source.folder, self._source.named.last_text)

    def _apply_spot(self, settings: SpotSettings | None) -> None:
        if (settings is None) != (self._spot is None):
            self._log.warning("spot was added or removed; restart to apply the change")
        elif self._spot is not None and settings is not None and settings != self._spot.settings:
            if settings.webhook.address != self._spot.settings.webhook.address:
                self._log.warning("spot.webhook.address has changed; restart to apply it")
            self._spot.reconfigure(settings)

    def _report_mistakes(self, problem: BadConfiguration) -> None:
        self._metrics.observe_reload(accepted=False)
        self._log.error("configuration rejected; the last valid one stays in force", mistakes=str(problem))


def _entry_name(entry: StatefulSetSettings) -> str:
    return f"{entry.stateful_set_namespace}/{entry.stateful_set_name}"


def _utc_now() -> datetime:
    return datetime.now(UTC)
