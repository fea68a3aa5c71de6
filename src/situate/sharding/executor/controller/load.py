"""The CPU and memory use of an executor's process, for its Lease: the default of `--metrics-source`."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

_STATM = Path("/proc/self/statm")


class ProcessLoad:
    """`cpu`: mean number of cores used since the previous call, from the second call on. `memory`: resident bytes.

    All threads of the process count, other processes do not. Not for more than one caller.
    """

    def __init__(
        self, cpu_s: Callable[[], float] = time.process_time, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._cpu_s = cpu_s
        self._now = now
        self._last: tuple[float, float] | None = None  # readings of both clocks

    def __call__(self) -> Mapping[str, float]:
        used, now = self._cpu_s(), self._now()
        last, self._last = self._last, (used, now)
        memory = {"memory": float(_resident_bytes())}
        if last is None or now <= last[1]:
            return memory
        return {"cpu": round((used - last[0]) / (now - last[1]), 4), **memory}


def _resident_bytes() -> int:
    """Return the resident memory, or the peak where the system does not report the current value."""
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
