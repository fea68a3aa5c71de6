"""The hashes of `situate.sharding.partitions.hashing` for many keys at once.

A module of its own, because hashing key by key does not need NumPy. NumPy costs a process about 0.1 s and 10 MiB.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from situate.sharding.partitions.hashing import FNV_OFFSET, FNV_PRIME, MURMUR, key_bytes

Hashes = NDArray[np.uint64]


def fnv1a64_many(texts: Sequence[str]) -> Hashes:
    """Return `fnv1a64` of each text, in the same order."""
    encoded = [key_bytes(text) for text in texts]
    lengths = np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded))
    # The longest first, so that at each column the texts that still have a byte are a prefix.
    order = np.argsort(-lengths, kind="stable")
    flat = np.frombuffer(b"".join(encoded), dtype=np.uint8)
    starts = (np.cumsum(lengths) - lengths)[order]
    still = np.searchsorted(-lengths[order], -np.arange(int(lengths.max(initial=0))), side="left")
    hashes = np.full(len(encoded), FNV_OFFSET, dtype=np.uint64)
    prime = np.uint64(FNV_PRIME)
    for column, count in enumerate(still.tolist()):
        hashes[:count] ^= flat[starts[:count] + column]
        hashes[:count] *= prime
    found = np.empty_like(hashes)
    found[order] = hashes
    return found


def mix64_many(hashed: Hashes) -> Hashes:
    """Return `mix64` of each hash. Array arithmetic wraps without a mask."""
    shift = np.uint64(33)
    for factor in MURMUR:
        hashed = (hashed ^ (hashed >> shift)) * np.uint64(factor)
    return hashed ^ (hashed >> shift)
