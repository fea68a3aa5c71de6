"""The heart of vm: one event, another ledger, and what has to be done for it to be true of the cluster.

`step` is a plain function. Shell, simulator and tests call it alike, and a what-if is a step whose state is dropped
(C10, B42). An event changes bookings, wishes or moves; then each node of which something changed is run until nothing
follows any more: claims are cut to what is needed, free room goes to those who wait, and moves that nobody needs end.
"""

from __future__ import annotations

from typing import Final, assert_never

from situate.vm import (
    as_reference,
    asking,
    claiming,
    demanding,
    ending,
    moving,
    observing,
    overdue,
    restarting,
    retargeting,
    told,
    waiting,
    writing,
)
from situate.vm.actions import Wake
from situate.vm.decision import Decision
from situate.vm.drafting import Draft
from situate.vm.events import (
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
from situate.vm.planner import Planner
from situate.vm.rules import Rules
from situate.vm.state import State

PLANNER: Final = Planner()


def step(state: State, event: Event, now: float, rules: Rules, planner: Planner = PLANNER) -> Decision:
    """Equal arguments give equal decisions (I10). `now`: seconds of the epoch.

    Before `Listed` everything is taken in, and nothing is granted, moved or ended (C30).
    """
    draft = Draft(state, now, rules, planner)
    _take_in(draft, event)
    if draft.state.started:
        _settle(draft)
        draft.write_approvals()
        _wake(state, draft)
        if not rules.compat:
            told.tell(state, draft)
    return Decision(draft.state, tuple(draft.actions), overdue.wake_at(draft.state, rules))


def _take_in(draft: Draft, event: Event) -> None:
    match event:
        case NodeSeen():
            observing.node_seen(draft, event)
        case NodeGone():
            observing.node_gone(draft, event)
        case PodSeen():
            observing.pod_seen(draft, event)
            if draft.rules.compat:
                as_reference.look_at_pod(draft, event.pod.uid)
        case PodGone():
            observing.pod_gone(draft, event)
        case PodReserved():
            observing.pod_reserved(draft, event)
        case PodUnreserved():
            observing.pod_unreserved(draft, event)
        case MigrationSeen():
            moving.migration_seen(draft, event)
        case MigrationGone():
            moving.migration_gone(draft, event)
        case TargetRefused():
            retargeting.target_refused(draft, event)
        case Asked():
            (as_reference if draft.rules.compat else asking).asked(draft, event)
        case Written():
            writing.written(draft, event)
        case Listed():
            restarting.listed(draft)
        case Beat():
            _beat(draft)
        case _:
            assert_never(event)


def _beat(draft: Draft) -> None:
    if not draft.state.started:
        return
    overdue.look(draft)
    if draft.rules.compat:
        as_reference.due(draft)
        return
    _settle(draft)
    demanding.look(draft)


def _settle(draft: Draft) -> None:
    """Runs nodes until nothing follows. Every round ends a claim or a move, and there are finitely many of both."""
    while True:
        while draft.stirred:
            name = next(iter(draft.stirred))
            del draft.stirred[name]
            if name in draft.state.nodes:
                (as_reference.run if draft.rules.compat else _run)(draft, name)
        if not draft.rules.compat:
            demanding.start(draft)
        if not draft.stirred:
            return


def _run(draft: Draft, node: str) -> None:
    claiming.mark_broken(draft, node)
    claiming.shrink(draft, node)
    demanding.revalidate(draft, node)
    retargeting.review(draft, node)
    waiting.serve(draft, node)
    claiming.shrink(draft, node)
    claiming.end_spent(draft, node)
    ending.review(draft, node)
    demanding.note_node(draft, draft.state.nodes[node])


def _wake(before: State, draft: Draft) -> None:
    """Pods that wait in the scheduler's queue may fit where there is more room for anybody than before (D16)."""
    for name in draft.touched:
        if name not in draft.state.nodes:
            continue
        if name not in before.nodes or draft.state.avail(name, "").exceeds(before.avail(name, "")):
            draft.do(Wake(name))
