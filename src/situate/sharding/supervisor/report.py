"""What the leader of a partition says of itself in the status annotation of the supervisors' Lease.

For autoscalers, for `situate sharding`, and for changes to the table of partitions. Only the leader of the Lease's
present term confirms a version of the table.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from situate.kube.election.lease_record import Record
from situate.objects.kinds.leases import Lease
from situate.sharding.model.names import STATUS
from situate.sharding.partitions.repartition import PartitionLoad


class SupervisorReport(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One look, as old as the safety net is wide."""

    term: int
    """Of the Lease, while which this was written."""
    open: int = 0
    """Weight of the open objects that somebody holds."""
    unassigned: int = 0
    """Open objects that nobody holds."""
    queue_age_s: float = 0.0
    """How long the oldest object waits that is to be decided on."""
    writes_per_s: float = 0.0
    desired_executors: int | None = None
    """None: nobody has asked."""
    table_version: int | None = None
    """Of the table of partitions, confirmed; None: there is none, or none is confirmed."""
    write_refused: str = ""
    """Why the fencing policy refuses the leader's writes, and the next step; empty if it does not."""


def report_text(report: SupervisorReport) -> str:
    """The annotation's value."""
    return msgspec.json.encode(report).decode()


def supervisor_report(lease: Lease) -> SupervisorReport | None:
    """What the present leader says; None: nothing that can be read. Of an earlier leader, nothing counts."""
    text = lease.metadata.annotations.get(STATUS, "")
    try:
        report = msgspec.json.decode(text.encode("utf-8", "replace"), type=SupervisorReport)
    except (msgspec.DecodeError, RecursionError):
        return None
    record = Record.from_lease(lease)
    return report if record.holder and report.term == record.transitions else None


def confirmed_versions(leases: Mapping[int, Lease]) -> dict[int, int]:
    """By partition, for `slots.hand_over_waits_for`. `leases`: of the partitions' supervisors."""
    reports = {partition: supervisor_report(lease) for partition, lease in leases.items()}
    return {
        partition: report.table_version
        for partition, report in reports.items()
        if report is not None and report.table_version is not None
    }


def partition_load(partition: int, report: SupervisorReport) -> PartitionLoad:
    """For `resizing.scaling_signals`."""
    return PartitionLoad(partition, report.open + report.unassigned, report.queue_age_s, report.writes_per_s)
