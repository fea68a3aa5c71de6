"""New owners of slots when partitions join, leave, split or merge.

Each function returns the owner of every slot after the change; `situate.sharding.partitions.slots.frozen` makes the
table from it. Slots move only into a new partition, or out of a partition that leaves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from situate.sharding.partitions.slots import SLOTS, BadTable

Owners = tuple[int, ...]
"""Partitions by slot."""


def resize_owners(owners: Sequence[int], wanted: Iterable[int], load: Sequence[int] | None = None) -> Owners:
    """Return owners for exactly the wanted partitions. Each new partition gets an equal share.

    No slot moves between partitions that stay. `load` is the number of objects per slot. With it, a new partition gets
    its share of objects rather than of slots, and the slots of a leaving partition go to the partitions with the fewest
    objects. Raises `BadTable` if no partition or too many are wanted.
    """
    after = sorted(set(wanted))
    if not 1 <= len(after) <= SLOTS:
        raise BadTable(f"number of partitions is {len(after)}, allowed: 1 to {SLOTS}")
    weights = [1] * SLOTS if load is None else list(load)
    changed = list(owners)
    held = dict.fromkeys(after, 0)
    for slot, owner in enumerate(owners):
        if owner in held:
            held[owner] += weights[slot]
    stay = [partition for partition in after if partition in set(owners)]
    for slot, owner in enumerate(owners):
        if owner not in held:
            target = min(after, key=lambda partition: (held[partition], partition))
            changed[slot] = target
            held[target] += weights[slot]
    for partition in after:
        if partition not in stay:
            _fill_partition(partition, changed, held, weights)
    return tuple(changed)


def _fill_partition(newcomer: int, changed: list[int], held: dict[int, int], weights: Sequence[int]) -> None:
    """Give the new partition an equal share: repeatedly the last slot of the partition with the most load.

    If slots differ in load, the last slot may lift the new partition above its share.
    """
    share = sum(held.values()) // len(held)
    slots: dict[int, list[int]] = {partition: [] for partition in held}
    for slot, owner in enumerate(changed):
        slots[owner].append(slot)
    while held[newcomer] < share:
        donors = [each for each in held if each != newcomer and len(slots[each]) > 1]
        if not donors:
            return
        donor = max(donors, key=lambda partition: (held[partition], -partition))
        slot = slots[donor].pop()
        changed[slot] = newcomer
        held[newcomer] += weights[slot]
        held[donor] -= weights[slot]


def split_partition(owners: Sequence[int], partition: int, new: int) -> Owners:
    """Move the second half of the partition's slots to a new one; of an odd number the smaller half."""
    slots = [slot for slot, owner in enumerate(owners) if owner == partition]
    if len(slots) < 2:
        raise BadTable(f"partition {partition} has {len(slots)} slots, allowed: at least 2 for a split")
    if new in set(owners):
        raise BadTable(f"partition {new} already has slots; choose a number that is not in the table")
    leaving = set(slots[(len(slots) + 1) // 2 :])
    return tuple(new if slot in leaving else owner for slot, owner in enumerate(owners))


def merge_partitions(owners: Sequence[int], partition: int, into: int) -> Owners:
    """Move all slots of one partition to another one."""
    present = set(owners)
    if partition == into or partition not in present or into not in present:
        named = ", ".join(map(str, sorted(present)))
        raise BadTable(
            f"partition {partition} cannot be merged into {into}, allowed: two different partitions of {named}"
        )
    return tuple(into if owner == partition else owner for owner in owners)
