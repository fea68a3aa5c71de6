"""Decide on one event: return the next state, and the actions that make the cluster match it.

`step` is a pure function. The controller, the simulator and the tests call the same function, and a what-if drops the
returned state (C10, B42). An event changes reserved amounts, requests or migrations. Then `step` runs each changed node
until nothing follows: it reduces claims to the need, grants free capacity to waiters, and ends unneeded migrations.
"""

from __future__ import annotations

from typing import Final, assert_never

from situate.vm.ledger import deadlines, initial_listing, notifications
from situate.vm.ledger.grants import resource_requests, wait_queue
from situate.vm.ledger.migrations import claims, completion, plan_execution, retarget
from situate.vm.ledger.migrations.planner import Planner
from situate.vm.ledger.neon_compat import step as as_reference
from situate.vm.ledger.observed import migrations, pods_and_nodes, write_results
from situate.vm.ledger.transaction import Draft
from situate.vm.model.actions import Wake
from situate.vm.model.decision import Decision
from situate.vm.model.events import (
    Asked,
    Beat,
    Event,
    Listed,
    MigrationGone,
    MigrationSeen,
    NodeGone,
    NodeSeen,
    PodGone,
    PodReserved,
    PodSeen,
    PodUnreserved,
    TargetRefused,
    Written,
)
from situate.vm.model.policy import Rules
from situate.vm.model.state import State

PLANNER: Final = Planner()


def step(state: State, event: Event, now: float, rules: Rules, planner: Planner = PLANNER) -> Decision:
    """Apply an event to the state. Equal arguments give equal decisions.

    `now` is in seconds of the epoch. Before `Listed`, the ledger only records events: it grants, migrates and ends
    nothing (C30).
    """
    draft = Draft(state, now, rules, planner)
    _take_in(draft, event)
    if draft.state.started:
        _settle(draft)
        draft.write_approvals()
        _wake(state, draft)
        if not rules.compat:
            notifications.tell(state, draft)
    return Decision(draft.state, tuple(draft.actions), deadlines.wake_at(draft.state, rules))


def _take_in(draft: Draft, event: Event) -> None:
    match event:
        case NodeSeen():
            pods_and_nodes.node_seen(draft, event)
        case NodeGone():
            pods_and_nodes.node_gone(draft, event)
        case PodSeen():
            pods_and_nodes.pod_seen(draft, event)
            if draft.rules.compat:
                as_reference.look_at_pod(draft, event.pod.uid)
        case PodGone():
            pods_and_nodes.pod_gone(draft, event)
        case PodReserved():
            pods_and_nodes.pod_reserved(draft, event)
        case PodUnreserved():
            pods_and_nodes.pod_unreserved(draft, event)
        case MigrationSeen():
            migrations.migration_seen(draft, event)
        case MigrationGone():
            migrations.migration_gone(draft, event)
        case TargetRefused():
            retarget.target_refused(draft, event)
        case Asked():
            (as_reference if draft.rules.compat else resource_requests).asked(draft, event)
        case Written():
            write_results.written(draft, event)
        case Listed():
            initial_listing.listed(draft)
        case Beat():
            _beat(draft)
        case _:
            assert_never(event)


def _beat(draft: Draft) -> None:
    if not draft.state.started:
        return
    deadlines.look(draft)
    if draft.rules.compat:
        as_reference.due(draft)
        return
    _settle(draft)
    plan_execution.look(draft)


def _settle(draft: Draft) -> None:
    """Run changed nodes until nothing follows.

    Every round ends a claim or a migration, so the number of rounds is finite.
    """
    while True:
        while draft.stirred:
            name = next(iter(draft.stirred))
            del draft.stirred[name]
            if name in draft.state.nodes:
                (as_reference.run if draft.rules.compat else _run)(draft, name)
        if not draft.rules.compat:
            plan_execution.start(draft)
        if not draft.stirred:
            return


def _run(draft: Draft, node: str) -> None:
    claims.mark_broken(draft, node)
    claims.shrink(draft, node)
    plan_execution.revalidate(draft, node)
    retarget.review(draft, node)
    wait_queue.serve(draft, node)
    claims.shrink(draft, node)
    claims.end_spent(draft, node)
    completion.review(draft, node)
    plan_execution.note_node(draft, draft.state.nodes[node])


def _wake(before: State, draft: Draft) -> None:
    """Activate queued Pods for nodes that have more free capacity than before the step."""
    for name in draft.touched:
        if name not in draft.state.nodes:
            continue
        if name not in before.nodes or draft.state.avail(name, "").exceeds(before.avail(name, "")):
            draft.do(Wake(name))
