"""Implement `situate vm agent`: the autoscaler-agent of a node, or of all nodes of a cluster without guests."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime

import aiohttp
import typer

from situate.cli.input.agent_file import agent_settings
from situate.cli.run.end import report_end
from situate.cli.run.reach_cluster import ConnectionCheck
from situate.cli.terminal.failures import ExitCode, WrongInput, report_failures
from situate.cli.terminal.options import ClusterOptions
from situate.cli.vm.variables import NODE_VARIABLE
from situate.kube.client import Client
from situate.kube.connect import connect, find_connection
from situate.kube.events import EventRecorder
from situate.kube.login.connection import Connection
from situate.runtime.metrics import Metrics
from situate.runtime.process.health import Health, HealthServer
from situate.runtime.process.logs import configure_logging
from situate.runtime.process.manager import Manager, ServiceFailed, stop_on_signals
from situate.runtime.process.startup import run_process
from situate.vm.agent.controller.agent import Agent
from situate.vm.agent.controller.load_sources import select_load_source
from situate.vm.agent.controller.machine_writer import VmWriter
from situate.vm.agent.controller.metrics import AgentMetrics
from situate.vm.agent.controller.monitor import Monitor, WebsocketMonitor
from situate.vm.agent.controller.permit_client import BadAuthority, PermitClient
from situate.vm.agent.controller.runner import RunnerDependencies
from situate.vm.agent.controller.scheduler_lookup import SchedulerPods
from situate.vm.agent.controller.stand_in_monitor import StandInMonitor
from situate.vm.agent.decide.goal import SystemMetrics
from situate.vm.agent.model.settings import AgentSettings

_QPS, _BURST = 50.0, 100
_EVENTS_QPS = 5.0


def run(node: str, where: ClusterOptions, health_address: str, *, all_nodes: bool) -> None:
    """Run the agent until a signal, and end the command."""
    with report_failures():
        if bool(node) == all_nodes:
            raise WrongInput(f"name one node with --node (or ${NODE_VARIABLE}), or give --all-nodes")
        settings = agent_settings(where.file, where.assignments or ())
        connection = find_connection(where.kubeconfig, where.context)
        configure_logging()
        raise typer.Exit(run_process(_run(settings, node or None, health_address, connection)))


async def _run(settings: AgentSettings, node: str | None, health_address: str, connection: Connection) -> ExitCode:
    client = connect(connection, random.Random(), qps=_QPS, burst=_BURST)
    events = connect(connection, random.Random(), qps=_EVENTS_QPS)
    # every monitor needs a connection
    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), trust_env=False)
    pods = SchedulerPods(client, settings.scheduler, random.Random()) if settings.scheduler.url is None else None
    permits: PermitClient | None = None
    try:
        permits = PermitClient(settings.scheduler, (lambda: None) if pods is None else pods.find)
        manager, metrics, health = Manager(), Metrics(), Health()
        stop_on_signals(manager)
        if health_address:
            manager.add(HealthServer(health_address, health, metrics.render, setting="--health-address"))
        reaching = ConnectionCheck(client, random.Random())
        health.add_readiness("connection", reaching.not_ready)
        manager.add(reaching, ready=reaching.wait_reached)
        recorder = _make_recorder(events)
        metrics.add_events(recorder)
        manager.add(recorder)
        if pods is not None:
            metrics.add_reflector(pods.reflector)
            manager.add(pods.reflector, ready=pods.reflector.store.wait_synced)
        tools = RunnerDependencies(
            settings,
            permits,
            VmWriter(client, settings.neonvm.request_timeout_seconds, settings.scaling),
            select_load_source(settings.metrics, session),
            _monitor_factory(settings, session),
            AgentMetrics(metrics.registry),
            _steady_clock(),
        )
        looking_after = Agent(client, node, tools, record=recorder.record, rng=random.Random())
        health.add_readiness(looking_after.name, looking_after.not_ready)
        metrics.add_reflector(looking_after.reflector)
        manager.add(looking_after)
        await manager.run()
    except BadAuthority as wrong:
        raise WrongInput(str(wrong)) from None
    except ServiceFailed as failed:
        return report_end(failed)
    finally:
        if permits is not None:
            await permits.close()
        await session.close()
        await events.close()
        await client.close()
    return ExitCode.DONE


def _monitor_factory(
    settings: AgentSettings, session: aiohttp.ClientSession
) -> Callable[[str, Callable[[], SystemMetrics | None], Callable[[], None]], Monitor]:
    def make(ip: str, system: Callable[[], SystemMetrics | None], alive: Callable[[], None]) -> Monitor:
        if settings.monitor.kind == "standIn":
            return StandInMonitor(system, alive)
        return WebsocketMonitor(session, ip, settings.monitor, alive)

    return make


def _make_recorder(client: Client) -> EventRecorder:
    identity = f"{socket.gethostname()}_{os.urandom(4).hex()}"
    return EventRecorder(
        client, "situate-vm-agent", identity, wall_clock=lambda: datetime.now(UTC), rng=random.Random()
    )


def _steady_clock() -> Callable[[], int]:
    """Return a clock in milliseconds of the epoch that ignores jumps of the wall clock, as the loop's clock does."""
    loop = asyncio.get_running_loop()
    ahead_s = time.time() - loop.time()
    return lambda: round((loop.time() + ahead_s) * 1000)
