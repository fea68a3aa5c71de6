"""Where an executor runs: clocks, randomness, how a process ends. Other than the defaults where that is simulated."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from situate.sharding.executor.controller.lease import clock


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an executor cannot decide by itself."""

    rng: random.Random = field(default_factory=random.Random)
    now: Callable[[], float] = clock
    wall: Callable[[], datetime] = lambda: datetime.now(UTC)
    end_process: Callable[[int], Any] = os._exit
    own_thread: bool = True
    """Whether the lease is kept in a thread of its own."""


REAL = Surroundings()
"""A process with threads, on the clocks of this machine."""
