"""`hash_of` and `partition_of` for many keys at once, for tests that hash thousands of keys."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from situate.sharding.partitions.hash_arrays import Hashes, fnv1a64_many, mix64_many
from situate.sharding.partitions.partitions import PartitionBy


def hashes_of(keys: Sequence[str], by: PartitionBy) -> Hashes:
    """Return the hashes of many UIDs, namespaces or names, as `hash_of` does."""
    hashed = fnv1a64_many(keys)
    return hashed if by is PartitionBy.UID else mix64_many(hashed)


def partitions_of(hashes: Hashes, count: int) -> NDArray[np.int64]:
    """Return `partition_of` of each hash. Exact for up to `MOST` partitions."""
    high, low = hashes >> 32, hashes & 0xFFFFFFFF
    return ((high * count + ((low * count) >> 32)) >> 32).astype(np.int64)
