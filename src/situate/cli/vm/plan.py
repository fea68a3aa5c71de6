"""`situate vm plan`: what would be moved now, for whom and why. A dry run: nothing is ever written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from situate.cli.failures import mendable_failures
from situate.cli.formats import Format
from situate.cli.options import ContextOption, KubeconfigOption, OptionalFileOption, OutputOption, SetOption
from situate.cli.output import Column, print_data, print_table
from situate.cli.streams import complain, say
from situate.cli.vm.reading import Observed, Where, decided, observe
from situate.cli.vm.status import InstallationOption, machine_of, moves_as_data, short_text
from situate.vm.claims import Move
from situate.vm.explaining.words import moved, quantities
from situate.vm.planner import Planner
from situate.vm.planning.plan import Plan
from situate.vm.state import State

_COLUMNS = (
    Column("machine"),
    Column("from"),
    Column("to"),
    Column("why"),
    Column("for"),
    Column("room", right=True),
    Column("cost", right=True),
    Column("migration", wide=True),
)


def plan(
    file: OptionalFileOption = None,
    installation: InstallationOption = "situate",
    assignments: SetOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show what would be moved now: for machines that are short, nodes over their watermark, and those to be emptied.

    Moves that are under way are listed apart. Limits and cool-downs count, as they do for the leader.
    """
    with mendable_failures():
        observed = observe(file, assignments, Where(kubeconfig, context, installation))
        told = _as_data(observed)
    if output in (Format.JSON, Format.YAML):
        print_data(told, output)
        return
    for remark in observed.remarks:
        complain(remark)
    if told["moves"]:
        print_table(_COLUMNS, [_row(each) for each in told["moves"]], output)
    elif told["underWay"]:
        say("no further move would begin")
    else:
        say("no move would begin, and none is under way")
    for each in told["underWay"]:
        say(_under_way(each))
    for each in told["evictions"]:
        say(f"{each['pod']} would be evicted for {each['for']}")
    for reason in told["reasons"]:
        say(f"{reason['about']}: {reason['reason']}")


def _as_data(observed: Observed) -> dict[str, Any]:
    moves: list[dict[str, Any]] = []
    evictions: list[dict[str, str]] = []
    reasons: list[dict[str, str]] = []
    for about, made, state in _plans(observed):
        moves += [_move(each, made, state, observed) for each in made.moves]
        evictions += [{"pod": str(each), "for": about} for each in made.evictions]
        reasons += [{"about": about, "reason": each} for each in made.reasons]
        if made.needs_node is not None:
            amounts = ", ".join(
                f"{amount} {name}" for name, amount in quantities(made.needs_node, observed.rules).items()
            )
            reasons.append({"about": about, "reason": f"a new node with room for {amounts} would help"})
    return {
        "moves": moves,
        "underWay": moves_as_data(observed, None),
        "evictions": evictions,
        "reasons": reasons,
        "remarks": list(observed.remarks),
    }


def _under_way(each: dict[str, Any]) -> str:
    copied = "" if each["copied"] is None else f" ({each['copied']:.0%})"
    claim = each["claim"]
    made_for = "" if claim is None else f", for {claim['for']['machine'] or claim['for']['name']}"
    machine = f"{each['namespace']}/{each['machine']}"
    return f"under way: {machine} from {each['from'] or '?'} to {each['to'] or '?'}, {each['state']}{copied}{made_for}"


def _plans(observed: Observed) -> Iterator[tuple[str, Plan, State]]:
    """One after the other, each with the moves of the former ones, as the ledger would have them made (B26)."""
    state, planner, now, rules = decided(observed.state), Planner(), observed.now, observed.rules
    waiting = [(pod, waiter) for uid, waiter in state.waiters.items() if (pod := state.pod(uid)) is not None]
    for pod, _ in sorted(waiting, key=lambda each: (-each[0].priority, each[1].since, each[0].uid)):
        made = planner.plan(state, pod.uid, now, rules)
        yield str(pod.ref if pod.machine is None else pod.machine.ref), made, state
        state = _with(state, made)
    for name in sorted(state.nodes):
        node = state.nodes[name]
        if node.draining and node.pods:
            made = planner.drain(state, name, now, rules)
        elif node.reserved.exceeds(node.watermark):
            made = planner.relief(state, name, now, rules)
        else:
            continue
        yield f"node {name}", made, state
        state = _with(state, made)


def _with(state: State, made: Plan) -> State:
    return replace(
        state,
        moves={**state.moves, **{each.key: each for each in made.moves}},
        claims={**state.claims, **{each.id: each for each in made.claims}},
    )


def _move(move: Move, made: Plan, state: State, observed: Observed) -> dict[str, Any]:
    claim = next((each for each in made.claims if each.id == move.claim), None)
    return {
        "vm": str(move.machine),
        "from": move.source_node,
        "to": move.target_node,
        "why": "" if made.way is None else made.way.value,
        "for": None if claim is None else machine_of(state, claim.beneficiary.ref.uid) or str(claim.beneficiary.ref),
        "room": None if claim is None else quantities(claim.amount, observed.rules),
        "cost": moved(move, state, observed.now, observed.rules)["cost"],
        "migration": f"{move.machine.namespace}/{move.name}",
    }


def _row(each: dict[str, Any]) -> tuple[object, ...]:
    room = "-" if each["room"] is None else short_text(each["room"])
    return (
        each["vm"],
        each["from"],
        each["to"],
        each["why"],
        each["for"] or "-",
        room,
        f"{each['cost']:.0f} s",
        each["migration"],
    )
