"""Print why an object is on its executor, or why it waits, executor by executor (B11).

The supervisor's own functions decide, on the current state of the cluster. State that only a running supervisor has,
such as the time of the last change of executors, is not in the cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

import typer

from situate.cli.input.cluster_names import complete_objects
from situate.cli.input.object_names import ObjectType, possible_names, require_explained_type
from situate.cli.read_cluster.cluster_source import default_namespace
from situate.cli.sharding.blocked_writes import blocking_reasons, recent_warnings
from situate.cli.sharding.find_supervisor import only_partitions_differ, select_entries, select_entry
from situate.cli.sharding.options import SupervisorOptions
from situate.cli.sharding.read_cluster import ShardingClusterState, find_entry, observe, read_events
from situate.cli.terminal.failures import ExitCode, WrongInput, report_failures
from situate.cli.terminal.formats import Format
from situate.cli.terminal.output import Column, print_answer, print_items
from situate.cli.terminal.streams import print_line
from situate.objects.kinds.events import CoreEvent
from situate.objects.settings.section import spelling_hint
from situate.objects.values.timestamps import rfc3339
from situate.sharding.assignment.decide import decide
from situate.sharding.model.actions import (
    Action,
    Archive,
    Assign,
    Complete,
    Delete,
    RemoveFinalizer,
    ReportCompleted,
    RequestDrain,
    Revoke,
)
from situate.sharding.model.decision_inputs import INITIAL_MEMORY, Decision, Ownership
from situate.sharding.model.object_view import ObjectView
from situate.sharding.strategies import Explanation, facts_of, oddities_of
from situate.sharding.supervisor.controller.config.section import ShardSettings

_COLUMNS = (
    Column("executor", "id"),
    Column("status"),
    Column("open", right=True),
    Column("capacity", lambda each: "-" if each["capacity"] is None else f"{each['capacity']:g}", right=True),
    Column("place", lambda each: each["place"] or "-", right=True),
    Column("why"),
)


def complete_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete names of objects of the resource that the command line names."""

    def types() -> list[tuple[ObjectType, str]]:
        given = ctx.params
        entries = select_entries(
            SupervisorOptions(
                file=given.get("file"),
                assignments=given.get("assignments"),
                resource=given.get("resource"),
                pool=given.get("pool"),
            )
        )
        resources = {each.group_version_plural: _object_types(each)[0] for each in entries}
        return [(type_, version) for (_, version, _), type_ in resources.items()]

    return complete_objects(ctx, incomplete, types)


def show(name: str, where: SupervisorOptions, namespace: str | None, output: Format) -> None:
    """Print the explanation; exit with 1 if the object waits for an executor."""
    with report_failures():
        meant = select_entries(where)
        within = default_namespace(where, namespace)
        if len(meant) > 1 and only_partitions_differ(meant):
            settings = _find_entry(meant, where, name, namespace, within)
        else:
            settings = select_entry(where)
        observed = observe(settings, where)
        view = _find_object(observed, name, namespace, within)
        events = read_events(view, where)
    placer = observed.placer(without=view.uid)
    standing = placer.explain(facts_of(view))  # before decide(): its choice changes the order of ties
    decision = decide(view, INITIAL_MEMORY, observed.cluster_view(placer))
    told = _as_data(view, decision, standing, observed, events)
    print_answer(output, lambda: told, lambda: _print(told, output), told["remarks"])
    if told["waits"]:
        raise typer.Exit(ExitCode.NO)


def _find_entry(
    entries: Sequence[ShardSettings], where: SupervisorOptions, name: str, namespace: str | None, within: str
) -> ShardSettings:
    """Return the entry whose partition has the object. `within` is the namespace of a name without one."""
    found = entries[0]
    for each in possible_names(name, namespace, _object_types(entries[0])):
        found, there = find_entry(entries, where, each.namespace or within, each.name)
        if there:
            break
    return found


def _object_types(settings: ShardSettings) -> tuple[ObjectType, ...]:
    """Return the type of the objects, before the cluster is asked for their kind."""
    group, _, plural = settings.group_version_plural
    return (ObjectType(_singular(plural), plural, group),)


def _singular(plural: str) -> str:
    """Return the English singular: `report`, `policy`, `class`."""
    for end, single in (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("shes", "sh"), ("xes", "x"), ("s", "")):
        if plural.endswith(end):
            return plural.removesuffix(end) + single
    return plural


def _find_object(observed: ShardingClusterState, name: str, namespace: str | None, within: str) -> ObjectView:
    """Return the object. `within` is the namespace of a name without one. Raises `WrongInput`."""
    types = _object_types(observed.settings)
    last = ""
    for each in possible_names(name, namespace, types):
        places, last = ("", each.namespace or within), each.name  # a cluster-scoped object has no namespace
        for view in observed.views:
            if view.name == last and view.namespace in places:
                return view
        for view in observed.foreign_objects:
            if view.name == last and view.namespace in places:
                other = observed.partition_of(view)
                raise WrongInput(f"{name} is in partition {other}, not in {observed.settings.partition}")
    require_explained_type(name, types)
    kind = observed.scope.resource.kind
    if elsewhere := sorted({view.namespace for view in observed.views if view.name == last} - {within}):
        others = ", ".join(f"{each}/{last}" for each in elsewhere[:5])
        raise WrongInput(f"{name}: {kind} not found in namespace {within}; found: {others}")
    hint = spelling_hint(last, [view.name for view in observed.views])
    part = "" if observed.settings.partition is None else f" in partition {observed.settings.partition}"
    raise WrongInput(f"{name}: {kind} not found{part}{'; ' + hint if hint else ''}")


def _as_data(
    view: ObjectView,
    decision: Decision,
    standing: Explanation,
    observed: ShardingClusterState,
    events: Sequence[CoreEvent] | str,
) -> dict[str, Any]:
    verdict = decision.verdict
    recent = [] if isinstance(events, str) else recent_warnings(events, observed.wall)
    next_ = [_describe_action(action) for action in decision.actions]
    blocked = [*blocking_reasons(recent, observed)] if next_ or not view.executor else []
    by_id = observed.members.current
    executors = []
    for each in standing.candidates:
        member = by_id.get(each.executor)
        executors.append(
            {
                "id": each.executor,
                "status": "Removed" if member is None else str(member.status),
                "open": 0 if member is None else len(observed.open_objects_of(member)),
                "capacity": None if member is None else member.capacity,
                "place": each.place,
                "why": each.why,
            }
        )
    return {
        "object": f"{view.namespace}/{view.name}" if view.namespace else view.name,
        "uid": view.uid,
        "state": _state_text(view),
        "executor": view.executor,
        "executorUid": view.executor_uid,
        "epoch": view.epoch,
        "term": view.term,
        "assignedAt": None if view.assigned_at is None else rfc3339(view.assigned_at),
        "cause": view.why,
        "losses": len(view.losses),
        "drain": None if view.drain is None else str(view.drain),
        "selector": view.executor_selector,
        "frozen": observed.ownership(view) is Ownership.FROZEN,
        "table": observed.settings.partition_table,
        "faults": list(view.faults),
        "oddities": [*oddities_of(view)],
        "verdict": None
        if verdict is None
        else {"assigned": verdict.assigned, "reason": str(verdict.reason), "message": verdict.message},
        "partition": observed.partition_of(view),
        "blocked": [] if view.completed and not next_ else blocked,
        "events": recent,
        "next": next_,
        "waits": _is_waiting(view, decision, observed) or (bool(blocked) and not view.completed),
        "executors": executors,
        "remarks": [*observed.remarks, *([events] if isinstance(events, str) else ())],
    }


def _state_text(view: ObjectView) -> str:
    if view.completed:
        return "succeeded" if view.successful else f"failed{f' ({view.reason})' if view.reason else ''}"
    if view.deleting:
        return "being deleted"
    return "assigned" if view.executor else "unassigned"


def _is_waiting(view: ObjectView, decision: Decision, observed: ShardingClusterState) -> bool:
    """Return whether the object waits for an executor, and is not about to get one."""
    if view.completed:
        return False
    if decision.verdict is None:
        return not view.executor and observed.ownership(view) is Ownership.FROZEN
    return not decision.verdict.assigned


def _describe_action(action: Action) -> str:
    """Describe an action as the supervisor's next step."""
    match action:
        case Assign(placement):
            return f"assign to {placement.holder.executor}, cause: {placement.why}"
        case RequestDrain(request=request):
            return f"request a drain from the holder, cause: {request.cause}"
        case Revoke(cause=cause):
            return f"revoke the object from its holder, cause: {cause}"
        case Complete(reason=reason):
            return f"complete as failed: {reason}"
        case Archive(delete=delete):
            return "archive and delete" if delete else "archive, then remove the finalizer"
        case RemoveFinalizer():
            return "remove the finalizer"
        case Delete():
            return "delete"
        case ReportCompleted():
            return "count its capacity as free"
        case _ as never:
            assert_never(never)


def _print(told: dict[str, Any], form: Format) -> None:
    if told["executor"]:
        since = f" since {told['assignedAt']}" if told["assignedAt"] else ""
        cause = f", cause: {told['cause']}" if told["cause"] else ""
        print_line(f"{told['object']} is {told['state']}: {told['executor']} (epoch {told['epoch']}{cause}{since})")
    else:
        print_line(f"{told['object']} is {told['state']} (epoch {told['epoch']})")
    if told["partition"]:
        print_line(f"partition: {told['partition']}")
    for fault in told["faults"]:
        print_line(f"cannot be assigned: {fault}")
    for oddity in told["oddities"]:
        print_line(f"ignored: {oddity}")
    verdict = told["verdict"]
    if verdict is not None and not verdict["assigned"]:
        print_line(f"waits: {verdict['reason']}: {verdict['message']}")
    if told["frozen"]:
        print_line(
            "the slot of the object is frozen: no supervisor assigns the object before "
            f"`situate sharding partitions hand-over {told['table']}`"
        )
    if told["drain"]:
        print_line(f"drain requested: {told['drain']}")
    if told["selector"]:
        print_line(f"allowed executors: those with labels that match {told['selector']}")
    if told["losses"]:
        print_line(f"recent losses of the holder: {told['losses']}")
    for reason in told["blocked"]:
        print_line(f"blocked: {reason}")
    for action in told["next"]:
        print_line(f"next, when no longer blocked: {action}" if told["blocked"] else f"next: {action}")
    for event in told["events"]:
        print_line(f"Event {event['reason']} (x{event['count']}, {event['secondsAgo']} s ago): {event['message']}")
    if told["executors"]:
        print_items(_COLUMNS, told["executors"], form)
    else:
        print_line("no executor is known")
