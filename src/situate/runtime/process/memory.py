"""Keeps memory that was freed, instead of giving it back to the system and asking for it again at once.

The columns of a decision, 40 kB for 5,000 nodes and 120 kB for 15,000, live for microseconds. As shipped, glibc maps
whatever has 128 kB or more afresh, and gives the top of its heap back as soon as it is free: then every column costs a
page fault for each 4 kB, which is more than what is computed in it. With these settings deciding on pods that are all
different takes about half the time (`make bench-engine`); a process keeps up to `KEPT` more than it needs.
"""

from __future__ import annotations

import ctypes
from typing import Final

KEPT: Final = 2**26
"""Bytes."""

_TRIM_THRESHOLD: Final = -1
_TOP_PAD: Final = -2
_MMAP_THRESHOLD: Final = -3
"""Numbers of malloc.h."""
_LARGEST: Final = 2**25
"""What glibc allows at most for what comes from the heap."""


def keep_freed_memory() -> bool:
    """Of this process, from now on; False where the C library is none that can be told so, and nothing has changed."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return False
    return all([mallopt(_MMAP_THRESHOLD, _LARGEST), mallopt(_TRIM_THRESHOLD, KEPT), mallopt(_TOP_PAD, KEPT // 4)])
