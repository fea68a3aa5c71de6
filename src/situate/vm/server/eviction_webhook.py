"""Webhook and budgets for evictions of VMs, while this process leads (B48).

They need an installed configuration of the webhook: budgets alone would block drains without any migration.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from situate.kube.client import Client
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.resources import PODDISRUPTIONBUDGETS
from situate.runtime.serving.certificates.webhook_presence import WebhookPresence
from situate.runtime.serving.webhook_server import Webhook
from situate.vm.config.settings import EvictionSettings
from situate.vm.controller.budgets import Budgets
from situate.vm.model.actions import Notify
from situate.vm.protocol.eviction_webhook_objects import PATH, WEBHOOK
from situate.vm.server.certificates import Certificates
from situate.vm.server.eviction_handler import EvictionHandler
from situate.vm.server.request_context import Replica, RequestContext

MAX_REVIEW: Final = 2**20
"""Bytes. An Eviction is a name and a few options."""


class EvictionWebhook:
    """Webhook of one process. `run` is a task of the leader, until cancelled."""

    def __init__(
        self,
        settings: EvictionSettings,
        leading: Replica,
        client: Client,
        tell: Callable[[Notify], None],
        certificates: Certificates,
        *,
        call_timeout_s: float,
    ) -> None:
        """`client`: its writes raise a `Retriable` if this process does not lead."""
        assert certificates.configurations is not None, "the certificates serve a webhook"
        self._client = client
        self._certificates = certificates
        self._presence = WebhookPresence(certificates.configurations, certificates.configuration, WEBHOOK)
        self.evictions = EvictionHandler(RequestContext(leading, client, call_timeout_s), tell)
        self.listener = Webhook(
            settings.address, self.evictions.answer, path=PATH, setting="vm.evictions.address", largest=MAX_REVIEW
        )
        certificates.on_generation = self.listener.serve_with
        watched = leading.informers
        budgets = watched.all.others[PODDISRUPTIONBUDGETS]
        self._budgets = Budgets(watched.machines, budgets, leading.ledger.rules)
        self._log = structlog.get_logger()

    async def run(self) -> None:
        await self._presence.wait_synced()
        while True:
            installed = self._presence.installed_metadata()
            if installed is None:
                self._log.info(
                    "webhook not installed, evictions start no migrations",
                    configuration=self._presence.configuration,
                )
            work = self._budgets.run(self._client, None) if installed is None else self._serve(installed)
            tasks = asyncio.ensure_future(work), asyncio.ensure_future(self._presence.wait_change(installed))
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in tasks:
                    each.cancel()
                await asyncio.wait(tasks)
            if not tasks[0].cancelled():
                tasks[0].result()

    async def _serve(self, configuration: ObjectMeta) -> None:
        if self._certificates.current_generation is not None:
            self.listener.serve_with(self._certificates.current_generation)
        async with asyncio.TaskGroup() as group:
            group.create_task(self.listener.run())
            await self.listener.wait_listening()
            group.create_task(self._budgets.run(self._client, configuration))
