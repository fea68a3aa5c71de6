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

from situate.cli.demo.chapters import Chapter, ChapterFailed
from situate.cli.demo.demo_objects import DemoObjects
from situate.cli.demo.demo_processes import DemoProcesses, ProcessNotRunning, hints, start_demo_processes
from situate.cli.demo.products import Products
from situate.cli.demo.service_accounts import Accounts
from situate.cli.demo.sharding.demo_client import shard_demo_client
from situate.cli.demo.spot.demo_client import SpotDemoClient, reserve_port
from situate.cli.demo.vm.demo_client import VmDemoClient
from situate.cli.demo.vpod.demo_client import DemoClient
from situate.cli.demo.vpod.objects import CONFIGURATION
from situate.cli.demo.vpod.picture import AnyScene, Picture
from situate.cli.demo.vpod.story import STORY
from situate.cli.terminal.failures import ExitCode, report_failures
from situate.cli.terminal.streams import print_error, print_line
from situate.kube.connect import connect, find_connection
from situate.objects.settings.section import parse_section
from situate.vpod.config.settings import StatefulSetSettings

_SIGTERM_EXIT_CODE = 128 + signal.SIGTERM
_PAUSE_S = 2.5
"""Pause between two chapters on a terminal."""


class Screen(Protocol):
    """Shows the pictures of the demo: `rich.live.Live` on a terminal, or a recorder."""

    def update(self, picture: Picture, /) -> None: ...


def run(kubeconfig: Path | None, *, once: bool) -> None:
    """Play the story; exit with 1 if a chapter failed."""
    with report_failures(), tempfile.TemporaryDirectory(prefix="situate-demo-") as folder:
        try:
            raise typer.Exit(asyncio.run(play(Path(folder), kubeconfig, once=once)))
        except KeyboardInterrupt:
            if once:
                raise
            raise typer.Exit(ExitCode.DONE) from None  # this is the normal end of the demo
        except asyncio.CancelledError:
            raise typer.Exit(_SIGTERM_EXIT_CODE) from None


async def play(folder: Path, kubeconfig: Path | None, *, once: bool, screen: Screen | None = None) -> ExitCode:
    """Play the story once, or until Ctrl-C. `screen` gets the pictures in place of the terminal."""
    started = time.monotonic()
    playing = asyncio.current_task()
    assert playing is not None
    for end in (signal.SIGTERM, signal.SIGHUP):  # without these handlers the processes would outlive the story
        asyncio.get_running_loop().add_signal_handler(end, playing.cancel)
    if not once:
        print_line("starting an API server and two schedulers; press Ctrl-C to end the demo")
    try:
        async with start_demo_processes(folder, kubeconfig) as built:
            connection = find_connection(built.kubeconfig)
            client = connect(connection, random.Random(), qps=None)
            objects = DemoObjects(client)
            try:
                async with AsyncExitStack() as stack:
                    teller = stack.enter_context(_story_printer(hints(built.kubeconfig), screen, quiet=once))
                    port = stack.enter_context(reserve_port())
                    products = Products(built, Accounts(objects, connection, folder))
                    spot = SpotDemoClient(objects, connection.server, port, products, teller.show)
                    shard = await stack.enter_async_context(shard_demo_client(objects, products, teller.show))
                    vm = VmDemoClient(objects, products, stack.enter_context(reserve_port()), teller.show)
                    cast = DemoClient(objects, _lease_name(), built, teller.show, spot, shard, vm)
                    try:
                        await cast.create_objects()
                        await products.start_schedulers()
                        failed = await _play_story(cast, built, teller, started)
                        if not once and not failed:
                            await teller.draw_until_interrupted(cast)
                    finally:
                        if kubeconfig is not None:  # a user's own cluster: delete all objects of the demo
                            await _clean_up(cast, products)
                    return ExitCode.NO if failed else ExitCode.DONE
            finally:
                await client.close()
    except ProcessNotRunning as problem:
        print_error(str(problem))
        return ExitCode.NO


async def _play_story(cast: DemoClient, built: DemoProcesses, teller: _StoryPrinter, started: float) -> int:
    """Play every chapter, and return the number that failed.

    A failed chapter ends the story, because the next chapters build on it.
    """
    for number, chapter in enumerate(STORY, 1):
        teller.begin_chapter(chapter)
        try:
            outcome = await play_chapter(chapter, cast, built)
        except ChapterFailed as problem:
            teller.end_chapter(f"{number}. {chapter.title}: FAILED: {problem}")
            return len(STORY) - number + 1
        teller.end_chapter(f"{number}. {chapter.title}: {outcome} ({time.monotonic() - started:.1f} s)")
        await teller.pause()
    return 0


async def play_chapter(chapter: Chapter, cast: DemoClient, built: DemoProcesses) -> str:
    """Play a chapter and return its outcome.

    Raises `ChapterFailed`, even if the outcome is reached, if a process lacked a permission. Raises `ProcessNotRunning`
    if a process ended.
    """
    missed = []
    try:
        outcome = await chapter.play(cast)
    except ChapterFailed as problem:
        outcome, missed = "", [str(problem)]
    built.check()  # the end of a process explains more than the missing outcome that it causes
    if problems := [*missed, *built.permission_errors()]:
        raise ChapterFailed("; ".join(problems))
    return outcome


async def _clean_up(cast: DemoClient, products: Products) -> None:
    """End the processes while their accounts exist, then delete the objects. A failing step blocks no other."""
    async with AsyncExitStack() as last_first:
        last_first.push_async_callback(products.accounts.remove)
        last_first.push_async_callback(cast.delete_objects)
        last_first.push_async_callback(products.processes.stop)
        last_first.push_async_callback(cast.shard.end_executors)


class _StoryPrinter:
    """Prints a line for each chapter, and draws on a terminal."""

    def __init__(self, hints: Sequence[str], live: Screen | None) -> None:
        self._hints = hints
        self._live = live
        self.outcomes: list[str] = []
        """Outcomes of the chapters so far."""
        self._chapter: Chapter | None = None
        self._scene: AnyScene | None = None

    def begin_chapter(self, chapter: Chapter) -> None:
        self._chapter = chapter
        self._draw()

    def end_chapter(self, outcome: str) -> None:
        self.outcomes.append(outcome)
        if self._live is None:
            print_line(outcome)
        self._draw()

    def show(self, scene: AnyScene) -> None:
        self._scene = scene
        self._draw()

    async def pause(self) -> None:
        if self._live is not None:
            await asyncio.sleep(_PAUSE_S)

    async def draw_until_interrupted(self, cast: DemoClient) -> None:
        """Draw the cluster after the story, until Ctrl-C."""
        self._chapter = Chapter("The cluster is yours", "Change a source with kubectl and watch.", _no_actions)
        while True:
            await cast.read_scene()
            await asyncio.sleep(0.5)

    def _draw(self) -> None:
        if self._live is not None and self._chapter is not None:
            chapter = self._chapter
            self._live.update(Picture(self._scene, chapter.title, chapter.caption, self.outcomes, self._hints))


@contextmanager
def _story_printer(hints: Sequence[str], screen: Screen | None, *, quiet: bool) -> Iterator[_StoryPrinter]:
    if screen is not None:
        yield _StoryPrinter(hints, screen)
        return
    out = Console(file=sys.stdout, highlight=False)
    if quiet or not out.is_terminal:
        yield _StoryPrinter(hints, None)
        return
    teller = None
    try:
        with Live(console=out, refresh_per_second=10, screen=True) as live:
            teller = _StoryPrinter(hints, live)
            yield teller
    finally:
        for outcome in teller.outcomes if teller is not None else ():  # the closed screen has hidden them
            print_line(outcome)


async def _no_actions(_: DemoClient) -> str:
    return ""


def _lease_name() -> str:
    entry, _ = parse_section(CONFIGURATION["vpod"][0], StatefulSetSettings)  # type: ignore[index]
    assert entry is not None
    return entry.lease_name
