"""Owners by hashing alone: controller-sharding's ring, and rendezvous hashing, which moves fewer keys.

Both give the same owner of a key for every caller and every order of members. A join moves keys only to the new member,
and a leave moves only the keys of the member that leaves. Neither uses the load of members: strategies that count
balance better.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from situate.sharding.partitions.hash_arrays import Hashes, fnv1a64_many, mix64_many
from situate.sharding.partitions.hashing import SPACE, fnv1a64, mix64, xxhash64

TOKENS: Final = 100
"""Number of tokens of a member on the ring (upstream: pkg/sharding/consistenthash)."""


def ring_key(group: str, kind: str, namespace: str, name: str) -> str:
    """Return the text that the ring hashes for an object; the namespace of cluster-scoped objects is empty."""
    return f"{group}/{kind}/{namespace}/{name}"


class HashRing:
    """Members as tokens on a circle of hashes. A key belongs to the first token that is not below the key's hash.

    Without `separator` the tokens are controller-sharding's, and their texts collide: token 10 of `executor-1` is token
    0 of `executor-11`. Equal tokens belong to the smallest name. Immutable; `with_member` and `without_member` copy.
    """

    def __init__(
        self,
        members: Iterable[str] = (),
        *,
        tokens: int = TOKENS,
        separator: bool = False,
        known: Mapping[str, Hashes] = MappingProxyType({}),
    ) -> None:
        """`known`: already hashed tokens by member, made with the same settings."""
        self._by_member = {
            name: known[name] if name in known else _tokens(name, tokens, separator) for name in sorted(set(members))
        }
        self._count, self._separator = tokens, separator
        self.members: tuple[str, ...] = tuple(self._by_member)
        every = np.concatenate([*self._by_member.values(), np.empty(0, dtype=np.uint64)])
        owner = np.repeat(np.arange(len(self.members)), tokens)
        order = np.lexsort((owner, every))
        every, owner = every[order], owner[order]
        first = np.ones(len(every), dtype=bool)
        first[1:] = every[1:] != every[:-1]
        self._tokens: Hashes = every[first]
        self._owner: NDArray[np.int64] = owner[first]

    def with_member(self, name: str) -> HashRing:
        return self.with_members({*self.members, name})

    def without_member(self, name: str) -> HashRing:
        return self.with_members(set(self.members) - {name})

    def with_members(self, members: Iterable[str]) -> HashRing:
        """Return a ring with the same settings and these members."""
        return HashRing(members, tokens=self._count, separator=self._separator, known=self._by_member)

    def owner(self, key: str) -> str | None:
        """Return the owner of the key; None only if there is no member."""
        return next(self.owners(key), None)

    def owners(self, key: str) -> Iterator[str]:
        """Yield every member once, in the order of fail-over for the key."""
        start = int(np.searchsorted(self._tokens, np.uint64(xxhash64(key)), side="left"))
        seen: set[int] = set()
        for step in range(len(self._tokens)):
            owner = int(self._owner[(start + step) % len(self._tokens)])
            if owner not in seen:
                seen.add(owner)
                yield self.members[owner]

    def owners_of(self, keys: Sequence[str]) -> list[str]:
        """Return the owner of each key; there must be a member."""
        hashed = np.array([xxhash64(key) for key in keys], dtype=np.uint64)
        places = np.searchsorted(self._tokens, hashed, side="left") % len(self._tokens)
        return [self.members[owner] for owner in self._owner[places].tolist()]

    def shares(self) -> dict[str, float]:
        """Return each member's share of all hashes."""
        arcs = np.diff(self._tokens, prepend=self._tokens[-1:])  # the first arc wraps around
        owned = np.bincount(self._owner, weights=arcs.astype(np.float64), minlength=len(self.members)) / SPACE
        return dict(zip(self.members, owned.tolist(), strict=True))

    def collisions(self) -> int:
        """Return the number of tokens lost to collisions: each further claim of a token counts as one."""
        return self._count * len(self.members) - len(self._tokens)


def _tokens(name: str, count: int, separator: bool) -> Hashes:
    stem = f"{name}/" if separator else name
    return np.array([xxhash64(f"{stem}{number}") for number in range(count)], dtype=np.uint64)


class Rendezvous:
    """Rendezvous hashing: the highest hash of member and key owns the key. Immutable."""

    def __init__(self, members: Iterable[str] = ()) -> None:
        self.members: tuple[str, ...] = tuple(sorted(set(members)))
        self._hashes = mix64_many(fnv1a64_many(self.members))

    def owner(self, key: str) -> str | None:
        """Return the owner of the key; None only if there is no member."""
        return self.members[int(np.argmax(self._weights(key)))] if self.members else None

    def owners(self, key: str) -> Iterator[str]:
        """Yield every member once, in the order of fail-over for the key."""
        # members are sorted by name, so equal weights go to the smallest name
        for place in np.argsort(~self._weights(key), kind="stable"):
            yield self.members[int(place)]

    def owners_of(self, keys: Sequence[str]) -> list[str]:
        """Return the owner of each key; there must be a member."""
        hashed = mix64_many(fnv1a64_many(keys))
        best = mix64_many(hashed ^ self._hashes[0])
        owner = np.zeros(len(keys), dtype=np.int64)
        for place in range(1, len(self.members)):
            weights = mix64_many(hashed ^ self._hashes[place])
            better = weights > best
            best[better] = weights[better]
            owner[better] = place
        return [self.members[place] for place in owner.tolist()]

    def _weights(self, key: str) -> Hashes:
        return mix64_many(np.uint64(mix64(fnv1a64(key))) ^ self._hashes)
