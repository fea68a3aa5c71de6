"""What a story is made of: chapters that act, wait until what they promise can be seen, and say so or fail."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from situate.cli.demo.cast import Cast

LOOK_S: Final = 0.1
"""Between two looks at the cluster."""
WITHIN_S: Final = 120.0
"""For whatever a chapter waits for: a busy machine needs many times what a quiet one does."""


class Unfulfilled(Exception):
    """A chapter's outcome did not come about in time; the text says what was still missing."""


@dataclass(frozen=True, slots=True)
class Chapter:
    """One episode: what is done, and what must be seen afterwards."""

    title: str
    caption: str
    play: Callable[[Cast], Awaitable[str]]
    """Returns the outcome in a sentence."""
