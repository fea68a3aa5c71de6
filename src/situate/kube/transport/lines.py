"""Cuts a watch's answer into lines, without I/O."""

from __future__ import annotations

from collections.abc import Sequence


class Lines:
    """The lines of one answer. What has not ended when the answer does is dropped: the event is lost anyway."""

    def __init__(self) -> None:
        self._begun: list[bytes] = []  # pieces of a line that has not ended: joined once, however many there are

    def ended_in(self, pieces: Sequence[bytes]) -> list[bytes]:
        """The lines that end in the pieces that have come, without empty ones.

        Each may still have its line break, which readers of JSON skip: a server sends most events in a piece of their
        own, and taking it off would copy every one of them.
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
