"""How a process begins: on the fastest event loop that is installed, with memory that is kept once it is there, and
with the garbage collector out of the way while a hundred thousand objects are read for the first time.

Those objects all stay, so every collection on the way is in vain; afterwards they are frozen, and later collections do
not walk them. The setting is the process's, so the composition root asks for it once.
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
"""`gc.set_threshold`: what these processes make by the thousand each second lives shortly and holds no cycles. With
Python's own threshold of 700 the collector took a tenth of what a binding costs."""


def run_process(main: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`, on uvloop where the extra `fast` is installed; freed memory is kept from then on."""
    keep_freed_memory()
    threshold = gc.get_threshold()
    gc.set_threshold(*COLLECT_AFTER)
    try:
        with asyncio.Runner(loop_factory=_fastest_loop()) as runner:
            runner.get_loop().set_exception_handler(_without_late_writes)
            return runner.run(main)
    finally:
        gc.set_threshold(*threshold)


def _without_late_writes(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Says what goes wrong in callbacks, but not that uvloop's TLS had something left for a connection that has ended.

    asyncio's own drops it without a word (uvloop issue 506). Whoever waits for that connection hears that it is lost.
    """
    problem = context.get("exception")
    # its words are all there is to go by: such a transport says neither that it is closing nor that it is closed
    late = isinstance(problem, RuntimeError) and str(problem).endswith("the handler is closed")
    if not late:
        loop.default_exception_handler(context)


def _fastest_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """None is asyncio's own."""
    try:
        factory: Callable[[], asyncio.AbstractEventLoop] = import_module("uvloop").new_event_loop
    except ModuleNotFoundError:
        return None
    return factory


@contextmanager
def collector_paused() -> Iterator[None]:
    """No automatic collections inside; one at the end, and what is alive then is never walked again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.collect()
        gc.freeze()
        if was_enabled:
            gc.enable()
