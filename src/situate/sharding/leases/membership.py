"""Decide which executors are alive, from Leases, Pods and nodes, by the observer's own clock.

The age of a Lease is the time since this observer saw the Lease change. A time that another process wrote is only
compared with its own earlier value. A watch may stall without an error. Therefore a Lease that seems to have expired is
read once more before it counts as expired. Otherwise one dead connection would make every executor count as dead.

Each Pod UID is an incarnation with a Lease of its own, and inherits nothing. The caller watches the cluster and passes
each event to `Membership`. The executor's side renews the Lease.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from situate.kube.election.lease_record import LeaseRecord
from situate.kube.watch.resource_versions import is_older
from situate.objects.kinds.leases import Lease
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import ContainerStatus, Pod
from situate.objects.selection.label_selectors import BadSelector, Selector, parse_selector
from situate.sharding.leases.executor_report import EMPTY_REPORT, ExecutorReport, report_of
from situate.sharding.model.executors import (
    EndReason,
    ExecutorStatus,
    LeftoverLease,
    LiveExecutor,
    Members,
    RemovedExecutor,
    SuspectLease,
)
from situate.sharding.model.names import CORDON, EXECUTOR, EXECUTOR_UID, PARTITION, POOL, STATUS

FORGOTTEN_AFTER_S: Final = 60.0
"""How long a dead incarnation is remembered after its lease duration, as controller-sharding does for orphans."""
LONGEST_LEASE_S: Final = 3600.0
"""Limit on a lease duration that is longer than ours: a mistake must not hold objects for ever."""
OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
REVISION_LABELS: Final = ("controller-revision-hash", "pod-template-hash")
"""Labels of Pods of a StatefulSet, and of a Deployment."""
_LONGEST_NAME: Final = 253  # maximum length of a Lease's name, a DNS subdomain
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class BadLeaseTimes(ValueError):
    """Durations that would let two executors work on one object; the message names them."""


class BadExecutorWatch(ValueError):
    """An invalid selector, or one that selects every Pod by mistake."""


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Times of an executor's Lease. The executor stops by its own clock before an observer can judge it expired."""

    lease_s: float = 15.0
    renew_s: float = 4.0
    retry_s: float = 1.0
    renew_deadline_s: float = 10.0
    """Handlers are cancelled this long after the last successful renewal was sent."""
    cancel_grace_s: float = 4.0
    """A process with a handler that has not stopped ends itself this long after the deadline."""
    max_clock_drift: float = 0.05
    """The share by which two clocks may differ in speed."""

    def __post_init__(self) -> None:
        """Validate the times. Raises `BadLeaseTimes`."""
        for name in self.__slots__:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
                raise BadLeaseTimes(f"{name} is {value!r}, allowed: numbers from 0")
        if not self.max_clock_drift < 1:
            raise BadLeaseTimes(f"max_clock_drift is {self.max_clock_drift}, allowed: shares below 1")
        if not 0 < self.retry_s <= self.renew_s < self.renew_deadline_s:
            raise BadLeaseTimes(
                f"retry_s {self.retry_s}, renew_s {self.renew_s}, renew_deadline_s {self.renew_deadline_s}: "
                "allowed: 0 < retry_s <= renew_s < renew_deadline_s"
            )
        most = self.lease_s * (1 - self.max_clock_drift)
        if self.renew_deadline_s + self.cancel_grace_s > most:
            raise BadLeaseTimes(
                f"renew_deadline_s {self.renew_deadline_s} + cancel_grace_s {self.cancel_grace_s} is more than "
                f"lease_s * (1 - max_clock_drift) = {most:g}: an executor could still work after its Lease expired; "
                "lengthen the Lease or shorten the other times"
            )


@dataclass(frozen=True, slots=True)
class ExecutorWatch:
    """Which Pods are executors."""

    selector: str = ""
    """A label selector; empty only with `match_all`."""
    namespace: str | None = None
    """None: all namespaces; ids are then `namespace/name`."""
    match_all: bool = False

    def __post_init__(self) -> None:
        """Validate the selector. Raises `BadExecutorWatch`."""
        try:
            empty = not parse_selector(self.selector).requirements
        except BadSelector as error:
            raise BadExecutorWatch(f"the selector of executors: {error}") from error
        if empty and not self.match_all:
            raise BadExecutorWatch(
                "the selector of executors is empty and would select every Pod; set labels such as app=reports, or "
                "match_all"
            )

    def id_of(self, namespace: str, name: str) -> str:
        """Return the id of the executor in this Pod."""
        return name if self.namespace is not None else f"{namespace}/{name}"


def lease_name(pool: str, pod: str, uid: str) -> str:
    """Return `POOL.POD.UID8`. If that is too long, 32 hexadecimal digits replace the name of the Pod."""
    name = f"{pool}.{pod}.{uid[:8]}"
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{pool}.{hashlib.sha256(pod.encode()).hexdigest()[:32]}.{uid[:8]}"


@dataclass(slots=True)
class _Incarnation:
    """The observed state of one Pod UID."""

    uid: str
    id: str
    namespace: str
    claim: LeaseRecord | None = None
    """None until its Lease was seen."""
    changed_at: float = -math.inf
    """When the claim was last seen to change."""
    checked_at: float = -math.inf
    """Start time of the last requested read of its Lease."""
    lease: str = ""
    """Name of its Lease."""
    lease_uid: str = ""
    lease_version: str = ""
    cordoned: bool = False
    report: ExecutorReport = EMPTY_REPORT
    reported: str | None = None
    sampled_at: float | None = None
    pod: Pod | None = None
    """None until the Pod was seen, and after it vanished."""
    node: str = ""
    """Name of its node; stays set after the Pod has vanished."""
    proven_dead: bool = False
    """Whether the death is proven. It ends when the Lease is acquired again, or changes while the Pod runs again:
    a restarted container belongs to the same Pod."""
    restarted: bool = False
    """Whether its Pod runs again after a proven death."""
    unhealthy_since: float | None = None
    ended_at: float | None = None

    def has_seen_later(self, lease: ObjectMeta) -> bool:
        """Return whether a later version of this Lease is known. A response may arrive after a newer watch event."""
        return lease.uid == self.lease_uid and is_older(lease.resource_version, self.lease_version)


@dataclass(slots=True)
class Membership:
    """Observations of one observer: Leases, Pods and nodes. `now` is its monotonic clock, and never decreases."""

    watch: ExecutorWatch
    times: LeaseTimes = field(default_factory=LeaseTimes)
    pool: str = ""
    """Leases of other pools are ignored; empty: all pools count."""
    partition: str = ""
    """Leases of other partitions are ignored; empty: all partitions count."""
    _incarnations: dict[str, _Incarnation] = field(default_factory=dict)
    _uids: dict[tuple[str, str], str] = field(default_factory=dict)
    """UIDs of the present Pods, by namespace and name."""
    _leftovers: dict[str, LeftoverLease] = field(default_factory=dict)
    """By UID of the executor."""
    _out_of_service: set[str] = field(default_factory=set)
    _synced_at: float | None = None
    _changed_at: float | None = None
    _set: frozenset[tuple[str, str, ExecutorStatus]] = frozenset()
    _selector: Selector = field(init=False)

    def __post_init__(self) -> None:
        self._selector = parse_selector(self.watch.selector)

    def record_lease(self, lease: Lease, now: float) -> tuple[str, ...]:
        """Record a Lease that was listed, added or changed. Return a sentence about each part that cannot be used."""
        labels, annotations = lease.metadata.labels, lease.metadata.annotations
        if self.pool and labels.get(POOL) != self.pool:
            return ()
        if self.partition and labels.get(PARTITION, self.partition) != self.partition:
            return ()
        claim = LeaseRecord.from_lease(lease)
        uid = annotations.get(EXECUTOR_UID) or claim.holder
        where = f"Lease {lease.metadata.namespace}/{lease.metadata.name}"
        pod = annotations.get(EXECUTOR) or _pod_name(lease, uid)
        if not uid or not pod:
            return (
                f"{where} does not identify its executor: annotations {EXECUTOR} and {EXECUTOR_UID} must name the Pod",
            )
        found = self._incarnation(uid, lease.metadata.namespace, pod)
        if claim.holder not in ("", uid):
            return (f"{where} of the executor with UID {uid} is held by {claim.holder!r}: its renewals do not count",)
        if found.claim is None or not found.claim.same_claim(claim):
            found.changed_at = now
            # a late event about a renewal is of the process that has ended
            begun_anew = found.claim is None or found.claim.acquired != claim.acquired
            found.proven_dead = found.proven_dead and not (begun_anew or found.restarted)
        found.claim, found.lease = claim, lease.metadata.name
        found.lease_uid, found.lease_version = lease.metadata.uid, lease.metadata.resource_version
        self._leftovers.pop(uid, None)
        found.cordoned = annotations.get(CORDON) == "true"
        text = annotations.get(STATUS)
        if text != found.reported:
            found.sampled_at = now
        found.reported = text
        found.report, oddities = report_of(text)
        return tuple(f"{where}: {oddity}" for oddity in oddities)

    def record_check(self, suspect: SuspectLease, lease: Lease | None, asked_at: float, now: float) -> tuple[str, ...]:
        """Record a read of a suspect's Lease from the API, not from a cache.

        `lease` None: it does not exist. `asked_at`: when the read began.
        """
        found = self._incarnations.get(suspect.uid)
        overtaken = lease is not None and found is not None and found.has_seen_later(lease.metadata)
        oddities = () if lease is None or overtaken else self.record_lease(lease, now)
        if (found := self._incarnations.get(suspect.uid)) is not None:
            found.checked_at = max(found.checked_at, asked_at)
        return oddities

    def forget_leftover(self, uid: str) -> None:
        """Record that the Lease of this executor is gone, or changed after it became a leftover."""
        self._leftovers.pop(uid, None)

    def record_pod(self, pod: Pod) -> None:
        """Record a Pod that was listed, added or changed. One that does not match the selector is no executor."""
        place, uid = (pod.metadata.namespace, pod.metadata.name), pod.metadata.uid
        if not self._selector.matches(pod.metadata.labels):
            if uid in self._incarnations:
                self._forget_pod(uid, place)
            return
        found = self._incarnation(uid, *place)
        before = self._uids.get(place)
        if before is not None and before != uid:
            self._forget_pod(before, place)
        self._uids[place] = uid
        found.pod = pod
        found.node = pod.spec.node_name or found.node
        terminated = _is_terminated(pod)
        found.restarted = found.proven_dead and not terminated
        found.proven_dead = found.proven_dead or terminated

    def record_pod_deleted(self, namespace: str, name: str, uid: str) -> None:
        """Record that a Pod was deleted or left the selector. This proves nothing about its process."""
        if uid in self._incarnations:
            self._forget_pod(uid, (namespace, name))

    def record_node(self, node: Node) -> None:
        """Record a node that was listed, added or changed."""
        tainted = any(taint.key == OUT_OF_SERVICE for taint in node.spec.taints)
        (self._out_of_service.add if tainted else self._out_of_service.discard)(node.metadata.name)

    def record_synced(self, now: float) -> None:
        """Record that Leases and Pods have been listed. Later calls change nothing."""
        if self._synced_at is None:
            self._synced_at = now

    def members(self, now: float, open_objects: Mapping[str, int]) -> Members:
        """Return the status of every executor. `open_objects`: number by UID, from a listing of the objects.

        Call `record_check` for each suspect of the result, then call this again.
        """
        suspects: list[SuspectLease] = []
        living: dict[str, LiveExecutor] = {}
        removed: dict[str, RemovedExecutor] = {}
        for uid, seen in list(self._incarnations.items()):
            if seen.claim is None:
                if seen.pod is None:
                    del self._incarnations[uid]
                continue
            ending = self._end_reason(seen, now)
            if ending is None:
                seen.ended_at = None
                living[uid] = self._executor(seen, open_objects.get(uid, 0), now)
                if self._is_overdue(seen, now):
                    suspects.append(SuspectLease(uid, seen.namespace, seen.lease))
                continue
            if seen.ended_at is None:
                seen.ended_at = now
            # while the Pod exists, a new process in it must see from the Lease that it is not the first
            if seen.pod is None and now - seen.ended_at > self._lease_s(seen) + FORGOTTEN_AFTER_S:
                del self._incarnations[uid]
                left = LeftoverLease(uid, seen.namespace, seen.lease, seen.lease_uid, seen.lease_version)
                self._leftovers[uid] = left
            else:
                removed[uid] = RemovedExecutor(seen.id, uid, ending)
        present = frozenset((each.id, each.uid, each.status) for each in living.values())
        if present != self._set:
            self._set, self._changed_at = present, now
        return Members(
            self.times.lease_s,
            living,
            removed,
            self._synced_at,
            self._changed_at,
            self._newest_revision(living),
            tuple(suspects),
            tuple(self._leftovers.values()),
        )

    def _incarnation(self, uid: str, namespace: str, name: str) -> _Incarnation:
        found = self._incarnations.get(uid)
        if found is None:
            found = _Incarnation(uid, self.watch.id_of(namespace, name), namespace)
            self._incarnations[uid] = found
        return found

    def _forget_pod(self, uid: str, place: tuple[str, str]) -> None:
        self._incarnations[uid].pod = None
        if self._uids.get(place) == uid:
            del self._uids[place]

    def _lease_s(self, seen: _Incarnation) -> float:
        """Return d, or the duration in the executor's own Lease if that is longer, because the executor follows it."""
        ours, claim = self.times.lease_s, seen.claim
        if claim is None or claim.lease_s <= ours or not claim.holder:
            return ours
        return max(ours, min(claim.lease_s, LONGEST_LEASE_S))

    def _end_reason(self, seen: _Incarnation, now: float) -> EndReason | None:
        """Return how the executor ended; None while its lease is alive."""
        if seen.proven_dead or (seen.node and seen.node in self._out_of_service):
            return EndReason.DEAD
        if seen.claim is not None and not seen.claim.holder:
            return EndReason.RELEASED
        known_to_be = seen.checked_at - seen.changed_at >= self._lease_s(seen)
        return EndReason.EXPIRED if self._is_overdue(seen, now) and known_to_be else None

    def _is_overdue(self, seen: _Incarnation, now: float) -> bool:
        return now - seen.changed_at >= self._lease_s(seen)

    def _executor(self, seen: _Incarnation, open_objects: int, now: float) -> LiveExecutor:
        lease_s = self._lease_s(seen)
        ready = seen.pod is not None and _is_ready(seen.pod) and not self._is_overdue(seen, now)
        seen.unhealthy_since = None if ready else now if seen.unhealthy_since is None else seen.unhealthy_since
        return LiveExecutor(
            id=seen.id,
            uid=seen.uid,
            status=_status(seen, open_objects, ready),
            namespace=seen.namespace,
            labels=seen.pod.metadata.labels if seen.pod is not None else {},
            revision=_revision(seen.pod),
            capacity=seen.report.capacity,
            open=open_objects,
            metrics=seen.report.metrics,
            sampled_at=seen.sampled_at if seen.report.metrics else None,
            lease_s=lease_s,
            expires_at=seen.changed_at + lease_s,
            unhealthy_since=seen.unhealthy_since,
        )

    def _newest_revision(self, living: Iterable[str]) -> str:
        """Return the revision of the youngest Pod.

        Creation times are the server's, and are only compared with each other. They are whole seconds. If the
        youngest Pods of two revisions are equally old, the revision with the later oldest Pod is the newest.
        """
        created: dict[str, list[datetime]] = {}
        for uid in living:
            pod = self._incarnations[uid].pod
            if pod is not None:
                created.setdefault(_revision(pod), []).append(pod.metadata.creation_timestamp or _EPOCH)
        return max(created, key=lambda each: (max(created[each]), min(created[each]), each), default="")


def _status(seen: _Incarnation, open_objects: int, ready: bool) -> ExecutorStatus:
    """Return the first status that matches."""
    pod, report = seen.pod, seen.report
    going = pod is not None and (
        pod.metadata.deletion_timestamp is not None or pod.metadata.annotations.get(CORDON) == "true"
    )
    if seen.cordoned or going or report.draining:
        return ExecutorStatus.DRAINING
    if not ready:
        return ExecutorStatus.UNHEALTHY
    if report.is_full or (report.capacity is not None and open_objects >= report.capacity):
        return ExecutorStatus.FULL
    return ExecutorStatus.HEALTHY


def _is_ready(pod: Pod) -> bool:
    """Return whether the Pod condition Ready and all containers are ready.

    KSched checks the containers only, and on a lost node they stay ready.
    """
    condition = pod.condition("Ready")
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    return (
        condition is not None
        and condition.status == "True"
        and bool(pod.status.container_statuses)
        and all(status.ready for status in statuses)
    )


def _is_terminated(pod: Pod) -> bool:
    """Return whether the kubelet has reported every container of this Pod as terminated."""
    statuses = pod.status.container_statuses
    ended: Iterable[ContainerStatus] = (*statuses, *pod.status.init_container_statuses)
    return (
        bool(statuses)
        and len(statuses) >= len(pod.spec.containers)
        and all(status.state.terminated is not None for status in ended)
    )


def _revision(pod: Pod | None) -> str:
    labels = pod.metadata.labels if pod is not None else {}
    return next((labels[name] for name in REVISION_LABELS if labels.get(name)), "")


def _pod_name(lease: Lease, uid: str) -> str:
    """Return the Pod's name from `POOL.POD.UID8`; empty if the Lease has no such name."""
    name, pool = lease.metadata.name, lease.metadata.labels.get(POOL, "")
    head, tail = f"{pool}.", f".{uid[:8]}"
    if not pool or not uid or not name.startswith(head) or not name.endswith(tail):
        return ""
    return name[len(head) : -len(tail)]
