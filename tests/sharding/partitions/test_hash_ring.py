"""Owners by hashing: whoever lists members in whichever order, and what a join or a leave moves."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.sharding.partitions.hash_ring import HashRing, Rendezvous, ring_key
from situate.sharding.partitions.hashing import xxhash64

NAMES = st.lists(st.text("abc-1", min_size=1, max_size=6), min_size=1, max_size=8, unique=True)
KEYS = [ring_key("example.com", "Job", "default", f"job-{number}") for number in range(300)]


@given(NAMES, st.randoms(use_true_random=False))
@pytest.mark.rule("sharding:X17")
def test_owners_do_not_depend_on_the_order_of_listing(names: list[str], chance: random.Random) -> None:
    shuffled = chance.sample(names, len(names))
    assert HashRing(names, tokens=3).owners_of(KEYS[:20]) == HashRing(shuffled, tokens=3).owners_of(KEYS[:20])
    assert Rendezvous(names).owners_of(KEYS[:20]) == Rendezvous(shuffled).owners_of(KEYS[:20])


@given(NAMES)
@pytest.mark.parametrize("kind", ["ring", "rendezvous"])
def test_everybody_comes_once_and_the_owner_first(kind: str, names: list[str]) -> None:
    owners = HashRing(names, tokens=3) if kind == "ring" else Rendezvous(names)
    order = list(owners.owners(KEYS[0]))
    assert sorted(order) == sorted(names) or kind == "ring"  # all tokens of a member may belong to smaller names
    assert order[0] == owners.owner(KEYS[0])
    assert len(set(order)) == len(order)


@pytest.mark.parametrize("size", [1, 3, 10])
def test_a_join_moves_keys_to_the_newcomer_alone_and_a_leave_the_leavers_alone(size: int) -> None:
    names = [f"executor-{number}" for number in range(size)]
    ring, hashed = HashRing(names), Rendezvous(names)
    for key in KEYS:
        assert ring.with_member("new").owner(key) in ("new", ring.owner(key))
        assert Rendezvous([*names, "new"]).owner(key) in ("new", hashed.owner(key))
    if size > 1:
        smaller, rest = ring.without_member(names[0]), Rendezvous(names[1:])
        assert all(smaller.owner(key) == ring.owner(key) for key in KEYS if ring.owner(key) != names[0])
        assert all(rest.owner(key) == hashed.owner(key) for key in KEYS if hashed.owner(key) != names[0])


@pytest.mark.parametrize("nodes", [3, 5, 10])
def test_rendezvous_moves_the_ideal_share_within_six_sigma_and_the_ring_within_its_bounds(nodes: int) -> None:
    keys = [f"key-{number}" for number in range(9000)]
    names = [f"executor-{number}" for number in range(nodes)]
    before, after = Rendezvous(names).owners_of(keys), Rendezvous([*names, "new"]).owners_of(keys)
    share = sum(was != now for was, now in zip(before, after, strict=True)) / len(keys)
    ideal = 1 / (nodes + 1)
    assert abs(share - ideal) <= 6 * (ideal * (1 - ideal) / len(keys)) ** 0.5
    ring = HashRing(names, separator=True)
    grown = ring.with_member("new")
    share = sum(ring.owner(key) != grown.owner(key) for key in keys[:3000]) / 3000
    assert 0.5 * ideal <= share <= 1.7 * ideal


def test_many_keys_have_the_owners_that_each_has() -> None:
    hashed = Rendezvous(["a", "b", "c"])
    assert hashed.owners_of(KEYS) == [hashed.owner(key) for key in KEYS]
    ring = HashRing(["a", "b", "c"])
    assert ring.owners_of(KEYS) == [ring.owner(key) for key in KEYS]


def test_nobody_owns_anything_where_nobody_is() -> None:
    assert HashRing().owner("key") is None
    assert Rendezvous().owner("key") is None


def test_texts_of_tokens_collide_without_a_separator() -> None:
    names = [f"executor-{number}" for number in range(12)]
    assert HashRing(names).collisions() == 10  # tokens 10 to 19 of executor-1 are tokens 0 to 9 of executor-11
    assert HashRing(names, separator=True).collisions() == 0


@pytest.mark.rule("sharding:X17")
def test_equal_tokens_belong_to_the_smallest_name() -> None:
    """The ring written out: a table from token to the smallest of those that claim it."""
    names = [f"executor-{number}" for number in range(120)]
    claims: dict[int, str] = {}
    for name in names:
        for number in range(100):
            token = xxhash64(f"{name}{number}")
            claims[token] = min(name, claims.get(token, name))
    tokens = sorted(claims)
    ring = HashRing(names)
    assert ring.collisions() == 120 * 100 - len(tokens) > 100
    for key in (f"key-{number}" for number in range(3000)):
        place = bisect_left(tokens, xxhash64(key))
        assert ring.owner(key) == claims[tokens[place % len(tokens)]]


def test_shares_are_the_arcs_that_members_own() -> None:
    ring = HashRing(["a", "b", "c"])
    counts = Counter(ring.owners_of([f"key-{number}" for number in range(3000)]))
    assert sum(ring.shares().values()) == pytest.approx(1)
    assert all(counts[name] / 3000 == pytest.approx(share, abs=0.05) for name, share in ring.shares().items())


def test_the_rings_imbalance_is_what_the_reference_measured() -> None:
    """Section 16: median of max / mean is 1.07 for 3 members and 1.15 for 10."""
    chance = random.Random(16)
    for size, median in ((3, 1.07), (10, 1.15)):
        found = []
        for _ in range(41):
            ring = HashRing(f"operator-7c8bc4fc9d-{chance.getrandbits(25):05x}" for _ in range(size))
            found.append(max(ring.shares().values()) * size)
        assert sorted(found)[20] == pytest.approx(median, abs=0.04)
