"""What must not get between the steps of a history: the garbage collector, and logs of what is expected there."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import structlog


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Collects what a history leaves when it has ended, and only that.

    A collection meanwhile would run the `finally` blocks of processes that were killed, at a moment that depends on
    what else the interpreter has done: the same seed would give another history. What is made while the collector
    rests stays in the youngest generation, so nothing that lived before is looked at. An inner one would end that for
    the outer one, so these are not nested.
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
def logs_off() -> Iterator[None]:
    """Controllers under faults log much that is expected here."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)
