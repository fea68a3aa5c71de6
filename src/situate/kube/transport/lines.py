"""Cuts a watch's answer into lines, without I/O."""

from __future__ import annotations

from collections.abc import Sequence


class LineSplitter:
    """The lines of one answer. A line without an end when the answer ends is dropped: its event is incomplete."""

    def __init__(self) -> None:
        self._begun: list[bytes] = []  # pieces of an incomplete line, joined once, however many there are

    def complete_lines(self, pieces: Sequence[bytes]) -> list[bytes]:
        """Return the lines that end in these pieces, without empty ones.

        Each may still have its line break, which JSON parsers skip. A server sends most events as one piece each, and
        removing the break would copy every one of them.
        """
        lines = []
        begun = self._begun
        for piece in pieces:
            if not begun and piece.find(b"\n") == len(piece) - 1 > 0:
                lines.append(piece)
                continue
            first, *others = piece.split(b"\n")
            begun.append(first)
            if others:
                lines += [line for line in (b"".join(begun), *others[:-1]) if line]
                begun[:] = [others[-1]] if others[-1] else []
        return lines
