"""Find changes after which a Pod gets its whole request. Each is verified before it is reported.

A change is applied to a copy of the state or of the rules, and the same functions run on the copy (B40).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import islice
from typing import Final, TypeAlias, assert_never

from situate.vm.api.quantities import shown_amount
from situate.vm.model.node_accounting import with_pod, without_pod
from situate.vm.model.pods_and_nodes import Node, Pod, Ref
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import State
from situate.vm.planning.plan import Way
from situate.vm.planning.plan_for_pod import plan
from situate.vm.planning.rules.concurrency import under_way, unlimited
from situate.vm.planning.rules.cooldown import cools_down, cools_until
from situate.vm.planning.rules.shortfall import missing, need, room_for, shortage, whole_units
from situate.vm.planning.targets import Fits, anywhere

MOST_TRIED: Final = 12
"""How many changes are tried that need a plan to verify. The small ones come first."""
NEW_NODE: Final = "a new node"
_ENDLESS: Final = 2**60
_WHOLE: Final = (Way.NEIGHBOURS, Way.ITSELF, Way.WAITING, Way.CHAIN, Way.EVICTION)
Applied: TypeAlias = tuple[State, Rules, float]
"""State, rules and time after a change."""


@dataclass(frozen=True, slots=True)
class BiggerNode:
    """A larger node for the Pod."""

    node: str
    by: Amounts

    def applied(self, state: State, rules: Rules, now: float) -> Applied:
        node = state.nodes[self.node]
        bigger = replace(node, total=node.total + self.by, watermark=node.watermark + self.by)
        return replace(state, nodes={**state.nodes, node.name: bigger}), rules, now


@dataclass(frozen=True, slots=True)
class NewNode:
    room: Amounts
    """Capacity of the node below its watermark."""

    def applied(self, state: State, rules: Rules, now: float) -> Applied:
        nothing = Amounts.zero(state.resources)
        node = Node(NEW_NODE, self.room, self.room, nothing, nothing, nothing)
        return replace(state, nodes={**state.nodes, NEW_NODE: node}), rules, now


@dataclass(frozen=True, slots=True)
class Gone:
    """Removal of another Pod from the node."""

    pod: Ref

    def applied(self, state: State, rules: Rules, now: float) -> Applied:
        node = state.nodes[state.where[self.pod.uid]]
        where = {uid: name for uid, name in state.where.items() if uid != self.pod.uid}
        nodes = {**state.nodes, node.name: without_pod(node, self.pod.uid)}
        return replace(state, nodes=nodes, where=where), rules, now


@dataclass(frozen=True, slots=True)
class Migratable:
    """A label that allows the migration of a VM of the node, perhaps of the requester itself."""

    pod: Ref

    def applied(self, state: State, rules: Rules, now: float) -> Applied:
        node = state.nodes[state.where[self.pod.uid]]
        pod = node.pods[self.pod.uid]
        assert pod.machine is not None
        able = with_pod(node, replace(pod, machine=replace(pod.machine, migratable=True)))
        return replace(state, nodes={**state.nodes, node.name: able}), rules, now


@dataclass(frozen=True, slots=True)
class Schedulable:
    """Use of a node that is cordoned, not ready or draining."""

    node: str

    def applied(self, state: State, rules: Rules, now: float) -> Applied:
        node = replace(state.nodes[self.node], schedulable=True, draining=False)
        return replace(state, nodes={**state.nodes, self.node: node}), rules, now


@dataclass(frozen=True, slots=True)
class FewerMoves:
    """Higher concurrency limits, or the end of the migrations that reach them."""

    def applied(self, state: State, rules: Rules, now: float) -> Applied:
        return state, unlimited(rules), now


@dataclass(frozen=True, slots=True)
class Later:
    """The end of a VM's cool-down."""

    pod: Ref
    at: float
    """End of the cool-down, in seconds of the epoch."""

    def applied(self, state: State, rules: Rules, now: float) -> Applied:
        return state, rules, max(now, self.at)


class Rule(Enum):
    """Settings that may be changed, by their names in the configuration."""

    CHAINS = "chainDepth"
    POST_COPY = "postCopy"
    EVICT = "evict"


@dataclass(frozen=True, slots=True)
class Switch:
    rule: Rule

    def applied(self, state: State, rules: Rules, now: float) -> Applied:
        match self.rule:
            case Rule.CHAINS:
                return state, replace(rules, chain_depth=2), now
            case Rule.POST_COPY:
                return state, replace(rules, weights=replace(rules.weights, post_copy=True)), now
            case Rule.EVICT:
                return state, replace(rules, evict=True), now


Change: TypeAlias = BiggerNode | NewNode | Gone | Migratable | Schedulable | FewerMoves | Later | Switch


def would_help(state: State, uid: str, now: float, rules: Rules, fits: Fits = anywhere) -> tuple[Change, ...]:
    """Return changes after which the Pod's whole request is free for it, or a plan brings it.

    If such a plan exists already, only quicker changes are returned. Removing a Pod that leaves anyway is not among
    them. Empty: the Pod is on no node, has its whole request, or is migrating. In the last case, only the end of the
    migration helps.
    """
    pod = state.pod(uid)
    if pod is None or pod.frozen or _free(state, uid):
        return ()
    planned = plan(state, uid, now, rules, fits)
    leaving = {move.source.uid for move in (*state.moves.values(), *planned.moves) if under_way(move)}
    at_once = tuple(
        change for change in _at_once(state, pod, leaving) if _free(change.applied(state, rules, now)[0], uid)
    )
    if _coming(state, pod) or planned.way in _WHOLE:
        return at_once
    tried = islice(_with_a_plan(state, pod, now, rules, fits), MOST_TRIED)
    return (*(change for change in tried if _helps(change, state, uid, now, rules, fits)), *at_once)


def granted(state: State, uid: str, now: float, rules: Rules, fits: Fits = anywhere) -> bool:
    """Return whether the Pod's whole request is free for it, on its way, or brought by a plan."""
    pod = state.pod(uid)
    return pod is not None and (_coming(state, pod) or plan(state, uid, now, rules, fits).way in _WHOLE)


def told(change: Change, resources: Sequence[str]) -> str:
    """Describe a change for users. `resources` are the names in `Rules`."""
    match change:
        case BiggerNode(node, by):
            return f"{_amounts(by, resources)} more on node {node}"
        case NewNode(room):
            return f"one more node with {_amounts(room, resources)} free below its watermark"
        case Gone(pod):
            return f"the removal of pod {pod}"
        case Migratable(pod):
            return f"permission to live-migrate the VM of pod {pod}"
        case Schedulable(node):
            return f"node {node} ready and uncordoned"
        case FewerMoves():
            return "fewer migrations in progress, or higher limits for them"
        case Later(pod, _):
            return f"the end of the cool-down of the VM of pod {pod}"
        case Switch(Rule.CHAINS):
            return f"{Rule.CHAINS.value} set to 2"
        case Switch(switch):
            return f"{switch.value} enabled"
        case _:
            assert_never(change)


def _helps(change: Change, state: State, uid: str, now: float, rules: Rules, fits: Fits) -> bool:
    after, ruled, at = change.applied(state, rules, now)
    return granted(after, uid, at, ruled, lambda pod, node: node == NEW_NODE or fits(pod, node))


def _coming(state: State, pod: Pod) -> bool:
    """Return whether the whole request is free for the Pod, or will be by migrations in progress."""
    return not need(state, state.where[pod.uid], pod, whole_units(pod))


def _free(state: State, uid: str) -> bool:
    """Return whether there is unclaimed capacity for the whole request."""
    pod = state.pod(uid)
    assert pod is not None
    return not missing(state, state.where[uid], pod, whole_units(pod))


def _at_once(state: State, pod: Pod, leaving: Container[str]) -> Iterator[BiggerNode | Gone]:
    """Yield changes that free the capacity at once.

    Of other Pods, the least one that suffices, without those that leave anyway.
    """
    node = state.where[pod.uid]
    lacks = _bigger_by(state, node, pod)
    others = (each for each in state.nodes[node].pods.values() if each.uid != pod.uid and each.uid not in leaving)
    enough = [each for each in others if lacks.within(each.counted(each.reserved))]
    if enough:
        yield Gone(min(enough, key=lambda each: (each.priority, each.counted(each.reserved).values, each.uid)).ref)
    yield BiggerNode(node, lacks)


def _bigger_by(state: State, node: str, pod: Pod) -> Amounts:
    """Return the amount that its node would need in addition.

    It is more than `missing` if Pods hold more than the node has, or if capacity is held for others first.
    """
    endless = Amounts((_ENDLESS,) * state.resources)
    after, *_ = BiggerNode(node, endless).applied(state, Rules(), 0.0)
    left = after.margin(node, pod.uid) - endless
    if pod.deferred:
        return (Amounts.zero(state.resources) - left).positive()
    wanted = room_for(pod, shortage(pod, whole_units(pod)))
    return Amounts(tuple(max(0, most - free) if most else 0 for most, free in zip(wanted, left, strict=True)))


def _with_a_plan(state: State, pod: Pod, now: float, rules: Rules, fits: Fits) -> Iterator[Change]:
    """Yield changes that may make a plan possible, the least demanding first."""
    here = sorted(state.nodes[state.where[pod.uid]].pods.values(), key=lambda each: each.uid)
    yield FewerMoves()
    for each in here:
        if each.machine is not None and cools_down(each.machine, now, rules.calm):
            yield Later(each.ref, cools_until(each.machine, rules.calm))
    for name in sorted(state.nodes):
        if not state.nodes[name].schedulable or state.nodes[name].draining:
            yield Schedulable(name)
    for each in here:
        if each.machine is not None and each.machine.own and not each.machine.migratable:
            yield Migratable(each.ref)
    needed = plan(state, pod.uid, now, rules, fits).needs_node
    if needed is not None:
        yield NewNode(needed)
    yield from (Switch(switch) for switch in Rule)


def _amounts(amounts: Amounts, resources: Sequence[str]) -> str:
    pairs = zip(resources, amounts, strict=True)
    return " and ".join(f"{shown_amount(name, amount)} {name}" for name, amount in pairs if amount)
