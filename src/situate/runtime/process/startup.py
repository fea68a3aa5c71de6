"""Starts a process on the fastest event loop installed, keeps freed memory, and pauses the garbage collector.

The collector is paused while up to a hundred thousand objects are read for the first time. All of them stay alive, so
collections would free nothing. Afterwards the objects are frozen, and later collections skip them. These settings apply
to the whole process, so the composition root makes them once.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final, TypeVar

from situate.runtime.process.memory import keep_freed_memory

T = TypeVar("T")

COLLECT_AFTER: Final = (50_000, 20, 50)
"""Thresholds for `gc.set_threshold`. These processes create thousands of short-lived objects a second, without cycles.

With Python's own threshold of 700, the collector took a tenth of the cost of a binding.
"""


def run_process(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine as `asyncio.run` does, on uvloop if the extra `fast` is installed, and keep freed memory."""
    keep_freed_memory()
    threshold = gc.get_threshold()
    gc.set_threshold(*COLLECT_AFTER)
    try:
        with asyncio.Runner(loop_factory=_fastest_loop()) as runner:
            runner.get_loop().set_exception_handler(_handle_loop_exception)
            return runner.run(main)
    finally:
        gc.set_threshold(*threshold)


def _handle_loop_exception(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Report exceptions in callbacks, except uvloop's TLS writes to a connection that has ended.

    asyncio's own TLS drops such writes silently (uvloop issue 506). The caller that uses the connection gets its own
    error.
    """
    problem = context.get("exception")
    # only the message identifies it: such a transport reports neither that it is closing nor that it is closed
    late = isinstance(problem, RuntimeError) and str(problem).endswith("the handler is closed")
    if not late:
        loop.default_exception_handler(context)


def _fastest_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the factory of uvloop's event loop; None selects asyncio's own."""
    try:
        factory: Callable[[], asyncio.AbstractEventLoop] = import_module("uvloop").new_event_loop
    except ModuleNotFoundError:
        return None
    return factory


@contextmanager
def pause_collector() -> Iterator[None]:
    """Disable automatic collections inside the block; collect once at its end, and ignore live objects from then on."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.collect()
        gc.freeze()
        if was_enabled:
            gc.enable()
