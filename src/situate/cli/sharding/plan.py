"""Print the fewest moves to a goal, where new objects would go, and how many executors are wanted."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

import typer

from situate.cli.failures import WrongInput, mendable_failures
from situate.cli.formats import Format
from situate.cli.options import ContextOption, KubeconfigOption, OptionalFileOption, OutputOption, SetOption
from situate.cli.output import Column, print_data, print_table
from situate.cli.sharding.entry import (
    ExecutorNamespaceOption,
    LeaseNamespaceOption,
    PartitionOption,
    PoolOption,
    ResourceOption,
    entry_of,
)
from situate.cli.sharding.reading import Observed, Where, observe
from situate.cli.streams import complain, say
from situate.sharding.assignment import ObjectView
from situate.sharding.members import ExecutorStatus
from situate.sharding.rebalancing import Goal, Held, Plan
from situate.sharding.rebalancing import plan as planned
from situate.sharding.sizing import SizingConfig, SizingState, desired_executors

_COLUMNS = (Column("object"), Column("from"), Column("to"), Column("why"))
_LIVE = (ExecutorStatus.HEALTHY, ExecutorStatus.FULL)


def plan(
    goal: Annotated[Goal | None, typer.Option(help="How equal; default: the configuration's, or bounded.")] = None,
    without: Annotated[
        list[str] | None, typer.Option("--without", help="As if this executor were drained; repeatable.")
    ] = None,
    file: OptionalFileOption = None,
    resource: ResourceOption = None,
    pool: PoolOption = None,
    partition: PartitionOption = None,
    executor_namespace: ExecutorNamespaceOption = None,
    installation: LeaseNamespaceOption = "situate",
    assignments: SetOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show the fewest moves after which executors are as equal as the goal asks. Nothing is moved.

    Of what is moved the strategy chooses anew, so that a target is an example of where there is room.
    """
    with mendable_failures():
        settings = entry_of(file, assignments, resource, pool, partition, executor_namespace)
        observed = observe(settings, Where(kubeconfig, context, installation))
        leaving = frozenset(without or ())
        unknown = sorted(leaving - observed.members.current.keys())
        if unknown:
            raise WrongInput(f"--without {unknown[0]}: there are: {', '.join(sorted(observed.members.current))}")
    meant = goal or (Goal(settings.rebalance) if settings.rebalance != "off" else Goal.BOUNDED)
    live = [each.id for each in observed.members.current.values() if each.status in _LIVE and each.id not in leaving]
    found = planned(meant, _held(observed), live)
    told = _as_data(found, meant, live, observed)
    if output in (Format.JSON, Format.YAML):
        print_data(told, output)
        return
    for remark in observed.remarks:
        complain(remark)
    _print(told, output)


def _held(observed: Observed) -> list[Held]:
    """As the supervisor's balancing sees the open objects; those that nobody has are placed anyway."""
    living = observed.members.living
    held = []
    for view in observed.views:
        if view.completed or view.faults:
            continue
        holder = None if view.drain is not None else living.get(view.executor_uid)
        held.append(Held(view.uid, "" if holder is None else holder.id, 1.0, view.migratable and not view.deleting))
    return held


def _as_data(found: Plan, goal: Goal, live: list[str], observed: Observed) -> dict[str, Any]:
    names = {view.uid: f"{view.namespace}/{view.name}" for view in observed.views}
    by_uid = {view.uid: view for view in observed.views}
    forced = [(move, _why_forced(by_uid[move.uid], observed)) for move in found.forced]
    voluntary = [(move, f"for {goal} load") for move in found.voluntary]
    counts = Counter(
        {id_: len(observed.open_of(member)) for id_, member in observed.members.current.items() if id_ in live}
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
        "open": dict(sorted(counts.items())),
        "after": {id_: after[id_] for id_ in sorted(live)},
        "desiredExecutors": _desired(observed),
        "remarks": list(observed.remarks),
    }


def _why_forced(view: ObjectView, observed: Observed) -> str:
    """Why an object has to move, or to be assigned, whatever the load."""
    if not view.executor:
        return "unassigned"
    if view.executor_uid not in observed.members.living:
        return f"its holder {view.executor} is lost"
    if view.drain is not None:
        return f"its holder {view.executor} is asked to stop: {view.drain.cause}"
    return f"its holder {view.executor} is left out"


def _desired(observed: Observed) -> int | None:
    """None: the configuration does not say what one executor takes."""
    settings = observed.settings
    if settings.desired_per_executor is None:
        return None
    sizing = SizingConfig(settings.desired_per_executor, settings.desired_min, settings.desired_max)
    weight = sum(not view.completed for view in observed.views)
    return desired_executors(SizingState(), sizing, weight, 0.0).desired


def _print(told: dict[str, Any], form: Format) -> None:
    moves = told["moves"]
    if moves:
        print_table(_COLUMNS, [(each["object"], each["from"] or "-", each["to"], each["why"]) for each in moves], form)
    say(f"{len(moves)} moves to the goal {told['goal']}{'' if told['reached'] else '; ' + told['why']}")
    before = ", ".join(f"{id_} {count}" for id_, count in told["open"].items())
    after = ", ".join(f"{id_} {count}" for id_, count in told["after"].items())
    say(f"open now: {before or 'no executor is live'}")
    if moves:
        say(f"open after: {after}")
    if told["desiredExecutors"] is not None:
        say(f"executors wanted: {told['desiredExecutors']}")
