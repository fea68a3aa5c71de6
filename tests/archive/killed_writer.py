"""Puts records from processes that are killed: `python -m tests.archive.killed_writer KIND FOLDER`.

Each of them puts the newer version of a record into a store of its own, `FOLDER/NUMBER`, which holds the older one
already, and is killed in a moment that its number says. The last one lives to the end. Prints how many there were.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from situate.archive.stores.folder.files import RecordFolder
from situate.archive.stores.sql.archiver import SqlArchiver
from tests.archive.calls import counted
from tests.archive.reports import archived, report

BEFORE = archived(report(version=10, labels={"state": "before"}, data="x" * 5000), at_s=0)
AFTER = archived(report(version=11, labels={"state": "after"}, data="y" * 5000), at_s=1)
EVERY = 20
"""Of the instructions of SQLite's machine; a put takes some two hundred."""


def write_file(folder: Path, last: int) -> None:
    """Killed in place of the call of that number."""
    archive = RecordFolder(folder, 5.0)
    archive.put(BEFORE)
    with counted(lambda number, _: _end() if number == last else None):
        archive.put(AFTER)


def write_row(folder: Path, last: int) -> None:
    """Killed before that instruction of SQLite's machine, counted in steps of `EVERY`."""
    asyncio.run(_write_row(folder, last * EVERY))


async def _write_row(folder: Path, last: int) -> None:
    archiver = SqlArchiver.from_url(f"sqlite:///{folder / 'archive.db'}")
    await archiver.put(BEFORE)
    await archiver.close()
    steps = count(1)

    def step() -> None:
        if next(steps) == last:
            _end()

    def watch(connection: Any, _: object) -> None:
        connection.run_async(lambda driver: driver.set_progress_handler(step, 1))

    sa.event.listen(archiver._engine.sync_engine, "connect", watch)
    await archiver.put(AFTER)
    await archiver.close()


def _end() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(write: Callable[[Path, int], None], folder: Path) -> None:
    for number in count(1):
        own = folder / str(number)
        own.mkdir()
        child = os.fork()
        if child == 0:
            write(own, number)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            assert status == 0, f"the writer {number} failed"
            print(number)
            return


if __name__ == "__main__":
    main({"filesystem": write_file, "sqlite": write_row}[sys.argv[1]], Path(sys.argv[2]))
