"""Room for a pod that is short: the cheapest way there is, and why the others were not taken (B18, B19, B50)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from situate.vm.amounts import Amounts
from situate.vm.model import Phase, Pod, Role
from situate.vm.planning.building import Step, beneficiary, built, claiming, plan_id
from situate.vm.planning.covering import cheapest_cover
from situate.vm.planning.demand import need, room_for, shortage, whole_units
from situate.vm.planning.movers import Asker, Mover
from situate.vm.planning.plan import Alternative, Plan, Way
from situate.vm.planning.targets import Fits, anywhere
from situate.vm.planning.view import View
from situate.vm.rules import Rules
from situate.vm.state import State


@dataclass(frozen=True, slots=True)
class Option:
    """One way, with what it takes; `cost` is None where it does not lead there, and then `why_not` says why."""

    way: Way
    cost: float | None = None
    steps: tuple[Step, ...] = ()
    why_not: str = ""


def plan(state: State, uid: str, now: float, rules: Rules, fits: Fits = anywhere) -> Plan:
    """What makes room for the pod on its node, or brings it to a node that has room.

    Whether it has been short for long enough is `demand.due_at`'s to say. Plans of several waiters are made one after
    the other, each with the moves of the former ones in the state, by priority and then age (B26).
    """
    ident = plan_id(uid, now)
    pod = state.pod(uid)
    if pod is None:
        return Plan(ident, reasons=(f"no pod of uid {uid} is on a node that is known",))
    if pod.machine is not None and (pod.machine.role is not Role.IDLE or pod.machine.phase is Phase.FROZEN):
        return Plan(ident, reasons=(f"{pod.ref} is being moved, and does not change meanwhile",))
    node = state.where[uid]
    units = whole_units(pod)
    wanted = need(state, node, pod, units)
    if not wanted:
        return Plan(ident, reasons=(f"{pod.ref} is short of nothing that is neither free nor on its way",))
    view = View.of(state, now, rules, fits, Asker(uid, pod.priority))
    if waits := view.waits_for_a_place(node):
        return Plan(ident, reasons=(waits,))
    movers = view.may_leave(node, wanted, but=uid)
    options = (_neighbours(view, pod, movers, wanted), _itself(view, pod, node, units))
    return _taken(ident, view, options)


def _taken(ident: str, view: View, options: Sequence[Option]) -> Plan:
    """The cheapest one that leads there; of equals the first."""
    possible = [option for option in options if option.cost is not None]
    best = min(possible, key=lambda option: option.cost or 0.0, default=None)
    others = tuple(
        Alternative(option.way, option.cost, option.why_not or "costs more") for option in options if option is not best
    )
    if best is None:
        return Plan(ident, alternatives=others, reasons=tuple(option.why_not for option in options))
    moves, claims = built(ident, best.steps, view.now, view.rules)
    return Plan(ident, best.way, moves, claims, cost=best.cost or 0.0, alternatives=others)


def _neighbours(view: View, pod: Pod, movers: Sequence[Mover], wanted: Amounts) -> Option:
    chosen = cover(view, movers, wanted)
    if not chosen:
        return Option(Way.NEIGHBOURS, why_not="no neighbours that may be moved leave enough, with a target for each")
    placed = view.placed(chosen)
    assert placed is not None, "a set was chosen because its targets fit together"
    targets = [view.targets.names[index] for index in placed]
    steps = claiming(chosen, targets, beneficiary(pod), wanted)
    return Option(Way.NEIGHBOURS, sum(each.cost for each in chosen), tuple(steps))


def _itself(view: View, pod: Pod, node: str, units: int) -> Option:
    if why := view.stays(pod):
        return Option(Way.ITSELF, why_not=f"{pod.ref} {why}")
    grown = room_for(pod, pod.reserved + shortage(pod, units))
    own = view.mover(pod, node, grown, grown)
    if own is None or not own.targets:
        return Option(Way.ITSELF, why_not="no other node has room for all that it wants, below its watermark")
    best = view.targets.best_first(own.targets, grown, view.rules)[0]
    return Option(Way.ITSELF, own.cost, (Step(own, view.targets.names[best]),))


def cover(view: View, movers: Sequence[Mover], wanted: Amounts) -> tuple[Mover, ...]:
    """The cheapest of them whose leaving covers what is wanted; empty: none do."""
    freed = np.array([each.freed.values for each in movers], dtype=np.int64).reshape(len(movers), len(wanted))
    prices = [each.price for each in movers]
    found = cheapest_cover(
        prices, freed, wanted.values, lambda numbers: view.fit_together([movers[n] for n in numbers])
    )
    return tuple(movers[number] for number in found or ())
