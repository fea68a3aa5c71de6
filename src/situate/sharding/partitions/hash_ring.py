"""Owners by hashing alone: controller-sharding's ring, and rendezvous hashing, which moves less.

Both say of each member and key the same whoever asks and however members are listed. A join moves keys only to the
newcomer, a leave only the leaver's. Neither knows how much anybody holds: strategies that count balance better.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from situate.sharding.partitions.hash_arrays import Hashes, fnv1a64_many, mixed64_many
from situate.sharding.partitions.hashing import SPACE, fnv1a64, mixed64, xxhash64

TOKENS: Final = 100
"""A member's tokens on the ring (upstream: pkg/sharding/consistenthash)."""


def ring_key(group: str, kind: str, namespace: str, name: str) -> str:
    """What the ring hashes of an object; cluster-scoped ones have an empty namespace."""
    return f"{group}/{kind}/{namespace}/{name}"


class HashRing:
    """Members as tokens on a circle of hashes; a key belongs to the first token that is not below its hash.

    Without `separator` the tokens are controller-sharding's, whose texts collide: token 10 of `executor-1` is token 0
    of `executor-11`. Equal tokens belong to the smallest name. Immutable; `with_member` and `without_member` copy.
    """

    def __init__(
        self,
        members: Iterable[str] = (),
        *,
        tokens: int = TOKENS,
        separator: bool = False,
        known: Mapping[str, Hashes] = MappingProxyType({}),
    ) -> None:
        """`known`: tokens of members that have been hashed already, with the same settings."""
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
        return self.of({*self.members, name})

    def without_member(self, name: str) -> HashRing:
        return self.of(set(self.members) - {name})

    def of(self, members: Iterable[str]) -> HashRing:
        """The same kind of ring with these members."""
        return HashRing(members, tokens=self._count, separator=self._separator, known=self._by_member)

    def owner(self, key: str) -> str | None:
        """None only if there is no member."""
        return next(self.owners(key), None)

    def owners(self, key: str) -> Iterator[str]:
        """Every member once, in the order in which the key would fall to them."""
        start = int(np.searchsorted(self._tokens, np.uint64(xxhash64(key)), side="left"))
        seen: set[int] = set()
        for step in range(len(self._tokens)):
            owner = int(self._owner[(start + step) % len(self._tokens)])
            if owner not in seen:
                seen.add(owner)
                yield self.members[owner]

    def owners_of(self, keys: Sequence[str]) -> list[str]:
        """The owner of each key; there must be a member."""
        hashed = np.array([xxhash64(key) for key in keys], dtype=np.uint64)
        places = np.searchsorted(self._tokens, hashed, side="left") % len(self._tokens)
        return [self.members[owner] for owner in self._owner[places].tolist()]

    def shares(self) -> dict[str, float]:
        """Of all hashes, by member."""
        arcs = np.diff(self._tokens, prepend=self._tokens[-1:])  # the first one's wraps around
        owned = np.bincount(self._owner, weights=arcs.astype(np.float64), minlength=len(self.members)) / SPACE
        return dict(zip(self.members, owned.tolist(), strict=True))

    def collisions(self) -> int:
        """Tokens that more than one member claims, counted once for each further claim."""
        return self._count * len(self.members) - len(self._tokens)


def _tokens(name: str, count: int, separator: bool) -> Hashes:
    stem = f"{name}/" if separator else name
    return np.array([xxhash64(f"{stem}{number}") for number in range(count)], dtype=np.uint64)


class Rendezvous:
    """Each member's weight for a key is a hash of both, and the highest one owns it. Immutable."""

    def __init__(self, members: Iterable[str] = ()) -> None:
        self.members: tuple[str, ...] = tuple(sorted(set(members)))
        self._hashes = mixed64_many(fnv1a64_many(self.members))

    def owner(self, key: str) -> str | None:
        """None only if there is no member."""
        return self.members[int(np.argmax(self._weights(key)))] if self.members else None

    def owners(self, key: str) -> Iterator[str]:
        """Every member once, in the order in which the key would fall to them."""
        # sorted by name already, so that equal weights go to the smallest name
        for place in np.argsort(~self._weights(key), kind="stable"):
            yield self.members[int(place)]

    def owners_of(self, keys: Sequence[str]) -> list[str]:
        """The owner of each key; there must be a member."""
        hashed = mixed64_many(fnv1a64_many(keys))
        best = mixed64_many(hashed ^ self._hashes[0])
        owner = np.zeros(len(keys), dtype=np.int64)
        for place in range(1, len(self.members)):
            weights = mixed64_many(hashed ^ self._hashes[place])
            better = weights > best
            best[better] = weights[better]
            owner[better] = place
        return [self.members[place] for place in owner.tolist()]

    def _weights(self, key: str) -> Hashes:
        return mixed64_many(np.uint64(mixed64(fnv1a64(key))) ^ self._hashes)
