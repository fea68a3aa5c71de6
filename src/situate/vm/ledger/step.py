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
    Event,
    InitialListCompleted,
    MigrationObserved,
    MigrationRemoved,
    NodeObserved,
    NodeRemoved,
    PodObserved,
    PodRemoved,
    PodReserved,
    PodUnreserved,
    ResourcesRequested,
    TargetRefused,
    TimerFired,
    WriteResult,
)
from situate.vm.model.policy import Rules
from situate.vm.model.state import LedgerState

PLANNER: Final = Planner()


def step(state: LedgerState, event: Event, now: float, rules: Rules, planner: Planner = PLANNER) -> Decision:
    """Apply an event to the state. Equal arguments give equal decisions.

    `now` is in seconds of the epoch. Before `InitialListCompleted`, the ledger only records events: it grants, migrates
    and ends nothing (C30).
    """
    draft = Draft(state, now, rules, planner)
    _apply_event(draft, event)
    if draft.state.started:
        _settle_nodes(draft)
        draft.write_approvals()
        _wake_rejected_pods(state, draft)
        if not rules.compat:
            notifications.add_notifications(state, draft)
    return Decision(draft.state, tuple(draft.actions), deadlines.wake_at(draft.state, rules))


def _apply_event(draft: Draft, event: Event) -> None:
    match event:
        case NodeObserved():
            pods_and_nodes.record_node(draft, event)
        case NodeRemoved():
            pods_and_nodes.remove_node(draft, event)
        case PodObserved():
            pods_and_nodes.record_pod(draft, event)
            if draft.rules.compat:
                as_reference.evaluate_pod(draft, event.pod.uid)
        case PodRemoved():
            pods_and_nodes.remove_pod(draft, event)
        case PodReserved():
            pods_and_nodes.record_reservation(draft, event)
        case PodUnreserved():
            pods_and_nodes.undo_reservation(draft, event)
        case MigrationObserved():
            migrations.record_migration(draft, event)
        case MigrationRemoved():
            migrations.remove_migration(draft, event)
        case TargetRefused():
            retarget.record_target_refusal(draft, event)
        case ResourcesRequested():
            (as_reference if draft.rules.compat else resource_requests).record_request(draft, event)
        case WriteResult():
            write_results.record_result(draft, event)
        case InitialListCompleted():
            initial_listing.start_granting(draft)
        case TimerFired():
            _handle_timer(draft)
        case _:
            assert_never(event)


def _handle_timer(draft: Draft) -> None:
    if not draft.state.started:
        return
    deadlines.handle_due_times(draft)
    if draft.rules.compat:
        as_reference.evaluate_due_waiters(draft)
        return
    _settle_nodes(draft)
    plan_execution.make_due_plans(draft)


def _settle_nodes(draft: Draft) -> None:
    """Run changed nodes until nothing follows.

    Every round ends a claim or a migration, so the number of rounds is finite.
    """
    while True:
        while draft.changed_nodes:
            name = next(iter(draft.changed_nodes))
            del draft.changed_nodes[name]
            if name in draft.state.nodes:
                (as_reference.run_node if draft.rules.compat else _run_node)(draft, name)
        if not draft.rules.compat:
            plan_execution.start_migrations(draft)
        if not draft.changed_nodes:
            return


def _run_node(draft: Draft, node: str) -> None:
    claims.mark_broken(draft, node)
    claims.shrink_claims(draft, node)
    plan_execution.drop_impossible_migrations(draft, node)
    retarget.review_targets(draft, node)
    wait_queue.serve_waiters(draft, node)
    claims.shrink_claims(draft, node)
    claims.end_spent_claims(draft, node)
    completion.review_migrations(draft, node)
    plan_execution.update_planned_node(draft, draft.state.nodes[node])


def _wake_rejected_pods(before: LedgerState, draft: Draft) -> None:
    """Activate queued Pods for nodes that have more free capacity than before the step."""
    for name in draft.touched_nodes:
        if name not in draft.state.nodes:
            continue
        if name not in before.nodes or draft.state.available(name, "").exceeds(before.available(name, "")):
            draft.add_action(Wake(name))
