"""Implement `situate sharding status`: executors with their objects, the state of objects, and the leader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from situate.cli.sharding.blocked_writes import write_refusal
from situate.cli.sharding.find_supervisor import select_entry
from situate.cli.sharding.options import SupervisorOptions
from situate.cli.sharding.read_cluster import ShardingClusterState, observe
from situate.cli.terminal.failures import report_failures
from situate.cli.terminal.formats import Format
from situate.cli.terminal.output import Column, print_answer, print_items
from situate.cli.terminal.streams import print_line
from situate.cli.terminal.watch import show_status
from situate.objects.kinds.leases import Lease
from situate.sharding.leases.lease_age import age_s
from situate.sharding.model.executors import EndReason, LiveExecutor
from situate.sharding.model.object_view import ObjectView

NOT_READY: Final = "NotReady"
"""Status of an executor whose Lease has expired; Kubernetes uses the same word for nodes."""
_COLUMNS = (
    Column("executor", "id"),
    Column("status"),
    Column("open", right=True),
    Column("capacity", lambda each: "-" if each["capacity"] is None else f"{each['capacity']:g}", right=True),
    Column("draining", lambda each: each["draining"] or "-", right=True),
    Column("renewed", lambda each: _renewal_text(each["renewedSecondsAgo"])),
    Column("revision", lambda each: each["revision"] or "-", wide=True),
    Column("metrics", lambda each: _metrics_text(each["metrics"]), wide=True),
    Column("uid", wide=True),
)


def show(where: SupervisorOptions, output: Format, *, watch: bool) -> None:
    """Print the status, with `watch` again at each change."""

    def once() -> None:
        with report_failures():
            observed = observe(select_entry(where), where)
        told = _as_data(observed)
        print_answer(output, lambda: told, lambda: _print(told, output), observed.remarks)

    show_status(once, output, watch=watch)


def _as_data(observed: ShardingClusterState) -> dict[str, Any]:
    members, leader = observed.members, observed.leader
    living = sorted(members.living.values(), key=lambda each: (each.id, each.uid))
    known = {each.uid for each in living}
    return {
        "resource": observed.settings.resource,
        "pool": observed.settings.pool,
        "partition": observed.settings.partition,
        "leader": leader.spec.holder_identity if leader is not None else "",
        "term": leader.spec.lease_transitions if leader is not None else None,
        "strategy": observed.settings.strategy,
        "supervisorProblem": observed.supervisor_problem,
        "writeRefused": write_refusal(observed),
        "executors": sorted(
            [*(_executor_data(each, observed) for each in living), *_not_ready_executors(observed)],
            key=lambda each: (each["id"], each["uid"]),
        ),
        "removed": [
            {"id": each.id, "uid": each.uid, "ending": str(each.ending)}
            for each in sorted(members.removed.values(), key=lambda each: (each.id, each.uid))
        ],
        "objects": dict(Counter(_object_state(view, known) for view in observed.views)),
        "remarks": list(observed.remarks),
    }


def _executor_data(each: LiveExecutor, observed: ShardingClusterState) -> dict[str, Any]:
    held = observed.open_objects_of(each)
    lease = observed.leases.get(each.uid)
    return {
        "id": each.id,
        "uid": each.uid,
        "status": str(each.status),
        "open": len(held),
        "capacity": each.capacity,
        "draining": sum(view.drain is not None for view in held),
        "renewedSecondsAgo": _age_s(lease, observed.wall),
        "revision": each.revision,
        "metrics": dict(each.metrics),
    }


def _not_ready_executors(observed: ShardingClusterState) -> Iterator[dict[str, Any]]:
    """Return executors whose Lease has expired, or that are proven dead, until their Lease is deleted or released."""
    for each in observed.members.removed.values():
        lease = observed.leases.get(each.uid)
        if each.ending is EndReason.RELEASED or lease is None:
            continue
        held = [view for view in observed.views if not view.completed and view.executor_uid == each.uid]
        yield {
            "id": each.id,
            "uid": each.uid,
            "status": NOT_READY,
            "open": len(held),
            "capacity": None,
            "draining": 0,
            "renewedSecondsAgo": _age_s(lease, observed.wall),
            "revision": "",
            "metrics": {},
        }


def _age_s(lease: Lease | None, wall: datetime) -> float | None:
    """Return the age by the executor's clock and ours: for display, never for a decision."""
    age = None if lease is None else age_s(lease, wall)
    return None if age is None else round(age, 1)


def _object_state(view: ObjectView, known: set[str]) -> str:
    if view.completed:
        return "succeeded" if view.successful else "failed"
    if view.faults:
        return "unreadable"
    if not view.executor:
        return "unassigned"
    return "assigned" if view.executor_uid in known else "orphaned"


def _print(told: dict[str, Any], form: Format) -> None:
    led = f"led by {told['leader']}, term {told['term']}"
    if told["supervisorProblem"]:
        led = f"no supervisor leads ({told['supervisorProblem']})"
    elif not told["leader"]:
        led = "the leader is not known"
    part = f", partition {told['partition']}" if told["partition"] is not None else ""
    healthy = sum(each["status"] == "Healthy" for each in told["executors"])
    print_line(f"{told['resource']}, pool {told['pool']}{part}: {led}; {told['strategy']}")
    if told["writeRefused"]:
        print_line(f"the API server refuses the supervisor's writes: {told['writeRefused']}")
    print_line(f"{healthy} of {len(told['executors'])} executors can be given work")
    if told["executors"]:
        print_items(_COLUMNS, told["executors"], form)
    counts = told["objects"]
    order = ("assigned", "unassigned", "orphaned", "unreadable", "succeeded", "failed")
    print_line("objects: " + (", ".join(f"{counts[state]} {state}" for state in order if counts.get(state)) or "none"))
    for each in told["removed"]:
        print_line(f"executor {each['id']} ({each['uid']}) is gone: {each['ending']}")


def _renewal_text(age_s: float | None) -> str:
    return "-" if age_s is None else f"{age_s:.0f} s ago"


def _metrics_text(metrics: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in sorted(metrics.items())) or "-"
