"""What a supervisor is told, checked at once."""

from __future__ import annotations

from typing import Any

import pytest

from situate.sharding.model.supervisor_config import ArchiveTtl, BadConfiguration, SupervisorConfig


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ({"requeue_delay": 0}, "requeue_delay is 0, allowed: a number above 0"),
        ({"requeue_delay": -1}, "requeue_delay is -1"),
        ({"scheduler_jitter": float("nan")}, "scheduler_jitter is NaN"),
        ({"max_jitter_wait": float("inf")}, "max_jitter_wait is Infinity"),
        ({"drain_timeout": "30s"}, 'drain_timeout is "30s", allowed: a number of seconds from 0'),
        ({"max_forced_moves_per_s": 0}, "max_forced_moves_per_s is 0, allowed: a number above 0"),
        ({"max_reassigns": 1.5}, "max_reassigns is 1.5, allowed: whole numbers from 0"),
        ({"max_reassigns": True}, "max_reassigns is true"),
        ({"max_parallel_drains": 0}, "max_parallel_drains is 0, allowed: whole numbers from 1"),
        ({"keep_last_per_owner": -1}, "keep_last_per_owner is -1"),
        ({"archive_ttl": -1}, "archive_ttl.successful is -1"),
        ({"archive_ttl": ArchiveTtl(1, float("nan"))}, "archive_ttl.failed is NaN"),
        ({"finalizer": "archive"}, 'finalizer is "archive", allowed: a DNS name'),
        ({"finalizer": "x/ y"}, 'finalizer is "x/ y"'),
    ],
)
def test_each_mistake_is_named(said: dict[str, Any], named: str) -> None:
    with pytest.raises(BadConfiguration) as refused:
        SupervisorConfig(**said)
    assert named in str(refused.value)


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(BadConfiguration) as refused:
        SupervisorConfig(requeue_delay=0, drain_timeout=-1, finalizer="x")
    assert str(refused.value).count("; ") == 2


def test_what_is_allowed_is() -> None:
    config = SupervisorConfig(archive_ttl=0, scheduler_jitter=0, max_reassigns=0, keep_last_per_owner=0)
    assert (config.ttl.ttl_of(True), config.ttl.ttl_of(False), config.ttl.ttl_of(None)) == (0, 0, 0)
    assert SupervisorConfig().ttl.ttl_of(True) is None
    assert SupervisorConfig(archive_ttl=ArchiveTtl(1, 2)).ttl.ttl_of(None) == 2
