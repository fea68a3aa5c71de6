"""Something happens in place of a call of the operating system: an error, or the end of the process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def counted(act: Callable[[int, str], object]) -> Iterator[list[str]]:
    """`act` is told the number, from 1, and the name of each call before this thread makes it.

    What it raises comes in place of the call, and nothing is counted afterwards. Closing files is not counted: systems
    do it whatever happens. Gives the names of the calls.
    """
    names: list[str] = []

    def profile(_: FrameType, event: str, function: Any) -> None:
        if event == "c_call" and getattr(function, "__module__", "") in ("posix", "fcntl"):
            name = function.__name__
            if name != "close":
                names.append(name)
                act(len(names), name)

    sys.setprofile(profile)
    try:
        yield names
    finally:
        sys.setprofile(None)
