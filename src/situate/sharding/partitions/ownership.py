"""Whether an object is this supervisor's: by its static partition, or by the elastic table that it has confirmed."""

from __future__ import annotations

from collections.abc import Callable

from situate.sharding.model.decision_inputs import Ownership
from situate.sharding.partitions.partitions import Identified, Keyspace, PartitionBy, hash_of
from situate.sharding.partitions.slots import SlotTable

Owned = Callable[[Identified], Ownership]
"""For `Situation.ownership`."""


def owned_by(keyspace: Keyspace) -> Owned:
    """Under a static partition."""
    return lambda obj: Ownership.OURS if keyspace.holds(obj) else Ownership.FOREIGN


def owned_under(confirmed: SlotTable, newest: SlotTable, partition: int, by: PartitionBy = PartitionBy.UID) -> Owned:
    """Under the table: `newest` is what stands in the ConfigMap, `confirmed` what others know that we have read.

    What the newest version gives us is ours only once we have confirmed it; what it freezes or takes is so at once.
    """
    ours = confirmed.keyspace(partition), newest.keyspace(partition)
    free = confirmed.assignable(partition), newest.assignable(partition)

    def owned(obj: Identified) -> Ownership:
        hashed = hash_of(obj, by)
        if not all(keyspace.holds_hash(hashed) for keyspace in ours):
            return Ownership.FOREIGN
        return Ownership.OURS if all(keyspace.holds_hash(hashed) for keyspace in free) else Ownership.FROZEN

    return owned
