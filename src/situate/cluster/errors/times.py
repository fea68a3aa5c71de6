"""Unix seconds in the format of Kubernetes times. Times later than the year 9999 are not supported."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache


@lru_cache(maxsize=64)
def _format_seconds(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def timestamp(now: float) -> str:
    """Format a metav1.Time: whole seconds, UTC."""
    return _format_seconds(int(now))


def micro_timestamp(now: float) -> str:
    """Format a metav1.MicroTime."""
    return f"{_format_seconds(int(now))[:-1]}.{int(now % 1 * 1_000_000):06d}Z"


def parse_seconds(text: str) -> float:
    """Parse the text of a time in an object into Unix seconds."""
    return datetime.fromisoformat(text).timestamp()
