"""Sees leases, pods and nodes, and knows who is an executor now: the shell around `situate.sharding.leases`.

An executor whose lease seems to have run out is asked after at the API server, before anything is taken from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

import structlog

from situate.kube.client import Client
from situate.kube.errors import KubeError, NotFound
from situate.objects.coordination import Lease
from situate.objects.nodes import Node
from situate.objects.pods import Pod
from situate.objects.resources import LEASES
from situate.sharding.leases import Membership
from situate.sharding.members import ExecutorStatus, Members, Suspect

READ_S: Final = 5.0
"""How long the reading of a suspect's Lease may take."""
RETRY_S: Final = 1.0
"""Until a suspect whose Lease could not be read is asked after again."""
_ROOM: Final = frozenset((ExecutorStatus.HEALTHY, ExecutorStatus.FULL))


@dataclass(frozen=True, slots=True)
class MembersChanged:
    """Who is another one than before."""

    uids: Collection[str]
    """Of executors that came, went, or have another status."""
    room_only: bool
    """Whether all of it is that some have become full, or are full no longer."""


class Observer:
    """A service: `run` until cancelled. It goes on whether or not this process leads."""

    name = "executors"

    def __init__(
        self,
        client: Client,
        membership: Membership,
        open_objects: Callable[[], Mapping[str, int]],
        now: Callable[[], float],
        changed: Callable[[Members, Members, MembersChanged | None], None],
    ) -> None:
        """`changed` is told of each later state, with the one before, and must not block; None: nothing that moves
        objects has changed."""
        self._client = client
        self._membership = membership
        self._open = open_objects
        self._now = now
        self._changed = changed
        self._members = Members(membership.times.lease_s)
        self._stale = True
        self._due: float | None = None
        self._woken = asyncio.Event()
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._told: dict[str, None] = {}
        self._log = structlog.get_logger()

    def members(self) -> Members:
        """Everybody as of now."""
        now = self._now()
        if self._stale or (self._due is not None and now >= self._due):
            self._refresh(now)
        return self._members

    def saw_lease(self, _: Lease | None, new: Lease | None) -> None:
        """For the store of Leases. One that is deleted is no release."""
        if new is not None:
            for oddity in self._membership.saw_lease(new, self._now()):
                self._tell(oddity)
            self._touch()

    def saw_pod(self, old: Pod | None, new: Pod | None) -> None:
        """For the store of pods."""
        if new is not None:
            self._membership.saw_pod(new)
        elif old is not None:
            self._membership.pod_gone(old.metadata.namespace, old.metadata.name, old.metadata.uid)
        self._touch()

    def saw_node(self, old: Node | None, new: Node | None) -> None:
        """For the store of nodes, which tell of themselves all the time: only their taints matter."""
        if new is not None and (old is None or old.spec.taints != new.spec.taints):
            self._membership.saw_node(new)
            self._touch()

    def synced(self) -> None:
        """Leases and pods have been listed."""
        self._membership.synced(self._now())
        self._touch()

    def counted(self, uid: str, before: int, after: int) -> None:
        """So many objects were open, and so many are: it may have become full by that."""
        executor = self._members.living.get(uid)
        capacity = None if executor is None else executor.capacity
        if capacity is not None and (before >= capacity) != (after >= capacity):
            self._touch()

    async def run(self) -> None:
        """Looks whenever something was seen, or a lease runs out."""
        try:
            while True:
                members = self.members()
                for suspect in members.suspects:
                    if suspect.uid not in self._asking:
                        self._asking[suspect.uid] = asyncio.create_task(self._ask(suspect))
                left_s = None if self._due is None else max(0.0, self._due - self._now())
                try:
                    async with asyncio.timeout(left_s):
                        await self._woken.wait()
                except TimeoutError:
                    continue
                self._woken.clear()
        finally:
            if asking := [*self._asking.values()]:
                for task in asking:
                    task.cancel()
                await asyncio.wait(asking)

    async def _ask(self, suspect: Suspect) -> None:
        """Reads the Lease of a suspect, as often as it takes to know."""
        try:
            while True:
                asked_at = self._now()
                try:
                    async with asyncio.timeout(READ_S):
                        lease = await self._read(suspect)
                except (KubeError, TimeoutError) as problem:
                    said = str(problem) or f"no answer within {READ_S:g} s"
                    self._log.warning("the Lease of a silent executor cannot be read", lease=suspect.lease, error=said)
                    await asyncio.sleep(RETRY_S)
                    continue
                for oddity in self._membership.checked(suspect, lease, asked_at, self._now()):
                    self._tell(oddity)
                return
        finally:
            del self._asking[suspect.uid]
            self._touch()

    async def _read(self, suspect: Suspect) -> Lease | None:
        try:
            return await self._client.get(LEASES, suspect.lease, suspect.namespace)
        except NotFound:
            return None

    def _touch(self) -> None:
        self._stale = True
        self._woken.set()

    def _refresh(self, now: float) -> None:
        self._stale = False
        before, after = self._members, self._membership.members(now, self._open())
        self._members, self._due = after, after.next_expiry
        self._changed(before, after, _difference(before, after))

    def _tell(self, oddity: str) -> None:
        """Once each."""
        if oddity not in self._told:
            if len(self._told) >= 1000:
                self._told.clear()
            self._told[oddity] = None
            self._log.warning("a Lease of an executor cannot be used in full", error=oddity)


def _difference(before: Members, after: Members) -> MembersChanged | None:
    old, new = _standings(before), _standings(after)
    changed = {uid: None for uid in (*old, *new) if old.get(uid) != new.get(uid)}
    if before.synced_at != after.synced_at:
        return MembersChanged((*changed, ""), room_only=False)
    if not changed:
        return None
    room_only = all(old.get(uid) in _ROOM and new.get(uid) in _ROOM for uid in changed)
    return MembersChanged(tuple(changed), room_only)


def _standings(members: Members) -> dict[str, ExecutorStatus | None]:
    """None: removed."""
    statuses: dict[str, ExecutorStatus | None] = {uid: each.status for uid, each in members.living.items()}
    statuses.update(dict.fromkeys(members.removed))
    return statuses
