"""Apply hypothetical changes to Pods and nodes with the same steps, on a state that is dropped.

    {"nodes": [{"name": "n1", "cpu": "16", "memory": "64Gi", "schedulable": true, "draining": false, "gone": false}],
     "pods": [{"namespace": "default", "name": "a", "cpu": "8", "memory": "32Gi", "gone": false}], "forSeconds": 10}

For an unknown node, `cpu` and `memory` create a node. For a Pod, they are its request. Values that are not named stay
unchanged. An unknown name is refused, because the answer would ignore it (B41, C10).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from situate.vm.api.nodes import watermark, watermark_fraction
from situate.vm.api.parse_errors import ParseError, ParseFailure, Part, Place, replace_lone_surrogates
from situate.vm.explain.json_values import amounts_json
from situate.vm.explain.nodes import explain_node
from situate.vm.explain.pods import explain_pod, uid_of
from situate.vm.ledger.migrations.planner import Planner
from situate.vm.ledger.step import step
from situate.vm.model.actions import Action, Approve, CancelMove, Evict, ResizePod, StartMove, Wake
from situate.vm.model.events import Event, NodeObserved, NodeRemoved, PodRemoved, ResourcesRequested, TimerFired
from situate.vm.model.pods_and_nodes import Node, Pod
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import LedgerState
from situate.vm.planning.targets import Fits, accept_any_node

MAX_CHANGES: Final = 100
MAX_SECONDS: Final = 600
_MAX_TIMER_EVENTS: Final = 32


@dataclass(frozen=True, slots=True)
class NodeChange:
    name: str
    total: tuple[int | None, ...]
    """One value for each resource. None leaves it unchanged."""
    schedulable: bool | None = None
    draining: bool | None = None
    gone: bool = False


@dataclass(frozen=True, slots=True)
class PodChange:
    namespace: str
    name: str
    requested: tuple[int | None, ...]
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes in order: nodes first."""

    nodes: tuple[NodeChange, ...] = ()
    pods: tuple[PodChange, ...] = ()
    seconds: float | None = None
    """How many seconds after the changes the answer covers.

    None: until the leader would plan for a Pod that is short then.
    """


def read_changes(body: bytes, rules: Rules) -> Changes | ParseError:
    try:
        part = Part(Place("the changes", ""), _decode(body))
        part.check_known_keys("nodes", "pods", "forSeconds")
        nodes, pods = part["nodes"], part["pods"]
        changes = Changes(
            tuple(_node_change(each, rules) for each in _limited_items(nodes)),
            tuple(_pod_change(each, rules) for each in _limited_items(pods)),
            float(part["forSeconds"].integer(most=MAX_SECONDS)) if part["forSeconds"].is_present else None,
        )
    except ParseFailure as problem:
        return problem.error
    return changes


def what_if(
    state: LedgerState,
    changes: Changes,
    now: float,
    rules: Rules,
    planner: Planner = Planner(),  # noqa: B008  # frozen
    fits: Fits = accept_any_node,
) -> dict[str, Any] | ParseError:
    """Return the actions that would follow, and the explanations of the changed Pods and nodes after them.

    The simulation changes nothing and counts all its writes as in progress. So no migration completes in it: the answer
    has the migrations that would start.
    """
    *_, found = what_if_by_steps(state, changes, now, rules, planner, fits)
    assert found is not None, "the last value is the answer"
    return found


def what_if_by_steps(
    state: LedgerState, changes: Changes, now: float, rules: Rules, planner: Planner, fits: Fits
) -> Iterator[dict[str, Any] | ParseError | None]:
    """Yield None after each decision and explanation, and then the answer. So a large question delays no other work."""
    actions: list[Action] = []
    for event in _events(state, changes, rules):
        if isinstance(event, ParseError):
            yield event
            return
        decision = step(state, event, now, rules, planner)
        state = decision.state
        actions += decision.actions
        yield None
    until = now + (rules.demand_after_s if changes.seconds is None else changes.seconds)
    for _ in range(_MAX_TIMER_EVENTS):
        decision = step(state, TimerFired(), now, rules, planner)
        state = decision.state
        actions += decision.actions
        yield None
        if decision.wake_at is None or decision.wake_at > until:
            break
        now = max(now, decision.wake_at)
    nodes: list[dict[str, Any]] = []
    for node in changes.nodes:
        nodes.append(explain_node(state, node.name, until, rules, planner) or {"node": node.name, "gone": True})
        yield None
    pods: list[dict[str, Any]] = []
    for pod in changes.pods:
        told = explain_pod(state, pod.namespace, pod.name, until, rules, fits)
        pods.append(told or {"pod": f"{pod.namespace}/{pod.name}", "gone": True})
        yield None
    yield {"actions": [*_actions_json(actions, rules)], "nodes": nodes, "pods": pods}


def _events(state: LedgerState, changes: Changes, rules: Rules) -> Iterable[Event | ParseError]:
    for node in changes.nodes:
        known = state.nodes.get(node.name)
        if node.gone:
            yield NodeRemoved(node.name)
        elif known is None and any(each is None for each in node.total[:2]):
            yield ParseError(
                "the changes", f"nodes[{node.name}]", "", "a known node, or a new node with cpu and memory"
            )
        else:
            yield NodeObserved(_changed_node(known, node, rules))
    for pod in changes.pods:
        uid = uid_of(state, pod.namespace, pod.name)
        found = None if uid is None else state.pod(uid)
        if found is None:
            yield ParseError("the changes", f"pods[{pod.namespace}/{pod.name}]", pod.name, "a pod on a known node")
        elif pod.gone:
            yield PodRemoved(found.uid)
        else:
            yield _request_event(found, pod)


def _changed_node(known: Node | None, change: NodeChange, rules: Rules) -> Node:
    nothing = Amounts.zero(len(rules.resources))
    if known is None:
        known = Node(change.name, nothing, nothing, nothing, nothing, nothing)
    total = Amounts(tuple(old if new is None else new for old, new in zip(known.total, change.total, strict=True)))
    return replace(
        known,
        total=total,
        watermark=watermark(total, watermark_fraction(change.name, known.labels, rules)),
        schedulable=known.schedulable if change.schedulable is None else change.schedulable,
        draining=known.draining if change.draining is None else change.draining,
    )


def _request_event(pod: Pod, change: PodChange) -> ResourcesRequested:
    pairs = zip(pod.requested, change.requested, strict=True)
    wanted = Amounts(tuple(old if new is None else new for old, new in pairs))
    unit = pod.factor if any(pod.factor) else (wanted - pod.reserved).positive_part()
    return ResourcesRequested(pod.uid, unit, wanted, pod.reserved, lowers_at_once=True)


def _actions_json(actions: Sequence[Action], rules: Rules) -> Iterator[dict[str, Any]]:
    """Yield each action once.

    A grant to a VM has an action for its Pod and one for the VM. Only the latter is reported.
    """
    machines = {each.pod.uid for each in actions if isinstance(each, Approve)}
    said: list[dict[str, Any]] = []
    for action in actions:
        if isinstance(action, ResizePod) and action.pod.uid in machines:
            continue
        told = _action_json(action, rules)
        if told is not None and told not in said:
            said.append(told)
            yield told


def _action_json(action: Action, rules: Rules) -> dict[str, Any] | None:
    match action:
        case Approve(pod=pod, amount=amount) | ResizePod(pod=pod, amount=amount):
            return {"action": "grant", "pod": str(pod), "amount": amounts_json(amount, rules)}
        case StartMove(move=move, claim=claim):
            return {
                "action": "move",
                "vm": str(move.machine),
                "from": move.source_node,
                "to": move.target_node,
                "for": None if claim is None else str(claim.beneficiary.ref),
            }
        case CancelMove(machine=machine, reason=reason):
            return {"action": "cancel", "vm": str(machine), "reason": reason}
        case Evict(pod=pod, reason=reason):
            return {"action": "evict", "pod": str(pod), "reason": reason}
        case Wake(node=node):
            return {"action": "wake", "node": node}
    return None


def _decode(body: bytes) -> object:
    try:
        value = replace_lone_surrogates(json.loads(body))
    except (ValueError, RecursionError) as problem:
        raise ParseFailure(ParseError("the changes", "body", "", "JSON", str(problem))) from problem
    return value


def _limited_items(part: Part) -> Sequence[Part]:
    items = part.items() if part.is_present else ()
    if len(items) > MAX_CHANGES:
        raise part.failure(f"at most {MAX_CHANGES} entries")
    return items


def _node_change(part: Part, rules: Rules) -> NodeChange:
    part.check_known_keys("name", *rules.resources, "schedulable", "draining", "gone")
    return NodeChange(
        _name(part["name"]),
        _amounts(part, rules),
        _flag(part["schedulable"]),
        _flag(part["draining"]),
        _gone_flag(part),
    )


def _pod_change(part: Part, rules: Rules) -> PodChange:
    part.check_known_keys("namespace", "name", *rules.resources, "gone")
    return PodChange(
        part["namespace"].text(default="default"), _name(part["name"]), _amounts(part, rules), _gone_flag(part)
    )


def _amounts(part: Part, rules: Rules) -> tuple[int | None, ...]:
    return tuple(
        None if not part[name].is_present else part[name].milli() if name == "cpu" else part[name].units()
        for name in rules.resources
    )


def _name(part: Part) -> str:
    text = part.text()
    if not text:
        raise part.failure("non-empty text")
    return text


def _flag(part: Part) -> bool | None:
    if part.is_present and not isinstance(part.value, bool):
        raise part.failure("true or false")
    return part.value if isinstance(part.value, bool) else None


def _gone_flag(part: Part) -> bool:
    return _flag(part["gone"]) is True
