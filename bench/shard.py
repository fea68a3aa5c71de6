"""Sharding in numbers: what each rule of its reference promises (section 14), what was measured, what peers have.

    python -m bench.shard [--quick] [--rows NAME,NAME,…]

Supervisors and executors are processes of their own (`bench.shard_member`) with the defaults of the library, before an
embedded API server or, in the rows `relief`, `jobs` and one line of `placements`, before etcd and kube-apiserver;
`rollout`, `balance`, `drain`, `caches`, `away` and `partitions` play the same code on virtual time; `herd` and `churn`
ask strategies alone. The peers' figures are those of the
reference's section 16, on other machines: compare ratios, and what says "in this run". Server, processes and the watch
of the benchmark share the processors, and others may, too: the lines in between say what was used of them. A line that
is not as it is to be bears a `!` and is told again at the end.

The last line is one JSON object: `placements_per_s` (and `…_10ms` with answers that come so much later, `…_real`),
`assignment_s_p99`, `failover_s` (from the last renewal of an executor that was killed until the last of its objects is
somebody else's), `takeover_s` (from SIGKILL of the leading supervisor until the next one assigns), `steady_s` (from the
start of a supervisor's process), `rollout_moves_per_object`, `ring_moves_per_object`, `imbalance` (most open objects
of an executor by the mean), `drain` (B4: seconds until a cordoned executor has nothing, whose handlers stop or do
not), `herd` (B7: most by the mean, ours and the raw minimum), `caches` (B8: objects and events by an executor's own),
`away` (B9: an archive that is away), `ring_imbalance` {members: p50, p95}, `round_robin` {flaps: shares of runs with
somebody starved, somebody removed chosen}, `writes_per_life`, `cost` (processor and memory of a supervisor),
`scale_out` {executors: completed/s}, `partitions` {partitions: placements/s}, `relief` {with, without archive:
{objects, bytes, list_ms}}, `jobs` {ours, jobs: {writes, objects, seconds}}.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

from bench.machine import load, machine
from bench.shard_jobs import jobs
from bench.shard_life import cost, writes
from bench.shard_loss import failover
from bench.shard_moves import balance, rollout
from bench.shard_place import Bench
from bench.shard_placing import assignment, placements, takeover
from bench.shard_promises import ELSEWHERE, away, caches, churn, drain, herd
from bench.shard_relief import relief
from bench.shard_scale import partitions, scale
from bench.shard_size import FULL, QUICK
from bench.shard_table import missed, note
from situate.runtime.process.logs import configure_logging
from situate.runtime.process.startup import run_process

Row = Callable[[Bench], Coroutine[Any, Any, dict[str, Any]]]
ROWS: Final[dict[str, Row]] = {
    row.__name__: row
    for row in (
        placements,
        assignment,
        failover,
        takeover,
        rollout,
        balance,
        drain,
        herd,
        caches,
        away,
        churn,
        writes,
        cost,
        scale,
        partitions,
        relief,
        jobs,
    )
}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.shard", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="as little of each as shows that it runs")
    parser.add_argument("--rows", default=",".join(ROWS), help=f"of {', '.join(ROWS)}, joined by commas")
    chosen = parser.parse_args(arguments)
    wanted = chosen.rows.split(",")
    if unknown := [name for name in wanted if name not in ROWS]:
        parser.error(f"--rows: found {', '.join(unknown)}, allowed: {', '.join(ROWS)}")
    configure_logging("error")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # servers and members end with it
    size = QUICK if chosen.quick else FULL
    print(f"{machine()}; load before: {load()}")
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, Bench(size, Path(folder)) as bench:
        for name in wanted:
            found |= run_process(ROWS[name](bench))
            print(f"  load: {load()}", flush=True)
    print("\nwithout a row here")
    for rule, where in ELSEWHERE.items():
        note(f"{rule}: {where}")
    print()
    for text in missed():
        print(f"missed: {text}")
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
