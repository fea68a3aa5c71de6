"""Keeps freed memory in the process instead of returning it to the system.

The columns of a decision, 40 kB for 5,000 nodes and 120 kB for 15,000, live for microseconds. By default glibc maps
each allocation of 128 kB or more separately, and returns the top of its heap as soon as it is free. Every column then
costs a page fault for each 4 kB, more than the computation in it. With these settings, decisions on pods that are all
different take about half the time (`make bench-engine`). A process keeps up to `KEPT_BYTES` bytes more than it needs.
"""

from __future__ import annotations

import ctypes
from typing import Final

KEPT_BYTES: Final = 2**26
"""Bytes."""

_TRIM_THRESHOLD: Final = -1
_TOP_PAD: Final = -2
_MMAP_THRESHOLD: Final = -3
"""Constants of malloc.h."""
_LARGEST: Final = 2**25
"""The largest threshold that glibc accepts for allocations from the heap."""


def keep_freed_memory() -> bool:
    """Keep freed memory from now on; return False, without a change, if the C library does not support it."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return False
    return all(
        [mallopt(_MMAP_THRESHOLD, _LARGEST), mallopt(_TRIM_THRESHOLD, KEPT_BYTES), mallopt(_TOP_PAD, KEPT_BYTES // 4)]
    )
