"""An executor: `python -m builder.executor --help`. As many of them as there is work for."""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import replace
from pathlib import Path

from builder.artifacts import Artifacts
from builder.reconciler import Builder
from builder.serving import serve
from situate.objects.resources import unstructured
from situate.runtime.metrics import Metrics
from situate.sharding import Executor, ExecutorOptions, add_executor_options, parse_options

BUILDS = unstructured("build.example.com", "v1", "Build", "builds")
TIMEOUT_S = 600.0  # of one build


def main() -> None:
    parser = argparse.ArgumentParser("builder.executor")
    parser.add_argument("--health-address", default=":8080", help="of /healthz, /readyz and /metrics")
    parser.add_argument("--artifacts", type=Path, required=True, help="folder that all executors share")
    add_executor_options(parser)
    given, options = parse_options(parser, ExecutorOptions)
    identity = options.identity()
    handler = Builder(Artifacts(given.artifacts), identity.id)
    config = replace(options.config(BUILDS), progress_timeout=TIMEOUT_S)
    asyncio.run(serve(Executor(identity, handler, config), given.health_address, Metrics()))


if __name__ == "__main__":
    main()
