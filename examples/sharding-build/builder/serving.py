"""How a process of this operator runs: probes and metrics over HTTP, logs, and an orderly end at SIGTERM."""

from __future__ import annotations

from situate.kube.errors import KubeError
from situate.runtime.metrics import Metrics
from situate.runtime.process.health import CannotListen, Health, HealthServer
from situate.runtime.process.logs import configure_logging
from situate.runtime.process.manager import Manager, ServiceFailed, stop_on_signals
from situate.sharding import Executor, Supervisor


async def serve(service: Supervisor | Executor, address: str, metrics: Metrics) -> None:
    """Until SIGTERM or Ctrl-C; an executor has stopped and released everything then."""
    configure_logging("info")
    health = Health()
    health.add_readiness(service.name, service.not_ready)
    manager = Manager()
    manager.add(HealthServer(address, health, metrics.render))
    service.setup(manager)
    stop_on_signals(manager)
    try:
        await manager.run()
    except ServiceFailed as failed:
        if isinstance(failed.__cause__, CannotListen | KubeError):
            raise SystemExit(str(failed.__cause__)) from None
        raise
