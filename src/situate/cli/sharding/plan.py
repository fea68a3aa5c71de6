"""Print the fewest moves to a goal, an example target of each, and the desired number of executors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import typer

from situate.cli.read_cluster.cluster_source import listed_namespace
from situate.cli.read_cluster.other_namespaces import report_other_namespaces
from situate.cli.sharding.find_supervisor import select_entry
from situate.cli.sharding.options import SupervisorOptions
from situate.cli.sharding.read_cluster import ShardingClusterState, observe
from situate.cli.terminal.failures import ExitCode, WrongInput, report_failures
from situate.cli.terminal.formats import Format
from situate.cli.terminal.options import ListedNamespaces
from situate.cli.terminal.output import Column, print_answer, print_items
from situate.cli.terminal.progress import progress
from situate.cli.terminal.streams import print_line
from situate.objects.values.counts import format_count
from situate.sharding.assignment.desired_executors import SizingConfig, SizingState, desired_executors
from situate.sharding.model.executors import ExecutorStatus
from situate.sharding.model.object_view import ObjectView
from situate.sharding.rebalancing import Goal, PlacedObject, Plan
from situate.sharding.rebalancing import plan as planned
from situate.sharding.strategies import facts_of

_COLUMNS = (Column("object"), Column("from", lambda each: each["from"] or "-"), Column("to"), Column("why"))
_LIVE = (ExecutorStatus.HEALTHY, ExecutorStatus.FULL)


def show(
    where: SupervisorOptions,
    namespaces: ListedNamespaces,
    output: Format,
    *,
    goal: str | None,
    without: Sequence[str],
) -> None:
    """Print the plan; exit with 1 if the moves do not reach the goal, or no executor may have an object."""
    with report_failures():
        settings = select_entry(where)
        listed = listed_namespace(where, namespaces)
        observed = observe(settings, where)
        leaving = frozenset(without)
        unknown = sorted(leaving - observed.members.current.keys())
        if unknown:
            raise WrongInput(
                f"--without {unknown[0]}: executor not found, allowed: {', '.join(sorted(observed.members.current))}"
            )
    usual = settings.rebalance if settings.rebalance != "off" else Goal.BOUNDED
    meant = Goal(goal or usual)
    live = [each.id for each in observed.members.current.values() if each.status in _LIVE and each.id not in leaving]
    with progress("planning"):
        found = planned(meant, _held_objects(observed), live)
        told = _as_data(found, meant, live, observed)
    done = found.reached and not told["left"]
    counts = {"moves": len(told["moves"]), "left": len(told["left"])}
    if listed is not None:
        for kind in counts:
            told[kind] = [each for each in told[kind] if each["object"].rpartition("/")[0] in ("", listed)]
    print_answer(output, lambda: told, lambda: _print(told, counts, listed, output), observed.remarks)
    if not done:
        raise typer.Exit(ExitCode.NO)


def _held_objects(observed: ShardingClusterState) -> list[PlacedObject]:
    """Return the open objects as the supervisor's rebalancing sees them. Objects without a holder are placed anyway."""
    living = observed.members.living
    held = []
    for view in observed.views:
        if view.completed or view.faults:
            continue
        holder = None if view.drain is not None else living.get(view.executor_uid)
        held.append(
            PlacedObject(view.uid, "" if holder is None else holder.id, 1.0, view.migratable and not view.deleting)
        )
    return held


def _as_data(found: Plan, goal: Goal, live: list[str], observed: ShardingClusterState) -> dict[str, Any]:
    names = {view.uid: _object_name(view) for view in observed.views}
    by_uid = {view.uid: view for view in observed.views}
    forced = [(move, _forced_reason(by_uid[move.uid], observed)) for move in found.forced]
    voluntary = [(move, f"for {goal} load") for move in found.voluntary]
    counts = Counter(
        {id_: len(observed.open_objects_of(member)) for id_, member in observed.members.current.items() if id_ in live}
    )
    after = Counter(counts)
    for move, _ in (*forced, *voluntary):
        after[move.target] += 1
        if move.origin in after:
            after[move.origin] -= 1
    return {
        "goal": str(goal),
        "reached": found.reached,
        "why": found.why,
        "moves": [
            {"object": names.get(move.uid, move.uid), "from": move.origin, "to": move.target, "why": why}
            for move, why in (*forced, *voluntary)
        ],
        "left": [{"object": _object_name(view), "why": why} for view, why in _unplaced_objects(found, live, observed)],
        "open": dict(sorted(counts.items())),
        "after": {id_: after[id_] for id_ in sorted(live)},
        "desiredExecutors": _desired_executors(observed),
        "remarks": list(observed.remarks),
    }


def _object_name(view: ObjectView) -> str:
    return f"{view.namespace}/{view.name}" if view.namespace else view.name


def _unplaced_objects(
    found: Plan, live: Collection[str], observed: ShardingClusterState
) -> Iterator[tuple[ObjectView, str]]:
    """Return objects that no live executor may have, with the reason. Whether all fit at once is not checked."""
    placer = observed.placer()
    forced = {move.uid for move in found.forced}
    for view in observed.views:
        if view.faults and not view.completed:
            yield view, view.faults[0]
        elif view.uid in forced:
            standing = placer.explain(facts_of(view))
            if not any(each.place is not None and each.executor in live for each in standing.candidates):
                yield view, str(standing.refusal or "no executor is left")


def _forced_reason(view: ObjectView, observed: ShardingClusterState) -> str:
    """Return why an object must move, or be assigned, independently of the load."""
    if not view.executor:
        return "unassigned"
    if view.executor_uid not in observed.members.living:
        return f"its holder {view.executor} is lost"
    if view.drain is not None:
        return f"its holder {view.executor} has a drain request: {view.drain.cause}"
    return f"its holder {view.executor} is excluded from the plan"


def _desired_executors(observed: ShardingClusterState) -> int | None:
    """Return the desired number of executors; None if the configuration sets no load for one executor."""
    settings = observed.settings
    if settings.desired_per_executor is None:
        return None
    sizing = SizingConfig(settings.desired_per_executor, settings.desired_min, settings.desired_max)
    weight = sum(not view.completed for view in observed.views)
    return desired_executors(SizingState(), sizing, weight, 0.0).desired


def _print(told: dict[str, Any], counts: dict[str, int], listed: str | None, form: Format) -> None:
    """`counts` has the number of moves, and of objects that are left, in all namespaces."""
    moves, total = told["moves"], counts["moves"]
    if moves:
        print_items(_COLUMNS, moves, form)
    print_line(
        f"{format_count(total, 'move')} to the goal {told['goal']}{'' if told['reached'] else '; ' + told['why']}"
    )
    for each in told["left"]:
        print_line(f"{each['object']}: {each['why']}")
    before = ", ".join(f"{id_} {count}" for id_, count in told["open"].items())
    after = ", ".join(f"{id_} {count}" for id_, count in told["after"].items())
    print_line(f"open now: {before or 'no executor is live'}")
    if total:
        print_line(f"open after: {after}")
    if told["desiredExecutors"] is not None:
        print_line(f"executors needed: {told['desiredExecutors']}")
    report_other_namespaces(sum(counts.values()) - sum(len(told[kind]) for kind in counts), "object", listed)
