"""The permit port as a service of the vm process: every replica listens, and only the leader answers (B44)."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog
from prometheus_client import CollectorRegistry

from situate.kube.client import Client
from situate.runtime.serving.access import Access
from situate.runtime.serving.listener import Certificate, Listener
from situate.vm.api.well_known import AGENT
from situate.vm.config.settings import PermitSettings
from situate.vm.server.agents import AgentRules
from situate.vm.server.authorization import CallerAuthorizer, CallerCheck
from situate.vm.server.change_notifier import ChangeNotifier
from situate.vm.server.metrics import PermitMetrics
from situate.vm.server.permit_handler import PermitHandler
from situate.vm.server.request_context import Replica, RequestContext
from situate.vm.server.resize_handler import ResizeHandler
from situate.vm.server.router import RequestRouter, max_body

if TYPE_CHECKING:
    from situate.vm.server.certificates import Certificates

NAME: Final = "permit server"


class PermitServer:
    """Service for the manager: `run` until cancelled."""

    name = NAME

    def __init__(
        self,
        leading: Replica,
        settings: PermitSettings,
        writing: Client,
        reviewing: Client,
        registry: CollectorRegistry,
        *,
        folder: Path,
        namespace: str,
        call_timeout_s: float,
        certificates: Certificates | None = None,
        for_known: Client | None = None,
        stopwatch: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Create the port. Without a certificate it serves only with `compat`. Raises `CannotServe`.

        `folder` is the base of file names. `namespace` is that of this process. `reviewing` is another client than the
        one for writes, so that wrong tokens delay no write. `for_known` is a third one, for callers that were
        authenticated before. `certificates` are the installation's, if the settings name none.
        """
        compat = leading.ledger.rules.compat
        self._settings = settings
        self._rounds = ChangeNotifier()
        self._leading = leading
        desk = RequestContext(leading, writing, call_timeout_s)
        how: CallerCheck = settings.callers or ("node" if compat else "token")
        accounts = (f"{namespace}/{AGENT}",) if settings.agent_accounts is None else settings.agent_accounts
        agents = AgentRules(frozenset(accounts), settings.agent_node == "same")
        access = Access(reviewing, lambda: asyncio.get_running_loop().time(), for_known=for_known)
        self.router = RequestRouter(
            desk,
            CallerAuthorizer(access, how, agents, leading.informers.all.pods.store.get),
            PermitHandler(desk, self._rounds, settings.wait_s),
            ResizeHandler(desk, self._rounds, settings.wait_s),
            PermitMetrics(registry, compat=compat),
            stopwatch,
            settings.wait_s,
        )
        self._certificates = certificates
        certificate: Certificate | ssl.SSLContext | None = None if certificates is None else certificates.context
        if settings.certificate is not None and settings.key is not None:
            certificate = Certificate(folder / settings.certificate, folder / settings.key)
        self._listener: Listener | None = None
        if certificate is not None or compat:
            self._listener = Listener(
                NAME,
                settings.address,
                certificate,
                self.router.answer,
                setting="vm.permits.address",
                most_body=max_body,
            )
        leading.ledger.listeners.append(self._rounds.notify_change)
        leading.informers.all.pods.store.on_change(lambda _, __: self._rounds.notify_change())

    async def run(self) -> None:
        """Serve until cancelled. Raises `CannotServe`."""
        if self._certificates is not None and not await self._certificates.wait_installation_known():
            structlog.get_logger().warning(
                "permit port not served: no certificate",
                next_step="apply the output of situate manifests, or set vm.permits.certificate and vm.permits.key",
            )
        if self._certificates is not None:
            await self._certificates.wait_issued()
        assert self._listener is not None, "requests are answered only with a certificate"
        async with asyncio.TaskGroup() as group:
            group.create_task(self._rounds.run())
            group.create_task(self._listener.run())

    async def wait_listening(self) -> int:
        """Wait until requests are answered, and return the port."""
        assert self._listener is not None, "requests are answered only with a certificate"
        await self._listener.wait_listening()
        return self._listener.port
