"""Reconcile a StatefulSet: claims of pods, revision history, the next step, the status."""

from __future__ import annotations

from collections.abc import Iterator

from situate.cluster.controllers.machinery.actions import (
    NO_WRITES,
    Action,
    Create,
    Delete,
    EventTemplate,
    ReconcileResult,
    RecordEvent,
    sequential_writes,
    slow_start_batches,
)
from situate.cluster.controllers.machinery.changes import Change
from situate.cluster.controllers.machinery.controllers import Controller, ControllerContext
from situate.cluster.controllers.machinery.owners import OwnedObjects, PodOwnership, adopt
from situate.cluster.controllers.machinery.pod_index import REVISION_LABEL, PodGroup
from situate.cluster.controllers.machinery.selectors import selector_test
from situate.cluster.controllers.machinery.tables import PODS, REVISIONS, STATEFUL_SETS, Key, Obj
from situate.cluster.controllers.node.pods import PodFacts, next_availability
from situate.cluster.controllers.workloads.statefulset.claims import (
    blocking_claim,
    missing_claims,
    owner_patches,
    retention_policy,
)
from situate.cluster.controllers.workloads.statefulset.identity import label_patch, new_pod, pod_name
from situate.cluster.controllers.workloads.statefulset.plan import DeletionReason, Ordinals, StatefulSetStep, next_step
from situate.cluster.controllers.workloads.statefulset.revisions import (
    Revisions,
    collision_count,
    resolve_revisions,
    revision_name,
    revision_template,
    sort_revisions,
    surplus_deletions,
)
from situate.cluster.controllers.workloads.statefulset.status import status_patch
from situate.cluster.storage.selection import LabelTest

BURST = 500
"""Largest number of pods created in one reconcile."""
_CLAIM_RETRY = 1.0
"""Seconds until the next check of a claim that is being deleted."""


class StatefulSetController(Controller):
    name = "statefulset"
    user = "system:serviceaccount:kube-system:statefulset-controller"
    manager = "statefulset-controller"
    watches = frozenset({PODS, REVISIONS, STATEFUL_SETS})

    def __init__(self, cluster: ControllerContext) -> None:
        self._cluster = cluster
        self._claims = PodOwnership(cluster, STATEFUL_SETS, "StatefulSet")
        self._revisions = OwnedObjects()
        self._checked_retention: dict[Key, tuple[str, int]] = {}

    def observe(self, change: Change, now: float) -> Iterator[Key]:  # noqa: ARG002  # the protocol's
        if change.resource == REVISIONS:
            owner = self._revisions.apply(change)
            if owner is not None and owner["kind"] == "StatefulSet":
                yield change.key[0], owner["name"]
        else:
            yield from self._claims.observe(change)

    def reconcile(self, key: Key, now: float) -> ReconcileResult:
        stateful_set = self._cluster.get(STATEFUL_SETS, *key)
        if stateful_set is None:
            self._checked_retention.pop(key, None)
            return NO_WRITES
        uid = stateful_set["metadata"]["uid"]
        selector = selector_test(stateful_set["spec"].get("selector"))
        claims = [*self._claims.ownership_patches(stateful_set, selector), *self._adoptions(stateful_set, selector)]
        if claims:
            return sequential_writes(claims)
        history = sort_revisions(self._revisions.owned_by(uid).values())
        revisions = resolve_revisions(stateful_set, history)
        if isinstance(revisions, Create):
            revisions = resolve_revisions(self._with_free_name(stateful_set), history)
        if not isinstance(revisions, Revisions):
            return sequential_writes([revisions])
        group = self._cluster.pods.pods_of_owner(uid)
        return self._advance(key, stateful_set, revisions, group, now)

    def _advance(
        self, key: Key, stateful_set: Obj, revisions: Revisions, group: PodGroup, now: float
    ) -> ReconcileResult:
        if "deletionTimestamp" in stateful_set["metadata"]:
            status = status_patch(stateful_set, group, revisions, now)
            return sequential_writes([status] if status else [])
        told: list[Action] = []
        ordinals = Ordinals(stateful_set, group, now)
        step = next_step(ordinals, revision_name(revisions.update))
        fixes = self._repairs(key, ordinals, step)
        again = next_availability(group.pods.values(), ordinals.min_ready_seconds, now)
        creations: list[tuple[Action, ...]] = []
        for ordinal in step.create[:BURST]:
            blocking = blocking_claim(self._cluster, stateful_set, ordinal)
            if blocking is not None:
                told.append(_blocked_event(stateful_set, ordinal, blocking))
                again = now + _CLAIM_RETRY
                continue
            creations.append(tuple(self._create_pod(stateful_set, revisions, ordinal)))
        deletions = [_delete(stateful_set, pod) for pod, _ in step.delete]
        batches: list[tuple[Action, ...]] = [(action,) for action in [*told, *fixes]]
        batches += _creation_batches(creations) + list(slow_start_batches(deletions))
        if not step.create and not step.delete:
            batches += [(action,) for action in surplus_deletions(stateful_set, revisions, _live_revisions(group))]
        replaced = sum(reason is DeletionReason.OUTDATED for _, reason in step.delete)
        status = status_patch(stateful_set, group, revisions, now, replaced)
        return ReconcileResult(tuple(batches), again, (status,) if status else ())

    def _create_pod(self, stateful_set: Obj, revisions: Revisions, ordinal: int) -> Iterator[Action]:
        yield from missing_claims(self._cluster, stateful_set, ordinal)
        chosen = _revision_for(stateful_set, revisions, ordinal)
        pod = new_pod(stateful_set, revision_template(chosen), revision_name(chosen), ordinal)
        yield Create(
            PODS,
            stateful_set["metadata"]["namespace"],
            pod,
            done=_success_event(stateful_set, "Create", pod["metadata"]["name"]),
            failed=_failure_event(stateful_set, "Create", pod["metadata"]["name"]),
        )

    def _repairs(self, key: Key, ordinals: Ordinals, step: StatefulSetStep) -> list[Action]:
        """Return repairs: missing labels, missing claims, and claims with an owner against the policy."""
        stateful_set, group = ordinals.stateful_set, ordinals.group
        fixes: list[Action] = [
            label_patch(pod) for pod in group.misnamed.values() if ordinals.is_wanted(pod) and not pod.terminating
        ]
        for pod in step.pending:
            fixes.extend(missing_claims(self._cluster, stateful_set, pod.index))
        metadata = stateful_set["metadata"]
        seen = (metadata["uid"], metadata.get("generation", 0))
        pods = group.pods.values() if self._checked_retention.get(key) != seen else []
        if retention_policy(stateful_set)[1] == "Delete":
            pods = pods or [pod for pod, _ in step.delete]
        self._checked_retention[key] = seen
        for pod in pods:
            if pod.index >= 0:
                fixes.extend(owner_patches(self._cluster, stateful_set, pod, wanted=ordinals.is_wanted(pod)))
        return fixes

    def _with_free_name(self, stateful_set: Obj) -> Obj:
        """Return the set with a collision count for which the name of its next revision is free."""
        metadata = stateful_set["metadata"]
        namespace, own = metadata["namespace"], self._revisions.owned_by(metadata["uid"])
        table = self._cluster.store.table(REVISIONS)
        taken = {stored.name for stored in table.sorted_objects(namespace) if stored.name not in own}
        count = collision_count(stateful_set, taken)
        status = stateful_set.get("status") or {}
        return {**stateful_set, "status": {**status, "collisionCount": count}} if count else stateful_set

    def _adoptions(self, stateful_set: Obj, selector: LabelTest) -> Iterator[Action]:
        metadata = stateful_set["metadata"]
        if "deletionTimestamp" in metadata:
            return
        for revision in sort_revisions(self._revisions.without_owner(metadata["namespace"]).values()):
            if selector(revision["metadata"].get("labels") or {}):
                yield adopt(REVISIONS, revision, stateful_set)


def _revision_for(stateful_set: Obj, revisions: Revisions, ordinal: int) -> Obj:
    """Return the revision for an ordinal. Ordinals below the partition stay at the current one.

    Upstream: newVersionedStatefulSetPod.
    """
    spec = stateful_set["spec"]
    strategy = spec.get("updateStrategy") or {}
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return revisions.update
    start = (spec.get("ordinals") or {}).get("start", 0)
    rolling = strategy.get("rollingUpdate")
    kept = (
        (stateful_set.get("status") or {}).get("currentReplicas", 0) if rolling is None else rolling.get("partition", 0)
    )
    return revisions.current if ordinal < start + kept else revisions.update


def _creation_batches(creations: list[tuple[Action, ...]]) -> list[tuple[Action, ...]]:
    """Return batches of 1, 2, 4, ... pods, each preceded by the claims of its pods."""
    batches: list[tuple[Action, ...]] = []
    size, at = 1, 0
    while at < len(creations):
        chosen = creations[at : at + size]
        claims = tuple(action for row in chosen for action in row[:-1])
        if claims:
            batches.append(claims)
        batches.append(tuple(row[-1] for row in chosen))
        at, size = at + size, size * 2
    return batches


def _live_revisions(group: PodGroup) -> set[str]:
    """Return the revisions of all pods."""
    terminating = (pod.labels.get(REVISION_LABEL, "") for pod in group.unsettled.values())
    return {*group.by_revision, *terminating}


def _delete(stateful_set: Obj, pod: PodFacts) -> Delete:
    return Delete(
        PODS,
        pod.namespace,
        pod.name,
        pod.uid,
        done=_success_event(stateful_set, "Delete", pod.name),
        failed=_failure_event(stateful_set, "Delete", pod.name),
    )


def _blocked_event(stateful_set: Obj, ordinal: int, claim: str) -> RecordEvent:
    failure = _failure_event(stateful_set, "Create", pod_name(stateful_set, ordinal))
    text = failure.message.replace("{error}", f"pvc {claim} is being deleted")
    return RecordEvent(EventTemplate(stateful_set, failure.reason, text, "Warning"))


def _success_event(stateful_set: Obj, verb: str, pod: str) -> EventTemplate:
    name = stateful_set["metadata"]["name"]
    return EventTemplate(stateful_set, f"Successful{verb}", f"{verb} Pod {pod} in StatefulSet {name} successful")


def _failure_event(stateful_set: Obj, verb: str, pod: str) -> EventTemplate:
    name = stateful_set["metadata"]["name"]
    return EventTemplate(
        stateful_set, f"Failed{verb}", f"{verb} Pod {pod} in StatefulSet {name} failed error: {{error}}", "Warning"
    )
