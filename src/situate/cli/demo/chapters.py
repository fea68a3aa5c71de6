"""What a story is made of: chapters that act, wait until what they promise can be seen, and say so or fail."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from situate.cli.demo.vpod.cast import Cast

S = TypeVar("S")

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


async def until(
    look: Callable[[], Awaitable[S]],
    what: str,
    holds: Callable[[S], bool],
    described: Callable[[S], str],
    within_s: float = WITHIN_S,
) -> S:
    """The first scene in which `holds`. Every look is shown, so the picture follows the story.

    Raises `Unfulfilled` after `within_s` seconds.
    """
    clock = asyncio.get_running_loop().time
    deadline = clock() + within_s
    while True:
        scene = await look()
        if holds(scene):
            return scene
        if clock() > deadline:
            raise Unfulfilled(f"after {within_s:g} s it is still not so that {what}: {described(scene)}")
        await asyncio.sleep(LOOK_S)
