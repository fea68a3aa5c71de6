"""Implement `situate demo`: prepare the cluster, play the story, and draw it or print a line for each chapter."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Protocol

import typer
from rich.console import Console
from rich.live import Live

from situate.cli.demo.chapters import Chapter, Unfulfilled
from situate.cli.demo.demo_processes import DidNotStart, Stage, hints, stage
from situate.cli.demo.products import Products
from situate.cli.demo.service_accounts import Accounts
from situate.cli.demo.sharding.demo_client import shard_cast
from situate.cli.demo.spot.demo_client import SpotCast, reserved_port
from situate.cli.demo.vm.demo_client import VmCast
from situate.cli.demo.vpod.demo_client import Cast
from situate.cli.demo.vpod.objects import CONFIGURATION
from situate.cli.demo.vpod.picture import Picture, Seen
from situate.cli.demo.vpod.story import STORY
from situate.cli.terminal.failures import ExitCode, mendable_failures
from situate.cli.terminal.streams import complain, say
from situate.kube.connect import connect, find_connection
from situate.objects.settings.section import parse_section
from situate.vpod.config.settings import StatefulSetSettings

_TERMINATED = 128 + signal.SIGTERM
_PAUSE_S = 2.5
"""Pause between two chapters on a terminal."""


class Screen(Protocol):
    """Shows the pictures of the demo: `rich.live.Live` on a terminal, or a recorder."""

    def update(self, picture: Picture, /) -> None: ...


def run(kubeconfig: Path | None, *, once: bool) -> None:
    """Play the story; exit with 1 if a chapter failed."""
    with mendable_failures(), tempfile.TemporaryDirectory(prefix="situate-demo-") as folder:
        try:
            raise typer.Exit(asyncio.run(play(Path(folder), kubeconfig, once=once)))
        except KeyboardInterrupt:
            if once:
                raise
            raise typer.Exit(ExitCode.DONE) from None  # this is the normal end of the demo
        except asyncio.CancelledError:
            raise typer.Exit(_TERMINATED) from None


async def play(folder: Path, kubeconfig: Path | None, *, once: bool, screen: Screen | None = None) -> ExitCode:
    """Play the story once, or until Ctrl-C. `screen` gets the pictures in place of the terminal."""
    started = time.monotonic()
    playing = asyncio.current_task()
    assert playing is not None
    for end in (signal.SIGTERM, signal.SIGHUP):  # without these handlers the processes would outlive the story
        asyncio.get_running_loop().add_signal_handler(end, playing.cancel)
    if not once:
        say("starting an API server and two schedulers; press Ctrl-C to end the demo")
    try:
        async with stage(folder, kubeconfig) as built:
            connection = find_connection(built.kubeconfig)
            client = connect(connection, random.Random(), qps=None)
            try:
                async with AsyncExitStack() as stack:
                    teller = stack.enter_context(_teller(hints(built.kubeconfig), screen, quiet=once))
                    port = stack.enter_context(reserved_port())
                    products = Products(built, Accounts(client, connection, folder))
                    spot = SpotCast(client, connection.server, port, products, teller.show)
                    shard = await stack.enter_async_context(shard_cast(client, products, teller.show))
                    vm = VmCast(client, products, stack.enter_context(reserved_port()), teller.show)
                    cast = Cast(client, _lease(), built.kill, built.explain, teller.show, spot, shard, vm)
                    try:
                        await cast.set_the_stage()
                        await products.start_schedulers()
                        failed = await _tell(cast, built, teller, started)
                        if not once and not failed:
                            await teller.linger(cast)
                    finally:
                        if kubeconfig is not None:  # a user's own cluster: delete all objects of the demo
                            await _leave(cast, products)
                    return ExitCode.NO if failed else ExitCode.DONE
            finally:
                await client.close()
    except DidNotStart as problem:
        complain(str(problem))
        return ExitCode.NO


async def _tell(cast: Cast, built: Stage, teller: _Teller, started: float) -> int:
    """Play every chapter, and return the number that failed.

    A failed chapter ends the story, because the next chapters build on it.
    """
    for number, chapter in enumerate(STORY, 1):
        teller.begin(chapter)
        try:
            outcome = await played(chapter, cast, built)
        except Unfulfilled as problem:
            teller.end(f"{number}. {chapter.title}: FAILED: {problem}")
            return len(STORY) - number + 1
        teller.end(f"{number}. {chapter.title}: {outcome} ({time.monotonic() - started:.1f} s)")
        await teller.pause()
    return 0


async def played(chapter: Chapter, cast: Cast, built: Stage) -> str:
    """Play a chapter and return its outcome.

    Raises `Unfulfilled`, even if the outcome is reached, if a process lacked a permission. Raises `DidNotStart` if a
    process ended.
    """
    missed = []
    try:
        outcome = await chapter.play(cast)
    except Unfulfilled as problem:
        outcome, missed = "", [str(problem)]
    built.check()  # the end of a process explains more than the missing outcome that it causes
    if problems := [*missed, *built.refusals()]:
        raise Unfulfilled("; ".join(problems))
    return outcome


async def _leave(cast: Cast, products: Products) -> None:
    """End the processes while their accounts exist, then delete the objects. A failing step blocks no other."""
    async with AsyncExitStack() as last_first:
        last_first.push_async_callback(products.accounts.remove)
        last_first.push_async_callback(cast.clear_the_stage)
        last_first.push_async_callback(products.stage.stop)
        last_first.push_async_callback(cast.shard.end)


class _Teller:
    """Prints a line for each chapter, and draws on a terminal."""

    def __init__(self, hints: Sequence[str], live: Screen | None) -> None:
        self._hints = hints
        self._live = live
        self.done: list[str] = []
        """Outcomes of the chapters so far."""
        self._chapter: Chapter | None = None
        self._scene: Seen | None = None

    def begin(self, chapter: Chapter) -> None:
        self._chapter = chapter
        self._draw()

    def end(self, outcome: str) -> None:
        self.done.append(outcome)
        if self._live is None:
            say(outcome)
        self._draw()

    def show(self, scene: Seen) -> None:
        self._scene = scene
        self._draw()

    async def pause(self) -> None:
        if self._live is not None:
            await asyncio.sleep(_PAUSE_S)

    async def linger(self, cast: Cast) -> None:
        """Draw the cluster after the story, until Ctrl-C."""
        self._chapter = Chapter("The cluster is yours", "Change a source with kubectl and watch.", _nothing)
        while True:
            await cast.look()
            await asyncio.sleep(0.5)

    def _draw(self) -> None:
        if self._live is not None and self._chapter is not None:
            chapter = self._chapter
            self._live.update(Picture(self._scene, chapter.title, chapter.caption, self.done, self._hints))


@contextmanager
def _teller(hints: Sequence[str], screen: Screen | None, *, quiet: bool) -> Iterator[_Teller]:
    if screen is not None:
        yield _Teller(hints, screen)
        return
    out = Console(file=sys.stdout, highlight=False)
    if quiet or not out.is_terminal:
        yield _Teller(hints, None)
        return
    teller = None
    try:
        with Live(console=out, refresh_per_second=10, screen=True) as live:
            teller = _Teller(hints, live)
            yield teller
    finally:
        for outcome in teller.done if teller is not None else ():  # the closed screen has hidden them
            say(outcome)


async def _nothing(_: Cast) -> str:
    return ""


def _lease() -> str:
    entry, _ = parse_section(CONFIGURATION["vpod"][0], StatefulSetSettings)  # type: ignore[index]
    assert entry is not None
    return entry.lease_name
