"""What stands between evictions and machines while this process leads: a webhook, its certificates, and budgets (B48).

Only where the webhook's configuration is installed: budgets alone would hold up drains, and nobody would move anything.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import structlog

from situate.kube.client import Client
from situate.kube.reflector import Reflector
from situate.kube.store import Store
from situate.objects.configuration import Secret
from situate.objects.resources import PODDISRUPTIONBUDGETS, SECRETS
from situate.objects.unstructured import Unstructured
from situate.runtime.serving.issuing import host_names
from situate.runtime.serving.upkeep import VALIDATING, Kept, Upkeep
from situate.runtime.serving.webhooks import Listener
from situate.vm.actions import Tell
from situate.vm.configuration import EvictionSettings
from situate.vm.controller.budgets import Budgets
from situate.vm.eviction_objects import CERTIFICATES, PATH, SERVICE, WEBHOOK, configuration_name
from situate.vm.server.desk import Desk, Leading
from situate.vm.server.evictions import Evictions


class EvictionWebhook:
    """Of one process; `run` is a task of the leader, until cancelled."""

    def __init__(
        self,
        settings: EvictionSettings,
        leading: Leading,
        client: Client,
        tell: Callable[[Tell], None],
        *,
        namespace: str,
        call_timeout_s: float,
        wall: Callable[[], datetime],
        rng: random.Random,
    ) -> None:
        """`client`: one whose writes raise a `Retriable` when we do not lead. `namespace`: of the installation."""
        self._client = client
        self._configuration = configuration_name(namespace)
        self._secrets: Reflector[Secret] = Reflector(
            client,
            SECRETS,
            Store(f"secrets {CERTIFICATES}"),
            rng=rng,
            namespace=namespace,
            field_selector=f"metadata.name={CERTIFICATES}",
        )
        self._configurations: Reflector[Unstructured] = Reflector(
            client,
            VALIDATING,
            Store(f"validating webhooks {self._configuration}"),
            rng=rng,
            field_selector=f"metadata.name={self._configuration}",
        )
        self.evictions = Evictions(Desk(leading, client, call_timeout_s), tell)
        self.listener = Listener(settings.address, self.evictions.answer, path=PATH, setting="vm.evictions.address")
        watched = leading.watched
        budgets = watched.all.others[PODDISRUPTIONBUDGETS]
        self._budgets = Budgets(watched.machines, budgets, leading.ledger.rules)
        self._upkeep = Upkeep(
            Kept(VALIDATING, self._configuration, WEBHOOK, CERTIFICATES, namespace),
            client,
            self._secrets,
            self._configurations,
            names=host_names(SERVICE, namespace),
            life_s=lambda: settings.certificate_life,
            wall=lambda: wall().timestamp(),
            serve=self.listener.serve_with,
        )
        self._changed = asyncio.Event()
        self._configurations.store.on_change(lambda _, __: self._changed.set())
        self._log = structlog.get_logger()

    def reflectors(self) -> Sequence[Reflector[Any]]:
        return self._secrets, self._configurations

    async def run(self) -> None:
        await self._configurations.store.wait_synced()
        while True:
            installed = self._installed()
            if not installed:
                self._log.info(
                    "evictions are no moves: the webhook is not installed", configuration=self._configuration
                )
            work = self._serve() if installed else self._budgets.run(self._client, wanted=False)
            tasks = asyncio.ensure_future(work), asyncio.ensure_future(self._wait(installed=not installed))
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in tasks:
                    each.cancel()
                await asyncio.wait(tasks)
            if not tasks[0].cancelled():
                tasks[0].result()

    async def _serve(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._upkeep.run())
            group.create_task(self.listener.run())
            await self.listener.wait_listening()
            group.create_task(self._budgets.run(self._client))

    def _installed(self) -> bool:
        return self._configurations.store.get(self._configuration) is not None

    async def _wait(self, *, installed: bool) -> None:
        while self._installed() != installed:
            self._changed.clear()
            await self._changed.wait()
