"""Implement `situate scheduler shadow`: compare a running scheduler's choices with those of another profile."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import typer

from situate.cli.read_cluster.cluster_source import open_client
from situate.cli.scheduler.cluster_state import Remarks
from situate.cli.scheduler.durations import seconds_of
from situate.cli.scheduler.profiles import Profiles, read_profiles
from situate.cli.terminal.failures import ExitCode, report_failures
from situate.cli.terminal.formats import Format
from situate.cli.terminal.options import ClusterOptions
from situate.cli.terminal.output import Column, print_answer, print_items
from situate.cli.terminal.streams import print_error, print_line
from situate.framework.engine.engine import Engine
from situate.framework.plugin_api.configuration import Extender
from situate.kube.client import Client
from situate.kube.errors import Forbidden
from situate.kube.queries.server_version import server_version
from situate.kube.watch.reflector import Reflector
from situate.kube.watch.store import Store
from situate.objects.kinds.unstructured import Unstructured
from situate.runtime.process.logs import configure_logging
from situate.runtime.process.startup import run_process
from situate.scheduler.extenders.client import WHOLE_NODES, ApiDocuments, Extenders, wants_whole_nodes
from situate.scheduler.shadow.comparison import ComparedDecision, summary
from situate.scheduler.shadow.service import ShadowScheduler

_REPORT_AFTER_S: Final = 5.0
"""Time after which a resource that cannot be watched is reported."""
_COLUMNS: Final = (
    Column("pod", lambda decided: decided.name),
    Column("theirs", lambda decided: (decided.comparison and decided.comparison.theirs) or "-"),
    Column("ours", lambda decided: (decided.comparison and decided.comparison.ours) or "-"),
    Column("result", lambda decided: decided.result),
    Column("why", lambda decided: decided.difference or "-"),
)


def run(
    of: str,
    length: str | None,
    pods: int | None,
    profile: Path | None,
    where: ClusterOptions,
    output: Format,
) -> None:
    """Print the differences until `length` is over; exit with 1 if there was one."""
    with report_failures():
        configure_logging("error")
        seconds = None if length is None else seconds_of(length, "--for")
        profiles = read_profiles(profile).for_names([of])
        watching = _ShadowWatch(profiles, of, pods, output)
        code = run_process(_watch(watching, seconds, where))
    raise typer.Exit(code)


class _ShadowWatch:
    """Decisions seen so far, with their remarks."""

    def __init__(self, profiles: Profiles, of: str, most: int | None, form: Format) -> None:
        self.remarks = Remarks(list(profiles.remarks))
        self.decisions: list[ComparedDecision] = []
        self.stopped = asyncio.Event()
        self.form = form
        self.extenders = profiles.extenders
        self._profiles = profiles
        self._scheduler_name = of
        self._max_decisions = most

    def engine(self) -> Engine:
        only = [each for each in self._profiles.profiles if each.scheduler_name == self._scheduler_name]
        return Engine(only, self._profiles.queue, extenders=self.extenders)

    def record(self, decided: ComparedDecision) -> None:
        self.decisions.append(decided)
        for problem in decided.unanswered:
            self.remarks.add(f"{problem}; the comparison ignores this extender")
        if self._max_decisions is not None and len(self.decisions) >= self._max_decisions:
            self.stopped.set()


async def _watch(watching: _ShadowWatch, seconds: float | None, where: ClusterOptions) -> ExitCode:
    async with open_client(where) as client:
        counts = await _compare_until_stopped(watching, seconds, client)
    _print(watching, counts)
    return ExitCode.DONE if all(each.agrees for each in watching.decisions) else ExitCode.NO


async def _compare_until_stopped(watching: _ShadowWatch, seconds: float | None, client: Client) -> dict[str, int]:
    """Compare decisions, and return the number of each result."""
    loop = asyncio.get_running_loop()
    for which in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(which, watching.stopped.set)
    nodes: Store[Unstructured] = Store("whole nodes")
    extending = Extenders.create(watching.extenders, ApiDocuments(client, nodes), os.environ)
    service = ShadowScheduler(
        watching.engine, client, watching.remarks, watching.record, rng=random.Random(), ask=extending.ask
    )
    whole = asyncio.ensure_future(_watch_whole_nodes(watching.extenders, client, nodes))
    try:
        with contextlib.suppress(Forbidden):  # some clusters hide their version
            await server_version(client)
        running = asyncio.ensure_future(service.run())
        watched = asyncio.ensure_future(service.informers.wait_synced())
        watched.add_done_callback(
            lambda done: None if done.cancelled() else print_error("watching; press Ctrl-C to end")
        )
        stopping = asyncio.ensure_future(watching.stopped.wait())
        doubting = asyncio.ensure_future(_report_problem(service))
        await asyncio.wait((running, stopping), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for each in (stopping, watched, doubting):
            each.cancel()
        if running.done():
            running.result()
        running.cancel()
        await asyncio.wait([running])
        problem = service.not_ready()
        if problem is not None:
            watching.remarks.add(problem)
    finally:
        whole.cancel()
        await extending.close()
    return service.shadow.counts


async def _watch_whole_nodes(extenders: Sequence[Extender], client: Client, nodes: Store[Unstructured]) -> None:
    """Watch complete nodes for extenders that need them."""
    if wants_whole_nodes(extenders):
        await Reflector(client, WHOLE_NODES, nodes, rng=random.Random()).run()


async def _report_problem(service: ShadowScheduler) -> None:
    await asyncio.sleep(_REPORT_AFTER_S)
    problem = service.not_ready()
    if problem is not None:
        print_error(f"the comparison begins after the first complete lists: {problem}")


def _print(watching: _ShadowWatch, counts: dict[str, int]) -> None:
    data = {
        "decisions": len(watching.decisions),
        "counts": counts,
        "pods": [_as_data(each) for each in watching.decisions],
        "remarks": watching.remarks.sentences,
    }
    print_answer(watching.form, lambda: data, lambda: _print_text(watching, counts), watching.remarks.sentences)


def _print_text(watching: _ShadowWatch, counts: dict[str, int]) -> None:
    print_line(summary(counts))
    shown = [each for each in watching.decisions if watching.form is Format.WIDE or not each.agrees]
    if shown:
        print_items(_COLUMNS, shown, watching.form)


def _as_data(decided: ComparedDecision) -> dict[str, Any]:
    found = decided.comparison
    data = {"pod": decided.name, "result": decided.result, "agrees": decided.agrees, "why": decided.difference}
    if found is not None:
        data |= {
            "theirs": found.theirs,
            "ours": found.ours,
            "totals": {"theirs": found.totals[1], "ours": found.totals[0]},
            "plugins": {plugin: {"theirs": theirs, "ours": ours} for plugin, (ours, theirs) in found.shares.items()},
        }
    return data
