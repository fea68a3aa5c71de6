"""Return a migration as its object shows it, with the facts that the ledger had before."""

from __future__ import annotations

from dataclasses import replace

from situate.vm.ledger.transaction import Draft
from situate.vm.model.events import MigrationObserved
from situate.vm.model.migrations import CopyProgress, Move, Stage
from situate.vm.model.pods_and_nodes import Ref
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import LedgerState


def migration_after_event(draft: Draft, former: Move | None, event: MigrationObserved) -> Move:
    stage = _stage(former, event)
    source = _source(draft.state, former, event)
    pod = draft.state.pod(source.uid)
    machine = event.machine if pod is None or pod.machine is None else pod.machine.ref
    holds = pod.counted_amount(pod.reserved) if pod is not None else Amounts.zero(draft.state.resources)
    amount = holds if event.amount is None else holds.maximum(event.amount)
    begun = former or Move(
        name=event.name,
        plan=event.plan,
        machine=machine,
        source=source,
        source_node="",
        target_node=event.target_node,
        amount=amount,
        created_at=event.created_at or draft.now,
        claim="" if event.claim is None or not event.own else event.claim.id,
        foreign=not event.own,
        choices=1 if event.rechosen_at is None else 2,
        rechosen_at=event.rechosen_at,
        for_node=event.for_node,
    )
    over = stage in (Stage.ENDING, Stage.DONE, Stage.FAILED)
    return replace(
        begun,
        machine=machine,
        uid=event.uid,
        # the time limits (B15) do not count the wait for the concurrency limits or for capacity on the target
        created_at=draft.now if former is not None and not former.uid else begun.created_at,
        stage=stage,
        source=source,
        source_node=event.source_node or begun.source_node or draft.state.where.get(source.uid, ""),
        amount=begun.amount or amount,
        target_node=begun.target_node or event.target_node,
        progress=_progress(begun, event),
        reports_progress=event.reports_progress,
        pinned=event.pinned,
        copying_at=begun.copying_at or (draft.now if stage is Stage.COPYING else None),
        requested_at=begun.requested_at if over and stage is begun.stage else None,
        retry_at=begun.retry_at if stage is begun.stage and not _shows_last_change(begun, event, over=over) else None,
    )


def _shows_last_change(move: Move, event: MigrationObserved, *, over: bool) -> bool:
    """Return whether the object shows the change that was requested last."""
    if not over:
        return event.rechosen_at == move.rechosen_at
    return event.deleting or (event.phase.succeeded and event.handover is not None)


def _stage(former: Move | None, event: MigrationObserved) -> Stage:
    """Return the stage. A cancelled migration stays in ENDING, unless it succeeded or failed before."""
    if event.phase.succeeded:
        return Stage.DONE
    if event.phase.failed:
        return Stage.FAILED
    if event.deleting or (former is not None and former.stage is Stage.ENDING):
        return Stage.ENDING
    return Stage.COPYING if event.phase.copying else Stage.STARTING


def _source(state: LedgerState, former: Move | None, event: MigrationObserved) -> Ref:
    """Return the source Pod, with its UID once known: the object may have the name only."""
    if former is not None and former.source.uid:
        return former.source
    if event.source is None:
        return Ref(event.machine.namespace, "") if former is None else former.source
    return event.source if event.source.uid else ref_with_uid(state, event.source)


def ref_with_uid(state: LedgerState, ref: Ref) -> Ref:
    """Return the Pod of this name with its UID, or `ref` unchanged if no such Pod is known."""
    for node in state.nodes.values():
        for pod in node.pods.values():
            if pod.ref.name == ref.name and pod.ref.namespace == ref.namespace:
                return pod.ref
    return ref


def _progress(move: Move, event: MigrationObserved) -> CopyProgress | None:
    """Return the progress. Only a smaller remaining amount counts as progress."""
    if event.progress is None or move.progress is None:
        return event.progress or move.progress
    if event.progress.remaining < move.progress.remaining:
        return event.progress
    return replace(event.progress, changed_at=move.progress.changed_at)
