"""Where new names come from: uids and the suffixes of generateName, drawn from one seeded source."""

from __future__ import annotations

from typing import Final, Protocol

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels and nothing that looks like another character (apimachinery util/rand)."""

SUFFIX_LENGTH: Final = 5


class Bits(Protocol):
    """The one source of chance, seeded by the caller (`random.Random` is one)."""

    def getrandbits(self, k: int, /) -> int: ...


class Names:
    """Uids and suffixes: the same seed gives the same ones in the same order."""

    def __init__(self, bits: Bits) -> None:
        self._bits = bits

    def uid(self) -> str:
        """A random (version 4) UUID."""
        number = self._bits.getrandbits(128) & ~(0xF << 76) & ~(0x3 << 62) | 4 << 76 | 2 << 62
        text = f"{number:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def suffix(self) -> str:
        """What is appended to a generateName."""
        number = self._bits.getrandbits(40)
        letters = []
        for _ in range(SUFFIX_LENGTH):
            number, index = divmod(number, len(_ALPHABET))
            letters.append(_ALPHABET[index])
        return "".join(letters)
