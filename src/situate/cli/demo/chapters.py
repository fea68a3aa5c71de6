"""Parts of a story: chapters that act, wait until their outcome is visible, and return it or fail."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from situate.cli.demo.vpod.demo_client import DemoClient
from situate.cli.demo.wait import holds_in_time

S = TypeVar("S")

POLL_S: Final = 0.1
"""Interval between two reads of the cluster."""
TIME_LIMIT_S: Final = 120.0
"""Time limit of every wait in a chapter. A busy machine needs many times as long as an idle one."""


class ChapterFailed(Exception):
    """Outcome of a chapter that is missing after the time limit. The text names the missing part."""


@dataclass(frozen=True, slots=True)
class Chapter:
    """One episode: its actions, and the outcome that must be visible afterwards."""

    title: str
    caption: str
    play: Callable[[DemoClient], Awaitable[str]]
    """Returns the outcome as a sentence."""


async def wait_until(
    look: Callable[[], Awaitable[S]], what: str, holds: Callable[[S], bool], within_s: float = TIME_LIMIT_S
) -> S:
    """Return the first scene in which `holds`. Every scene that is read is shown, so the picture follows the story.

    Raises `ChapterFailed` after `within_s` seconds, with the last scene as text.
    """
    clock = asyncio.get_running_loop().time
    deadline = clock() + within_s
    while True:
        scene = await look()
        if holds(scene):
            return scene
        if clock() > deadline:
            raise ChapterFailed(f"timed out after {within_s:g} s waiting until {what}. Found: {scene}")
        await asyncio.sleep(POLL_S)


async def wait_for(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait until the condition holds. Raises `ChapterFailed` if it does not hold in time."""
    if not await holds_in_time(holds, TIME_LIMIT_S, POLL_S):
        raise ChapterFailed(f"timed out after {TIME_LIMIT_S:g} s waiting until {what}. Found: still false")
