"""The elastic tables that a supervisor knows: the newest valid version, and the version that it has confirmed.

The table is the entry `table` of a ConfigMap. If the entry is invalid, missing, or changes owners without a freeze, the
last valid table stays in force, and `problem` says why. The caller publishes the confirmation.
`situate.sharding.partitions.slots` defines the versions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from situate.objects.kinds.config_maps import ConfigMap
from situate.sharding.model.decision_inputs import Ownership
from situate.sharding.partitions.ownership import OwnershipTest, table_ownership
from situate.sharding.partitions.partitions import Keyspace, ObjectIdentity, PartitionBy
from situate.sharding.partitions.slots import SlotTable, parse_table, transition_mistakes

ENTRY: Final = "table"
"""The key in the ConfigMap's data."""


@dataclass(frozen=True, slots=True)
class PartitionTables:
    """The tables that the supervisor of one partition knows."""

    partition: int
    by: PartitionBy = PartitionBy.UID
    newest: SlotTable | None = None
    """None: no valid table was read yet."""
    confirmed: SlotTable | None = None
    """None: no table is confirmed in this term of leadership."""
    problem: str = ""
    """The problem with the present ConfigMap; empty: no problem."""

    def with_read(self, found: ConfigMap | None) -> PartitionTables:
        """Return the tables after a read of the ConfigMap; None: it does not exist."""
        text = None if found is None else found.data.get(ENTRY)
        if text is None:
            what = "the ConfigMap does not exist" if found is None else f"the ConfigMap has no entry {ENTRY!r}"
            return replace(self, problem=f"{what}; {self._version_in_use()}")
        table, mistakes = parse_table(text)
        if table is not None and self.newest is not None:
            mistakes = transition_mistakes(self.newest, table)
        if table is None or mistakes:
            told = "; ".join(map(str, mistakes[:5]))
            return replace(self, problem=f"the entry {ENTRY!r} is invalid: {told}; {self._version_in_use()}")
        return replace(self, newest=table, problem="")

    def with_confirmed(self, table: SlotTable | None) -> PartitionTables:
        """Return the tables after the confirmation of one; None: a new term begins."""
        return replace(self, confirmed=table)

    def ownership_test(self) -> OwnershipTest:
        """Return the ownership test for this moment; without a confirmed table, it owns nothing."""
        if self.newest is None or self.confirmed is None:
            return _own_nothing
        return table_ownership(self.confirmed, self.newest, self.partition, self.by)

    def keyspace(self) -> Keyspace:
        """Return the keyspace to watch: it includes unconfirmed slots, which standby supervisors never confirm."""
        found = Keyspace(()) if self.newest is None else self.newest.keyspace(self.partition)
        return replace(found, by=self.by)

    def foreseen_keyspace(self) -> Keyspace:
        """Return the keyspace to cache: it also includes slots of the next version, so that their objects are known."""
        found = Keyspace(()) if self.newest is None else self.newest.foreseen_keyspace(self.partition)
        return replace(found, by=self.by)

    def _version_in_use(self) -> str:
        if self.newest is None:
            return "no object is assigned until a valid table exists"
        return f"version {self.newest.version} remains in use"


def _own_nothing(_: ObjectIdentity) -> Ownership:
    return Ownership.FOREIGN
