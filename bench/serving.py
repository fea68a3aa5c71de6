"""An embedded server as a process of its own, for the benchmarks.

    python -m bench.serving [--controllers]

Without `--controllers` nothing but the API runs, as in a throughput run of the real one with etcd and kube-apiserver.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

from situate.embedded.embedded_server import EmbeddedServer, Settings
from situate.runtime.process.logs import configure_logging
from situate.runtime.process.startup import run_process


async def _serve(settings: Settings) -> None:
    async with EmbeddedServer(settings) as server:
        sys.stdout.write(f"the API server answers at {server.url}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.serving")
    parser.add_argument("--controllers", action="store_true")
    chosen = parser.parse_args()
    configure_logging("warning")
    run_process(_serve(Settings() if chosen.controllers else Settings(machinery=None)))


if __name__ == "__main__":
    main()
