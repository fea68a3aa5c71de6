"""Processes that outlive the one that started them: adopted by this process, and ended after a test that failed.

A test ends the programs it starts. If it fails before that, or kills a program that has started others, these go on
without a parent. They are found by their session, whose leader is gone; servers that fixtures share lead sessions of
their own and are left alone.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

_PR_SET_CHILD_SUBREAPER: Final = 36  # include/uapi/linux/prctl.h
_PROC: Final = Path("/proc")


class Running(NamedTuple):
    """One process, as /proc/PID/stat shows it (proc(5))."""

    pid: int
    parent: int
    session: int
    is_zombie: bool


def adopt_orphans() -> None:
    """From now on a descendant whose parent ends becomes a child of this process. Linux only; elsewhere nothing."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def orphans() -> list[int]:
    """Descendants of this process in a session whose leader has ended."""
    running = {each.pid: each for each in _running()}
    living = {pid for pid, each in running.items() if not each.is_zombie}
    return [
        pid
        for pid in _descendants(running, os.getpid())
        if running[pid].session != pid and running[pid].session not in living
    ]


def end_orphans() -> list[int]:
    """Kill them, and those whom that leaves without a parent; return their process ids."""
    ended: list[int] = []
    while found := [pid for pid in orphans() if pid not in ended]:
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):  # its own parent still lives, and waits for it
                os.waitpid(pid, 0)
        ended += found
    return ended


def _descendants(running: Mapping[int, Running], ancestor: int) -> Iterator[int]:
    children: defaultdict[int, list[int]] = defaultdict(list)
    for each in running.values():
        children[each.parent].append(each.pid)
    found = children[ancestor]
    while found:
        yield from found
        found = [child for pid in found for child in children[pid]]


def _running() -> Iterator[Running]:
    if sys.platform != "linux":
        return
    for folder in _PROC.iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):  # it has ended meanwhile
                # the name, in parentheses, may contain anything
                state, parent, _, session, *_ = (folder / "stat").read_text().rpartition(")")[2].split()
                yield Running(int(folder.name), int(parent), int(session), state == "Z")
