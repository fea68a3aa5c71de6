"""What one supervisor knows of the elastic table: the newest good version, and the one that it has confirmed.

The table is the entry `table` of a ConfigMap. One that is invalid, gone, or comes unannounced leaves the last
good one in force, and is told. Who confirms is left to the shell, what the versions mean to
`situate.sharding.partitions.slots`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from situate.objects.kinds.config_maps import ConfigMap
from situate.sharding.model.decision_inputs import Ownership
from situate.sharding.partitions.ownership import Owned, owned_under
from situate.sharding.partitions.partitions import Identified, Keyspace, PartitionBy
from situate.sharding.partitions.slots import SlotTable, parse_table, transition_mistakes

ENTRY: Final = "table"
"""Of the ConfigMap's data."""


@dataclass(frozen=True, slots=True)
class Tables:
    """One partition's."""

    partition: int
    by: PartitionBy = PartitionBy.UID
    newest: SlotTable | None = None
    """None: no good one was read yet."""
    confirmed: SlotTable | None = None
    """None: not in this term of leading."""
    problem: str = ""
    """What is wrong with what stands in the ConfigMap now; empty: nothing."""

    def with_seen(self, found: ConfigMap | None) -> Tables:
        """After the ConfigMap was seen so; None: there is none."""
        text = None if found is None else found.data.get(ENTRY)
        if text is None:
            what = "there is no such ConfigMap" if found is None else f"the ConfigMap has no entry {ENTRY!r}"
            return replace(self, problem=f"{what}; {self._stays()}")
        table, mistakes = parse_table(text)
        if table is not None and self.newest is not None:
            mistakes = transition_mistakes(self.newest, table)
        if table is None or mistakes:
            told = "; ".join(map(str, mistakes[:5]))
            return replace(self, problem=f"the entry {ENTRY!r} cannot be used: {told}; {self._stays()}")
        return replace(self, newest=table, problem="")

    def with_confirmed(self, table: SlotTable | None) -> Tables:
        """Others know that this supervisor has read it; None: a new term begins."""
        return replace(self, confirmed=table)

    def owned(self) -> Owned:
        """What may be done now; without a confirmed table, nothing."""
        if self.newest is None or self.confirmed is None:
            return _nothing
        return owned_under(self.confirmed, self.newest, self.partition, self.by)

    def keyspace(self) -> Keyspace:
        """What to know of: also what is not confirmed yet, and by standbys never is."""
        found = Keyspace(()) if self.newest is None else self.newest.keyspace(self.partition)
        return replace(found, by=self.by)

    def foreseen(self) -> Keyspace:
        """What to keep: also what the next version will give us, so that it is known when it does."""
        found = Keyspace(()) if self.newest is None else self.newest.foreseen(self.partition)
        return replace(found, by=self.by)

    def _stays(self) -> str:
        if self.newest is None:
            return "nothing is assigned before there is a table"
        return f"version {self.newest.version} stays in force"


def _nothing(_: Identified) -> Ownership:
    return Ownership.FOREIGN
