"""Run the supervisors of `situate run`. Each finds its resource in the cluster, and logs the state of its fence."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Final, assert_never

import structlog

from situate.archive import BadArchiveUrl
from situate.archive.protocol import Archiver
from situate.cli.terminal.failures import WrongInput
from situate.kube.client import Client
from situate.kube.election.election import Candidacy
from situate.kube.election.lease_record import ElectionTimes
from situate.kube.errors import KubeError
from situate.kube.queries.discovery import DiscoveredResource, discover
from situate.kube.retry.backoff import Backoff
from situate.objects.kinds.unstructured import Unstructured
from situate.objects.resources import ResourceType
from situate.objects.settings.options import BadOptions
from situate.runtime.metrics import Metrics
from situate.sharding.supervisor.controller.config.section import ShardSettings
from situate.sharding.supervisor.controller.fence_check import FenceState, check_fence
from situate.sharding.supervisor.controller.supervisor import Supervisor

_RETRY: Final = Backoff(initial_s=1.0, cap_s=30.0)
_FENCE_CHECK_S: Final = 60.0
"""Interval between tries of the policy until an object exists to try it on."""


class SupervisorService:
    """Service for one entry of `sharding:`. Runs until `stop`."""

    def __init__(
        self,
        settings: ShardSettings,
        connect: Callable[[], Client],
        candidacy: Candidacy,
        metrics: Metrics,
        environment: dict[str, str] | None = None,
    ) -> None:
        """Open the archive. Raises `WrongInput` if that fails."""
        self.settings = settings
        self.name = f"supervisor of {settings.name}"
        self._connect = connect
        self._candidacy = candidacy
        self._metrics = metrics
        self._archiver = open_archive(settings, environment)
        self._supervisor: Supervisor | None = None
        self._stop = asyncio.Event()
        self._problem = "its resource has not been discovered yet"
        self._log = structlog.get_logger().bind(controller=self.name)

    def not_ready(self) -> str | None:
        """Return why the service is not ready, or None."""
        return self._problem if self._supervisor is None else self._supervisor.not_ready()

    def stop(self) -> None:
        self._stop.set()
        if self._supervisor is not None:
            self._supervisor.stop()

    async def run(self) -> None:
        """Wait for the resource without a limit; then supervise."""
        client = self._connect()
        try:
            served = await self._find_resource(client)
            if served is None:
                return
            supervisor = self._supervisor = self._make_supervisor(served)
            if self._stop.is_set():
                supervisor.stop()
            async with asyncio.TaskGroup() as group:
                telling = group.create_task(self._log_fence(client, served.resource))
                await group.create_task(supervisor.run())
                telling.cancel()
        finally:
            await client.close()
            if self._archiver is not None:
                await self._archiver.close()

    def _make_supervisor(self, served: DiscoveredResource) -> Supervisor:
        settings, candidacy = self.settings, self._candidacy
        scope = settings.scope(
            served.resource,
            candidacy.identity,
            candidacy.namespace,
            settings.archive,
            status_subresource=served.has_status,
        )
        if scope.election == ElectionTimes(waits=scope.election.waits):  # the entry sets no times of its own
            scope = replace(scope, election=replace(candidacy.times, waits=scope.election.waits))
        return Supervisor(
            settings.paths(),
            settings.make_strategy(served.resource.kind),
            self._archiver,
            settings.config(settings.archive),
            scope=scope,
            connect=self._connect,
            metrics=self._metrics,
        )

    async def _find_resource(self, client: Client) -> DiscoveredResource | None:
        """Find the resource in the cluster. Returns None if the service was stopped before."""
        failures = 0
        while not self._stop.is_set():
            try:
                served = await discover(client, *self.settings.group_version_plural)
            except KubeError as problem:
                served, said = None, str(problem)
            else:
                said = f"the cluster does not serve {self.settings.resource}; apply its definition"
            if served is not None:
                return served
            if said != self._problem:
                self._log.warning("resource cannot be watched yet", error=said)
            self._problem = said
            failures += 1
            try:
                async with asyncio.timeout(_RETRY.delay_s(failures, random.Random())):
                    await self._stop.wait()
            except TimeoutError:
                continue
        return None

    async def _log_fence(self, client: Client, resource: ResourceType[Unstructured]) -> None:
        """Log once whether the fencing policy is enforced, when an object exists to try it on.

        See docs/spec/sharding.md, 8.2.
        """
        while True:
            found = await check_fence(client, resource, self.settings.namespace)
            match found.fence:
                case FenceState.ENFORCED:
                    self._log.info("fencing policy is enforced", reason=found.message)
                    return
                case FenceState.MISSING:
                    self._log.warning("fencing policy is not enforced", reason=found.message)
                    return
                case FenceState.UNKNOWN:
                    await asyncio.sleep(_FENCE_CHECK_S)
                case _ as never:
                    assert_never(never)


def open_archive(settings: ShardSettings, environment: dict[str, str] | None = None) -> Archiver | None:
    """Open the archive of an entry; None if it has none. Raises `WrongInput`."""
    try:
        return settings.archive.open(dict(os.environ) if environment is None else environment)
    except (BadArchiveUrl, BadOptions) as wrong:
        raise WrongInput(f"sharding, {settings.name}: archive: {wrong}") from None
