"""Print why an object is on its executor, or why it waits, executor by executor (B11).

The supervisor's own functions decide, on the current state of the cluster. State that only a running supervisor has,
such as the time of the last change of executors, is not in the cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

import typer

from situate.cli.input.cluster_names import complete_objects
from situate.cli.input.object_names import ObjectType, readings, require_explained
from situate.cli.sharding.blocked_writes import blocked_by, warnings_of
from situate.cli.sharding.find_supervisor import Asked, entries_of, only_partitions_differ
from situate.cli.sharding.read_cluster import Observed, entry_for, events_about, observe
from situate.cli.terminal.failures import ExitCode, WrongInput, mendable_failures
from situate.cli.terminal.formats import Format
from situate.cli.terminal.output import Column, print_data, print_table
from situate.cli.terminal.streams import complain, say
from situate.objects.kinds.events import CoreEvent
from situate.objects.settings.section import did_you_mean
from situate.objects.values.timestamps import rfc3339
from situate.sharding.assignment.decide import decide
from situate.sharding.model.actions import (
    Action,
    Archive,
    Assign,
    Complete,
    Delete,
    RemoveFinalizer,
    RequestDrain,
    Revoke,
    TellCompleted,
)
from situate.sharding.model.decision_inputs import NEW, Decision, Ownership
from situate.sharding.model.object_view import ObjectView
from situate.sharding.strategies import Explanation, facts_of, oddities_of
from situate.sharding.supervisor.controller.config.section import ShardSettings

_COLUMNS = (
    Column("executor"),
    Column("status"),
    Column("open", right=True),
    Column("capacity", right=True),
    Column("place", right=True),
    Column("why"),
)


def complete_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete names of objects of the resource that the command line names."""

    def types() -> list[tuple[ObjectType, str]]:
        given = ctx.params
        entries = entries_of(given.get("file"), given.get("assignments"), given.get("resource"), given.get("pool"))
        resources = {each.group_version_plural: _types(each)[0] for each in entries}
        return [(type_, version) for (_, version, _), type_ in resources.items()]

    return complete_objects(ctx, incomplete, types)


def show(name: str, asked: Asked, namespace: str | None, output: Format) -> None:
    """Print the explanation; exit with 1 if the object waits for an executor."""
    with mendable_failures():
        meant = asked.entries()
        within = asked.where.namespace(namespace)
        if len(meant) > 1 and only_partitions_differ(meant):
            settings = _entry_for(meant, asked, name, namespace, within)
        else:
            settings = asked.entry()
        observed = observe(settings, asked)
        view = _found(observed, name, namespace, within)
        events = events_about(view, asked.where)
    placer = observed.placer(without=view.uid)
    standing = placer.explain(facts_of(view))  # before decide(): its choice changes the order of ties
    decision = decide(view, NEW, observed.situation(placer))
    told = _as_data(view, decision, standing, observed, events)
    if output in (Format.JSON, Format.YAML):
        print_data(told, output)
    else:
        for remark in told["remarks"]:
            complain(remark)
        _print(told, output)
    if told["waits"]:
        raise typer.Exit(ExitCode.NO)


def _entry_for(
    entries: Sequence[ShardSettings], asked: Asked, name: str, namespace: str | None, within: str
) -> ShardSettings:
    """Return the entry whose partition has the object. `within` is the namespace of a name without one."""
    found = entries[0]
    for each in readings(name, namespace, _types(entries[0])):
        found, there = entry_for(entries, asked, each.namespace or within, each.name)
        if there:
            break
    return found


def _types(settings: ShardSettings) -> tuple[ObjectType, ...]:
    """Return the type of the objects, before the cluster is asked for their kind."""
    group, _, plural = settings.group_version_plural
    return (ObjectType(_singular(plural), plural, group),)


def _singular(plural: str) -> str:
    """Return the English singular: `report`, `policy`, `class`."""
    for end, single in (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("shes", "sh"), ("xes", "x"), ("s", "")):
        if plural.endswith(end):
            return plural.removesuffix(end) + single
    return plural


def _found(observed: Observed, name: str, namespace: str | None, within: str) -> ObjectView:
    """Return the object. `within` is the namespace of a name without one. Raises `WrongInput`."""
    types = _types(observed.settings)
    last = ""
    for each in readings(name, namespace, types):
        places, last = ("", each.namespace or within), each.name  # a cluster-scoped object has no namespace
        for view in observed.views:
            if view.name == last and view.namespace in places:
                return view
        for view in observed.foreign:
            if view.name == last and view.namespace in places:
                other = observed.partition_of(view)
                raise WrongInput(f"{name} is in partition {other}, not in {observed.settings.partition}")
    require_explained(name, types)
    kind = observed.scope.resource.kind
    if elsewhere := sorted({view.namespace for view in observed.views if view.name == last} - {within}):
        others = ", ".join(f"{each}/{last}" for each in elsewhere[:5])
        raise WrongInput(f"{name}: {kind} not found in namespace {within}; found: {others}")
    hint = did_you_mean(last, [view.name for view in observed.views])
    part = "" if observed.settings.partition is None else f" in partition {observed.settings.partition}"
    raise WrongInput(f"{name}: {kind} not found{part}{'; ' + hint if hint else ''}")


def _as_data(
    view: ObjectView,
    decision: Decision,
    standing: Explanation,
    observed: Observed,
    events: Sequence[CoreEvent] | str,
) -> dict[str, Any]:
    verdict = decision.verdict
    recent = [] if isinstance(events, str) else warnings_of(events, observed.wall)
    next_ = [_said(action) for action in decision.actions]
    blocked = [*blocked_by(recent, observed)] if next_ or not view.executor else []
    by_id = observed.members.current
    executors = []
    for each in standing.candidates:
        member = by_id.get(each.executor)
        executors.append(
            {
                "id": each.executor,
                "status": "Removed" if member is None else str(member.status),
                "open": 0 if member is None else len(observed.open_of(member)),
                "capacity": None if member is None else member.capacity,
                "place": each.place,
                "why": each.why,
            }
        )
    return {
        "object": f"{view.namespace}/{view.name}" if view.namespace else view.name,
        "uid": view.uid,
        "state": _state(view),
        "executor": view.executor,
        "executorUid": view.executor_uid,
        "epoch": view.epoch,
        "term": view.term,
        "assignedAt": None if view.assigned_at is None else rfc3339(view.assigned_at),
        "cause": view.why,
        "losses": len(view.losses),
        "drain": None if view.drain is None else str(view.drain),
        "selector": view.executor_selector,
        "frozen": observed.owned(view) is Ownership.FROZEN,
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
        "waits": _waits(view, decision, observed) or (bool(blocked) and not view.completed),
        "executors": executors,
        "remarks": [*observed.remarks, *([events] if isinstance(events, str) else ())],
    }


def _state(view: ObjectView) -> str:
    if view.completed:
        return "succeeded" if view.successful else f"failed{f' ({view.reason})' if view.reason else ''}"
    if view.deleting:
        return "being deleted"
    return "assigned" if view.executor else "unassigned"


def _waits(view: ObjectView, decision: Decision, observed: Observed) -> bool:
    """Return whether the object waits for an executor, and is not about to get one."""
    if view.completed:
        return False
    if decision.verdict is None:
        return not view.executor and observed.owned(view) is Ownership.FROZEN
    return not decision.verdict.assigned


def _said(action: Action) -> str:
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
        case TellCompleted():
            return "count its capacity as free"
        case _ as never:
            assert_never(never)


def _print(told: dict[str, Any], form: Format) -> None:
    if told["executor"]:
        since = f" since {told['assignedAt']}" if told["assignedAt"] else ""
        cause = f", cause: {told['cause']}" if told["cause"] else ""
        say(f"{told['object']} is {told['state']}: {told['executor']} (epoch {told['epoch']}{cause}{since})")
    else:
        say(f"{told['object']} is {told['state']} (epoch {told['epoch']})")
    if told["partition"]:
        say(f"partition: {told['partition']}")
    for fault in told["faults"]:
        say(f"cannot be assigned: {fault}")
    for oddity in told["oddities"]:
        say(f"ignored: {oddity}")
    verdict = told["verdict"]
    if verdict is not None and not verdict["assigned"]:
        say(f"waits: {verdict['reason']}: {verdict['message']}")
    if told["frozen"]:
        say(
            "the slot of the object is frozen: no supervisor assigns the object before "
            f"`situate sharding partitions hand-over {told['table']}`"
        )
    if told["drain"]:
        say(f"drain requested: {told['drain']}")
    if told["selector"]:
        say(f"allowed executors: those with labels that match {told['selector']}")
    if told["losses"]:
        say(f"recent losses of the holder: {told['losses']}")
    for reason in told["blocked"]:
        say(f"blocked: {reason}")
    for action in told["next"]:
        say(f"next, when no longer blocked: {action}" if told["blocked"] else f"next: {action}")
    for event in told["events"]:
        say(f"Event {event['reason']} (x{event['count']}, {event['secondsAgo']} s ago): {event['message']}")
    if told["executors"]:
        print_table(_COLUMNS, [_row(each) for each in told["executors"]], form)
    else:
        say("no executor is known")


def _row(each: dict[str, Any]) -> tuple[object, ...]:
    capacity = "-" if each["capacity"] is None else f"{each['capacity']:g}"
    return each["id"], each["status"], each["open"], capacity, each["place"] or "-", each["why"]
