"""Find changes after which a Pod gets its whole request. Each is verified before it is reported.

A change is applied to a copy of the state or of the rules, and the same functions run on the copy (B40).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import islice
from typing import Final, TypeAlias, assert_never

from msgspec import structs

from situate.vm.api.quantities import format_amount
from situate.vm.model.node_accounting import with_pod, without_pod
from situate.vm.model.pods_and_nodes import Node, Pod, Ref
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import LedgerState
from situate.vm.planning.plan import Way
from situate.vm.planning.plan_for_pod import plan
from situate.vm.planning.rules.concurrency import is_ongoing, unlimited_rules
from situate.vm.planning.rules.cooldown import cooldown_end, is_cooling_down
from situate.vm.planning.rules.shortfall import capacity_for, capacity_to_free, missing_capacity, shortage, whole_units
from situate.vm.planning.targets import Fits, accept_any_node

MAX_TRIED_CHANGES: Final = 12
"""How many changes are tried that need a plan to verify. The small ones come first."""
NEW_NODE: Final = "a new node"
_UNBOUNDED: Final = 2**60
_FULL_WAYS: Final = (Way.NEIGHBOURS, Way.ITSELF, Way.WAITING, Way.CHAIN, Way.EVICTION)
ChangedInputs: TypeAlias = tuple[LedgerState, Rules, float]
"""State, rules and time after a change."""


@dataclass(frozen=True, slots=True)
class BiggerNode:
    """A larger node for the Pod."""

    node: str
    by: Amounts

    def apply(self, state: LedgerState, rules: Rules, now: float) -> ChangedInputs:
        node = state.nodes[self.node]
        bigger = replace(node, total=node.total + self.by, watermark=node.watermark + self.by)
        return replace(state, nodes={**state.nodes, node.name: bigger}), rules, now


@dataclass(frozen=True, slots=True)
class NewNode:
    capacity: Amounts
    """Capacity of the node below its watermark."""

    def apply(self, state: LedgerState, rules: Rules, now: float) -> ChangedInputs:
        nothing = Amounts.zero(state.resources)
        node = Node(NEW_NODE, self.capacity, self.capacity, nothing, nothing, nothing)
        return replace(state, nodes={**state.nodes, NEW_NODE: node}), rules, now


@dataclass(frozen=True, slots=True)
class PodRemoval:
    """Removal of another Pod from the node."""

    pod: Ref

    def apply(self, state: LedgerState, rules: Rules, now: float) -> ChangedInputs:
        node = state.nodes[state.where[self.pod.uid]]
        where = {uid: name for uid, name in state.where.items() if uid != self.pod.uid}
        nodes = {**state.nodes, node.name: without_pod(node, self.pod.uid)}
        return replace(state, nodes=nodes, where=where), rules, now


@dataclass(frozen=True, slots=True)
class MigrationPermission:
    """A label that allows the migration of a VM of the node, perhaps of the requester itself."""

    pod: Ref

    def apply(self, state: LedgerState, rules: Rules, now: float) -> ChangedInputs:
        node = state.nodes[state.where[self.pod.uid]]
        pod = node.pods[self.pod.uid]
        assert pod.machine is not None
        able = with_pod(node, replace(pod, machine=replace(pod.machine, migratable=True)))
        return replace(state, nodes={**state.nodes, node.name: able}), rules, now


@dataclass(frozen=True, slots=True)
class NodeUncordon:
    """Use of a node that is cordoned, not ready or draining."""

    node: str

    def apply(self, state: LedgerState, rules: Rules, now: float) -> ChangedInputs:
        node = replace(state.nodes[self.node], schedulable=True, draining=False)
        return replace(state, nodes={**state.nodes, self.node: node}), rules, now


@dataclass(frozen=True, slots=True)
class FewerMigrations:
    """Higher concurrency limits, or the end of the migrations that reach them."""

    def apply(self, state: LedgerState, rules: Rules, now: float) -> ChangedInputs:
        return state, unlimited_rules(rules), now


@dataclass(frozen=True, slots=True)
class CooldownEnd:
    """The end of a VM's cool-down."""

    pod: Ref
    at: float
    """End of the cool-down, in seconds of the epoch."""

    def apply(self, state: LedgerState, rules: Rules, now: float) -> ChangedInputs:
        return state, rules, max(now, self.at)


class ChangeableSetting(Enum):
    """Settings that may be changed, by their names in the configuration."""

    CHAINS = "chainDepth"
    POST_COPY = "postCopy"
    EVICT = "evict"


@dataclass(frozen=True, slots=True)
class SettingChange:
    setting: ChangeableSetting

    def apply(self, state: LedgerState, rules: Rules, now: float) -> ChangedInputs:
        match self.setting:
            case ChangeableSetting.CHAINS:
                return state, structs.replace(rules, chain_depth=2), now
            case ChangeableSetting.POST_COPY:
                return (
                    state,
                    structs.replace(rules, costs=structs.replace(rules.costs, post_copy=True)),
                    now,
                )
            case ChangeableSetting.EVICT:
                return state, structs.replace(rules, evict=True), now


HelpfulChange: TypeAlias = (
    BiggerNode
    | NewNode
    | PodRemoval
    | MigrationPermission
    | NodeUncordon
    | FewerMigrations
    | CooldownEnd
    | SettingChange
)


def helpful_changes(
    state: LedgerState, uid: str, now: float, rules: Rules, fits: Fits = accept_any_node
) -> tuple[HelpfulChange, ...]:
    """Return changes after which the Pod's whole request is free for it, or a plan brings it.

    If such a plan exists already, only quicker changes are returned. Removing a Pod that leaves anyway is not among
    them. Empty: the Pod is on no node, has its whole request, or is migrating. In the last case, only the end of the
    migration helps.
    """
    pod = state.pod(uid)
    if pod is None or pod.frozen or _is_free(state, uid):
        return ()
    planned = plan(state, uid, now, rules, fits)
    leaving = {move.source.uid for move in (*state.moves.values(), *planned.moves) if is_ongoing(move)}
    at_once = tuple(
        change
        for change in _immediate_changes(state, pod, leaving)
        if _is_free(change.apply(state, rules, now)[0], uid)
    )
    if _is_coming(state, pod) or planned.way in _FULL_WAYS:
        return at_once
    tried = islice(_changes_with_plan(state, pod, now, rules, fits), MAX_TRIED_CHANGES)
    return (*(change for change in tried if _helps(change, state, uid, now, rules, fits)), *at_once)


def is_granted(state: LedgerState, uid: str, now: float, rules: Rules, fits: Fits = accept_any_node) -> bool:
    """Return whether the Pod's whole request is free for it, on its way, or brought by a plan."""
    pod = state.pod(uid)
    return pod is not None and (_is_coming(state, pod) or plan(state, uid, now, rules, fits).way in _FULL_WAYS)


def describe_change(change: HelpfulChange, resources: Sequence[str]) -> str:
    """Describe a change for users. `resources` are the names in `Rules`."""
    match change:
        case BiggerNode(node, by):
            return f"{_amounts_text(by, resources)} more on node {node}"
        case NewNode(room):
            return f"one more node with {_amounts_text(room, resources)} free below its watermark"
        case PodRemoval(pod):
            return f"the removal of pod {pod}"
        case MigrationPermission(pod):
            return f"permission to live-migrate the VM of pod {pod}"
        case NodeUncordon(node):
            return f"node {node} ready and uncordoned"
        case FewerMigrations():
            return "fewer migrations in progress, or higher limits for them"
        case CooldownEnd(pod, _):
            return f"the end of the cool-down of the VM of pod {pod}"
        case SettingChange(ChangeableSetting.CHAINS):
            return f"{ChangeableSetting.CHAINS.value} set to 2"
        case SettingChange(switch):
            return f"{switch.value} enabled"
        case _:
            assert_never(change)


def _helps(change: HelpfulChange, state: LedgerState, uid: str, now: float, rules: Rules, fits: Fits) -> bool:
    after, ruled, at = change.apply(state, rules, now)
    return is_granted(after, uid, at, ruled, lambda pod, node: node == NEW_NODE or fits(pod, node))


def _is_coming(state: LedgerState, pod: Pod) -> bool:
    """Return whether the whole request is free for the Pod, or will be by migrations in progress."""
    return not capacity_to_free(state, state.where[pod.uid], pod, whole_units(pod))


def _is_free(state: LedgerState, uid: str) -> bool:
    """Return whether there is unclaimed capacity for the whole request."""
    pod = state.pod(uid)
    assert pod is not None
    return not missing_capacity(state, state.where[uid], pod, whole_units(pod))


def _immediate_changes(state: LedgerState, pod: Pod, leaving: Container[str]) -> Iterator[BiggerNode | PodRemoval]:
    """Yield changes that free the capacity at once.

    Of other Pods, the least one that suffices, without those that leave anyway.
    """
    node = state.where[pod.uid]
    lacks = _missing_node_capacity(state, node, pod)
    others = (each for each in state.nodes[node].pods.values() if each.uid != pod.uid and each.uid not in leaving)
    enough = [each for each in others if lacks.fits_within(each.counted_amount(each.reserved))]
    if enough:
        yield PodRemoval(
            min(enough, key=lambda each: (each.priority, each.counted_amount(each.reserved).values, each.uid)).ref
        )
    yield BiggerNode(node, lacks)


def _missing_node_capacity(state: LedgerState, node: str, pod: Pod) -> Amounts:
    """Return the amount that its node would need in addition.

    It is more than `missing_capacity` if Pods hold more than the node has, or if capacity is held for others first.
    """
    endless = Amounts((_UNBOUNDED,) * state.resources)
    after, *_ = BiggerNode(node, endless).apply(state, Rules(), 0.0)
    left = after.margin(node, pod.uid) - endless
    if pod.deferred:
        return (Amounts.zero(state.resources) - left).positive_part()
    wanted = capacity_for(pod, shortage(pod, whole_units(pod)))
    return Amounts(tuple(max(0, most - free) if most else 0 for most, free in zip(wanted, left, strict=True)))


def _changes_with_plan(state: LedgerState, pod: Pod, now: float, rules: Rules, fits: Fits) -> Iterator[HelpfulChange]:
    """Yield changes that may make a plan possible, the least demanding first."""
    here = sorted(state.nodes[state.where[pod.uid]].pods.values(), key=lambda each: each.uid)
    yield FewerMigrations()
    for each in here:
        if each.machine is not None and is_cooling_down(each.machine, now, rules.calm):
            yield CooldownEnd(each.ref, cooldown_end(each.machine, rules.calm))
    for name in sorted(state.nodes):
        if not state.nodes[name].schedulable or state.nodes[name].draining:
            yield NodeUncordon(name)
    for each in here:
        if each.machine is not None and each.machine.own and not each.machine.migratable:
            yield MigrationPermission(each.ref)
    needed = plan(state, pod.uid, now, rules, fits).needs_node
    if needed is not None:
        yield NewNode(needed)
    yield from (SettingChange(switch) for switch in ChangeableSetting)


def _amounts_text(amounts: Amounts, resources: Sequence[str]) -> str:
    pairs = zip(resources, amounts, strict=True)
    return " and ".join(f"{format_amount(name, amount)} {name}" for name, amount in pairs if amount)
