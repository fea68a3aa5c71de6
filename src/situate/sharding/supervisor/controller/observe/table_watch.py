"""Follows the ConfigMap of the elastic table, and says in it what cannot be used."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from situate.kube.events import WARNING
from situate.objects.kinds.config_maps import ConfigMap
from situate.objects.kinds.events import ObjectReference
from situate.sharding.partitions.slot_tables import Tables
from situate.sharding.partitions.slots import SlotTable
from situate.sharding.supervisor.controller.act.conditions import Record


class TableWatch:
    """Of one process. It goes on whether or not this process leads."""

    def __init__(self, tables: Tables, namespace: str, name: str, changed: Callable[[Tables], None]) -> None:
        """`changed` is told of each version that is read or confirmed."""
        self.namespace = namespace
        self.name = name
        self.record: Record | None = None
        """For Events; None before the start."""
        self.tables = tables
        self.news = asyncio.Event()
        """Set by each version that is not confirmed."""
        self._changed = changed
        self._log = structlog.get_logger().bind(table=f"{namespace}/{name}")

    def saw(self, _: ConfigMap | None, new: ConfigMap | None) -> None:
        """For a store of ConfigMaps."""
        before, self.tables = self.tables, self.tables.with_seen(new)
        after = self.tables
        if after.problem and after.problem != before.problem:
            self._log.error("the table of partitions cannot be used", error=after.problem)
            self._tell(new, after.problem)
        if after.newest != before.newest and after.newest is not None:
            self._log.info("the table of partitions has changed", version=after.newest.version)
            self.news.set()
            self._changed(after)

    def not_ready(self) -> str | None:
        """Why there is no table yet; None if there is one."""
        if self.tables.newest is not None:
            return None
        return f"the table of partitions {self.namespace}/{self.name}: {self.tables.problem or 'not listed yet'}"

    def begin_term(self) -> None:
        """Nothing is confirmed."""
        self.tables = self.tables.with_confirmed(None)
        self.news.set()
        self._changed(self.tables)

    def confirmed(self, table: SlotTable) -> None:
        """Others can read that we have read it."""
        self.tables = self.tables.with_confirmed(table)
        self._log.info("a version of the table of partitions is confirmed", version=table.version)
        self._changed(self.tables)

    def _tell(self, about: ConfigMap | None, problem: str) -> None:
        if about is not None and self.record is not None:
            meta = about.metadata
            reference = ObjectReference("v1", "ConfigMap", meta.namespace, meta.name, meta.uid, meta.resource_version)
            self.record(reference, WARNING, "BadPartitionTable", problem)
