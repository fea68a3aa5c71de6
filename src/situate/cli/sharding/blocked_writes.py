"""Find the reason why a supervisor cannot carry out a decision: no leader, or an API server that refuses its writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from situate.cli.sharding.read_cluster import ShardingClusterState
from situate.objects.kinds.events import CoreEvent
from situate.sharding.supervisor.report import supervisor_report

RECENT_PERIOD: Final = timedelta(minutes=10)
"""Age limit of Events. A refused write is retried at least this often, so an older Event is obsolete."""
_WRITE_REFUSED: Final = "WriteRefused"


def recent_warnings(events: Iterable[CoreEvent], wall: datetime) -> list[dict[str, Any]]:
    """Return recent Events of type Warning about one object, the latest first, as plain data."""
    found = [(seen, each) for each in events if each.type == "Warning" and (seen := _last_seen_at(each)) is not None]
    return [
        {
            "reason": each.reason,
            "message": each.message,
            "count": max(1, each.count),
            "secondsAgo": max(0, round((wall - seen).total_seconds())),
        }
        for seen, each in sorted(found, key=lambda pair: pair[0], reverse=True)
        if wall - seen <= RECENT_PERIOD
    ]


def blocking_reasons(warnings: Sequence[Mapping[str, Any]], observed: ShardingClusterState) -> Iterator[str]:
    """Return a sentence for each reason why the supervisor's next action will not happen."""
    if observed.supervisor_problem:
        part = f" for partition {observed.settings.partition}" if observed.settings.partition is not None else ""
        yield f"no supervisor runs{part}: {observed.supervisor_problem}"
    refused = next((each["message"] for each in warnings if each["reason"] == _WRITE_REFUSED), "") or write_refusal(
        observed
    )
    if refused:
        yield f"the API server refuses the supervisor's write: {refused}"


def write_refusal(observed: ShardingClusterState) -> str:
    """Return why the fencing policy refuses the leader's writes, from the leader's Lease; empty if it does not."""
    report = None if observed.leader is None else supervisor_report(observed.leader)
    return "" if report is None else report.write_refused


def _last_seen_at(event: CoreEvent) -> datetime | None:
    in_series = event.series.last_observed_time if event.series is not None else None
    return in_series or event.last_timestamp or event.event_time
