"""Hashes against published values, and many at once against one at a time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.sharding.partitions.hash_arrays import fnv1a64_many, mix64_many
from situate.sharding.partitions.hashing import SPACE, fnv1a64, mix64, xxhash64

ALPHABET = "abcdefghijklmnopqrstuvwxyz"


@pytest.mark.parametrize(
    ("text", "want"),
    [  # of the reference implementation, seed 0
        ("", 0xEF46DB3751D8E999),
        ("a", 0xD24EC4F1A98C6E5B),
        ("abc", 0x44BC2CF5AD770999),
        ("message digest", 0x066ED728FCEEB3BE),
        (ALPHABET, 0xCFE1F278FA89835C),
        (ALPHABET.upper() + ALPHABET + "0123456789", 0xAAA46907D3047814),
        ("1234567890" * 8, 0xE04A477F19EE145D),
    ],
)
def test_xxhash64(text: str, want: int) -> None:
    assert xxhash64(text) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [  # draft-eastlake-fnv
        ("", 0xCBF29CE484222325),
        ("a", 0xAF63DC4C8601EC8C),
        ("foobar", 0x85944171F73967E8),
    ],
)
def test_fnv1a64(text: str, want: int) -> None:
    assert fnv1a64(text) == want


@given(st.lists(st.text(max_size=40)))
def test_many_texts_hash_as_each_does(texts: list[str]) -> None:
    assert fnv1a64_many(texts).tolist() == [fnv1a64(text) for text in texts]


def test_half_a_surrogate_pair_is_hashed_too() -> None:
    assert fnv1a64("\ud800") == fnv1a64_many(["\ud800"])[0]
    assert 0 <= xxhash64("\ud800") < SPACE


def test_mixing_is_murmurs_finaliser_and_the_same_for_arrays() -> None:
    assert mix64(0) == 0
    assert mix64(1) == 0xB456BCFC34C2CB2C
    hashes = fnv1a64_many([f"team-{number:03}" for number in range(100)])
    assert mix64_many(hashes).tolist() == [mix64(each) for each in hashes.tolist()]
