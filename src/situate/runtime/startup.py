"""Keeps Python's garbage collector out of the way while a hundred thousand objects are read for the first time.

They all stay, so every collection on the way is in vain; afterwards they are frozen, and later collections do not walk
them. The setting is the process's, so the composition root asks for it once.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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
