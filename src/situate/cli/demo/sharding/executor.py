"""Executor of the demo: `python -m situate.cli.demo.shard_executor`. Its work is to count frames.

Each frame is a line with the run's token in a log that all executors share. The log thus shows, independently of the
cluster, which executor did the work. The log's path is in `LOG_VARIABLE`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from situate.cli.demo.sharding.kind import RENDERS
from situate.runtime.process.logs import configure_logging
from situate.runtime.process.manager import Manager, stop_on_signals
from situate.sharding import Executor, ExecutorOptions, Outcome, Work, add_executor_options, parse_options

LOG_VARIABLE: Final = "SITUATE_DEMO_RUNS"
_FRAME_S: Final = 0.25
_CHECKPOINT_EVERY: Final = 4
"""Number of frames between checkpoints."""


async def render(obj: Mapping[str, Any], work: Work) -> Outcome:
    """Render frames, from the previous holder's checkpoint on."""
    frame = int((work.last_checkpoint or {}).get("frame", 0))
    executor = obj["spec"]["assignedTo"]
    append_log_line(work.token, "begun", frame, executor)
    await work.patch_status({"executor": executor, "began": {"frame": frame}})
    try:
        while frame < obj["spec"]["frames"] or work.object["spec"].get("held"):
            await asyncio.sleep(_FRAME_S)
            frame += 1
            append_log_line(work.token, "frame", frame, executor)
            if frame % _CHECKPOINT_EVERY == 0:
                await work.checkpoint({"frame": frame})
    except asyncio.CancelledError:
        await work.checkpoint({"frame": frame})  # for the next holder
        raise
    append_log_line(work.token, "done", frame, executor)
    return Outcome.succeeded("Rendered")


def append_log_line(token: str, what: str, frame: int, executor: str) -> None:
    """Append one line with one write, so that lines of several processes do not mix."""
    line = json.dumps({"token": token, "what": what, "frame": frame, "executor": executor}) + "\n"
    log = os.open(Path(os.environ[LOG_VARIABLE]), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(log, line.encode())
    finally:
        os.close(log)


async def serve(executor: Executor) -> None:
    manager = Manager()
    executor.setup(manager)
    stop_on_signals(manager)
    await manager.run()


def main() -> None:
    parser = argparse.ArgumentParser("demo executor")
    add_executor_options(parser)
    _, options = parse_options(parser, ExecutorOptions)
    configure_logging("info")
    asyncio.run(serve(Executor(options.identity(), render, options.config(RENDERS))))


if __name__ == "__main__":
    main()
