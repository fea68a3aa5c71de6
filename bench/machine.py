"""What the figures were measured on, and what a process has used of it."""

from __future__ import annotations

import contextlib
import math
import os
import platform
import subprocess
from pathlib import Path

_PROC = Path("/proc")


def machine() -> str:
    """In a line: processor, cores, Python."""
    model = platform.processor() or platform.machine()
    cpuinfo = _PROC / "cpuinfo"
    if cpuinfo.exists():
        model = next(
            (line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line), model
        )
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}"


def load() -> str:
    """How busy the machine is beside us."""
    return ", ".join(f"{value:.1f}" for value in os.getloadavg())


def rss_mib(pid: int) -> float:
    """Resident memory of a process."""
    status = _PROC / str(pid) / "status"
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024
    return int(_ps(pid, "rss")) / 1024


def cpu_s(pid: int) -> float:
    """Processor time of a process since its start."""
    stat = _PROC / str(pid) / "stat"
    if stat.exists():
        user, system = stat.read_text().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    minutes, _, seconds = _ps(pid, "time").rpartition(":")
    return float(minutes or 0) * 60 + float(seconds)


def waited_s(pid: int | str) -> float:
    """For how long the first thread of a process could have run since its start, and others had its core.

    NaN where the system does not tell. `self` is the caller.
    """
    schedstat = _PROC / str(pid) / "schedstat"
    return int(schedstat.read_text().split()[1]) / 1e9 if schedstat.exists() else math.nan


def pin(pid: int, core: int) -> None:
    """Keeps a process on one core where the system can do that; 0 is the caller itself."""
    if hasattr(os, "sched_setaffinity") and (os.cpu_count() or 1) > 1:
        with contextlib.suppress(OSError):  # a container may allow fewer cores
            os.sched_setaffinity(pid, {core % (os.cpu_count() or 1)})


def _ps(pid: int, what: str) -> str:
    return subprocess.run(["ps", "-o", f"{what}=", "-p", str(pid)], capture_output=True, text=True, check=True).stdout
