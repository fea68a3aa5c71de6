"""An operator's executor as its users write one: `python -m tests.e2e.shard_executor KUBECONFIG`, and environment."""

from __future__ import annotations

import argparse
import asyncio
import random
from pathlib import Path

from situate.kube.connect import connect, find_connection
from situate.objects.resources import unstructured
from situate.runtime.process.manager import Manager, stop_on_signals
from situate.sharding import Executor, ExecutorOptions, Outcome, Work, add_executor_options, parse_options
from situate.sharding.model.field_paths import Content

REPORTS = unstructured("fenced.example.com", "v1", "Report", "reports")


async def works(obj: Content, work: Work) -> Outcome | None:
    """What is quick or broken is done at once; the rest goes on for ever."""
    if obj["spec"].get("quick"):
        return Outcome.succeeded("Done")
    if obj["spec"].get("broken"):
        return Outcome.failed("Broken")
    await work.patch_status({"by": str(obj["spec"]["assignedTo"])})
    await asyncio.Event().wait()
    return None


async def main(kubeconfig: Path, options: ExecutorOptions) -> None:
    connection = find_connection(kubeconfig)
    manager = Manager()
    executor = Executor(
        options.identity(), works, options.config(REPORTS), lambda: connect(connection, random.Random())
    )
    executor.setup(manager)
    stop_on_signals(manager)
    await manager.run()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("kubeconfig", type=Path)
    add_executor_options(parser)
    namespace, read = parse_options(parser, ExecutorOptions)
    asyncio.run(main(namespace.kubeconfig, read))
