"""Unix seconds as Kubernetes writes times. Later than the year 9999 nothing is expected."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache


@lru_cache(maxsize=64)
def _shown(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def timestamp(now: float) -> str:
    """A metav1.Time: whole seconds, UTC."""
    return _shown(int(now))


def micro_timestamp(now: float) -> str:
    """A metav1.MicroTime."""
    return f"{_shown(int(now))[:-1]}.{int(now % 1 * 1_000_000):06d}Z"


def seconds(text: str) -> float:
    """The Unix seconds of a time as it stands in an object."""
    return datetime.fromisoformat(text).timestamp()
