"""Times on objects: RFC 3339 text on one side, seconds since 1970 on the other."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from functools import lru_cache


@lru_cache(maxsize=4096)
def parse_time(text: str) -> float:
    """Seconds since 1970 of a Kubernetes Time or MicroTime."""
    return datetime.fromisoformat(text).timestamp()


@lru_cache(maxsize=64)
def _whole_second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_time(now: float) -> str:
    """A Kubernetes Time: whole seconds, cut off."""
    return _whole_second(math.floor(now))


def format_micro_time(now: float) -> str:
    """A Kubernetes MicroTime: always six decimals, which the API server asks of Leases."""
    micros = math.floor(now * 1e6)
    return f"{_whole_second(micros // 1_000_000)[:-1]}.{micros % 1_000_000:06d}Z"
