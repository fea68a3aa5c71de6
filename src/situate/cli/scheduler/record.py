"""Implement `situate scheduler record`: write a scheduler's input and decisions to a file, for replay."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import typer

from situate.cli.read_cluster.cluster_source import open_client
from situate.cli.scheduler.durations import seconds_of
from situate.cli.terminal.failures import ExitCode, WrongInput, report_failures
from situate.cli.terminal.options import ClusterOptions
from situate.cli.terminal.progress import progress
from situate.cli.terminal.streams import print_error, print_line
from situate.kube.errors import Forbidden
from situate.kube.queries.server_version import server_version
from situate.objects.values.counts import format_count
from situate.objects.values.quantity import BadQuantity, parse_quantity
from situate.runtime.process.startup import run_process
from situate.scheduler.recordings.files import RecordingFile
from situate.scheduler.recordings.recorder import Recorder

_MIN_BYTES: Final = 1024
_REPORT_AFTER_S: Final = 5.0
"""Time after which a resource that cannot be watched is reported."""


def run(file: Path, length: str | None, most: str, parts: int, where: ClusterOptions) -> None:
    """Record until `length` is over or the user stops the command."""
    with report_failures():
        seconds = None if length is None else seconds_of(length, "--for")
        code = run_process(_record(file, seconds, _parse_size(most), parts, where))
    raise typer.Exit(code)


def _parse_size(text: str) -> int:
    try:
        amount = parse_quantity(text).value
    except BadQuantity as problem:
        raise WrongInput(f"--max-size {text}: {problem}") from None
    if amount < _MIN_BYTES:
        raise WrongInput(f"--max-size: found {text}, allowed: {_MIN_BYTES} bytes or more, such as 100Mi")
    return amount


async def _record(path: Path, seconds: float | None, most: int, parts: int, where: ClusterOptions) -> ExitCode:
    async with open_client(where) as client:
        with contextlib.suppress(Forbidden):  # some clusters hide their version
            await server_version(client)
        try:
            file = RecordingFile(path, most, parts)
        except OSError as problem:
            raise WrongInput(f"{path}: cannot be written: {problem.strerror}") from None
        recorder = Recorder(client, file, wall=lambda: datetime.now(UTC), rng=random.Random())
        try:
            return await _record_until_stopped(recorder, seconds, path)
        finally:
            with contextlib.suppress(OSError):  # the same error has been reported already
                file.close()


async def _record_until_stopped(recorder: Recorder, seconds: float | None, path: Path) -> ExitCode:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for which in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(which, stopped.set)
    recording = asyncio.ensure_future(recorder.run())
    stopping = asyncio.ensure_future(stopped.wait())
    doubting = asyncio.ensure_future(_report_problems(recorder))
    with progress("recording; press Ctrl-C to end"):
        await asyncio.wait((recording, stopping), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for each in (stopping, doubting):
        each.cancel()
    if recording.done() and not recording.cancelled():
        failed = _first_exception(recording.exception())
        if isinstance(failed, OSError):
            print_error(
                f"{path}: cannot be written: {os.strerror(failed.errno or 0)}; the written part can be replayed"
            )
            return ExitCode.NO
        recording.result()
    recording.cancel()
    await asyncio.wait([recording])
    if not recorder.began:
        print_error(
            f"{path}: nothing was recorded; {'; '.join(recorder.problems()) or 'the first list was not complete'}"
        )
        return ExitCode.NO
    print_line(f"{path}: {format_count(recorder.events, 'change')}, {format_count(recorder.bindings, 'pod')} bound")
    return ExitCode.DONE


async def _report_problems(recorder: Recorder) -> None:
    await asyncio.sleep(_REPORT_AFTER_S)
    for problem in recorder.problems():
        print_error(f"not recorded until this is solved: {problem}")


def _first_exception(failed: BaseException | None) -> BaseException | None:
    """Return the first exception of a group."""
    while isinstance(failed, BaseExceptionGroup):
        failed = failed.exceptions[0]
    return failed
