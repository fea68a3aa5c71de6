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
    what else the interpreter has done: the same seed would give another history. Where somebody has frozen objects
    before, all that lived before the history stays frozen, for they cannot be told apart.
    """
    was_enabled = gc.isenabled()
    was_frozen = gc.get_freeze_count() > 0
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.collect()
        if not was_frozen:
            gc.unfreeze()
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
