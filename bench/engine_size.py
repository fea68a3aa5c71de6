"""How much memory, and how long, a large cluster takes in one process.

    python -m bench.engine_size --nodes N --pods N [--shapes N]

A live scheduler's steps: nodes and pods come as watch events, in batches, and what is placed is reported as bound. With
`--shapes` the pods are of so many kinds, one of any of them after the other; else they are equal. The last line is one
JSON object.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random

from bench.engine_objects import HOSTNAME, ZONE, node_event, pod_event, pod_spec
from bench.engine_play import default_profiles
from situate.framework.engine.decisions import Placed, PlacedRun
from situate.framework.engine.engine import Engine
from situate.objects.decoding.codec import changes_decoder
from situate.objects.resources import NODES, PODS
from situate.runtime.process.memory import keep_freed_memory
from situate.runtime.process.startup import COLLECT_AFTER

BATCH = 10_000
"""Events that are read together: so many pods wait at a time."""
ROOM = {"cpu": "32", "memory": "256Gi", "pods": "110"}


def node_lines(count: int) -> Iterator[bytes]:
    mark = "@number@"
    parts = node_event(mark, {HOSTNAME: mark, ZONE: "@zone@"}, ROOM).split(mark.encode())
    for number in range(count):
        yield f"node-{number}".encode().join(parts).replace(b"@zone@", b"zone-%d" % (number % 3))


def pod_lines(count: int, shapes: int) -> Iterator[bytes]:
    rng = Random(4)
    kinds = []
    for shape in range(shapes):
        requests = {"cpu": f"{rng.randrange(10, 400)}m", "memory": f"{rng.randrange(10, 800)}Mi"}
        spec = pod_spec(requests)
        kinds.append(pod_event("@number@", spec, labels={"app": f"app-{shape}"}).split(b"@number@"))
    for number in range(count):
        yield f"pod-{number}".encode().join(kinds[rng.randrange(shapes)])


def place(engine: Engine) -> int:
    """All that wait; so many were placed."""
    placed = 0
    while decisions := engine.schedule_run(0.0, BATCH):
        for decision in decisions:
            assert isinstance(decision, Placed | PlacedRun), decision
            for each in decision if isinstance(decision, PlacedRun) else (decision,):
                engine.binding_succeeded(each)
                placed += 1
    return placed


def peak_mib() -> float:
    """The most memory that this program has held; `ru_maxrss` would count what its parent held when it forked."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.engine_size", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--pods", type=int, required=True)
    parser.add_argument("--shapes", type=int, default=1)
    chosen = parser.parse_args(arguments)
    keep_freed_memory()  # as every process of ours does, and this too
    gc.set_threshold(*COLLECT_AFTER)
    engine = Engine(default_profiles())
    gc.disable()  # as while a process reads everything for the first time
    begin = time.process_time()
    decode = changes_decoder(NODES)
    for line in node_lines(chosen.nodes):
        for change in decode((line,)):
            assert change is not None
            engine.set_node(change[1], 0.0)
    engine.cache.snapshot()
    gc.collect()
    gc.freeze()
    gc.enable()
    listed_s = time.process_time() - begin
    placed = 0
    read = changes_decoder(PODS)
    lines = pod_lines(chosen.pods, chosen.shapes)
    begin = time.process_time()
    decide_s = 0.0
    while batch := list(islice(lines, BATCH)):
        for changed in read(batch):
            assert changed is not None
            engine.set_pod(changed[1], 0.0)
        asked = time.process_time()
        placed += place(engine)
        decide_s += time.process_time() - asked
    found = {
        "nodes": chosen.nodes,
        "pods": chosen.pods,
        "placed": placed,
        "listed_s": listed_s,
        "cpu_s": time.process_time() - begin,
        "decide_s": decide_s,
        "mib": peak_mib(),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
