"""Follow the ConfigMap of the elastic table, and write an Event on it if it cannot be used."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from situate.kube.events import WARNING, RecordEvent
from situate.objects.kinds.config_maps import ConfigMap
from situate.objects.kinds.events import ObjectReference
from situate.sharding.partitions.slot_tables import PartitionTables
from situate.sharding.partitions.slots import SlotTable


class TableWatch:
    """The table as seen by one process, whether or not it leads."""

    def __init__(
        self, tables: PartitionTables, namespace: str, name: str, changed: Callable[[PartitionTables], None]
    ) -> None:
        """`changed` is called after a version is read or confirmed, and at the start of a term."""
        self.namespace = namespace
        self.name = name
        self.record: RecordEvent | None = None
        """Function that writes Events; None before the start."""
        self.tables = tables
        self.news = asyncio.Event()
        """Set when a version needs to be confirmed."""
        self._changed = changed
        self._log = structlog.get_logger().bind(table=f"{namespace}/{name}")

    def handle_table_change(self, _: ConfigMap | None, new: ConfigMap | None) -> None:
        """Handle a change in the store of ConfigMaps."""
        before, self.tables = self.tables, self.tables.with_read(new)
        after = self.tables
        if after.problem and after.problem != before.problem:
            self._log.error("partition table unusable", error=after.problem)
            self._record_problem(new, after.problem)
        if after.newest != before.newest and after.newest is not None:
            self._log.info("partition table changed", version=after.newest.version)
            self.news.set()
            self._changed(after)

    def not_ready(self) -> str | None:
        """Return why there is no table yet; None if there is one."""
        if self.tables.newest is not None:
            return None
        return f"partition table {self.namespace}/{self.name}: {self.tables.problem or 'not listed yet'}"

    def begin_term(self) -> None:
        """Reset the confirmation at the start of a term."""
        self.tables = self.tables.with_confirmed(None)
        self.news.set()
        self._changed(self.tables)

    def record_confirmed(self, table: SlotTable) -> None:
        """Record that the report with this confirmed version was written."""
        self.tables = self.tables.with_confirmed(table)
        self._log.info("version of the partition table confirmed", version=table.version)
        self._changed(self.tables)

    def _record_problem(self, about: ConfigMap | None, problem: str) -> None:
        if about is not None and self.record is not None:
            meta = about.metadata
            reference = ObjectReference("v1", "ConfigMap", meta.namespace, meta.name, meta.uid, meta.resource_version)
            self.record(reference, WARNING, "BadPartitionTable", problem)
