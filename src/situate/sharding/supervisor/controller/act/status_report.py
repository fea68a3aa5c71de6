"""Write the leader's report at intervals, and confirm each version of the table of partitions.

Before the leader confirms a version, two conditions hold. The objects that the version gives us are listed, and no
write decided under an earlier version is in progress. Tools that change the table rely on the confirmation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
import structlog

from situate.kube.election.lease_record import LeaseName
from situate.kube.errors import KubeError
from situate.runtime.reconcile.outcomes import Retriable
from situate.sharding.supervisor.controller.act.writer import Sender
from situate.sharding.supervisor.controller.observe.table_watch import TableWatch
from situate.sharding.supervisor.report import SupervisorReport, report_text

RETRY_S: Final = 1.0


class StatusReporter:
    """The reports of one term: `run` until cancelled."""

    name = "reports"

    def __init__(
        self,
        sender: Sender,
        lease: LeaseName,
        report: Callable[[], SupervisorReport],
        table: TableWatch | None,
        every_s: float,
        known: Callable[[], Awaitable[None]],
    ) -> None:
        """`table`: None with static partitions. `known` waits until the objects of the newest version are listed."""
        self._sender = sender
        self._lease = lease
        self._report = report
        self._table = table
        self._every_s = every_s
        self._wait_objects_listed = known
        self._last_report = ""
        self._news = asyncio.Event() if table is None else table.news
        self._log = structlog.get_logger()

    async def run(self) -> None:
        """Write the report after each new version of the table, and every `every_s` seconds."""
        read = self._table is None
        while True:
            delay_s = self._every_s
            try:
                if self._table is not None and not read:
                    # a standby's table may be old: another supervisor may rely on the last leader's confirmation
                    self._table.handle_table_change(
                        None, await self._sender.read_table(self._table.namespace, self._table.name)
                    )
                    read = True
                await self._write()
            except (KubeError, Retriable) as problem:
                self._log.warning("report of the supervisor not written", error=str(problem))
                delay_s = RETRY_S
            try:
                async with asyncio.timeout(delay_s):
                    await self._news.wait()
            except TimeoutError:
                continue

    async def _write(self) -> None:
        self._news.clear()
        newest = None if self._table is None else self._table.tables.newest
        fresh = self._table is not None and newest is not None and newest != self._table.tables.confirmed
        if fresh:
            await self._wait_objects_listed()
            await self._sender.wait_writes()
        report = self._report()
        if newest is not None:
            report = msgspec.structs.replace(report, table_version=newest.version)
        text = report_text(report)
        if text != self._last_report:
            await self._sender.write_report(self._lease, text)
            self._last_report = text
        if fresh and self._table is not None and newest is not None:
            self._table.record_confirmed(newest)
