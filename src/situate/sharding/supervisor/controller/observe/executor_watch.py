"""Watch Leases, pods and nodes, and determine the executors: the shell around `situate.sharding.leases.membership`.

Before objects are taken from an executor whose Lease seems expired, its Lease is read from the API server. The Lease is
read again for an object that the executor got after it was known to be removed. The executor may have come back in the
meantime, and another supervisor may have seen that earlier.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from math import inf
from typing import Final

import msgspec
import structlog

from situate.kube.client import Client
from situate.kube.errors import KubeError, NotFound, Unreachable
from situate.objects.kinds.leases import Lease
from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod
from situate.objects.resources import LEASES
from situate.sharding.leases.membership import Membership
from situate.sharding.model.executors import EndReason, ExecutorStatus, LeftoverLease, Members, SuspectLease
from situate.sharding.model.names import EXECUTOR_UID

READ_S: Final = 5.0
"""How long the read of a suspect's Lease may take."""
RETRY_S: Final = 1.0
"""Seconds until the read of a suspect's Lease is retried."""
_HEALTHY_OR_FULL: Final = frozenset((ExecutorStatus.HEALTHY, ExecutorStatus.FULL))


@dataclass(frozen=True, slots=True)
class MembersChange:
    """A change of the set of executors or of their statuses."""

    uids: Collection[str]
    """UIDs of the executors that joined, left, or have another status."""
    capacity_only: bool
    """Whether all changes are between healthy and full."""


class ExecutorObserver:
    """A service: `run` until cancelled, whether or not this process leads."""

    name = "executors"

    def __init__(
        self,
        client: Client,
        membership: Membership,
        open_objects: Callable[[], Mapping[str, int]],
        now: Callable[[], float],
        changed: Callable[[Members, Members, MembersChange | None], None],
    ) -> None:
        """`changed` is called with the state before, the state after, and the change; it must not block.

        The change is None if nothing changed that affects assignments.
        """
        self._client = client
        self._membership = membership
        self._open = open_objects
        self._now = now
        self._changed = changed
        self._members = Members(membership.times.lease_s)
        self._stale = True
        self._due: float | None = None
        self._woken = asyncio.Event()
        self._reading: dict[str, asyncio.Task[None]] = {}
        self._where: dict[str, tuple[str, str]] = {}
        """Namespace and name of executors' Leases, by the executor's UID."""
        self.removed_at: dict[str, float] = {}
        """By UID, when a removed executor was first known to be removed."""
        self._gone_at: dict[str, float] = {}
        """By UID, the last moment at which a removed executor was confirmed to be removed."""
        self._confirming: dict[str, tuple[float, asyncio.Task[None]]] = {}
        """Reads of Leases in progress, with their start."""
        self._logged: dict[str, None] = {}
        self._log = structlog.get_logger()

    def members(self) -> Members:
        """Return all executors as of now."""
        now = self._now()
        if self._stale or (self._due is not None and now >= self._due):
            self._refresh(now)
        return self._members

    def handle_lease_change(self, old: Lease | None, new: Lease | None) -> None:
        """Handle a change in the store of Leases. A deleted Lease is not a release."""
        if new is not None:
            uid = new.metadata.annotations.get(EXECUTOR_UID) or new.spec.holder_identity
            self._where[uid] = new.metadata.namespace, new.metadata.name
            for oddity in self._membership.record_lease(new, self._now()):
                self._log_once(oddity)
            if self._is_renewal_only(uid, old, new):
                self._stale = True  # the next caller of `members` gets it; `run` is not woken for it
            else:
                self._mark_stale()
        elif old is not None:
            self._membership.forget_leftover(old.metadata.annotations.get(EXECUTOR_UID) or old.spec.holder_identity)

    def handle_pod_change(self, old: Pod | None, new: Pod | None) -> None:
        """Handle a change in the store of pods."""
        if new is not None:
            self._membership.record_pod(new)
        elif old is not None:
            self._membership.record_pod_deleted(old.metadata.namespace, old.metadata.name, old.metadata.uid)
        self._mark_stale()

    def handle_node_change(self, old: Node | None, new: Node | None) -> None:
        """Handle a change in the store of nodes. Nodes change all the time; only their taints matter."""
        if new is not None and (old is None or old.spec.taints != new.spec.taints):
            self._membership.record_node(new)
            self._mark_stale()

    def record_synced(self) -> None:
        """Record that Leases and pods have been listed."""
        self._membership.record_synced(self._now())
        self._mark_stale()

    def handle_weight_change(self, uid: str, before: int, after: int) -> None:
        """Handle a change of an executor's open weight, which may make it full or no longer full."""
        executor = self._members.living.get(uid)
        capacity = None if executor is None else executor.capacity
        if capacity is not None and (before >= capacity) != (after >= capacity):
            self._mark_stale()

    def leftovers(self) -> tuple[LeftoverLease, ...]:
        """Return the Leases that may be deleted, as of now."""
        self._stale = True
        return self.members().leftovers

    def forget_leftover(self, leftover: LeftoverLease) -> None:
        """Forget a leftover Lease that is gone or has changed; if it still exists, the watch reports it."""
        self._membership.forget_leftover(leftover.executor_uid)

    def is_uncertain(self, uid: str, since: float) -> bool:
        """Return whether a removed executor may have come back before an object first seen with it at `since`."""
        return uid in self.members().removed and since > self._gone_at.get(uid, -inf) and uid in self._where

    async def confirm(self, uid: str, since: float) -> None:
        """Read the Lease of a removed executor; callers share a read in progress. Raises the client's errors."""
        began, task = self._confirming.get(uid, (-inf, None))
        if task is None or began < since:
            began = self._now()
            task = asyncio.create_task(self._confirm(uid, *self._where[uid], began))
            self._confirming[uid] = began, task
        await asyncio.shield(task)

    async def run(self) -> None:
        """Update the executors after each change, and when a Lease expires."""
        try:
            while True:
                members = self.members()
                for suspect in members.suspects:
                    if suspect.uid not in self._reading:
                        self._reading[suspect.uid] = asyncio.create_task(self._read_suspect(suspect))
                # never 0: two sums of the same floats may differ, so that one is due a moment earlier
                left_s = None if self._due is None else max(0.001, self._due - self._now())
                try:
                    async with asyncio.timeout(left_s):
                        await self._woken.wait()
                except TimeoutError:
                    continue
                self._woken.clear()
        finally:
            if asking := [*self._reading.values(), *(task for _, task in self._confirming.values())]:
                for task in asking:
                    task.cancel()
                await asyncio.wait(asking)

    async def _confirm(self, uid: str, namespace: str, name: str, asked_at: float) -> None:
        try:
            self._record_check(SuspectLease(uid, namespace, name), await self._read_in_time(namespace, name), asked_at)
        finally:
            began, _ = self._confirming.get(uid, (None, None))  # a later read may have ended before this one
            if began == asked_at:
                del self._confirming[uid]
            self._mark_stale()

    async def _read_suspect(self, suspect: SuspectLease) -> None:
        """Read the Lease of a suspect, with retries until an answer arrives."""
        try:
            while True:
                asked_at = self._now()
                try:
                    lease = await self._read_in_time(suspect.namespace, suspect.lease)
                except KubeError as problem:
                    self._log.warning(
                        "read of a silent executor's Lease failed", lease=suspect.lease, error=str(problem)
                    )
                    await asyncio.sleep(RETRY_S)
                    continue
                self._record_check(suspect, lease, asked_at)
                return
        finally:
            del self._reading[suspect.uid]
            self._mark_stale()

    def _record_check(self, suspect: SuspectLease, lease: Lease | None, asked_at: float) -> None:
        for oddity in self._membership.record_check(suspect, lease, asked_at, self._now()):
            self._log_once(oddity)
        known = self._gone_at.get(suspect.uid, -inf)
        self._gone_at[suspect.uid] = max(known, asked_at)  # has no effect unless the executor is removed

    async def _read_in_time(self, namespace: str, name: str) -> Lease | None:
        try:
            async with asyncio.timeout(READ_S):
                return await self._client.get(LEASES, name, namespace)
        except NotFound:
            return None
        except TimeoutError as error:
            raise Unreachable(
                f"Lease {namespace}/{name}: no answer within {READ_S:g} s", outcome_unknown=True
            ) from error

    def _is_renewal_only(self, uid: str, old: Lease | None, new: Lease) -> bool:
        """Return whether the change is only the renewal of a live Lease."""
        executor = self._members.living.get(uid)
        if old is None or executor is None or self._now() >= executor.expires_at:
            return False
        before, after = old.metadata, new.metadata
        if before.annotations != after.annotations or before.labels != after.labels:
            return False
        return msgspec.structs.replace(old.spec, renew_time=new.spec.renew_time) == new.spec

    def _mark_stale(self) -> None:
        self._stale = True
        self._woken.set()

    def _refresh(self, now: float) -> None:
        self._stale = False
        before, after = self._members, self._membership.members(now, self._open())
        self._members, self._due = after, after.next_expiry
        for uid, each in after.removed.items():
            self.removed_at.setdefault(uid, now)
            if uid not in before.removed and each.ending is not EndReason.EXPIRED:
                self._gone_at[uid] = now
        for uid in before.removed.keys() - after.removed.keys():
            self._gone_at.pop(uid, None)
            self.removed_at.pop(uid, None)
            if uid not in after.living:
                self._where.pop(uid, None)
        self._changed(before, after, _difference(before, after))

    def _log_once(self, oddity: str) -> None:
        """Log an oddity of a Lease once."""
        if oddity not in self._logged:
            if len(self._logged) >= 1000:
                self._logged.clear()
            self._logged[oddity] = None
            self._log.warning("unusable value in an executor's Lease", error=oddity)


def _difference(before: Members, after: Members) -> MembersChange | None:
    old, new = _statuses(before), _statuses(after)
    changed = {uid: None for uid in (*old, *new) if old.get(uid) != new.get(uid)}
    if before.synced_at != after.synced_at:
        return MembersChange((*changed, ""), capacity_only=False)
    if not changed:
        return None
    room_only = all(old.get(uid) in _HEALTHY_OR_FULL and new.get(uid) in _HEALTHY_OR_FULL for uid in changed)
    return MembersChange(tuple(changed), room_only)


def _statuses(members: Members) -> dict[str, ExecutorStatus | None]:
    """Return the statuses by UID; None: removed."""
    statuses: dict[str, ExecutorStatus | None] = {uid: each.status for uid, each in members.living.items()}
    statuses.update(dict.fromkeys(members.removed))
    return statuses
