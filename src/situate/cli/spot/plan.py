"""`situate spot plan`: what the controller would move from here on, and what it comes to (B31, B24, B43, B44)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Annotated, Any

import msgspec
import typer

from situate import __version__
from situate.cli.failures import ExitCode, mendable_failures
from situate.cli.formats import DataFormat, Format
from situate.cli.options import ContextOption, KubeconfigOption, OptionalFileOption, OutputOption, SetOption
from situate.cli.output import Column, print_data, print_objects, print_table
from situate.cli.progress import progress
from situate.cli.spot.options import InstallationOption, NamespaceOption
from situate.cli.spot.reading import Observed, Where, observe
from situate.cli.spot.reports import ASSUMED, notices_data, recorded_wave, room_data, room_line, workloads
from situate.cli.streams import complain, say
from situate.objects.quantity import Quantity
from situate.spot.advice import Advice, advice
from situate.spot.comparison import Means, compared
from situate.spot.decide import Phase, decide
from situate.spot.evictions import Workload
from situate.spot.headroom import WaveRoom, balloon_objects, displaced, wave_room
from situate.spot.model import Capacity
from situate.spot.observed import NO_MEMORY, target_of
from situate.spot.plan import Plan, PlannedMove
from situate.spot.plan import plan as planned
from situate.spot.signal_table import on_demand_requirement
from situate.spot.targets import IMPORT_KEYS, Rules, resolved

_MOVES = (
    Column("#", right=True),
    Column("workload"),
    Column("pod"),
    Column("reason"),
    Column("how"),
    Column("class then"),
    Column("node then"),
    Column("leaves", wide=True),
)
_MEANS = (
    Column("workload"),
    Column("by"),
    Column("on demand", right=True),
    Column("at twice the replicas", right=True),
    Column("placed without spot", right=True),
    Column("remark", wide=True),
)
_ADVICE = (
    Column("workload"),
    Column("asks for", right=True),
    Column("would have been enough", right=True),
    Column("waves too large", right=True),
    Column("seconds short a month", right=True),
)


def plan(
    file: OptionalFileOption = None,
    namespace: NamespaceOption = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Show beside it what spread constraints or WorkloadSpread would give.")
    ] = False,
    balloons: Annotated[
        bool, typer.Option("--balloons", help="Print, for kubectl apply, pods that hold the room a wave would lack.")
    ] = False,
    image: Annotated[str, typer.Option(help="The image of these pods; they do nothing.")] = f"situate:{__version__}",
    installation: InstallationOption = "situate",
    assignments: SetOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show every pod that would be moved, in order and with the reason, and what it comes to. Nothing is written.

    The moves are what the controller does if nothing else happens meanwhile; cool-downs, windows and budgets only take
    time. Exits with 1 if a workload would stay short of on-demand pods, or a pod would find no node.
    """
    with mendable_failures():
        observed = observe(file, assignments, Where(kubeconfig, context, installation))
        with progress("deciding"):
            everywhere = planned(observed.state, observed.situation, observed.places, observed.now)
            managed = _managed(observed)
            going = displaced(managed, observed.situation.cluster.nodes, observed.history.largest)
            room = wave_room(going, observed.places)
    found = everywhere if namespace is None else _narrowed(everywhere, namespace)
    for remark in observed.remarks:
        complain(remark)
    if balloons:
        _print_balloons(room, observed, installation, image, output)
        return
    if output in (Format.JSON, Format.YAML):
        print_data(_as_data(found, managed, room, observed, namespace), output)
    else:
        _print(found, managed, room, observed, namespace, output, compare=compare)
    if found.short or any(not move.to for move in found.moves):
        raise typer.Exit(ExitCode.NO)


def _managed(observed: Observed) -> list[Workload]:
    """Those that take part."""
    reports = decide(observed.state, observed.situation, observed.now).reports
    return [each for each in workloads(observed) if reports[each.owner.uid].phase is not Phase.UNMANAGED]


def _within(namespace: str | None, listed: Iterable[Workload]) -> list[Workload]:
    return [each for each in listed if namespace in (None, each.owner.namespace)]


def _narrowed(found: Plan, namespace: str) -> Plan:
    """What becomes of one namespace; room and cost stay those of the cluster, which its workloads share."""

    def here(workload: str) -> bool:
        return workload.partition(" ")[2].startswith(f"{namespace}/")

    return replace(
        found,
        moves=tuple(move for move in found.moves if move.pod.namespace == namespace),
        restarts={workload: count for workload, count in found.restarts.items() if here(workload)},
        blocked={workload: why for workload, why in found.blocked.items() if here(workload)},
        short=frozenset(filter(here, found.short)),
    )


def _print(
    found: Plan,
    managed: Sequence[Workload],
    room: WaveRoom,
    observed: Observed,
    namespace: str | None,
    form: Format,
    *,
    compare: bool,
) -> None:
    moves = found.moves
    touched = len({move.owner for move in moves})
    say(
        f"{len(moves)} pods of {touched} workloads would be moved" + ("" if found.complete else ", and more after them")
    )
    if moves:
        print_table(_MOVES, [_move_row(move) for move in moves], form)
        restarts = ", ".join(f"{owner} {count}" for owner, count in sorted(found.restarts.items()))
        say(f"restarts: {restarts}")
    say(f"on-demand places needed besides those that are left: {found.on_demand_room}")
    say(f"cost of all on demand: {found.share_before:.0%} now, {found.share_after:.0%} then{_rests_on(observed)}")
    for owner, why in sorted(found.blocked.items()):
        say(f"{owner} stays as it is: {why}")
    for notice in notices_data(found.notices, observed, namespace):
        say(f"{notice['object']}: {notice['reason']}: {notice['message']}")
    for line in (room_line(room, observed.history), recorded_wave(observed.history)):
        say(line)
    chosen = _within(namespace, managed)
    for line in _unread(chosen, observed):
        say(line)
    advised = [(each, told) for each in chosen if (told := advice(each, observed.history, observed.now)) is not None]
    if advised:
        say()
        print_table(_ADVICE, [_advice_row(each, told) for each, told in advised], form)
    if compare and chosen:
        say()
        rows = [_means_row(each, means) for each in chosen for means in _compared(each, observed)]
        print_table(_MEANS, rows, form)


def _rests_on(observed: Observed) -> str:
    prices = observed.situation.prices
    return f" (prices of {prices.date})" if prices.date else f" ({ASSUMED.format(part=prices.default_discount)})"


def _move_row(move: PlannedMove) -> tuple[object, ...]:
    return (
        move.number,
        move.owner,
        move.pod.name,
        move.reason,
        move.how.lower(),
        move.comes_back,
        move.to or "none has room",
        move.leaves or "-",
    )


def _advice_row(each: Workload, told: Advice) -> tuple[object, ...]:
    return (
        str(each.owner),
        told.asked,
        told.on_demand,
        f"{told.too_few} of {told.waves}",
        f"{told.short_s_per_month:.0f}",
    )


def _means_row(each: Workload, means: Means) -> tuple[object, ...]:
    return (
        str(each.owner),
        means.name,
        means.on_demand,
        means.on_demand_doubled,
        f"{means.placed_without_spot} of {each.owner.replicas}",
        means.remark,
    )


def _compared(each: Workload, observed: Observed) -> tuple[Means, ...]:
    owner, situation = each.owner, observed.situation
    memory = observed.state.memories.get(owner.uid, NO_MEMORY)
    policy = target_of(situation.cluster, owner, situation.rules, memory).policy
    safe = situation.rules.safe_deployments
    return compared(policy, owner.replicas, stateful=owner.stateful, safe_deployments=safe)


def _unread(chosen: Iterable[Workload], observed: Observed) -> list[str]:
    """Annotations of other tools that say something, and nobody reads them (B43)."""
    situation = observed.situation
    if situation.rules.import_keys:
        return []
    found = []
    for each in chosen:
        keys = sorted(IMPORT_KEYS & each.owner.annotations.keys())
        if keys:
            rules = Rules(situation.rules.mode, situation.rules.policies, situation.rules.safe_deployments, True)
            then = resolved(each.owner, situation.cluster.namespace(each.owner.namespace), rules)
            found.append(
                f"{each.owner} carries {', '.join(keys)}, which are not read; "
                f"with spot.importKeys it would ask for {then.on_demand} on demand"
            )
    return found


def _as_data(
    found: Plan, managed: Sequence[Workload], room: WaveRoom, observed: Observed, namespace: str | None
) -> dict[str, Any]:
    chosen = _within(namespace, managed)
    prices = observed.situation.prices
    nodes = observed.situation.cluster.nodes.values()
    spot_nodes = sum(node.capacity is Capacity.SPOT for node in nodes)
    return {
        "moves": [
            {
                "number": move.number,
                "workload": move.owner,
                "pod": str(move.pod),
                "reason": str(move.reason),
                "how": move.how,
                "class": str(move.comes_back),
                "leaves": move.leaves,
                "to": move.to,
            }
            for move in found.moves
        ],
        "complete": found.complete,
        "restarts": dict(sorted(found.restarts.items())),
        "onDemandRoomNeeded": found.on_demand_room,
        "costShareBefore": round(found.share_before, 4),
        "costShareAfter": round(found.share_after, 4),
        "pricesOf": prices.date,
        "assumedDiscount": None if prices.date else prices.default_discount,
        "blocked": dict(sorted(found.blocked.items())),
        "notices": notices_data(found.notices, observed, namespace),
        "headroom": room_data(room, observed.history, spot_nodes, observed.now),
        "unreadKeys": _unread(chosen, observed),
        "advice": [
            {"workload": str(each.owner), **msgspec.to_builtins(told)}
            for each in chosen
            if (told := advice(each, observed.history, observed.now)) is not None
        ],
        "comparison": [
            {"workload": str(each.owner), **msgspec.to_builtins(means)}
            for each in chosen
            for means in _compared(each, observed)
        ],
        "remarks": list(observed.remarks),
    }


def _print_balloons(room: WaveRoom, observed: Observed, namespace: str, image: str, form: Format) -> None:
    """As many as are missing, each as large as the largest of the pods that would wait."""
    if not room.missing:
        complain(room_line(room, observed.history))
        return
    largest: dict[str, Quantity] = {}
    for each in room.without:
        for name, amount in _requests(observed, each.uid).items():
            largest[name] = max(largest.get(name, amount), amount)
    term = {"matchExpressions": [msgspec.to_builtins(on_demand_requirement(observed.settings.table))]}
    requests = {name: str(amount) for name, amount in sorted(largest.items())}
    objects = balloon_objects(namespace, room.missing, requests, term, image)
    print_objects(objects, DataFormat.JSON if form is Format.JSON else DataFormat.YAML)


def _requests(observed: Observed, uid: str) -> dict[str, Quantity]:
    """Of the pod's containers together."""
    total: dict[str, Quantity] = {}
    for container in observed.pods[uid].spec.containers:
        for name, amount in container.resources.requests.items():
            total[name] = total[name] + amount if name in total else amount
    return total
