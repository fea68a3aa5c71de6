"""Whether a supervisor owns an object: by its static partition, or by the elastic table that it has confirmed."""

from __future__ import annotations

from collections.abc import Callable

from situate.sharding.model.decision_inputs import Ownership
from situate.sharding.partitions.partitions import Keyspace, ObjectIdentity, PartitionBy, hash_of
from situate.sharding.partitions.slots import SlotTable

OwnershipTest = Callable[[ObjectIdentity], Ownership]
"""A test of one object, for `Situation.ownership`."""


def static_ownership(keyspace: Keyspace) -> OwnershipTest:
    """Return the test for a static partition."""
    return lambda obj: Ownership.OURS if keyspace.holds(obj) else Ownership.FOREIGN


def table_ownership(
    confirmed: SlotTable, newest: SlotTable, partition: int, by: PartitionBy = PartitionBy.UID
) -> OwnershipTest:
    """Return the test for the elastic table. `newest` is in the ConfigMap, `confirmed` is published as read.

    Slots that the newest version adds are owned only after it is confirmed. Slots that it freezes or removes are frozen
    or removed at once.
    """
    ours = confirmed.keyspace(partition), newest.keyspace(partition)
    free = confirmed.assignable_keyspace(partition), newest.assignable_keyspace(partition)

    def owned(obj: ObjectIdentity) -> Ownership:
        hashed = hash_of(obj, by)
        if not all(keyspace.holds_hash(hashed) for keyspace in ours):
            return Ownership.FOREIGN
        return Ownership.OURS if all(keyspace.holds_hash(hashed) for keyspace in free) else Ownership.FROZEN

    return owned
