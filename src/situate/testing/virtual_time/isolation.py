"""Contexts that keep the garbage collector and the expected logs out of a history."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import structlog


@contextmanager
def disable_collector() -> Iterator[None]:
    """Disable the garbage collector during a history, and collect its garbage at the end.

    A collection during the history would run the `finally` blocks of killed processes. The moment would depend on other
    work of the interpreter, so the same seed would give another history. The final collection covers the youngest
    generation only, which holds all objects made meanwhile. Do not nest these contexts: the inner one would enable the
    collector too early for the outer one.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.collect(0)
        if was_enabled:
            gc.enable()


@contextmanager
def isolate_history() -> Iterator[None]:
    """Disable the garbage collector and suppress logs during a history. Also a decorator."""
    with disable_collector(), suppress_logs():
        yield


@contextmanager
def suppress_logs() -> Iterator[None]:
    """Suppress logs. Controllers under faults log many expected errors."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)
