"""Draw new uids and generateName suffixes from one seeded source."""

from __future__ import annotations

from typing import Final, Protocol

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Has no vowels and no characters that are easily confused (apimachinery util/rand)."""

SUFFIX_LENGTH: Final = 5


class Bits(Protocol):
    """The one source of randomness, seeded by the caller (such as `random.Random`)."""

    def getrandbits(self, k: int, /) -> int: ...


class NameGenerator:
    """Generator of uids and suffixes. The same seed gives the same values in the same order."""

    def __init__(self, bits: Bits) -> None:
        self._bits = bits

    def uid(self) -> str:
        """Return a random (version 4) UUID."""
        number = self._bits.getrandbits(128) & ~(0xF << 76) & ~(0x3 << 62) | 4 << 76 | 2 << 62
        text = f"{number:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def suffix(self) -> str:
        """Return the text that is appended to a generateName."""
        number = self._bits.getrandbits(40)
        letters = []
        for _ in range(SUFFIX_LENGTH):
            number, index = divmod(number, len(_ALPHABET))
            letters.append(_ALPHABET[index])
        return "".join(letters)
