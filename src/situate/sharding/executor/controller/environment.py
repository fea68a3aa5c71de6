"""Dependencies of an executor on its process: clocks, randomness, process exit. Simulations replace the defaults."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from situate.sharding.executor.controller.lease import clock


@dataclass(frozen=True, slots=True)
class RuntimeEnvironment:
    """Clocks, random source and process exit, supplied from outside."""

    rng: random.Random = field(default_factory=random.Random)
    now: Callable[[], float] = clock
    wall: Callable[[], datetime] = lambda: datetime.now(UTC)
    end_process: Callable[[int], Any] = os._exit
    own_thread: bool = True
    """Whether the lease is renewed in a thread of its own."""


REAL_ENVIRONMENT = RuntimeEnvironment()
"""A real process: threads, and the clocks of this machine."""
