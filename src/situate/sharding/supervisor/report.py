"""Define the report of a partition's leader in the status annotation of the supervisors' Lease.

Autoscalers, `situate sharding` and the tools that change the table of partitions read it. Only the leader of the
Lease's present term confirms a version of the table.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from situate.kube.election.lease_record import LeaseRecord
from situate.objects.kinds.leases import Lease
from situate.sharding.model.names import STATUS


class SupervisorReport(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One report; the leader refreshes it every `requeue_delay`."""

    term: int
    """The term of the Lease in which the report was written."""
    open: int = 0
    """Weight of the open objects that are assigned."""
    unassigned: int = 0
    """Number of open objects that are not assigned."""
    queue_age_s: float = 0.0
    """How long the oldest object in the queue waits for its decision."""
    writes_per_s: float = 0.0
    desired_executors: int | None = None
    """None: the sizing of executors is not configured."""
    table_version: int | None = None
    """Confirmed version of the table of partitions; None: there is no table, or no version is confirmed."""
    write_refused: str = ""
    """Why the fencing policy refuses the leader's writes, and the next step; empty if it does not refuse them."""


def report_text(report: SupervisorReport) -> str:
    """Return the value of the annotation."""
    return msgspec.json.encode(report).decode()


def supervisor_report(lease: Lease) -> SupervisorReport | None:
    """Return the report of the present leader; None if it is unreadable, or from an earlier term."""
    text = lease.metadata.annotations.get(STATUS, "")
    try:
        report = msgspec.json.decode(text.encode("utf-8", "replace"), type=SupervisorReport)
    except (msgspec.DecodeError, RecursionError):
        return None
    record = LeaseRecord.from_lease(lease)
    return report if record.holder and report.term == record.transitions else None


def confirmed_versions(leases: Mapping[int, Lease]) -> dict[int, int]:
    """Return the confirmed version of the table by partition, for `slots.hand_over_obstacles`.

    `leases`: the supervisors' Leases, by partition.
    """
    reports = {partition: supervisor_report(lease) for partition, lease in leases.items()}
    return {
        partition: report.table_version
        for partition, report in reports.items()
        if report is not None and report.table_version is not None
    }
