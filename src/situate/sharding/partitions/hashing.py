"""64-bit hashes for partitions, slots and rings: FNV-1a, MurmurHash3's finaliser, xxHash64.

Kubernetes' sharded list and watch uses FNV-1a for UIDs (KEP-5866). The last byte hardly changes the top bits of FNV-1a.
Therefore keys that people choose are mixed after it. controller-sharding's ring uses xxHash64. It is implemented here
without a library, because a ring hashes few and short texts (specification: xxhash_spec.md of Cyan4973). `hash_arrays`
hashes many texts at once.
"""

from __future__ import annotations

from typing import Final

SPACE: Final = 1 << 64
"""Number of values of a hash."""
_MASK: Final = SPACE - 1

FNV_OFFSET: Final = 0xCBF29CE484222325
FNV_PRIME: Final = 0x100000001B3

MURMUR: Final = (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53)

_XX: Final = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)


def fnv1a64(text: str) -> int:
    """Return the 64-bit FNV-1a of the UTF-8 text; half a surrogate pair counts as its bytes in UTF-8."""
    found = FNV_OFFSET
    for byte in key_bytes(text):
        found = ((found ^ byte) * FNV_PRIME) & _MASK
    return found


def mix64(hashed: int) -> int:
    """Apply MurmurHash3's 64-bit finaliser: a bijection in which each input bit affects each output bit."""
    for factor in MURMUR:
        hashed = ((hashed ^ (hashed >> 33)) * factor) & _MASK
    return hashed ^ (hashed >> 33)


def xxhash64(text: str) -> int:
    """Return the xxHash64 of the UTF-8 text with seed 0."""
    data = key_bytes(text)
    position = 0
    if len(data) >= 32:
        lanes = [(_XX[0] + _XX[1]) & _MASK, _XX[1], 0, -_XX[0] & _MASK]
        while position + 32 <= len(data):
            for lane in range(4):
                start = position + 8 * lane
                lanes[lane] = _round(lanes[lane], int.from_bytes(data[start : start + 8], "little"))
            position += 32
        found = sum(_rotate_left(lane, turn) for lane, turn in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
        for lane_value in lanes:
            found = ((found ^ _round(0, lane_value)) * _XX[0] + _XX[3]) & _MASK
    else:
        found = _XX[4]
    found = (found + len(data)) & _MASK
    while position + 8 <= len(data):
        found ^= _round(0, int.from_bytes(data[position : position + 8], "little"))
        found = (_rotate_left(found, 27) * _XX[0] + _XX[3]) & _MASK
        position += 8
    if position + 4 <= len(data):
        found ^= (int.from_bytes(data[position : position + 4], "little") * _XX[0]) & _MASK
        found = (_rotate_left(found, 23) * _XX[1] + _XX[2]) & _MASK
        position += 4
    for byte in data[position:]:
        found = (_rotate_left(found ^ ((byte * _XX[4]) & _MASK), 11) * _XX[0]) & _MASK
    for shift, factor in ((33, _XX[1]), (29, _XX[2])):
        found = ((found ^ (found >> shift)) * factor) & _MASK
    return found ^ (found >> 32)


def _round(lane: int, word: int) -> int:
    return (_rotate_left((lane + word * _XX[1]) & _MASK, 31) * _XX[0]) & _MASK


def _rotate_left(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (64 - bits))) & _MASK


def key_bytes(text: str) -> bytes:
    """Return the bytes of a text that are hashed."""
    return text.encode("utf-8", "surrogatepass")
