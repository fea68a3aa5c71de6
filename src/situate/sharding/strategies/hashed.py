"""Strategies that choose by a hash: the ring of controller-sharding, and rendezvous hashing.

They choose the same executor for an object after a restart, without any memory. Strategies that count balance better.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from typing import Protocol

from situate.sharding.model.executors import ExecutorStatus
from situate.sharding.partitions.hash_ring import HashRing, Rendezvous, ring_key
from situate.sharding.strategies.facts import ObjectFacts
from situate.sharding.strategies.open_objects import Roster
from situate.sharding.strategies.protocol import CandidateRank, TieBreak


class Owners(Protocol):
    """Owners of keys: the first owner, and its successors in order."""

    def owner(self, key: str) -> str | None: ...
    def owners(self, key: str) -> Iterator[str]: ...


class _HashStrategy:
    """A choice by hash among the healthy executors. The owners are computed lazily after a change of the set."""

    def __init__(self, owners_of: Callable[[frozenset[str]], Owners], key_of: Callable[[ObjectFacts], str]) -> None:
        self._owners_of = owners_of
        self._key_of = key_of
        self._roster = Roster()
        self._owners: Owners | None = None

    def observe_executor(self, executor: str, status: ExecutorStatus | None) -> None:
        was = self._roster.is_healthy(executor)
        self._roster.observe(executor, status)
        if was != self._roster.is_healthy(executor):
            self._owners = None

    def observe_scheduled(self, obj: ObjectFacts) -> None:
        """Do nothing: this strategy counts no objects."""

    def observe_completed(self, obj: ObjectFacts) -> None:
        """Do nothing: this strategy counts no objects."""

    def observe_deleted(self, obj: ObjectFacts) -> None:
        """Do nothing: this strategy counts no objects."""

    def choose_executor(self, obj: ObjectFacts) -> str:
        owner = self._current_owners().owner(self._key_of(obj))
        if owner is None:
            raise self._roster.refusal({})
        return owner

    def choose_among(
        self,
        obj: ObjectFacts,
        among: Container[str],
        tie_break: TieBreak | None = None,  # noqa: ARG002 - the protocol's
    ) -> str:
        """Choose the first of these executors in hash order. There are no ties, so `tie_break` is not called."""
        found = next((executor for executor in self._owners_in_order(obj) if executor in among), None)
        if found is None:
            raise self._roster.refusal({})
        return found

    def _owners_in_order(self, obj: ObjectFacts) -> Iterator[str]:
        return self._current_owners().owners(self._key_of(obj))

    def _current_owners(self) -> Owners:
        if self._owners is None:
            self._owners = self._owners_of(frozenset(each for each in self._roster if self._roster.is_healthy(each)))
        return self._owners

    def candidate_ranks(self, obj: ObjectFacts) -> Sequence[CandidateRank]:
        order = [
            CandidateRank(executor, place, "owner of its hash" if place == 1 else f"successor {place - 1}")
            for place, executor in enumerate(self._owners_in_order(obj), 1)
        ]
        return order + self._roster.unhealthy_ranks()


class Ring(_HashStrategy):
    """controller-sharding's ring with 100 tokens per executor, over `group/Kind/namespace/name`."""

    def __init__(self, group: str, kind: str, *, separator: bool = False) -> None:
        """With `separator` the tokens do not collide, and the owners differ from those of controller-sharding."""
        self._ring = HashRing(separator=separator)
        super().__init__(self._ring_of, lambda obj: ring_key(group, kind, obj.namespace, obj.name))

    def _ring_of(self, members: frozenset[str]) -> HashRing:
        self._ring = self._ring.with_members(members)
        return self._ring


class RendezvousHash(_HashStrategy):
    """The highest hash of executor and UID. A change of members moves as few objects as hashing allows."""

    def __init__(self) -> None:
        super().__init__(Rendezvous, lambda obj: obj.uid)
