"""What an executor does about one Build."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from builder.artifacts import Artifacts
from situate.sharding import Outcome, Work

_FILE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\.py")
_MAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*:[A-Za-z_][A-Za-z0-9_]*")


class Builder:
    """Called by the executor for each Build that is assigned to it, and cancelled when it is so no longer."""

    def __init__(self, artifacts: Artifacts, executor: str) -> None:
        self._artifacts = artifacts
        self._executor = executor

    async def __call__(self, build: dict[str, Any], work: Work) -> Outcome:
        spec, name = build["spec"], build["metadata"]["name"]
        if mistake := _mistake(spec):
            return Outcome.failed(mistake)
        self._artifacts.begin(work.token, name, self._executor)
        await work.patch_status({"phase": "Building", "executor": self._executor})
        with tempfile.TemporaryDirectory(prefix="build-") as folder:
            told = await _in_a_process(Path(folder), {"sources": spec["sources"], "main": spec["main"]})
            work.heartbeat()
            if told["reason"] != "Built":
                await work.patch_status({"phase": "Failed", "log": told["log"]})
                return Outcome.failed(told["reason"])
            kept = self._artifacts.keep(work.token, name, self._executor, Path(told["file"]))
        await work.patch_status(
            {"phase": "Built", "artifact": str(kept), "digest": told["digest"], "bytes": told["bytes"]}
        )
        return Outcome.succeeded("Built")


def _mistake(spec: dict[str, Any]) -> str:
    """Why it cannot be built, whoever tries; empty if it can."""
    for name in spec["sources"]:
        if not _FILE.fullmatch(name):
            return f"BadFileName: spec.sources has {name!r}, allowed: names of modules, such as greet.py"
    if not _MAIN.fullmatch(spec["main"]) or f"{spec['main'].partition(':')[0]}.py" not in spec["sources"]:
        return f"BadMain: spec.main is {spec['main']!r}, allowed: MODULE:FUNCTION of one of spec.sources"
    return ""


async def _in_a_process(folder: Path, asked: dict[str, Any]) -> dict[str, Any]:
    """What it told. Cancelled, everything that it has started is gone before this ends."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "builder.compiling", str(folder)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(asked).encode() + b"\n")  # and stays open: its end would be that of the process
        told = await process.stdout.read()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    if not told:
        raise RuntimeError("the build has ended without a word")
    return dict(json.loads(told))
