"""From the bytes of a watch to the answers to the bindings: reading, deciding, and our client.

The server (`bench.answering`), a process of its own, only answers; what counts is the processor time of this one.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import Final

from bench.engine_objects import read_pods
from bench.engine_play import Play, Workload
from bench.engine_prototype import KINDS, cluster
from bench.processes import server
from situate.framework.class_cache.switches import Shortcuts
from situate.framework.engine.decisions import Placed, PlacedRun
from situate.framework.engine.engine import Engine
from situate.framework.plugin_api.actions import Bind
from situate.kube.client import Client
from situate.kube.connect import connect
from situate.kube.login.connection import Connection
from situate.objects.decoding.codec import changes_decoder
from situate.objects.resources import PODS
from situate.runtime.process.startup import run_process

PODS_OF: Final = {"parse_bind": "plain", "parse_bind_classes": "classes", "parse_bind_related": "related"}
"""The rows, with the kind of pods of each."""
_BATCH: Final = 100
"""Events that arrive together."""
_IN_FLIGHT: Final = 32
"""Bindings under way at a time, as shipped."""


def parse_and_bind(kind: str, node_count: int, of: int) -> tuple[Play, float]:
    """One in `of` of the pods of a row; and the seconds of the processor that they took."""
    make, _ = KINDS[PODS_OF[kind]]
    lines = make(5000 // of)
    play = Play(Workload(cluster(node_count), read_pods(lines)), Shortcuts(), to_the_end=False)
    play.begin()
    with server("bench.answering") as answering:
        return play, run_process(_bind_all(play, lines, answering.url))


async def _bind_all(play: Play, lines: Sequence[bytes], url: str) -> float:
    client = connect(Connection(url, "bench"), Random(1))
    decode = changes_decoder(PODS)
    engine = play.engine
    gc.collect()
    gc.freeze()
    begin = time.process_time()
    for first in range(0, len(lines), _BATCH):
        for change in decode(lines[first : first + _BATCH]):
            assert change is not None
            engine.set_pod(change[1], play.now)
        while decisions := engine.schedule_run(play.now, _BATCH):
            play.decisions += decisions
            placements = iter(_placed(decisions))
            async with asyncio.TaskGroup() as group:
                for _ in range(_IN_FLIGHT):
                    group.create_task(_bind(client, engine, placements))
    spent = time.process_time() - begin
    gc.unfreeze()
    await client.close()
    return spent


def _placed(decisions: Iterable[object]) -> Iterator[Placed]:
    for decision in decisions:
        assert isinstance(decision, Placed | PlacedRun), decision
        yield from decision if isinstance(decision, PlacedRun) else (decision,)


async def _bind(client: Client, engine: Engine, placements: Iterator[Placed]) -> None:
    for placed in placements:
        for action in engine.binding(placed).bind:
            assert isinstance(action, Bind)
            await client.bind(placed.pod.info.pod, action.node, unchanged=True)
        engine.binding_succeeded(placed)
