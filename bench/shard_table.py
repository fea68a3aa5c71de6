"""Lines of the tables of `bench.shard`: ours, what it is to be, and what a peer has, with the ratio."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_WIDTHS: Final = (88, 12, 12, 12, 9)
_MISSED: Final[list[str]] = []


@dataclass(frozen=True)
class Peer:
    """A figure of sharding's reference (section 16), or of the same run."""

    value: float
    name: str


def heading(title: str) -> None:
    shown = "".join(
        f"{cell:>{width}}" for cell, width in zip(("ours", "target", "peer", "ratio"), _WIDTHS[1:], strict=True)
    )
    print(f"\n{title:<{_WIDTHS[0]}}{shown}", flush=True)


def line(
    title: str, value: float, *, least: float | None = None, most: float | None = None, peer: Peer | None = None
) -> None:
    """`least`, `most`: what it is to be; None: nothing is said about it."""
    bound = f">= {least:g}" if least is not None else f"<= {most:g}" if most is not None else ""
    missed = (least is not None and value < least) or (most is not None and value > most)
    if missed:
        _MISSED.append(f"{title}: {value:.4g}, to be {bound}")
    theirs = "" if peer is None else f"{peer.value:,.4g}"
    ratio = "" if peer is None or not peer.value else f"{value / peer.value:.2f}"
    cells = (f"{value:,.4g}", bound + (" !" if missed else ""), theirs, ratio)
    shown = "".join(f"{cell:>{width}}" for cell, width in zip(cells, _WIDTHS[1:], strict=True))
    print(f"{title:<{_WIDTHS[0]}}{shown}{'' if peer is None else f'  {peer.name}'}".rstrip(), flush=True)


def note(text: str) -> None:
    print(f"  {text}", flush=True)


def missed() -> list[str]:
    """What was not as it is to be, so far."""
    return list(_MISSED)
