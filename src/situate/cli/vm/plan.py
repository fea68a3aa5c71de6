"""Implement `situate vm plan`: the moves that would begin now, with reason and beneficiary. Nothing is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import typer

from situate.cli.read_cluster.cluster_source import listed_namespace
from situate.cli.read_cluster.other_namespaces import report_other_namespaces
from situate.cli.terminal.failures import ExitCode, report_failures
from situate.cli.terminal.formats import Format
from situate.cli.terminal.options import InstallationOptions, ListedNamespaces
from situate.cli.terminal.output import Column, print_answer, print_items
from situate.cli.terminal.streams import print_line
from situate.cli.vm.read_cluster import VmClusterState, as_started, observe, read_settings
from situate.cli.vm.status import amounts_text, machine_name, moves_as_data
from situate.vm.explain.json_values import amounts_json, migration_json
from situate.vm.ledger.migrations.planner import Planner
from situate.vm.model.migrations import Move
from situate.vm.model.state import LedgerState
from situate.vm.planning.plan import Plan

_COLUMNS = (
    Column("machine", "vm"),
    Column("from"),
    Column("to"),
    Column("why"),
    Column("for", lambda each: each["for"] or "-"),
    Column("room", lambda each: "-" if each["room"] is None else amounts_text(each["room"]), right=True),
    Column("cost", lambda each: f"{each['cost']:.0f} s", right=True),
    Column("migration", wide=True),
)


def show(where: InstallationOptions, namespaces: ListedNamespaces, output: Format) -> None:
    """Print the plan; exit with 1 if a listed VM stays short or has no node, or a VM cannot leave its node."""
    with report_failures():
        settings = read_settings(where)
        listed = listed_namespace(where, namespaces)
        observed = observe(settings, where)
        everything = [_plan_data(each, observed) for each in _plan_steps(observed)]
    chosen = [_plan_of_namespace(each, listed) for each in everything]
    told = _as_data(chosen, observed, listed)
    others = sum(len(each["moves"]) for each in everything) - len(told["moves"])
    print_answer(output, lambda: told, lambda: _print(told, others, listed, output), observed.remarks)
    if told["leftOver"] or told["withoutNode"]:
        raise typer.Exit(ExitCode.NO)


def _print(told: dict[str, Any], others: int, listed: str | None, output: Format) -> None:
    if told["moves"]:
        print_items(_COLUMNS, told["moves"], output)
    elif told["underWay"]:
        print_line("no further move would begin")
    else:
        print_line("no move would begin, and none is under way")
    for each in told["underWay"]:
        print_line(_migration_text(each))
    for each in told["evictions"]:
        print_line(f"Pod {each['pod']} would be evicted for {each['for']}")
    for reason in told["reasons"]:
        print_line(f"{reason['about']}: {reason['reason']}")
    for each in told["withoutNode"]:
        print_line(f"{each['namespace']}/{each['machine']} has no node: {each['why']}")
    report_other_namespaces(others, "move", listed)


def _plan_data(step: PlanStep, observed: VmClusterState) -> dict[str, Any]:
    """Return one plan as data, with the name of the VM, Pod or node."""
    made, about = step.plan, step.subject
    reasons = [{"about": about, "reason": each} for each in made.reasons]
    if made.needs_node is not None:
        needed = amounts_json(made.needs_node, observed.rules).items()
        amounts = ", ".join(f"{amount} {name}" for name, amount in needed)
        reasons.append({"about": about, "reason": f"a new node with {amounts} free would help"})
    return {
        "about": about,
        "namespace": step.namespace,
        "moves": [_move_data(each, made, step.state, observed) for each in made.moves],
        "evictions": [{"pod": str(each), "for": about} for each in made.evictions],
        "reasons": reasons,
        "leftOver": [about] if made.unsolved else [],
    }


def _plan_of_namespace(planned: dict[str, Any], listed: str | None) -> dict[str, Any]:
    """Return the part for the listed namespace. A plan for a node keeps its reasons: nodes have no namespace."""
    if listed in (None, planned["namespace"]):
        return planned
    if planned["namespace"] is None:
        return planned | {"moves": [each for each in planned["moves"] if each["vm"].startswith(f"{listed}/")]}
    return planned | {"moves": [], "evictions": [], "reasons": [], "leftOver": []}


def _as_data(chosen: Sequence[dict[str, Any]], observed: VmClusterState, listed: str | None) -> dict[str, Any]:
    def of(part: str) -> list[Any]:
        return [one for each in chosen for one in each[part]]

    return {
        "moves": of("moves"),
        "underWay": moves_as_data(observed, listed),
        "evictions": of("evictions"),
        "reasons": of("reasons"),
        "leftOver": of("leftOver"),
        "withoutNode": [
            each.as_data() for each in observed.unplaced_objects if each.machine and listed in (None, each.namespace)
        ],
        "remarks": list(observed.remarks),
    }


def _migration_text(each: dict[str, Any]) -> str:
    copied = "" if each["copied"] is None else f" ({each['copied']:.0%})"
    claim = each["claim"]
    made_for = "" if claim is None else f", for {claim['for']['machine'] or claim['for']['name']}"
    machine = f"{each['namespace']}/{each['machine']}"
    return f"under way: {machine} from {each['from'] or '?'} to {each['to'] or '?'}, {each['state']}{copied}{made_for}"


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One plan in the sequence."""

    subject: str
    """VM or Pod that is short, or `node n1`."""
    namespace: str | None
    """None for a node."""
    plan: Plan
    state: LedgerState
    """State before the plan, with the moves of earlier plans."""


def _plan_steps(observed: VmClusterState) -> Iterator[PlanStep]:
    """Return the plans in sequence, each with the moves of the earlier ones, as the ledger would make them (B26)."""
    state, planner, now, rules = as_started(observed.state), Planner(), observed.now, observed.rules
    waiting = [(pod, waiter) for uid, waiter in state.waiters.items() if (pod := state.pod(uid)) is not None]
    for pod, _ in sorted(waiting, key=lambda each: (-each[0].priority, each[1].since, each[0].uid)):
        made = planner.plan(state, pod.uid, now, rules)
        ref = pod.ref if pod.machine is None else pod.machine.ref
        yield PlanStep(str(ref), ref.namespace, made, state)
        state = _state_after(state, made)
    for name in sorted(state.nodes):
        node = state.nodes[name]
        if node.draining and node.pods:
            made = planner.drain(state, name, now, rules)
        elif node.reserved.exceeds(node.watermark):
            made = planner.relief(state, name, now, rules)
        else:
            continue
        yield PlanStep(f"node {name}", None, made, state)
        state = _state_after(state, made)


def _state_after(state: LedgerState, made: Plan) -> LedgerState:
    return replace(
        state,
        moves={**state.moves, **{each.key: each for each in made.moves}},
        claims={**state.claims, **{each.id: each for each in made.claims}},
    )


def _move_data(move: Move, made: Plan, state: LedgerState, observed: VmClusterState) -> dict[str, Any]:
    claim = next((each for each in made.claims if each.id == move.claim), None)
    return {
        "vm": str(move.machine),
        "from": move.source_node,
        "to": move.target_node,
        "why": "" if made.way is None else made.way.value,
        "for": None if claim is None else machine_name(state, claim.beneficiary.ref.uid) or str(claim.beneficiary.ref),
        "room": None if claim is None else amounts_json(claim.amount, observed.rules),
        "cost": migration_json(move, state, observed.now, observed.rules)["cost"],
        "migration": f"{move.machine.namespace}/{move.name}",
    }
